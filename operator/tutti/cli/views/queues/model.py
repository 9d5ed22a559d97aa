"""The tree of Cohorts and ClusterQueues with what each is given, uses and borrows, worked out of an engine's state.

All amounts are in scheduling units: cpu in milli-cores, memory in bytes, everything else in whole units.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from tutti.cli.views.degraded import Degraded, degraded_of
from tutti.engine.records.workloads import ADMITTED, Workload
from tutti.engine.state import State
from tutti.quota.tree import UNLIMITED, FlavorResource, QuotaNode

MOST_WAITING = 50
"""How many of those who wait at one queue are told of."""


class Use(msgspec.Struct, frozen=True, rename="camel"):
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
    """

    kind: str
    name: str
    waiting: int
    running: int
    notes: tuple[str, ...]
    uses: tuple[Use, ...]
    children: tuple[Branch, ...] = ()


class Held(msgspec.Struct, frozen=True, rename="camel"):
    """What a workload uses of one flavor and resource."""

    flavor: str
    resource: str
    used: int


class Entry(msgspec.Struct, frozen=True, rename="camel"):
    """A workload of a queue.

    Attributes:
        position: Its place in the queue, the head being 1; 0 for one that runs.
        queued_at: Since when it is in the queue, Unix seconds.
        holds: What it uses of the queue's quota, with what is kept for members that it has lost.
        gate: Where it waits, or "".
        why: What it waits for, or "".
        degraded: How far it is from what it needs, where it runs with less.
    """

    kind: str
    namespace: str
    name: str
    position: int
    priority: int
    queued_at: float
    holds: tuple[Held, ...] = ()
    gate: str = ""
    why: str = ""
    degraded: Degraded | None = None


class QueueDetails(msgspec.Struct, frozen=True, rename="camel"):
    """One queue, who runs in it and who waits; `beyond` are those who wait and are not told of."""

    queue: Branch
    running: tuple[Entry, ...]
    waiting: tuple[Entry, ...]
    beyond: int


def forest(state: State) -> tuple[Branch, ...]:
    """Return all cohorts and queues that are in no other, cohorts first; an inactive queue is in none."""
    tree = state.holdings.tree
    nodes = (*tree.cohorts.values(), *tree.queues.values())
    roots = [_branch(state, node) for node in sorted(nodes, key=lambda one: one.name) if node.parent is None]
    return tuple(sorted(roots, key=lambda one: one.kind != "Cohort"))


def accelerators(roots: Collection[Branch]) -> list[str]:
    """Return the resources of devices that any of these has quota of, by name."""
    return sorted({use.resource for root in roots for use in root.uses if "/" in use.resource})


def details(state: State, name: str) -> QueueDetails | None:
    """Return one ClusterQueue with its workloads; None where there is none of that name."""
    node = state.holdings.tree.queues.get(name)
    if node is None:
        return None
    mine = [one for one in state.workloads.values() if one.cluster_queue == name and one.phase in ADMITTED]
    running = sorted(mine, key=lambda one: (one.reserved_at or one.created, one.key))
    heads = state.places.heads(name, MOST_WAITING)
    return QueueDetails(
        _branch(state, node),
        tuple(_entry(state, one, 0) for one in running),
        tuple(_entry(state, one, at) for at, one in enumerate(heads, 1)),
        max(0, state.counts.of(name).pending - len(heads)),
    )


def _branch(state: State, node: QuotaNode) -> Branch:
    children = sorted(node.children, key=lambda one: (one.leaf, one.name))
    whats = {what for leaf in node.leaves() for what in leaf.quotas} | set(node.quotas)
    count = state.counts.of(node.name) if node.leaf else None
    below = tuple(_branch(state, child) for child in children)
    return Branch(
        "ClusterQueue" if node.leaf else "Cohort",
        node.name,
        count.pending if count else sum(one.waiting for one in below),
        count.admitted if count else sum(one.running for one in below),
        _notes(state, node),
        tuple(_use(node, what) for what in sorted(whats, key=lambda one: (one[1], one[0]))),
        below,
    )


def _use(node: QuotaNode, what: FlavorResource) -> Use:
    own = _own(node, what)
    used = sum(leaf.usage.get(what, 0) for leaf in node.leaves())
    free = node.available(what)
    subtree = node.subtree.get(what, 0)
    most = own + max(0, node.potential(what) - subtree)
    lent = max(0, own - used - max(0, free)) if node.parent is not None else 0
    return Use(
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


def _notes(state: State, node: QuotaNode) -> tuple[str, ...]:
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
    return tuple(notes)


def _entry(state: State, workload: Workload, position: int) -> Entry:
    kind, namespace, name = workload.key
    why = workload.explanation if position else None
    return Entry(
        kind,
        namespace,
        name,
        position,
        workload.priority,
        workload.queued_at,
        tuple(Held(*what, used) for what, used in state.holdings.held_by(workload.name).items() if used),
        "" if why is None else why.gate.value,
        "" if why is None else why.message,
        degraded_of(state, workload),
    )
