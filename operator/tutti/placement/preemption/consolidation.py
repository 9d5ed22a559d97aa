"""Which running pods to move so that a gang fits that lacks nothing but room in one piece.

Whoever is moved leaves its node and has another one at once: a choice counts only where, in one transaction, the gang
and all that is moved for it have their nodes, by all the rules of placement. Nobody gains by another's loss here, so
pods of any queue may be moved that let themselves be; that is the caller's to decide, as is whose pods count as one.

Looked for are sets of units, the least harm first: none but members that their gang can do without, then the fewest
pods, then those that have run shortest. The rules that choose victims choose them (`victims.py`); who finds no place
is left out of the next choice, and where there are many units so are those like it. Of few units all sets are tried
after that, the smallest first. After MOST_TRIES sets the search is over, so a choice may be missed; one that is found
is certain. KAI's consolidation goes by the same condition (actions/consolidation: every evicted pod is placed again in
the same simulation).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations

import numpy as np

from tutti.cluster.cluster import Cluster
from tutti.cluster.placed_pods import Slots
from tutti.cluster.pods import PodRecord
from tutti.cluster.transaction import Transaction
from tutti.placement.framework import Mask, Rows
from tutti.placement.gang import Ask, hardest_first, has_room_together
from tutti.placement.preemption.one_domain import domains_of
from tutti.placement.preemption.units import GangUnit, SimulatedRemoval, VictimUnits
from tutti.placement.preemption.victim_cost import Budget, Coverage, started_at
from tutti.placement.preemption.victims import choose_victims
from tutti.placement.profile import Profile, static_filter_result
from tutti.placement.together import Diagnosis, in_order, place_together
from tutti.placement.topology.request import Together

MOST_TRIES = 24
"""So many sets are tried in a small cluster, and half as many in others (`python -m bench.consolidation`)."""
MOST_UNITS = 128
"""So many units are looked at, those that cost least."""
MOST_ROWS = 256
"""Pods on so many nodes are looked at: those nodes that lack least for one more pod."""
FEW_UNITS = 10
"""Of so many units all sets are tried."""
SMALL = 64
"""In a cluster of no more nodes, arrangements of all together are looked for where one after another does not fit."""


@dataclass(frozen=True, slots=True)
class MovableUnit:
    """Pods that are moved together or not at all.

    Attributes:
        pods: Who they are; all on nodes that are known.
        asks: What equal pods ask for in their place: as many as they are, in their order.
        profile: How these are placed.
        elastic: Whether their gang can do without them.
        name: Tells units apart, and orders those that are alike.
        beside: Other units, by index, that leave when this one does: what the gang can do without.
    """

    pods: Sequence[PodRecord]
    asks: Sequence[Ask]
    profile: Profile
    elastic: bool
    name: str
    beside: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class FoundMoves:
    """Who is moved where, and where the gang is then.

    Attributes:
        rows: Per ask of the gang, the rows of its pods.
        moved: Each unit by index, and per ask of it the rows of its pods.
    """

    rows: list[Rows]
    moved: list[tuple[int, list[Rows]]]


def lacks_one_piece_only(cluster: Cluster, asks: Sequence[Ask], profile: Profile) -> bool:
    """Whether all nodes together have as much free as a gang requires, so that it may be only that it is scattered."""
    wanting = [ask for ask in asks if ask.required]
    if not wanting or any(ask.pod_class.refusal for ask in wanting):
        return False
    rows = np.zeros(len(cluster.nodes), dtype=np.bool_)
    for ask in wanting:
        rows |= static_filter_result(ask.pod_class, cluster.nodes, ask.where, profile).mask
    return has_room_together(cluster.nodes, rows, wanting, profile)


def worth_clearing(cluster: Cluster, asks: Sequence[Ask], profile: Profile) -> Mask:
    """Return bool[rows]: nodes that lack least for one more pod of an ask, whose pods are worth looking at.

    Of asks that must stay in one domain those nodes come first whose domain lacks least for all of it.
    """
    chosen = np.zeros(len(cluster.nodes), dtype=np.bool_)
    wanting = [ask for ask in asks if ask.required]
    for index in hardest_first(cluster.nodes, wanting):
        chosen[_nearly_fitting(cluster, wanting[index], profile)[: MOST_ROWS // len(wanting)]] = True
    return chosen


def _nearly_fitting(cluster: Cluster, ask: Ask, profile: Profile) -> Rows:
    """Return the nodes where one more pod might go if others left, those that lack least first: int64[k]."""
    nodes = cluster.nodes
    request = nodes.vector(ask.pod_class.requests)
    asked = np.flatnonzero(request)
    mask = static_filter_result(ask.pod_class, nodes, ask.where, profile).mask
    if not len(asked):
        return np.zeros(0, dtype=np.int64)
    offered = nodes.allocatable[:, asked]
    free = np.clip(offered - nodes.requested[:, asked], 0, None)
    fitting = (free // request[asked]).min(axis=1)
    wanted = (fitting[:, None] + 1) * request[asked]
    rows = np.flatnonzero(mask & (wanted <= offered).all(axis=1))
    lacks = np.clip(wanted - free, 0, None)[rows] / np.maximum(offered[rows], 1)
    short = lacks.max(axis=1)
    if ask.topology is None or ask.topology.asked.together is not Together.REQUIRED:
        return rows[np.argsort(short, kind="stable")]
    domain = domains_of(cluster, ask.topology)
    in_one = domain >= 0
    room = np.zeros(int(domain.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(room, domain[in_one & mask], fitting[in_one & mask])
    rows, short = rows[in_one[rows]], short[in_one[rows]]
    return rows[np.lexsort((short, domain[rows], -np.minimum(room[domain[rows]], ask.required)))]


def find_moves(
    cluster: Cluster,
    asks: Sequence[Ask],
    units: Sequence[MovableUnit],
    *,
    profile: Profile,
    budgets: Sequence[Budget] = (),
    most: int,
) -> FoundMoves | None:
    """Find units whose moving makes room for all required pods of some asks; nothing is changed.

    Args:
        cluster: What is where.
        asks: What the gang wants; only what is required counts.
        units: Who may be moved.
        profile: How its pods are placed.
        budgets: All PodDisruptionBudgets; nobody is moved beyond one of them.
        most: How many pods are moved at most.

    Returns:
        The first set that was found, by which all have nodes; None where none was.
    """
    asks = [replace(ask, extra=0) for ask in asks if ask.required]
    if not units or not lacks_one_piece_only(cluster, asks, profile):
        return None
    return _Search(cluster, asks, units, profile, Coverage(budgets, of_leaving=False), most).run()


@dataclass(slots=True)
class _Search:
    cluster: Cluster
    asks: Sequence[Ask]
    units: Sequence[MovableUnit]
    profile: Profile
    coverage: Coverage
    most: int
    tries: int = 0
    _tried: set[frozenset[int]] = field(default_factory=set)
    _unplaced: int | None = None

    def run(self) -> FoundMoves | None:
        """Look among the units that may be moved at all, the cheapest of them."""
        some = [index for index, one in enumerate(self.units) if self._is_within(self._with_beside([index]))]
        some = sorted(some, key=self._cost)[:MOST_UNITS]
        return self._guided(some) or self._all_sets(some)

    def _guided(self, some: Sequence[int]) -> FoundMoves | None:
        """Try the sets that would be chosen as victims, without those who have found no place."""
        left = list(some)
        while left and self.tries < self._most_tries:
            units = [self.units[index] for index in left]
            gangs = [GangUnit(one.pods, 0 if one.elastic else 1) for one in units]
            among = VictimUnits.among(self.cluster, np.zeros(0, dtype=np.int64), gangs)
            chosen = choose_victims(self.cluster, self.asks, among, profile=self.profile, budgets=self.coverage.budgets)
            if chosen is None or not len(chosen.units):
                return None
            first = [left[number] for number in chosen.units.tolist()]
            found = self._try(first)
            if found is not None:
                return found
            at_fault = self._unplaced
            if at_fault is None or at_fault not in first:
                left.remove(max(first, key=self._cost))
            elif len(some) > FEW_UNITS:  # those that are alike would hardly find a place either
                alike = self._kind(at_fault)
                left = [index for index in left if self._kind(index) != alike]
            else:
                left.remove(at_fault)
        return None

    def _all_sets(self, some: Sequence[int]) -> FoundMoves | None:
        """Try all sets of few units, those that cost least first."""
        few = some[:FEW_UNITS]
        sets = chain.from_iterable(combinations(few, size) for size in range(1, len(few) + 1))
        for chosen in sorted(sets, key=self._cost_of_set):
            if self.tries >= self._most_tries:
                return None
            found = self._try(chosen)
            if found is not None:
                return found
        return None

    @property
    def _most_tries(self) -> int:
        return MOST_TRIES if len(self.cluster.nodes) <= SMALL else MOST_TRIES // 2

    def _kind(self, index: int) -> tuple[object, ...]:
        """Return what is equal for units that ask for the same."""
        one = self.units[index]
        return one.elastic, tuple((ask.pod_class, ask.required, ask.where, ask.topology) for ask in one.asks)

    def _cost(self, index: int) -> tuple[bool, int, float, str]:
        one = self.units[index]
        pods = self._pods(self._with_beside([index]))
        return not one.elastic, len(pods), -min(map(started_at, one.pods)), one.name

    def _cost_of_set(self, some: Sequence[int]) -> tuple[bool, int, tuple[str, ...]]:
        units = [self.units[index] for index in some]
        pods = self._pods(self._with_beside(some))
        return not all(one.elastic for one in units), len(pods), tuple(one.name for one in units)

    def _with_beside(self, some: Sequence[int]) -> list[int]:
        """Return units with those that leave with them, in order."""
        return sorted({*some, *(other for index in some for other in self.units[index].beside)})

    def _pods(self, some: Sequence[int]) -> list[PodRecord]:
        return [pod for index in some for pod in self.units[index].pods]

    def _is_within(self, some: Sequence[int]) -> bool:
        """Whether so many pods may be moved, and no disruption budget minds."""
        pods = self._pods(some)
        return len(pods) <= self.most and not self.coverage.violations(pods)

    def _try(self, chosen: Sequence[int]) -> FoundMoves | None:
        """Return where all would be if some units were moved; None where not everybody has a node then."""
        some = self._with_beside(chosen)
        self._unplaced = None
        if frozenset(some) in self._tried or not self._is_within(some):
            return None
        self._tried.add(frozenset(some))
        self.tries += 1
        slots: Slots = np.array([pod.slot for pod in self._pods(some)], dtype=np.int64)
        with SimulatedRemoval(self.cluster, slots, seen=True), self.cluster.transaction() as transaction:
            return self._placed(transaction, some)

    def _placed(self, transaction: Transaction, some: Sequence[int]) -> FoundMoves | None:
        """Place the gang and what is moved: one after the other in some orders, or else all together."""
        largest = sorted(some, key=lambda index: (-self._largest(self.units[index].asks), index))
        for order in self._orders(largest):
            found = self._in_turn(transaction, order)
            if found is not None:
                return found
            transaction.rollback()
        alike = all(self.units[index].profile == self.profile for index in some)
        if not alike or len(self.cluster.nodes) > SMALL:
            return None
        return self._together(transaction, some)

    def _orders(self, largest: Sequence[int]) -> Iterator[list[int]]:
        """Yield orders to place in; -1 is the gang."""
        yield [-1, *largest]
        yield [*largest, -1]
        if len(largest) > 1:
            yield [-1, *largest[::-1]]

    def _in_turn(self, transaction: Transaction, order: Sequence[int]) -> FoundMoves | None:
        rows: dict[int, list[Rows]] = {}
        for index in order:
            asks, profile = (self.asks, self.profile) if index < 0 else self._of(index)
            found = self._place(transaction, asks, profile)
            if found is None:
                self._unplaced = index if index >= 0 and self._unplaced is None else self._unplaced
                return None
            rows[index] = found
        return FoundMoves(rows[-1], [(index, rows[index]) for index in sorted(rows) if index >= 0])

    def _place(self, transaction: Transaction, asks: Sequence[Ask], profile: Profile) -> list[Rows] | None:
        nodes = self.cluster.nodes
        if any(ask.topology is not None for ask in asks):
            near = place_together(nodes, transaction, asks, profile)
            return None if isinstance(near, Diagnosis) else near
        found = in_order(nodes, transaction, asks, hardest_first(nodes, asks), profile)
        return None if isinstance(found, int) else found

    def _together(self, transaction: Transaction, some: Sequence[int]) -> FoundMoves | None:
        """Place all at once, which looks for other arrangements; who must be near whom is another matter for each."""
        parts = [(-1, self.asks), *((index, self.units[index].asks) for index in some)]
        asks = [_apart(ask, index) for index, theirs in parts for ask in theirs]
        found = place_together(self.cluster.nodes, transaction, asks, self.profile)
        if isinstance(found, Diagnosis):
            return None
        left = iter(found)
        rows = {index: [next(left) for _ in theirs] for index, theirs in parts}
        return FoundMoves(rows[-1], [(index, rows[index]) for index in some])

    def _of(self, index: int) -> tuple[Sequence[Ask], Profile]:
        return self.units[index].asks, self.units[index].profile

    def _largest(self, asks: Sequence[Ask]) -> float:
        """Return which part of a node the largest pod of some asks takes."""
        offered = np.maximum(self.cluster.nodes.allocatable.max(axis=0, initial=1), 1)
        parts = (self.cluster.nodes.vector(ask.pod_class.requests)[: len(offered)] / offered for ask in asks)
        return max((float(part.max(initial=0.0)) for part in parts), default=0.0)


def _apart(ask: Ask, index: int) -> Ask:
    """Return an ask that is near nobody of another unit because both happen to call their sets alike."""
    if ask.topology is None:
        return ask
    named = (index, ask.topology.pod_set_group)
    return replace(ask, topology=replace(ask.topology, pod_set_group=named))
