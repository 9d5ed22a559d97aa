"""On how many of the nodes that pods have left each pod fits that somebody waits with, followed as others are placed.

What those have on such a node whom he may take out counts as free for him: pods of lower priority, and workloads of
his queue that its policy names; and all that is kept there for members to come, whoever's they are. Most who wait may
take out nobody there, so that what is free holds for all of them; those who may are counted by themselves. After a
placement only the nodes are looked at where it has changed something.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PodRecord
from tutti.engine.queue import QueueState
from tutti.engine.records.queue_entries import EquivalenceClass
from tutti.quota.policy import allows
from tutti.quota.preemption import Preemptor
from tutti.quota.snapshot import AdmittedWorkload, Demand

NOBODY_BELOW: Final = np.iinfo(np.int64).min
"""The priority of those who take out nobody."""

_MOST_PAIRS: Final = 1 << 22
"""So many pods times nodes times resources are compared at once."""


class TakesOut(NamedTuple):
    """Whom a workload may take out.

    Attributes:
        above: Pods of a priority below that; `NOBODY_BELOW`: none.
        preemptor: And whom the policy of its queue names by that; None: nobody.
        by_quota: Whether more quota may give it more of them: by a flavor in whose nodes they are, or since it would
            not borrow then, who is entitled to what it takes.
    """

    above: int = NOBODY_BELOW
    preemptor: Preemptor | None = None
    by_quota: bool = False

    @property
    def is_anybody(self) -> bool:
        """Whether that is anybody at all."""
        return self.above > NOBODY_BELOW or self.preemptor is not None


@dataclass(slots=True)
class EqualPreemptors:
    """The classes of those who may take out the same.

    Attributes:
        number: By which they are known in a column.
        oldest: When the first of each class came into its queue, Unix seconds.
        first: No later than the first of them all.
    """

    number: int
    oldest: dict[EquivalenceClass, float] = field(default_factory=dict)
    first: float = math.inf

    def note(self, equals: EquivalenceClass, queued_at: float) -> bool:
        """Note when somebody of a class came; returns whether he may take out more than all others until now."""
        self.oldest[equals] = min(self.oldest.get(equals, math.inf), queued_at)
        is_first, self.first = queued_at < self.first, min(self.first, queued_at)
        return is_first


class GainedRoom:
    """The nodes that pods have left, and on how many of them each pod fits.

    Attributes:
        rows: int64[nodes].
    """

    def __init__(self, rows: NDArray[np.intp]) -> None:
        self.rows = rows
        self._free = np.zeros((0, 0), dtype=np.int64)
        self._left: dict[int, NDArray[np.int64]] = {}  # what preemptors have there who may take out somebody
        self._known: set[int] = set()
        self._counts = np.zeros(0, dtype=np.int64)
        self._anew: dict[int, None] = {}

    def taking(self) -> list[int]:
        """Return the numbers of those preemptors who may take out anybody there, or what is kept for others."""
        return list(self._left)

    def compare_anew(self, pod: int) -> None:
        """Note that a pod asks for something else than before, or that there is another one by that number."""
        self._anew[pod] = None

    def fits(
        self,
        state: QueueState,
        asks: NDArray[np.int64],
        numbers: NDArray[np.int64],
        preemptors: Mapping[TakesOut, EqualPreemptors],
    ) -> NDArray[np.bool_]:
        """Return bool[pods]: whether each fits on one of the nodes at least.

        Args:
            state: As it is.
            asks: int64[pods, resources], what each asks for.
            numbers: int64[pods], as which of the preemptors each goes.
            preemptors: Those, by whom they may take out.
        """
        free = _free_on(state, self.rows, asks.shape[1])
        if self._free.shape != free.shape:
            self._free, self._left, self._known = free, {}, set()
            self._anew = dict.fromkeys(range(len(asks)))
        self._counts = np.concatenate([self._counts, np.zeros(len(asks) - len(self._counts), dtype=np.int64)])
        changed = np.flatnonzero((free != self._free).any(axis=1))
        if len(changed):
            shared = ~np.isin(numbers, list(self._left))
            self._counts[shared] += _count(asks[shared], free[changed]) - _count(asks[shared], self._free[changed])
            self._free = free
        self._follow(state, changed, asks, numbers, preemptors)
        self._compare_anew(asks, numbers)
        return self._counts > 0

    def _follow(
        self,
        state: QueueState,
        changed: NDArray[np.intp],
        asks: NDArray[np.int64],
        numbers: NDArray[np.int64],
        preemptors: Mapping[TakesOut, EqualPreemptors],
    ) -> None:
        """Count those anew who may take out somebody on nodes that have changed, or have not been asked about yet."""
        preemptors = {takes: group for takes, group in preemptors.items() if takes.is_anybody}
        if not preemptors:
            return
        by_quota = any(takes.preemptor is not None for takes in preemptors)
        some = _PodsThere.on(state, self.rows, changed, by_quota=by_quota)
        every: _PodsThere | None = None
        for takes, group in preemptors.items():
            there, number = some, group.number
            if number not in self._known:
                self._known.add(number)
                there = every = every or _PodsThere.on(state, self.rows, np.arange(len(self.rows)), by_quota=by_quota)
            left = self._left.get(number)
            if left is None and not there.may_concern(takes):
                continue
            going = there.going(state, takes, group)
            if left is None and not (going.any() or there.is_kept(takes)):
                continue
            if left is None:  # until now they were counted by what is free, like all others
                left = self._left[number] = self._free.copy()
            mine, before = np.flatnonzero(numbers == number), left[there.nodes]
            left[there.nodes] = self._free[there.nodes] + there.given_up(state, takes, going, asks.shape[1])
            self._counts[mine] += _count(asks[mine], left[there.nodes]) - _count(asks[mine], before)

    def _compare_anew(self, asks: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Compare pods with all nodes that have not been, or are others by now."""
        pods, self._anew = np.fromiter(self._anew, dtype=np.int64, count=len(self._anew)), {}
        shared = pods[~np.isin(numbers[pods], list(self._left))]
        self._counts[shared] = _count(asks[shared], self._free)
        for number in set(numbers[pods].tolist()).intersection(self._left):
            mine = pods[numbers[pods] == number]
            self._counts[mine] = _count(asks[mine], self._left[number])


