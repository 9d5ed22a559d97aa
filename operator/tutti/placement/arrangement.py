"""Looking for an arrangement of a gang's roles where placing them one after another has failed.

Three ways, each cheaper and coarser than the next:

    orders    the ask that failed goes first; then every order of few asks
    domains   each ask in turn is held to one domain of a topology that ties roles together, tightest first
    pods      pod by pod with backtracking, over every node and, where rules depend on it, every order

The last way is exhaustive as far as its steps go: a step is an arrangement of some of the pods, which pod is where,
and each is looked at once. So a gang is refused wrongly only where more than `MOST_STEPS` arrangements would have to
be looked at. All those of four pods on four nodes are fewer where no rules tie them together, and those on three
nodes where rules do. Of larger gangs the coarser ways cover what roles ask of each other in practice. On large
clusters `MOST_ROWS` binds first: a step reads every node, and a gang that cannot be placed must not hold up those
behind it (under a tenth of a second, as measured). What could never be placed is not searched for: each ask must fit
alone, and all together must not ask for more of anything than there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, permutations

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.domains import Domains, means
from tutti.placement.feasible_capacity import reserve_given
from tutti.placement.framework import Counts, Mask, Rows, reserves
from tutti.placement.gang import Ask, has_room_together, place_ask, required_amounts
from tutti.placement.node_choice import NodeChoice, discriminating_scores
from tutti.placement.profile import Profile, pre_filter, static_filter_result
from tutti.placement.sequential import feasible
from tutti.placement.ties import best_first
from tutti.placement.upper_bounds import (
    has_affinity_satisfied,
    may_defer_affinity,
    upper_bound,
    upper_bound_in_all,
    without_affinity,
)

MOST_PODS = 64
"""Larger gangs have more arrangements than can be looked at."""

_LOOKS_OF_A_STEP = 8
"""A step looks over all nodes about twice for each ask that is open; of more than four asks fewer steps are tried."""

_ONE = np.ones(1, dtype=np.int64)
_Spot = tuple[int, int, bool]
"""An ask, a row, and whether the pod's affinity is left for later."""


