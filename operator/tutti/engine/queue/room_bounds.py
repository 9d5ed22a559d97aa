"""Whom room on some nodes can help, of those who are parked because they lack nodes: asked of columns, not one by one.

Where a pod has left a node and nothing else has changed, somebody who found no place before can find one now only if
one of the pods fits on such a node by what is free there: every other node has as little room as before. That holds for
classes whose pods are placed by what their own node has (`_OWN_NODE`), and that hold nothing themselves. Who may take
others out is tried as well wherever there may be anybody whom he may: pods of lower priority on a node, or workloads
that the policy of his queue names. All others are tried again whenever there may be more room.

Who has a pod that is larger than what is free on any node is not helped by quota either.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.cluster import Cluster
from tutti.cluster.columns import wider
from tutti.cluster.nodes import NodeColumns
from tutti.engine.preemption import by_priority
from tutti.engine.queue import QueueState
from tutti.engine.queue.equivalence import holds_something
from tutti.engine.records.explanation import LACKS_NODE, Explanation, Gate
from tutti.engine.records.queue_entries import EquivalenceClass, QueueEntry
from tutti.engine.records.workloads import Phase
from tutti.quota.policy import NOBODY
from tutti.quota.preemption import Claimant, PreemptionReach

_OWN_NODE: Final = (
    Feature.ANY
    | Feature.HOST_PORTS
    | Feature.PREFERRED_POD_AFFINITY
    | Feature.OWNER
    | Feature.NODE_SELECTION
    | Feature.PREFERRED_NODE_AFFINITY
    | Feature.NODE_FEATURES
    | Feature.FLAVOR_LABELS
    | Feature.NUMA_ZONES
)
"""What a pod may ask for and still be refused by a node for what is on that node alone."""

NOBODY_BELOW: Final = np.iinfo(np.int64).min
"""The priority of those who take out nobody."""

_MOST_PAIRS: Final = 1 << 22
"""So many classes times nodes times resources are compared at once."""


class TakesOut(NamedTuple):
    """Whom a workload may take out.

    Attributes:
        above: Pods of a priority below that; `NOBODY_BELOW`: none.
        claimant: And whom the policy of its queue names; None: nobody.
    """

    above: int = NOBODY_BELOW
    claimant: Claimant | None = None


def is_bounded(pod_class: PodClass) -> bool:
    """Whether a node refuses such pods for nothing but what the node itself has, is and holds."""
    return not pod_class.features & ~_OWN_NODE


def bound_of(state: QueueState, entry: QueueEntry, why: Explanation) -> TakesOut | None:
    """Return whom a workload may take out that is helped by nothing else but room on a node that a pod has left.

    Args:
        state: The engine's memory.
        entry: The workload, which was tried.
        why: Why it waits.

    Returns:
        Whom; None where something else may help it as well.
    """
    queue, workload, needs = entry.queue, entry.workload, entry.needs
    if why.gate is not Gate.PLACEMENT or why.reason not in LACKS_NODE or workload.phase is not Phase.WAITING:
        return None
    if queue is not None and (queue.reserves or queue.max_moves or queue.checks.on_flavors):
        return None
    if queue is not None and queue.checks.provisioning:
        return None
    if state.plugins or state.configuration.extenders or state.keeping_room or state.cluster.classes.strict_defaults:
        return None
    if not all(need.required and is_bounded(need.pod_class) for need in needs) or holds_something(state, workload):
        return None
    if not by_priority.may_preempt(needs):
        return TakesOut()
    claimant = None
    if queue is not None and queue.policy != NOBODY:
        priority = workload.preemption_priority
        claimant = Claimant(queue.name, priority, queue.cross_queue_priority(priority))
    return TakesOut(by_priority.priority_of(state, workload, needs), claimant)


def each_fits(nodes: NodeColumns, classes: Iterable[PodClass]) -> bool:
    """Whether pods of each class fit on some node by what is free there; where not, quota alone helps nobody."""
    for pod_class in classes:
        vector = nodes.resource_index.vector(pod_class.requests)
        asked = np.flatnonzero(vector)
        if not (nodes.allocatable[:, asked] - nodes.requested[:, asked] >= vector[asked]).all(axis=1).any():
            return False
    return True


class RoomBounds:
    """What the pods of parked classes ask of a node, as columns; a class has a row for each unlike pod."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all classes."""
        self._rows: dict[EquivalenceClass, list[int]] = {}
        self._of: list[EquivalenceClass | None] = []
        self._free: list[int] = []
        self._asks = np.zeros((16, 1), dtype=np.int64, order="F")
        self._priority = np.full(16, NOBODY_BELOW, dtype=np.int64)
        self._claimants: dict[EquivalenceClass, tuple[Claimant, float]] = {}
        self._fitting: frozenset[EquivalenceClass] = frozenset()
        self._gained: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._as_of: tuple[bytes, int] | None = None

    def __bool__(self) -> bool:
        return bool(self._rows)

    def put(self, nodes: NodeColumns, equals: EquivalenceClass, classes: Iterable[PodClass], takes: TakesOut) -> None:
        """Note what a class that is parked asks of nodes.

        Args:
            nodes: As they are.
            equals: The class.
            classes: Of which its pods are.
            takes: Whom it may take out.
        """
        self.drop(equals)
        if takes.claimant is not None:
            oldest = min((one.workload.queued_at for one in equals.entries()), default=-math.inf)
            self._claimants[equals] = takes.claimant, oldest
        rows = self._rows[equals] = []
        for pod_class in classes:
            vector = nodes.resource_index.vector(pod_class.requests)
            row = self._free.pop() if self._free else len(self._of)
            self._make_room(row, len(vector))
            if row == len(self._of):
                self._of.append(equals)
            self._of[row], self._priority[row] = equals, takes.above
            self._asks[row] = 0
            self._asks[row, : len(vector)] = vector
            rows.append(row)

    def drop(self, equals: EquivalenceClass) -> None:
        """Forget a class, if it is known."""
        self._claimants.pop(equals, None)
        for row in self._rows.pop(equals, ()):
            self._of[row] = None
            self._asks[row] = np.iinfo(np.int64).max  # fits nowhere
            self._priority[row] = NOBODY_BELOW
            self._free.append(row)

    def join(self, entry: QueueEntry) -> None:
        """Note that somebody stands in his class, who may have waited for longer than the others."""
        known = self._claimants.get(entry.equivalence)
        if known is not None:
            self._claimants[entry.equivalence] = known[0], min(known[1], entry.workload.queued_at)

    def helped(
        self, state: QueueState, gained: Collection[int], *, anew: bool
    ) -> tuple[list[EquivalenceClass], list[EquivalenceClass]]:
        """Return who may find room now: as long as it is there, and others, who may take somebody out for it.

        Args:
            state: As it is.
            gained: The rows of nodes that pods have left since this was asked last.
            anew: Whether those are of no use any more that were told before.
        """
        self._leave_out_gone()
        if not self._rows:
            return [], []
        rows = np.fromiter(gained, dtype=np.intp, count=len(gained))
        self._gained = rows if anew else np.union1d(self._gained, rows)
        self._as_of = None
        above = self._above(state.cluster) | self._reaching(state)
        return self._classes_of(self._look(state.cluster.nodes) & ~above), self._classes_of(above)

    def reaching(self, state: QueueState, roots: Collection[str]) -> list[EquivalenceClass]:
        """Return those of some trees who may take out workloads that the policy of their queue names."""
        return self._able(state, [one for one in self._claimants if one.root in roots]) if roots else []

    def roots(self) -> Iterator[str]:
        """Yield the trees of those who may take out workloads that the policy of their queue names."""
        return (equals.root for equals in self._claimants)

    def fitting(self, state: QueueState) -> Collection[EquivalenceClass]:
        """Return who of those that were helped still is, after others have been placed."""
        cluster = state.cluster
        stamp = cluster.nodes.requested[self._gained].tobytes(), cluster.pod_columns.version
        if self._as_of != stamp:
            fits = self._look(cluster.nodes) | self._above(cluster) | self._reaching(state)
            self._as_of, self._fitting = stamp, frozenset(self._classes_of(fits))
        return self._fitting

    def _above(self, cluster: Cluster) -> NDArray[np.bool_]:
        """Return bool[rows]: who may take out others, and is above some pod on a node."""
        placed = cluster.pod_columns.row >= 0
        lowest = cluster.pod_columns.priority[placed].min(initial=np.iinfo(np.int64).max)
        above: NDArray[np.bool_] = self._priority[: len(self._of)] > lowest
        return above

    def _reaching(self, state: QueueState) -> NDArray[np.bool_]:
        """Return bool[rows]: who may take out workloads that the policy of his queue names, if there are any."""
        found = np.zeros(len(self._of), dtype=np.bool_)
        for equals in self._able(state, self._claimants):
            found[self._rows[equals]] = True
        return found

    def _able(self, state: QueueState, classes: Iterable[EquivalenceClass]) -> list[EquivalenceClass]:
        """Return those of some classes for which the policy of their queue names anybody."""
        reach = PreemptionReach(state.ledger.snapshot)
        return [one for one in classes if reach.has_anybody(*self._claimants[one])]

    def _classes_of(self, chosen: NDArray[np.bool_]) -> list[EquivalenceClass]:
        """Return the classes of some rows, each once; chosen: bool[rows]."""
        found = map(self._of.__getitem__, np.flatnonzero(chosen).tolist())
        return [one for one in dict.fromkeys(found) if one is not None]

    def _look(self, nodes: NodeColumns) -> NDArray[np.bool_]:
        """Return bool[rows]: whether the pod of each fits on one of the nodes that pods have left."""
        count, gained = len(self._of), self._gained
        fits = np.zeros(count, dtype=np.bool_)
        width = min(self._asks.shape[1], nodes.allocatable.shape[1])
        asks = self._asks[:count, :width]
        step = max(1, _MOST_PAIRS // max(1, count * width))
        for start in range(0, len(gained), step):
            some = gained[start : start + step]
            left = nodes.allocatable[some, :width] - nodes.requested[some, :width]
            fits |= ((asks[:, None, :] <= left) | (asks[:, None, :] == 0)).all(axis=2).any(axis=1)
        return fits

    def _leave_out_gone(self) -> None:
        """Let go of classes that nobody is in any more."""
        for equals in [one for one in self._rows if not one.size]:
            self.drop(equals)

    def _make_room(self, row: int, width: int) -> None:
        if width > self._asks.shape[1]:
            self._asks = wider(self._asks, width)
        if row == len(self._asks):
            more = np.zeros_like(self._asks)
            self._asks = np.asfortranarray(np.concatenate([self._asks, more]))
            self._priority = np.concatenate([self._priority, np.full(len(more), NOBODY_BELOW, dtype=np.int64)])

    def classes(self) -> Iterator[EquivalenceClass]:
        """Yield all of them."""
        return iter(list(self._rows))
