"""Placing a small gang pod by pod with backtracking: exhaustive, as far as its steps go.

A step is an arrangement of some of the pods, which pod is where; each is looked at once, however it is come by. Where
no rule depends on the order, asks are taken in one order; where roles want company or balance, any may be next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.choosing import Choice, settle, telling
from tutti.placement.company import allowed
from tutti.placement.credit import has_company, may_go_on_credit, on_credit
from tutti.placement.framework import Mask, Rows, Settling
from tutti.placement.gang import Ask
from tutti.placement.judging import standing, tallies
from tutti.placement.profile import Profile
from tutti.placement.roominess import room_alone

MOST_PODS = 64
"""Larger gangs have more arrangements than can be looked at."""

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
    _spots: list[_Spot] = field(default_factory=list)
    _seen: set[tuple[_Spot, ...]] = field(default_factory=set)
    _classes: list[PodClass] = field(default_factory=list)
    _waiting: list[bool] = field(default_factory=list)
    _any_order: bool = False
    _alike: bool = False

    def run(self, order: Sequence[int]) -> list[Rows] | None:
        """Return the rows of each ask's pods, or None where no arrangement was found; then nothing is taken."""
        if sum(ask.required for ask in self.asks) > MOST_PODS:
            return None
        self._classes = [ask.klass for ask in self.asks]
        self._waiting = [may_go_on_credit(klass, self._classes, self.nodes) for klass in self._classes]
        self._any_order = any(klass.minds_company for klass in self._classes)
        self._alike = not any(tallies(ask.klass, self.nodes, ask.where, self.profile) for ask in self.asks)
        if not self._finish(list(order)):
            return None
        rows: list[list[int]] = [[] for _ in self.asks]
        for index, row, _ in self._spots:
            rows[index].append(row)
        return [np.array(sorted(one), dtype=np.int64) for one in rows]

    def _finish(self, order: list[int]) -> bool:
        """Place what is left; returns whether that could be done."""
        left = [ask.required for ask in self.asks]
        for index, _, _ in self._spots:
            left[index] -= 1
        if not any(left):
            return self._is_honoured()
        self.transaction.show()
        asks = [replace(ask, required=count) for ask, count in zip(self.asks, left, strict=True)]
        for ask in asks:
            if ask.required and int(room_alone(self.nodes, ask, self._classes, self.profile).sum()) < ask.required:
                return False
        open_asks = [index for index in order if left[index]]
        for spot in self._next(open_asks if self._any_order else open_asks[:1]):
            arrangement = tuple(sorted((*self._spots, spot)))
            if arrangement in self._seen:
                continue
            if self.tried >= self.limit:
                return False
            self._seen.add(arrangement)
            self.tried += 1
            mark = self.transaction.mark()
            self._put(self.asks[spot[0]], spot[1])
            self._spots.append(spot)
            if self._finish(order):
                return True
            self._spots.pop()
            self.transaction.rollback(mark)
        return False

    def _put(self, ask: Ask, row: int) -> None:
        """Place one pod of an ask on a row that is open for it, with what filters give to such a pod."""
        giving = [one for one in tallies(ask.klass, self.nodes, ask.where, self.profile) if isinstance(one, Settling)]
        for one in giving:
            one.add(row)
        self.transaction.put(np.array([row]), _ONE, ask.klass)
        settle(giving, self.transaction)

    def _is_honoured(self) -> bool:
        """Whether all pods that were placed on credit have their company now."""
        self.transaction.show()
        return all(has_company(self.asks[i].klass, [row], self.nodes) for i, row, later in self._spots if later)

    def _next(self, indices: Sequence[int]) -> Iterator[_Spot]:
        """Yield where one more pod of these asks may go, the best node of each first; on credit only after all."""
        owing: list[_Spot] = []
        for index in indices:
            ask = self.asks[index]
            now = self._open(ask.klass, ask)
            yield from ((index, row, False) for row in self._ranked(ask.klass, now))
            if self._waiting[index]:
                later = self._open(on_credit(ask.klass), ask) & ~now
                owing += ((index, row, True) for row in self._ranked(ask.klass, later))
        yield from owing

    def _open(self, klass: PodClass, ask: Ask) -> Mask:
        """Return bool[rows]: where one more pod may go now."""
        mask = standing(klass, self.nodes, ask.where, self.profile).mask
        mask = self.profile.fit.capacity(self.nodes, klass, mask, most=1) > 0
        return allowed(mask, tallies(klass, self.nodes, ask.where, self.profile))

    def _ranked(self, klass: PodClass, mask: Mask) -> list[int]:
        """Return open rows, the best first; of rows that no ask could tell apart, the first."""
        rows = np.flatnonzero(mask)
        if not len(rows):
            return []
        choice = Choice(
            self.nodes,
            self.transaction,
            klass,
            self.profile,
            mask.astype(np.int64),
            telling(klass, self.nodes, self.profile),
        )
        ranked = rows[np.argsort(-choice.worth(rows), kind="stable")]
        if self._alike:
            _, first = np.unique(self._features(ranked), axis=0, return_index=True)
            ranked = ranked[np.sort(first)]
        return [int(row) for row in ranked]

    def _features(self, rows: Rows) -> Rows:
        """Return int64[len(rows), features]: what tells nodes apart for asks that mind nobody."""
        names = dict.fromkeys(name for ask in self.asks for name in ask.klass.requests)
        columns = self.nodes.axis.columns(names)
        free = (self.nodes.allocatable[rows] - self.nodes.requested[rows])[:, columns]
        masks = [standing(ask.klass, self.nodes, ask.where, self.profile).mask[rows] for ask in self.asks]
        return np.column_stack([free, *masks]).astype(np.int64)