@dataclass(frozen=True, slots=True)
class _PodsThere:
    """The pods on some of the nodes that pods have left, and what is kept there.

    Attributes:
        nodes: int64[some]: which of the nodes.
        pods: Those that stand in the columns of pods.
        place: int64[pods]: on which of the nodes each of them is.
        priority: int64[pods].
        kept: For pods of which class room is kept on which of the nodes.
        holders: As whom each of them holds quota; None where it holds none.
        lowest: The lowest of their priorities.
        queues: Whose quota they hold.
    """

    nodes: NDArray[np.intp]
    pods: Sequence[PodRecord]
    place: NDArray[np.intp]
    priority: NDArray[np.int64]
    kept: Sequence[tuple[int, PodClass]]
    holders: Sequence[AdmittedWorkload | None]
    lowest: int
    queues: frozenset[str]

    @classmethod
    def on(cls, state: QueueState, rows: NDArray[np.intp], nodes: NDArray[np.intp], *, by_quota: bool) -> _PodsThere:
        """Find those on some of the nodes.

        Args:
            state: As it is.
            rows: The row of each node.
            nodes: Which of these.
            by_quota: Whether it matters as whom they hold quota.
        """
        cluster, names = state.cluster, state.cluster.nodes.names
        named = [(place, names[row]) for place, row in enumerate(rows[nodes].tolist())]
        found = [(place, pod) for place, name in named for pod in cluster.on_node(name) if pod.slot >= 0]
        kept = [(place, pod_class) for place, name in named for pod_class in cluster.held.on_node(name)]
        places = np.array([place for place, _ in found], dtype=np.intp)
        priority = np.array([pod.priority for _, pod in found], dtype=np.int64)
        pods = [pod for _, pod in found]
        holders = [_holder(state, pod) if by_quota else None for pod in pods]
        queues = frozenset(one.queue for one in holders if one is not None)
        lowest = int(priority.min(initial=np.iinfo(np.int64).max))
        return cls(nodes, pods, places, priority, kept, holders, lowest, queues)

    def may_concern(self, takes: TakesOut) -> bool:
        """Whether such preemptors may have any of what others have there."""
        if takes.above > self.lowest or self.is_kept(takes):
            return True
        return takes.preemptor is not None and takes.preemptor.queue in self.queues

    def is_kept(self, takes: TakesOut) -> bool:
        """Whether room is kept there that such preemptors might have."""
        return bool(self.kept) and takes.above > NOBODY_BELOW

    def going(self, state: QueueState, takes: TakesOut, group: EqualPreemptors) -> NDArray[np.bool_]:
        """Return bool[pods]: who may be taken out by some preemptors."""
        below = self.priority < takes.above
        if takes.preemptor is None or takes.preemptor.queue not in self.queues:
            return below
        queue, priority, _ = takes.preemptor
        who, demand = state.ledger.snapshot.policy(queue).within, Demand(queue, {}, frozenset(), priority, group.first)
        named = (one is not None and one.queue == queue and allows(who, demand, one) for one in self.holders)
        return below | np.fromiter(named, dtype=np.bool_, count=len(below))

    def given_up(self, state: QueueState, takes: TakesOut, going: NDArray[np.bool_], width: int) -> NDArray[np.int64]:
        """Return int64[nodes, width]: what such preemptors may have of each resource.

        Args:
            state: As it is.
            takes: Whom they take out.
            going: bool[pods], who goes.
            width: Of so many resources.
        """
        nodes, columns = state.cluster.nodes, state.cluster.pod_columns
        slots = np.array([pod.slot for pod in self.pods], dtype=np.int64)[going]
        found = np.zeros((len(self.nodes), width), dtype=np.int64)
        np.add.at(found, self.place[going], columns.held(slots, nodes.resource_index)[:, :width])
        for place, pod_class in self.kept if self.is_kept(takes) else ():
            found[place] += nodes.vector(pod_class.requests)[:width]
        return found