@dataclass(slots=True)
class Backtracking:
    """One search, pod by pod.

    Attributes:
        asks: What is required; nothing extra.
        limit: How many arrangements are looked at at most.
        tried: How many have been.
    """

    nodes: NodeColumns
    transaction: Transaction
    asks: Sequence[Ask]
    profile: Profile
    limit: int
    tried: int = 0
    _placed_spots: list[_Spot] = field(default_factory=list)
    _looks: int = 0
    _seen: set[tuple[_Spot, ...]] = field(default_factory=set)
    _classes: list[PodClass] = field(default_factory=list)
    _waiting: list[bool] = field(default_factory=list)
    _any_order: bool = False
    _alike: bool = False

    def run(self, order: Sequence[int]) -> list[Rows] | None:
        """Return the rows of each ask's pods, or None where no arrangement was found; then nothing is taken."""
        if sum(ask.required for ask in self.asks) > MOST_PODS:
            return None
        self._classes = [ask.pod_class for ask in self.asks]
        self._waiting = [may_defer_affinity(pod_class, self._classes, self.nodes) for pod_class in self._classes]
        self._any_order = any(pod_class.needs_other_pods for pod_class in self._classes)
        self._alike = not any(pre_filter(ask.pod_class, self.nodes, ask.where, self.profile) for ask in self.asks)
        if not self._finish(list(order)):
            return None
        rows: list[list[int]] = [[] for _ in self.asks]
        for index, row, _ in self._placed_spots:
            rows[index].append(row)
        return [np.array(sorted(one), dtype=np.int64) for one in rows]

    def _finish(self, order: list[int]) -> bool:
        """Place what is left; returns whether that could be done."""
        left = [ask.required for ask in self.asks]
        for index, _, _ in self._placed_spots:
            left[index] -= 1
        if not any(left):
            return self._is_honoured()
        self.transaction.show()
        asks = [replace(ask, required=count) for ask, count in zip(self.asks, left, strict=True)]
        for ask in filter(_is_required, asks):
            self._looks += 1
            if int(upper_bound(self.nodes, ask, self._classes, self.profile).sum()) < ask.required:
                return False
        open_asks = [index for index in order if left[index]]
        for spot in self._next(open_asks if self._any_order else open_asks[:1]):
            arrangement = tuple(sorted((*self._placed_spots, spot)))
            if arrangement in self._seen:
                continue
            if self.tried >= self.limit or self._looks >= _LOOKS_OF_A_STEP * self.limit:
                return False
            self._seen.add(arrangement)
            self.tried += 1
            mark = self.transaction.mark()
            self._put(self.asks[spot[0]], spot[1])
            self._placed_spots.append(spot)
            if self._finish(order):
                return True
            self._placed_spots.pop()
            self.transaction.rollback(mark)
        return False

    def _put(self, ask: Ask, row: int) -> None:
        """Place one pod of an ask on a row that is open for it, with what filters give to such a pod."""
        giving = [one for one in pre_filter(ask.pod_class, self.nodes, ask.where, self.profile) if reserves(one)]
        for one in giving:
            one.add(row)
        self.transaction.put(np.array([row]), _ONE, ask.pod_class)
        reserve_given(giving, self.transaction)

    def _is_honoured(self) -> bool:
        """Whether all pods that were placed with its affinity deferred have what it asks for now."""
        self.transaction.show()
        return all(
            has_affinity_satisfied(self.asks[i].pod_class, [row], self.nodes)
            for i, row, later in self._placed_spots
            if later
        )

    def _next(self, indices: Sequence[int]) -> Iterator[_Spot]:
        """Yield where one more pod of these asks may go, the best node of each first; deferred ones only after all."""
        owing: list[_Spot] = []
        for index in indices:
            ask = self.asks[index]
            self._looks += 1
            now = self._open(ask.pod_class, ask)
            yield from ((index, row, False) for row in self._ranked(ask.pod_class, now))
            if self._waiting[index]:
                later = self._open(without_affinity(ask.pod_class), ask) & ~now
                owing += ((index, row, True) for row in self._ranked(ask.pod_class, later))
        yield from owing

    def _open(self, pod_class: PodClass, ask: Ask) -> Mask:
        """Return bool[rows]: where one more pod may go now."""
        mask = static_filter_result(pod_class, self.nodes, ask.where, self.profile).mask
        mask = self.profile.fit.capacity(self.nodes, pod_class, mask, most=1) > 0
        return feasible(mask, pre_filter(pod_class, self.nodes, ask.where, self.profile))

    def _ranked(self, pod_class: PodClass, mask: Mask) -> list[int]:
        """Return open rows, the best first; of rows that no ask could tell apart, the first."""
        rows = np.flatnonzero(mask)
        if not len(rows):
            return []
        choice = NodeChoice(
            self.nodes,
            self.transaction,
            pod_class,
            self.profile,
            mask.astype(np.int64),
            discriminating_scores(pod_class, self.nodes, self.profile),
        )
        ranked = rows[best_first(choice.keys(rows))]
        if self._alike:
            _, first = np.unique(self._features(ranked), axis=0, return_index=True)
            ranked = ranked[np.sort(first)]
        return [int(row) for row in ranked]

    def _features(self, rows: Rows) -> Rows:
        """Return int64[len(rows), features]: what tells nodes apart for asks that mind nobody."""
        names = dict.fromkeys(name for ask in self.asks for name in ask.pod_class.requests)
        columns = self.nodes.resource_index.columns(names)
        free = (self.nodes.allocatable[rows] - self.nodes.requested[rows])[:, columns]
        masks = [
            static_filter_result(ask.pod_class, self.nodes, ask.where, self.profile).mask[rows] for ask in self.asks
        ]
        return np.column_stack([free, *masks]).astype(np.int64)


