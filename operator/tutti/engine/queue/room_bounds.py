"""Whom room on some nodes can help, of those who are parked because they lack nodes: asked of columns, not one by one.

Where a pod has left a node and nothing else has changed, somebody who found no place before can find one now only if
one of the pods fits on such a node by what is free there: every other node has as little room as before. That holds for
classes whose pods are placed by what their own node has (`_OWN_NODE`), and that hold nothing themselves. Who minds
something else is asked about the nodes where that may be otherwise, too (`domain_bounds.py`).

It holds for those who may take out others, too, with what these have on such a node: whoever has come to another node
since took there what was free, and that was not enough. So do pods of lower priority, and workloads of the same queue
that its policy names. Those of other queues are another matter, since a queue may have begun to borrow with what runs:
who may take back what is lent is tried wherever anybody borrows. All others are tried again whenever there may be more
room.

Who has a pod that is larger than what is free on any node is not helped by quota either.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.columns import longer, wider
from tutti.cluster.nodes import NodeColumns
from tutti.engine.preemption import by_priority
from tutti.engine.preemption.lower_priority import is_anybody_below
from tutti.engine.preemption.nominated_room import would_borrow
from tutti.engine.queue import QueueState
from tutti.engine.queue.device_bounds import DeviceBounds, has_devices, is_looked_at
from tutti.engine.queue.equivalence import holds_something
from tutti.engine.queue.gained_room import NOBODY_BELOW, EqualPreemptors, GainedRoom, TakesOut, fits_on_any
from tutti.engine.records.explanation import LACKS_NODE, Explanation, Gate
from tutti.engine.records.queue_entries import EquivalenceClass, QueueEntry
from tutti.engine.records.workloads import Phase
from tutti.quota.policy import NOBODY
from tutti.quota.preemption import PreemptionReach, Preemptor

_OWN_NODE: Final = (
    Feature.ANY
    | Feature.HOST_PORTS
    | Feature.DISKS
    | Feature.PREFERRED_POD_AFFINITY
    | Feature.OWNER
    | Feature.NODE_SELECTION
    | Feature.PREFERRED_NODE_AFFINITY
    | Feature.NODE_FEATURES
    | Feature.FLAVOR_LABELS
    | Feature.NUMA_ZONES
)
"""What a pod may ask for and still be refused by a node for what is on that node alone."""

_BOUNDED: Final = _OWN_NODE | Feature.CLAIMS | Feature.POD_AFFINITY | Feature.SPREAD | Feature.DEVICES


_MOST_FURTHER: Final = 64
"""So many nodes are compared with those who wait beside those on which something is free by now."""


def is_bounded(pod_class: PodClass) -> bool:
    """Whether it is told why a node might take such pods by now that refused them.

    That is what the node itself has, is and holds, where volumes are, what devices are free, and who is near
    (`domain_bounds.py`). A claim that one pod of the cluster may use depends on what pods anywhere have.
    """
    return not (pod_class.volumes.once or pod_class.features & ~_BOUNDED)


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
    if queue is not None and (queue.max_moves or queue.checks.on_flavors or queue.checks.provisioning):
        return None
    if state.plugins or state.configuration.extenders or state.cluster.classes.strict_defaults:
        return None
    if not all(need.required and is_bounded(need.pod_class) for need in needs) or holds_something(state, workload):
        return None
    if not by_priority.may_preempt(needs):
        return TakesOut()
    above = by_priority.priority_of(state, workload, needs)
    if queue is None:
        return TakesOut(above)
    preemptor = None
    if queue.policy != NOBODY:
        priority = workload.preemption_priority
        preemptor = Preemptor(queue.name, priority, queue.cross_queue_priority(priority))
    gains = any(len(group.flavors) > 1 for group in queue.groups) or would_borrow(state, queue, needs)
    by_quota = gains and (preemptor is not None or is_anybody_below(state, above))
    return TakesOut(above, preemptor, by_quota)


def each_fits(nodes: NodeColumns, classes: Iterable[PodClass]) -> bool:
    """Whether each class fits on some node by what is free there, of devices too; where not, no quota helps it."""
    for pod_class in classes:
        vector = _asked_of_a_node(nodes, pod_class)
        asked = np.flatnonzero(vector)
        fits = (nodes.allocatable[:, asked] - nodes.requested[:, asked] >= vector[asked]).all(axis=1)
        if fits.any() and is_looked_at(pod_class):
            fits &= has_devices(nodes, pod_class.devices)[0]
        if not fits.any():
            return False
    return True


def _asked_of_a_node(nodes: NodeColumns, pod_class: PodClass) -> NDArray[np.int64]:
    """Return int64[resources]: what a pod asks of its node, but for what devices may stand in for."""
    extended = {one.resource for one in pod_class.devices.extended}
    requests = pod_class.requests
    return nodes.resource_index.vector({key: requests[key] for key in requests if key not in extended})


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
        self._takes: dict[EquivalenceClass, TakesOut] = {}
        self._claiming: dict[EquivalenceClass, None] = {}
        self._devices = DeviceBounds()
        self._hoping: dict[EquivalenceClass, None] = {}
        self._preemptors: dict[TakesOut, EqualPreemptors] = {}
        self._numbers = np.full(16, -1, dtype=np.int64)
        self._last_number = 0
        self._called: dict[EquivalenceClass, None] = {}
        self._fitting: frozenset[EquivalenceClass] = frozenset()
        self._gained = GainedRoom(np.zeros(0, dtype=np.intp))
        self._as_of: tuple[bytes, int] | None = None

    def __bool__(self) -> bool:
        return bool(self._rows)

    def __contains__(self, equals: object) -> bool:
        return equals in self._rows

    def put(
        self,
        nodes: NodeColumns,
        equals: EquivalenceClass,
        classes: Sequence[PodClass],
        takes: TakesOut,
        *,
        hopes: bool = False,
    ) -> None:
        """Note what a class that is parked asks of nodes.

        Args:
            nodes: As they are.
            equals: The class.
            classes: Of which its pods are.
            takes: Whom it may take out.
            hopes: Whether it may have nobody leave for what it was seen that it may have soon; and others may have it.
        """
        self.drop(equals)
        if hopes and takes.is_anybody:
            self._hoping[equals] = None
        self._takes[equals], group = takes, self._group(takes)
        self._note(equals, min((one.workload.queued_at for one in equals.entries()), default=-math.inf))
        if any(pod_class.features & Feature.CLAIMS for pod_class in classes):
            self._claiming[equals] = None
        rows = self._rows[equals] = []
        for pod_class in classes:
            vector = _asked_of_a_node(nodes, pod_class)
            row = self._free.pop() if self._free else len(self._of)
            self._make_room(row, len(vector))
            if row == len(self._of):
                self._of.append(equals)
            self._of[row], self._numbers[row] = equals, group.number
            self._asks[row] = 0
            self._asks[row, : len(vector)] = vector
            self._gained.compare_anew(row)
            self._devices.put(row, pod_class)
            rows.append(row)

    def drop(self, equals: EquivalenceClass) -> None:
        """Forget a class, if it is known."""
        self._claiming.pop(equals, None)
        self._hoping.pop(equals, None)
        takes = self._takes.pop(equals, None)
        if takes is not None:
            group = self._preemptors[takes]
            del group.oldest[equals]
            if not group.oldest:
                del self._preemptors[takes]
        for row in self._rows.pop(equals, ()):
            self._of[row] = None
            self._asks[row], self._numbers[row] = np.iinfo(np.int64).max, -1  # fits nowhere
            self._gained.compare_anew(row)
            self._devices.drop(row)
            self._free.append(row)

    def join(self, entry: QueueEntry) -> None:
        """Note that somebody stands in his class, who may have waited for longer than the others."""
        if entry.equivalence in self._takes:
            self._note(entry.equivalence, entry.workload.queued_at)

    def _note(self, equals: EquivalenceClass, queued_at: float) -> None:
        takes = self._takes[equals]
        if self._preemptors[takes].note(equals, queued_at) and takes.preemptor is not None:
            self._gained = GainedRoom(self._gained.rows)  # he may take out others there

    def helped(
        self, state: QueueState, gained: Collection[int], more: Collection[int] | None, *, storage: bool, anew: bool
    ) -> tuple[list[EquivalenceClass], list[EquivalenceClass]]:
        """Return who may find room now: as long as it is there, and others, by their queues' policies or their volumes.

        Args:
            state: As it is.
            gained: The rows of the nodes on which something is free that was not when this was asked last.
            more: Those of others that may take them by now for what they have left already, None: any.
            storage: Whether any node may take volumes by now that it did not take before.
            anew: Whether those rows are of no use any more that were told before.
        """
        self._leave_out_gone()
        if not self._rows:
            return [], []
        rows = np.fromiter(gained, dtype=np.intp, count=len(gained))
        is_more = more is None or bool(more)
        further = self._roomy(state, more) if is_more else rows[:0]
        if 0 < len(further) <= _MOST_FURTHER:
            rows = np.union1d(rows, further)
        self._gained = GainedRoom(rows if anew else np.union1d(self._gained.rows, rows))
        self._as_of = None
        reaching = self._reaching(state)
        if len(further) > _MOST_FURTHER:
            reaching |= self._numbers[: len(reaching)] >= 0
        elif is_more:
            reaching |= np.isin(self._numbers[: len(reaching)], self._takers(state))
        reaching[[row for equals in self._hoping for row in self._rows[equals]]] = True
        if storage:
            reaching[[row for equals in self._claiming for row in self._rows[equals]]] = True
        return self._classes_of(self._look(state, ~reaching)), self._classes_of(reaching)

    def call(self, classes: Iterable[EquivalenceClass]) -> None:
        """Have it told by `fitting` of some of those that were helped, as long as they are called."""
        self._called.update((one, None) for one in classes if one in self._rows)
        self._as_of = None

    def elsewhere(self, state: QueueState, among: Iterable[EquivalenceClass]) -> list[EquivalenceClass]:
        """Return who of some classes may find room on other nodes than those that this was asked about last."""
        pods = np.array([row for one in among for row in self._rows[one]], dtype=np.int64)
        if not len(pods):
            return []
        free = self._left_on(state, np.setdiff1d(self._roomy(state, None), self._gained.rows))
        fits = fits_on_any(self._asks[pods, : free.shape[1]], free)
        chosen = np.zeros(len(self._of), dtype=np.bool_)
        chosen[pods[fits | np.isin(self._numbers[pods], self._takers(state))]] = True
        return self._classes_of(chosen)

    def _roomy(self, state: QueueState, among: Collection[int] | None) -> NDArray[np.intp]:
        """Return which of some rows (None: of all) have as much left as each of those who wait asks for at least."""
        count = len(state.cluster.nodes) if among is None else len(among)
        rows = np.fromiter(range(count) if among is None else among, dtype=np.intp, count=count)
        free = self._left_on(state, rows)
        asks = self._asks[: len(self._of), : free.shape[1]]
        least = asks[self._numbers[: len(self._of)] >= 0].min(axis=0)
        roomy: NDArray[np.intp] = rows[((free >= least) | (least == 0)).all(axis=1)]
        return roomy

    def _left_on(self, state: QueueState, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return int64[rows, resources]: what is free on some rows of all that anybody here asks for."""
        nodes, width = state.cluster.nodes, min(self._asks.shape[1], state.cluster.nodes.allocatable.shape[1])
        return nodes.allocatable[rows, :width] - nodes.requested[rows, :width]

    def _takers(self, state: QueueState) -> list[int]:
        """Return the numbers of those who might take out anybody anywhere."""
        is_kept = any(True for _ in state.cluster.held.all())
        found = []
        for takes, group in self._preemptors.items():
            above = takes.above > NOBODY_BELOW and (is_kept or is_anybody_below(state, takes.above))
            if above or takes.preemptor is not None:
                found.append(group.number)
        return found

    def reaching(self, state: QueueState, roots: Collection[str]) -> list[EquivalenceClass]:
        """Return those of some trees who may take out workloads of other queues."""
        return [one for one in self._able(state) if one.root in roots] if roots else []

    def roots(self) -> Iterator[str]:
        """Yield the trees of those who may take out workloads of other queues, if any of these borrow."""
        named = (group for takes, group in self._preemptors.items() if takes.preemptor is not None)
        return (next(iter(group.oldest)).root for group in named)

    def among(self, classes: Collection[EquivalenceClass]) -> AbstractSet[EquivalenceClass]:
        """Return those of some classes that are known here."""
        return self._rows.keys() & classes

    def fitting(self, state: QueueState) -> frozenset[EquivalenceClass]:
        """Return who of those that are called still finds room, after others have been placed."""
        cluster = state.cluster
        if not self._called:
            return frozenset()
        stamp = cluster.nodes.requested[self._gained.rows].tobytes(), cluster.pod_columns.version
        if self._as_of != stamp:
            called = [one for one in self._called if one.called and one in self._rows]
            self._called = dict.fromkeys(called)
            among = np.zeros(len(self._of), dtype=np.bool_)
            among[list(chain.from_iterable(map(self._rows.__getitem__, called)))] = True
            fits = self._look(state, among) | (among & self._reaching(state)) if self._called else among
            self._as_of, self._fitting = stamp, frozenset(self._classes_of(fits))
        return self._fitting

    def _reaching(self, state: QueueState) -> NDArray[np.bool_]:
        """Return bool[rows]: who may take out workloads of other queues, as long as these borrow."""
        found = np.zeros(len(self._of), dtype=np.bool_)
        for equals in self._able(state):
            found[self._rows[equals]] = True
        return found

    def _able(self, state: QueueState) -> Iterator[EquivalenceClass]:
        """Yield those for whom the policy of their queue names anybody in another one."""
        reach = PreemptionReach(state.ledger.snapshot)
        for takes, group in self._preemptors.items():
            if takes.preemptor is not None:
                before = reach.before_whom(takes.preemptor)
                yield from (equals for equals, oldest in group.oldest.items() if oldest < before)

    def _classes_of(self, chosen: NDArray[np.bool_]) -> list[EquivalenceClass]:
        """Return the classes of some rows, each once; chosen: bool[rows]."""
        found = map(self._of.__getitem__, np.flatnonzero(chosen).tolist())
        return [one for one in dict.fromkeys(found) if one is not None]

    def _look(self, state: QueueState, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return bool[rows]: which of the pods `among` all fit on one of the nodes that pods have left."""
        width = min(self._asks.shape[1], state.cluster.nodes.allocatable.shape[1])
        count, nodes = len(self._of), state.cluster.nodes
        numbers = self._numbers[:count]
        fits = among & self._gained.fits(state, self._asks[:count, :width], numbers, self._preemptors)
        if self._devices and fits.any():
            nodes.follow_devices()
            taking = self._takers(state) if nodes.devices.rows.shared_pools() else self._gained.taking()
            rows = self._gained.rows
            for pods, where in self._devices.found(nodes, fits & ~np.isin(numbers, taking)):
                free = self._left_on(state, rows[where[rows]])
                fits[pods] = fits_on_any(self._asks[pods, : free.shape[1]], free)
        return fits

    def _group(self, takes: TakesOut) -> EqualPreemptors:
        """Return those who may take out the same, begun where nobody has yet."""
        found = self._preemptors.get(takes)
        if found is None:
            self._last_number += 1
            found = self._preemptors[takes] = EqualPreemptors(self._last_number)
        return found

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
            self._numbers = longer(self._numbers, len(self._asks))

    def classes(self) -> Iterator[EquivalenceClass]:
        """Yield all of them."""
        return iter(list(self._rows))