def _holder(state: QueueState, pod: PodRecord) -> AdmittedWorkload | None:
    """Return as whom a pod holds quota, as far as a policy goes by that; None where it holds none."""
    home = state.pod_group_of.get(pod.key)
    if home is None:
        return None
    found = state.workloads[home[0]]
    return AdmittedWorkload(found.name, found.cluster_queue, {}, found.priority, found.queued_at)


def _free_on(state: QueueState, rows: NDArray[np.intp], width: int) -> NDArray[np.int64]:
    """Return int64[rows, width]: what is free of each resource on some rows."""
    nodes = state.cluster.nodes
    return nodes.allocatable[rows, :width] - nodes.requested[rows, :width]


def _count(asks: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return int64[pods]: on how many of some nodes each fits.

    Args:
        asks: int64[pods, resources], what each asks for.
        left: int64[nodes, resources], what each node has left.
    """
    found = np.zeros(len(asks), dtype=np.int64)
    step = max(1, _MOST_PAIRS // max(1, asks.size))
    for start in range(0, len(left), step):
        some = left[start : start + step]
        found += ((asks[:, None, :] <= some) | (asks[:, None, :] == 0)).all(axis=2).sum(axis=1)
    return found


def fits_on_any(asks: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return bool[pods]: whether each fits on one of some nodes at least.

    Args:
        asks: int64[pods, resources], what each asks for.
        left: int64[nodes, resources], what each node has left.
    """
    most = left.max(axis=0, initial=0)
    fits: NDArray[np.bool_] = ((asks <= most) | (asks == 0)).all(axis=1)
    some = np.flatnonzero(fits)
    fits[some] = _count(asks[some], left) > 0
    return fits