MOST_STEPS = 512
"""How many placements each way tries at most."""

MOST_ROWS = 500_000
"""How many nodes may be looked at, counted once for each placement tried."""

_ALL_ORDERS_OF = 4
_LEAST_STEPS = 16

_Held = tuple[Mask | None, bool]
"""The rows an ask is held to, None for all; and whether its affinity is left for later."""


@dataclass(slots=True)
class ArrangementSearch:
    """One search for one gang; everything it takes is given back unless it finds something.

    Attributes:
        asks: What is required; nothing extra.
        steps: How many placements each way tries at most; 0 for as many as the cluster lets it.
        tried: How many placements have been tried.
    """

    nodes: NodeColumns
    transaction: Transaction
    asks: Sequence[Ask]
    profile: Profile
    steps: int = 0
    tried: int = 0
    _limit: int = 0
    _rooms: list[Counts] = field(default_factory=list)
    _classes: list[PodClass] = field(init=False)

    def __post_init__(self) -> None:
        self._classes = [ask.pod_class for ask in self.asks]

    def run(self, order: Sequence[int], failed: int) -> list[Rows] | None:
        """Look for an arrangement; `order` has been tried and did not fit at ask `failed`."""
        if any(self.asks[index].pod_class.refusal for index in order):
            return None
        self.transaction.show()
        self._rooms = [upper_bound(self.nodes, ask, self._classes, self.profile) for ask in self.asks]
        if self._is_hopeless():
            return None
        steps = self.steps or most_steps(self.nodes)
        found = self._by_order(order, failed, steps)
        if found is None:
            found = self._by_domain(order, failed, steps)
        if found is None:
            single = Backtracking(self.nodes, self.transaction, self.asks, self.profile, steps)
            found = single.run(order)
            self.tried += single.tried
        return found

    def _is_hopeless(self) -> bool:
        """Whether one ask alone has too little room, or all together ask for more of something than there is."""
        for room, ask in zip(self._rooms, self.asks, strict=True):
            if upper_bound_in_all(self.nodes, ask, self._classes, room) < ask.required:
                return True
        open_rows = np.logical_or.reduce([room > 0 for room in self._rooms])
        return not has_room_together(self.nodes, open_rows, self.asks, self.profile)

    def _by_order(self, order: Sequence[int], failed: int, steps: int) -> list[Rows] | None:
        """Try other orders: each time what failed goes to the front; then, for few asks, all that are left."""
        self._limit = self.tried + steps
        seen = {tuple(order)}
        now = _to_front(order, failed)
        while tuple(now) not in seen and self.tried < self._limit:
            seen.add(tuple(now))
            placed = self._in_order(now)
            if not isinstance(placed, int):
                return placed
            now = _to_front(now, placed)
        if len(order) > _ALL_ORDERS_OF:
            return None
        for one in permutations(order):
            if one not in seen and self.tried < self._limit:
                placed = self._in_order(one)
                if not isinstance(placed, int):
                    return placed
        return None

    def _in_order(self, order: Sequence[int]) -> list[Rows] | int:
        mark = self.transaction.mark()
        placed: dict[int, Rows] = {}
        for index in order:
            rows = self._place(index, (None, False))
            if rows is None:
                self.transaction.rollback(mark)
                return index
            placed[index] = rows
        return self._in_place(placed)

    def _by_domain(self, order: Sequence[int], failed: int, steps: int) -> list[Rows] | None:
        """Hold asks to single domains of the topologies that tie them together."""
        if not any(self._ties(index) for index in order):
            return None
        for one in dict.fromkeys((tuple(order), tuple(_to_front(order, failed)))):
            self._limit = self.tried + steps // 2
            found = self._held(one, {}, [])
            if found is not None:
                return self._in_place(found)
        return None

    def _held(self, order: Sequence[int], placed: dict[int, Rows], deferred: list[int]) -> dict[int, Rows] | None:
        """Place the asks of an order that are left, depth first over the rows each may be held to."""
        if not order:
            self.transaction.show()
            honoured = all(
                has_affinity_satisfied(self.asks[i].pod_class, placed[i].tolist(), self.nodes) for i in deferred
            )
            return placed if honoured else None
        index, mark = order[0], self.transaction.mark()
        for held in self._ways(index):
            if self.tried >= self._limit:
                return None
            rows = self._place(index, held)
            if rows is not None:
                owed = [*deferred, index] if held[1] else deferred
                found = self._held(order[1:], {**placed, index: rows}, owed)
                if found is not None:
                    return found
                self.transaction.rollback(mark)
        return None

    def _ways(self, index: int) -> Iterator[_Held]:
        """Yield what an ask may be held to: nothing, then each domain, then the same with its affinity left open."""
        yield None, False
        ties = self._ties(index)
        masks = [mask for key in ties for mask in islice(self._domains(index, key), MOST_STEPS)]
        yield from ((mask, False) for mask in masks)
        if may_defer_affinity(self.asks[index].pod_class, self._classes, self.nodes):
            yield from ((mask, True) for mask in masks)

    def _ties(self, index: int) -> list[str]:
        """Return the topology keys by which an ask wants pods of this gang, or is wanted by them, near or apart."""
        out: dict[str, None] = {}
        mine = self.asks[index].pod_class
        for other in self.asks:
            for one, its in ((mine, other.pod_class), (other.pod_class, mine)):
                for term in (*one.inter_pod.affinity, *one.inter_pod.anti_affinity):
                    if means(term.query, its, self.nodes):
                        out[term.topology_key] = None
        return list(out)

    def _domains(self, index: int, key: str) -> Iterator[Mask]:
        """Yield bool[rows] for each domain with room for an ask and those that must be where it is, tightest first."""
        domains = Domains.of(self.nodes, key)
        mine = self.asks[index]
        there = [mine]
        for other in self.asks:
            drawn = (term for term in other.pod_class.inter_pod.affinity if term.topology_key == key)
            if other is not mine and any(means(term.query, mine.pod_class, self.nodes) for term in drawn):
                there.append(other)
        enough = np.ones(domains.size, dtype=np.bool_)
        inside = [domains.sum_all(rooms) for rooms in self._rooms]
        for ask, room in zip(self.asks, inside, strict=True):
            if any(ask is one for one in there):
                enough &= room >= ask.required
        for name, amount in required_amounts(there, self.profile).items():
            column = self.nodes.resource_index.column(name)
            free = np.maximum(self.nodes.allocatable[:, column] - self.nodes.requested[:, column], 0)
            enough &= domains.sum_all(free) >= amount
        for code in np.argsort(inside[index], kind="stable").tolist():
            if enough[code]:
                yield domains.codes == code

    def _in_place(self, placed: dict[int, Rows]) -> list[Rows]:
        nothing = np.zeros(0, dtype=np.int64)
        return [placed.get(index, nothing) for index in range(len(self.asks))]

    def _place(self, index: int, held: _Held) -> Rows | None:
        self.tried += 1
        within, later = held
        ask = self.asks[index]
        if later:
            ask = replace(ask, pod_class=without_affinity(ask.pod_class))
        return place_ask(self.nodes, self.transaction, ask, self.profile, within=within)


def _is_required(ask: Ask) -> bool:
    return ask.required > 0


def most_steps(nodes: NodeColumns) -> int:
    """Return how many placements each way of a search tries at most on so many nodes."""
    return max(_LEAST_STEPS, min(MOST_STEPS, MOST_ROWS // max(1, len(nodes))))


def _to_front(order: Sequence[int], index: int) -> list[int]:
    return [index, *(one for one in order if one != index)]
