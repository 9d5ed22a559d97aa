"""`tutti gangs`: every gang that an engine knows, its members, how far it has come, and why it waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import click
import msgspec
from rich.console import RenderableType
from rich.text import Text

from tutti.cli.views.command_line import ViewOptions, view
from tutti.cli.views.degraded import DegradedGang, degraded_end, degraded_members, degraded_of, waiting_for
from tutti.cli.views.drawing import BAD, GOOD, QUIET, WAITS, WIDE, PageWidth, ago, table
from tutti.cli.views.other_settings import note_other_settings
from tutti.cli.views.what_if import FITS, ObservedCluster, waits_for
from tutti.engine.core_state import CoreState
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey


class GangView(msgspec.Struct, frozen=True, rename="camel"):
    """A gang.

    Attributes:
        kind: Workload or PodGroup; the latter also for a gang that another project's conventions make.
        required: How many members must run together.
        members: How many there are, those that have ended included.
        bound: How many have a node.
        succeeded: How many have ended well, and `failed` how many have not.
        nodes: How many nodes these are on.
        since: Since when it waits, or was created, Unix seconds.
        gate: Where it waits, or "".
        why: What it waits for, or "".
        degraded: How far it is from what it needs, where it runs with less.
    """

    kind: str
    namespace: str
    name: str
    queue: str
    cluster_queue: str
    phase: str
    required: int
    members: int
    bound: int
    ready: int
    nodes: int
    since: float
    gate: str = ""
    reason: str = ""
    why: str = ""
    degraded: DegradedGang | None = None
    succeeded: int = 0
    failed: int = 0


class MemberMarks(NamedTuple):
    """How many members of a gang are marked how: those that have a node, have ended, wait, or are not there."""

    bound: int
    succeeded: int
    failed: int
    waiting: int
    missing: int


def member_marks(one: GangView) -> MemberMarks:
    """Return how the members of a gang are marked."""
    waiting = max(0, one.members - one.bound - one.succeeded - one.failed)
    return MemberMarks(one.bound, one.succeeded, one.failed, waiting, max(0, one.required - one.members))


def gangs(
    asked: ObservedCluster, *, namespace: str | None = None, waiting: bool = False, degraded: bool = False
) -> tuple[GangView, ...]:
    """Return all gangs by namespace and name, or those of one namespace, that wait for nodes, or are degraded."""
    found: list[GangView] = []
    for shard in asked.shards():
        engine = shard.stock()
        before = gangs_as_found(engine.state)
        engine.decide(shard.at)
        found += gang_views(engine.state, before, namespace=namespace, waiting=waiting, degraded=degraded)
    return tuple(sorted(found, key=lambda one: (one.namespace, one.name)))


Found = Mapping[WorkloadKey, tuple[Phase, int, DegradedGang | None]]
"""Of each workload its phase, how many nodes it is on, and how far it is from what it needs."""


def gangs_as_found(state: LifecycleState) -> Found:
    """Return what gangs are like before anybody is tried."""
    return {
        key: (workload.phase, _nodes(workload), degraded_of(state, workload))
        for key, workload in state.workloads.items()
        if key[0] != "Pod"
    }


Why = Callable[[Workload], Explanation | None]
"""Tells why a workload has no nodes yet; None where it has, or gets them now."""


def gang_views(
    state: CoreState,
    before: Found,
    *,
    namespace: str | None = None,
    waiting: bool = False,
    degraded: bool = False,
    why: Why = waits_for,
) -> tuple[GangView, ...]:
    """Return gangs as `gangs` does, of an engine that has decided.

    Args:
        state: What it knows now.
        before: What they were like before.
        why: Tells why one waits.
        namespace: Of which they are; None: of any.
        waiting: Whether only those are returned that wait for nodes.
        degraded: Whether only those are returned that run with less than they need.
    """
    found = [
        _gang(state, state.workloads[key], phase, nodes, lacks, why(state.workloads[key]))
        for key, (phase, nodes, lacks) in before.items()
        if key in state.workloads and namespace in (None, key[1])
    ]
    found.sort(key=lambda one: (one.namespace, one.name, one.kind))
    return tuple(one for one in found if (one.why or not waiting) and (one.degraded or not degraded))


def _gang(
    state: CoreState,
    workload: Workload,
    phase: Phase,
    nodes: int,
    lacks: DegradedGang | None,
    why: Explanation | None,
) -> GangView:
    kind, namespace, name = workload.key
    tally = workload.counts()
    fits = why is None and phase in (Phase.WAITING, Phase.LEAVING)
    return GangView(
        kind,
        namespace,
        name,
        workload.queue,
        workload.cluster_queue or state.leads_to(namespace, workload.queue),
        phase.value,
        workload.required,
        tally.live + tally.succeeded + tally.failed,
        tally.bound,
        tally.ready,
        nodes,
        workload.queued_at,
        "" if why is None else why.gate.value,
        "" if why is None else why.reason,
        FITS if fits else "" if why is None else why.plain,
        None if lacks is None else waiting_for(lacks, why),
        tally.succeeded,
        tally.failed,
    )


def _nodes(workload: Workload) -> int:
    return len({member.pod.node for member in workload.members() if member.pod.node})


_STYLES: Mapping[str, str] = MappingProxyType(
    {
        Phase.WAITING: WAITS,
        Phase.RESERVED: "cyan",
        Phase.BINDING: "cyan",
        Phase.SCHEDULED: GOOD,
        Phase.LEAVING: BAD,
        Phase.FINISHED: QUIET,
    }
)
_DOTS = 16


def draw_gangs(found: Sequence[GangView], now: float, page: PageWidth = WIDE) -> RenderableType:
    """Draw gangs as a table."""
    if not found:
        return Text("There are no gangs to show.")
    right = ("NEEDS", "BOUND", "AGE")
    counts = () if page.narrow else right[:2]  # the dots tell them, and what it waits for tells where
    gate = () if page.narrow else ("AT",)
    drawn = table(
        *("NAMESPACE", "GANG", "QUEUE", "MEMBERS", *counts, "PHASE", "AGE", *gate, "WHY"),
        right=right,
        wraps=("WHY",),
        page=page,
    )
    for one in found:
        phase, style = ("Degraded", BAD) if one.degraded is not None else (one.phase, _STYLES.get(one.phase, ""))
        drawn.add_row(
            one.namespace,
            one.name,
            one.cluster_queue or one.queue or Text("-", QUIET),
            drawn_members(member_marks(one)),
            *((str(one.required), str(one.bound)) if counts else ()),
            Text(phase, style),
            ago(now - one.since),
            *((one.gate,) if gate else ()),
            Text(_why(one, now), WAITS if one.gate or one.degraded else QUIET),
        )
    return drawn


def _why(one: GangView, now: float) -> str:
    lacks = one.degraded
    return (
        one.why if lacks is None else f"{degraded_members(lacks, now)}; {lacks.waits_for}; {degraded_end(lacks, now)}"
    )


_MARKS = (("●", GOOD), ("✓", QUIET), ("✗", BAD), ("○", WAITS), ("·", QUIET))
"""How each of `MemberMarks` looks."""


def drawn_members(marks: MemberMarks) -> Text:
    """Return a mark for each member, or for several where there are many."""
    counts = marks if sum(marks) else marks._replace(missing=1)
    scale = -(-sum(counts) // _DOTS)
    drawn = zip(counts, _MARKS, strict=True)
    return Text.assemble(*((mark * -(-count // scale), style) for count, (mark, style) in drawn))


@click.command("gangs")
@click.option("-n", "--namespace", help="Those of one namespace; all of them if not given.")
@click.option("--waiting", is_flag=True, help="Only those that wait for nodes.")
@click.option("--degraded", is_flag=True, help="Only those that run with fewer members than they need.")
@view
def command(way: ViewOptions, *, namespace: str | None, waiting: bool, degraded: bool) -> None:
    """Show every gang: its members, where it is in its life, and what it waits for."""
    asked = way.ask()
    way.require(asked)
    found = gangs(asked, namespace=namespace, waiting=waiting, degraded=degraded)
    way.show(list(found), lambda page: draw_gangs(found, asked.at, page))
    shown = [one for one in found if one.gate or one.why == FITS]
    note_other_settings(asked, [((one.kind, one.namespace, one.name), one.gate, one.reason) for one in shown])
