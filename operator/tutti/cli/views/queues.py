"""`tutti queue`: the tree of Cohorts and ClusterQueues (`quota_tree.py`), or one queue: who runs in it, and who waits.

All amounts are in scheduling units: cpu in milli-cores, memory in bytes, everything else in whole units.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import click
import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from tutti.cli.views.command_line import NO, ViewOptions, fail, names, there_are, view
from tutti.cli.views.degraded import DegradedGang, degraded_end, degraded_members, degraded_of, quota_amounts
from tutti.cli.views.drawing import BAD, QUIET, WAITS, WIDE, PageWidth, ago, amount, table
from tutti.cli.views.gangs import Why
from tutti.cli.views.order_texts import order_said
from tutti.cli.views.other_settings import note_other_settings
from tutti.cli.views.queue_users import UserInQueue, draw_users, users_of
from tutti.cli.views.quota_tree import (
    Branch,
    accelerators,
    branch_of,
    draw_forest,
    draw_windows,
    forest,
    in_shards,
    quota_legend,
    quota_table,
)
from tutti.cli.views.what_if import FITS
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.pod_sets import pending_pod_sets
from tutti.engine.records.workloads import ADMITTED, Workload, WorkloadKey
from tutti.engine.status import StatusState
from tutti.engine.status.start_estimates import estimated_starts
from tutti.quota.tree import add_to

_NOBODY: Mapping[WorkloadKey, float | None] = {}
MOST_WAITING = 50
"""How many of those who wait at one queue are told of."""


class UsedQuota(msgspec.Struct, frozen=True, rename="camel"):
    """What a workload uses of one flavor and resource."""

    flavor: str
    resource: str
    used: int


class WorkloadInQueue(msgspec.Struct, frozen=True, rename="camel"):
    """A workload of a queue.

    Attributes:
        position: Its place in the queue, the head being 1; 0 for one that runs.
        queued_at: Since when it is in the queue, Unix seconds.
        holds: What it uses of the queue's quota, with what is kept for members that it has lost.
        gate: Where it waits, or "".
        reason: Why, in a word, or "".
        why: What it waits for, or "".
        degraded: How far it is from what it needs, where it runs with less.
        user: Whose it is, where users are told apart.
        order: What the order of the queue says of it, where that has one; "" for one that runs.
        pods: How many of its pods must be placed together; 0 where nobody knows yet, or it runs.
        needs: What these ask for, by resource.
        starts_at: When it starts as far as anybody knows, Unix seconds; None: nobody does.
    """

    kind: str
    namespace: str
    name: str
    position: int
    priority: int
    queued_at: float
    holds: tuple[UsedQuota, ...] = ()
    gate: str = ""
    reason: str = ""
    why: str = ""
    degraded: DegradedGang | None = None
    user: str = ""
    order: str = ""
    pods: int = 0
    needs: Mapping[str, int] = {}
    starts_at: float | None = None


class QueueDetails(msgspec.Struct, frozen=True, rename="camel"):
    """One queue, who runs in it and who waits; `beyond` are those who wait and are not told of.

    `checking` hold quota and have no nodes yet: their admission checks are asked, or nodes are looked for.
    """

    queue: Branch
    running: tuple[WorkloadInQueue, ...]
    waiting: tuple[WorkloadInQueue, ...]
    beyond: int
    checking: tuple[WorkloadInQueue, ...] = ()
    users: tuple[UserInQueue, ...] = ()


def queue_details(
    state: StatusState, name: str, *, why: Why | None = None, starts: Mapping[WorkloadKey, float | None] = _NOBODY
) -> QueueDetails | None:
    """Return one ClusterQueue with its workloads; None where there is none of that name.

    Args:
        name: Its name.
        state: What an engine knows once it has decided; or before, with `why` and `starts` of one that has.
        why: Tells why one waits; None: as the state has it.
        starts: When workloads start, where that is not to be worked out from the state.
    """
    node = state.ledger.tree.queues.get(name)
    if node is None:
        return None
    everybody = [one for one in state.workloads.values() if one.cluster_queue == name]
    mine = [one for one in everybody if one.phase in ADMITTED]
    checking = sorted(
        (one for one in everybody if one.held_since is not None), key=lambda one: (one.held_since, one.key)
    )
    running = sorted(mine, key=lambda one: (one.reserved_at or one.created, one.key))
    heads = state.queue_positions.heads(name, MOST_WAITING)
    queue = state.catalog.queues.get(name)
    if why is None:
        starts = {} if queue is None else estimated_starts(state, queue)
    return QueueDetails(
        branch_of(state, node),
        tuple(_entry(state, one, 0) for one in running),
        tuple(_entry(state, one, at, starts.get(one.key), why) for at, one in enumerate(heads, 1)),
        max(0, state.counts.of(name).pending - len(heads)),
        tuple(_entry(state, one, 1, None, why) for one in checking),
        tuple(users_of(state, name, MOST_WAITING)),
    )


def _entry(
    state: StatusState,
    workload: Workload,
    position: int,
    starts_at: float | None = None,
    explained: Why | None = None,
) -> WorkloadInQueue:
    kind, namespace, name = workload.key
    why = None if not position else workload.explanation if explained is None else explained(workload)
    pending = pending_pod_sets(workload) if position else []
    required = [] if isinstance(pending, Explanation) else [one for one in pending if one.required]
    needs: dict[str, int] = {}
    for one in required:
        add_to(needs, one.pod_class.charged, one.required)
    return WorkloadInQueue(
        kind,
        namespace,
        name,
        position,
        workload.priority,
        workload.queued_at,
        tuple(UsedQuota(*what, used) for what, used in state.ledger.held_by(workload.name).items() if used),
        "" if why is None else why.gate.value,
        "" if why is None else why.reason,
        "" if why is None else why.plain,
        degraded_of(state, workload),
        workload.user,
        order_said(state, workload) if position else "",
        sum(one.required for one in required),
        needs,
        starts_at,
    )


def draw_details(found: QueueDetails, resources: Collection[str], now: float, page: PageWidth = WIDE) -> RenderableType:
    """Draw one queue."""
    head = quota_table("QUEUE", [found.queue], resources, page)
    running = table("RUNNING", "PRIORITY", "USES", right=("PRIORITY",), wraps=("USES",), page=page)
    for one in found.running:
        running.add_row(
            _name(one), str(one.priority), Text(_holds(one, resources)).append_text(_kept(one, resources, now))
        )
    checking = table(
        "HOLDS QUOTA", "PRIORITY", "USES", "AT", "WHY", right=("PRIORITY",), wraps=("USES", "WHY"), page=page
    )
    for one in found.checking:
        uses = Text(_holds(one, resources))
        checking.add_row(_name(one), str(one.priority), uses, one.gate, Text(one.why or FITS, WAITS))
    columns = ("", "WAITING", "PRIORITY", "SINCE", "AT", "WHY")
    waiting = table(*columns, right=("", "PRIORITY", "SINCE"), wraps=("WHY",), page=page)
    for one in found.waiting:
        since = ago(now - one.queued_at)
        why = Text(one.why or FITS, WAITS)
        if one.order:
            why.append(f"\n{one.order}", QUIET)
        waiting.add_row(str(one.position), _name(one), str(one.priority), since, one.gate, why)
    parts: list[RenderableType] = [head, *draw_windows([found.queue])]
    for rows, part in (
        (found.running, running),
        (found.checking, checking),
        (found.waiting, waiting),
        (found.users, draw_users(found.users, page)),
    ):
        if rows:
            parts += [Text(), part]
    if found.beyond:
        parts.append(Text(f"... and {found.beyond} more", QUIET))
    return Group(*parts, Text(), quota_legend())


def _name(one: WorkloadInQueue) -> str:
    return f"{one.namespace}/{one.name}"


def _holds(one: WorkloadInQueue, resources: Collection[str]) -> str:
    held = (part for part in one.holds if part.resource in resources)
    parts = [f"{amount(part.resource, part.used)} {part.resource} ({part.flavor})" for part in held]
    return ", ".join(parts)


def _kept(one: WorkloadInQueue, resources: Collection[str], now: float) -> Text:
    """Return what of it is not in use, but kept for members that it has lost."""
    lacks = one.degraded
    if lacks is None:
        return Text()
    kept = [part for part in lacks.kept if part.resource in resources]
    said = f", of which {quota_amounts(kept)} for successors" if kept else ", degraded"
    return Text(f"{said}: {degraded_members(lacks, now)}, {degraded_end(lacks, now)}", BAD)


@click.command("queue")
@click.argument("name", required=False, shell_complete=names("ClusterQueue"))
@click.option("-r", "--resource", "resources", multiple=True, help="Resource to show; may be given several times.")
@click.option("--all", "everything", is_flag=True, help="Show all resources; else devices only, where there are any.")
@view
def command(way: ViewOptions, *, name: str | None, resources: tuple[str, ...], everything: bool) -> None:
    """Show cohorts and queues: quota, use, borrowing, and how many wait; with NAME, one queue and who waits in it."""
    asked = way.ask()
    way.require(asked)
    engine = asked.stock()
    roots = tuple(in_shards(one, asked) for one in forest(engine.state))
    known = {use.resource for root in roots for use in root.uses}
    if known and not known.issuperset(resources):
        lacking = ", ".join(sorted(set(resources) - known))
        fail(f"no queue has quota of {lacking}; there is: {there_are(known)}", NO)
    chosen = set(resources) or (not everything and set(accelerators(roots))) or known
    if name is None:
        way.show(list(roots), lambda page: draw_forest(roots, chosen, page))
        return
    engine = asked.around("ClusterQueue", name).stock()
    engine.decide(asked.at)
    found = queue_details(engine.state, name)
    if found is None:
        fail(f"there is no ClusterQueue {name}; there are: {there_are(engine.state.ledger.tree.queues)}", NO)
    way.show(found, lambda page: draw_details(found, chosen, asked.at, page))
    waiting = (*found.waiting, *found.checking)
    note_other_settings(asked, [((one.kind, one.namespace, one.name), one.gate, one.reason) for one in waiting])
