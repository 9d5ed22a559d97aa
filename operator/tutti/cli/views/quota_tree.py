"""The tree of Cohorts and ClusterQueues: who may use how much of each flavor, and who does.

All amounts are in scheduling units: cpu in milli-cores, memory in bytes, everything else in whole units.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tutti.cli.views.drawing import (
    BAD,
    BORROWED,
    DENSE,
    FULL,
    GOOD,
    HATCHED,
    LENT,
    QUIET,
    WAITS,
    WIDE,
    PageWidth,
    amount,
    bar,
    table,
)
from tutti.cli.views.order_texts import order_named
from tutti.cli.views.what_if import ObservedCluster
from tutti.engine.status import StatusState
from tutti.quota.tree import UNLIMITED, FlavorResource, QuotaNode, cohort_key


class FlavorUse(msgspec.Struct, frozen=True, rename="camel"):
    """How much of one flavor and resource a queue or cohort uses.

    Attributes:
        used: What is used, borrowed quota included; of a cohort, by all queues in it.
        own: What it is given; of a cohort, what it and everything in it is given.
        most: What it could use with all that it may borrow; None: no limit.
        borrowed: What it uses beyond its own.
        lent: What of its own others use, so that it cannot have it now.
        free: What it could still use now; None: no limit.
    """

    flavor: str
    resource: str
    used: int
    own: int
    most: int | None
    borrowed: int
    lent: int
    free: int | None


class Branch(msgspec.Struct, frozen=True, rename="camel"):
    """A cohort or queue, and what is in it.

    Attributes:
        kind: Cohort or ClusterQueue.
        waiting: How many workloads wait in it.
        running: How many are admitted.
        notes: What is special about it: how it orders, whether it is stopped, why it is inactive.
        windows: Which of its temporaryQuotas are on and until when, and when the next begins; "" where it has none.
    """

    kind: str
    name: str
    waiting: int
    running: int
    notes: tuple[str, ...]
    uses: tuple[FlavorUse, ...]
    children: tuple[Branch, ...] = ()
    windows: str = ""


def forest(state: StatusState) -> tuple[Branch, ...]:
    """Return all cohorts and queues that are in no other, cohorts first; an inactive queue is in none."""
    tree = state.ledger.tree
    nodes = (*tree.cohorts.values(), *tree.queues.values())
    roots = [branch_of(state, node) for node in sorted(nodes, key=lambda one: one.name) if node.parent is None]
    return tuple(sorted(roots, key=lambda one: one.kind != "Cohort"))


def accelerators(roots: Collection[Branch]) -> list[str]:
    """Return the resources of devices that any of these has quota of, by name."""
    return sorted({use.resource for root in roots for use in root.uses if "/" in use.resource})


def in_shards(branch: Branch, asked: ObservedCluster) -> Branch:
    """Return a branch whose ClusterQueues say which shard has them, where there are shards."""
    shard = asked.shard_of("ClusterQueue", branch.name) if branch.kind == "ClusterQueue" else ""
    children = tuple(in_shards(one, asked) for one in branch.children)
    notes = (*branch.notes, f"shard {shard}") if shard else branch.notes
    return msgspec.structs.replace(branch, notes=notes, children=children)


def branch_of(state: StatusState, node: QuotaNode) -> Branch:
    """Return a Cohort or ClusterQueue of the tree, with what is in it."""
    children = sorted(node.children, key=lambda one: (one.leaf, one.name))
    whats = {what for leaf in node.leaves() for what in leaf.quotas} | set(node.quotas)
    count = state.counts.of(node.name) if node.leaf else None
    below = tuple(branch_of(state, child) for child in children)
    note = state.catalog.windows.notes.get(node.name if node.leaf else cohort_key(node.name))
    return Branch(
        "ClusterQueue" if node.leaf else "Cohort",
        node.name,
        count.pending if count else sum(one.waiting for one in below),
        count.admitted if count else sum(one.running for one in below),
        _notes(state, node),
        tuple(_use(node, what) for what in sorted(whats, key=lambda one: (one[1], one[0]))),
        below,
        "" if note is None else note.message,
    )


def _use(node: QuotaNode, what: FlavorResource) -> FlavorUse:
    own = _own(node, what)
    used = sum(leaf.usage.get(what, 0) for leaf in node.leaves())
    free = node.available(what)
    subtree = node.subtree.get(what, 0)
    most = own + max(0, node.potential(what) - subtree)
    lent = max(0, own - used - max(0, free)) if node.parent is not None else 0
    return FlavorUse(
        what[0],
        what[1],
        used,
        own,
        None if most >= UNLIMITED else most,
        node.borrowed(what),
        lent if node.leaf else 0,
        None if free >= UNLIMITED else max(0, free),
    )


def _own(node: QuotaNode, what: FlavorResource) -> int:
    return min(UNLIMITED, node.nominal(what) + sum(_own(child, what) for child in node.children))


def _notes(state: StatusState, node: QuotaNode) -> tuple[str, ...]:
    queue = state.catalog.queues.get(node.name) if node.leaf else None
    if queue is None:
        return ()
    notes = []
    if queue.problem is not None:
        notes.append(f"inactive: {queue.problem.message}")
    if queue.drain:
        notes.append("on hold, and drained")
    elif queue.hold:
        notes.append("on hold")
    if queue.strict:
        notes.append("strict")
    if queue.order is not None:
        notes.append(f"ordered by {order_named(queue.order)}")
    return tuple(notes)


_CELLS = 24
_NUMBERS = ("USED", "OWN", "MOST", "WAITING", "RUNNING")


def draw_forest(roots: Sequence[Branch], resources: Collection[str], page: PageWidth = WIDE) -> RenderableType:
    """Draw the tree with these resources."""
    if not roots:
        return Text("There are no ClusterQueues.")
    return Group(quota_table("COHORT / QUEUE", roots, resources, page), Text(), *draw_windows(roots), quota_legend())


def quota_table(title: str, branches: Sequence[Branch], resources: Collection[str], page: PageWidth) -> Table:
    """Return branches, and what is in them, as rows of a table whose first column has this title."""
    drawn = table(title, *_columns(page), right=_NUMBERS, wraps=("",), page=page)
    for one in branches:
        for row in _rows(one, resources, "", "", page=page):
            drawn.add_row(*row)
    return drawn


def _columns(page: PageWidth) -> tuple[str, ...]:
    most = () if page.narrow else ("MOST",)  # the bar shows it
    return ("RESOURCE", "USE", "USED", "OWN", *most, "WAITING", "RUNNING", "")


def _rows(
    branch: Branch, resources: Collection[str], first: str, further: str, *, page: PageWidth
) -> Iterator[tuple[Text | str, ...]]:
    """Yield the rows of a branch, and of what is in it, after what its lines begin with."""
    shown = [use for use in branch.uses if use.resource in resources]
    style = "bold" if branch.kind == "Cohort" else ""
    left = _left(branch, first, further, max(1, len(shown)), style)
    counts = (_count(branch.waiting, WAITS), _count(branch.running, GOOD), _draw_notes(branch))
    for at, use in enumerate(shown):
        yield (next(left), *_figures(use, page), *(counts if at == 0 else ("", "", "")))
    if not shown:
        yield (next(left), *[""] * (len(_columns(page)) - len(counts)), *counts)
    for child in branch.children:
        last = child is branch.children[-1]
        ends = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from _rows(child, resources, further + ends[0], further + ends[1], page=page)


def _left(branch: Branch, first: str, further: str, rows: int, style: str) -> Iterator[Text]:
    yield Text.assemble((first, QUIET), (branch.name, style))
    below = "│" if branch.children else ""
    for _ in range(rows - 1):
        yield Text(further + below, QUIET)


def _figures(use: FlavorUse, page: PageWidth) -> tuple[Text | str, ...]:
    own = min(use.used, use.own)
    whole = max(use.own, use.used) if use.most is None else max(use.most, use.used)
    parts = [(FULL, GOOD, own), (HATCHED, LENT, use.lent)]
    if use.used > use.own:
        parts = [(FULL, GOOD, own), (DENSE, BORROWED, use.used - use.own)]
    mark = use.own if use.own < whole else None
    drawn = bar(parts, whole=whole, cells=page.cells(_CELLS), mark=mark)
    shown = (use.used, use.own) if page.narrow else (use.used, use.own, use.most)
    numbers = (amount(use.resource, one) for one in shown)
    return (Text.assemble(use.resource, (f" {use.flavor}", QUIET)), drawn, *numbers)


def _count(number: int, style: str) -> Text:
    return Text(str(number), style if number else QUIET)


def _draw_notes(branch: Branch) -> Text:
    return Text(", ".join(branch.notes), QUIET if branch.notes in ((), ("strict",)) else BAD)


def draw_windows(branches: Iterable[Branch]) -> Iterator[Text]:
    """Yield what queues are told of their temporaryQuotas, one line each."""
    for branch in branches:
        if branch.windows:
            yield Text.assemble(branch.name, (f": {branch.windows}", QUIET))
        yield from draw_windows(branch.children)


def quota_legend() -> Text:
    """Return what the bars mean."""
    return Text.assemble(
        (FULL, GOOD), (" used of its own  ", QUIET), (DENSE, BORROWED), (" borrowed  ", QUIET),
        (HATCHED, LENT), (" lent to others  ", QUIET), ("│", "bold"), (" where its own quota ends", QUIET),
    )  # fmt: skip
