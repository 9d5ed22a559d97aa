"""Choosing victims by trying: for gangs whose pods mind who is where, so that no sum tells whether they fit.

Units are put in order from the least harm; the shortest beginning of that order without which the gang fits is found by
halving. Then those that are not needed are put back, the most important first, halves at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tutti.cluster.cluster import Cluster
from tutti.cluster.transaction import Transaction
from tutti.placement.framework import Mask, Rows
from tutti.placement.gang import Ask, hardest_first
from tutti.placement.preemption.budgets import Coverage
from tutti.placement.preemption.enough import Enough
from tutti.placement.preemption.lifting import Lifting
from tutti.placement.preemption.units import Numbers, Units
from tutti.placement.profile import Profile
from tutti.placement.together import Shortfall, in_order, place_together


@dataclass(slots=True)
class ByTrial:
    """One choice.

    Attributes:
        seen: Whether it matters who is where, beyond the room they take.
        searching: Whether one order of the asks is not enough, so that others are tried each time.
    """

    cluster: Cluster
    asks: Sequence[Ask]
    units: Units
    coverage: Coverage
    profile: Profile
    enough: Enough
    seen: bool
    searching: bool = False
    _rows: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def choose(self) -> Mask | None:
        """Return bool[units] that must go; None where the gang does not fit even without all of them."""
        everybody = np.ones(len(self.units), dtype=np.bool_)
        if not self._fits(everybody):
            self.searching = True
            if not self._fits(everybody):
                return None
        order = self.units.least_harm_first(self.units.over_budget(self.cluster, everybody, self.coverage))
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            if self._fits(self._only(order[:middle])):
                high = middle
            else:
                low = middle + 1
        needed = self._only(order[:low])
        assert self._fits(needed)  # the shortest beginning was found by halving, or it is everybody
        return self._without_idle(needed, order[:low][::-1])

    def _without_idle(self, needed: Mask, most_important_first: Numbers) -> Mask:
        """Put back all that are not on the nodes where the gang would be, if that does no harm, then what can be."""
        used = np.zeros(len(self.cluster.nodes), dtype=np.bool_)
        used[self._rows] = True
        there = np.zeros(len(self.units), dtype=np.bool_)
        there[self.units.of[used[self.cluster.tenants.row[self.units.slots]]]] = True
        if self._fits(needed & there):
            needed = needed & there
        while True:
            left = self._put_back(most_important_first[needed[most_important_first]], needed)
            if not (needed & ~left).any():
                return left
            needed = left  # who was put back may be whom another pod must be near: then the others may not need to go

    def _put_back(self, some: Numbers, needed: Mask) -> Mask:
        """Put back what can be of some units, in order; returns bool[units] that must still go."""
        if not len(some):
            return needed
        without = needed.copy()
        without[some] = False
        if self._fits(without):
            return without
        if len(some) == 1:
            return needed
        half = len(some) // 2
        return self._put_back(some[half:], self._put_back(some[:half], needed))

    def _fits(self, gone: Mask) -> bool:
        if not self.enough(gone):
            return False
        lifting = Lifting(self.cluster, self.units.pods(gone), seen=self.seen)
        with lifting, self.cluster.transaction() as transaction:
            found = self._place(transaction)
        if isinstance(found, Shortfall | int):
            return False
        self._rows = np.concatenate(found)
        return True

    def _place(self, transaction: Transaction) -> list[Rows] | Shortfall | int:
        nodes = self.cluster.nodes
        if self.searching:
            return place_together(nodes, transaction, self.asks, self.profile)
        return in_order(nodes, transaction, self.asks, hardest_first(nodes, self.asks), self.profile)

    def _only(self, some: Numbers) -> Mask:
        out = np.zeros(len(self.units), dtype=np.bool_)
        out[some] = True
        return out
