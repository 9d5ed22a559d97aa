"""Choosing victims by trying, for pods with inter-pod constraints, so that no sum tells whether they fit.

For a gang, units are put in order from the least cost; the shortest beginning of that order without which the gang
fits is found by halving. Then those that are not needed are reprieved, the most important first, halves at a time.
Users of one claim go together, or none has to go for its devices: it is asked once for all of them whether the gang
fits beside the devices of that claim, and where it does not, no more about each.

All trials of one choice take about as long as to place `MOST_PLACED` asks. Where they might take longer, it is first
read off the columns who has room beside the gang where it has been placed, and does not matter to it otherwise: these
stay, and nobody goes where the gang does not fit then. Whom the trials do not get to of all others, goes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tutti.cluster.classes import Feature
from tutti.cluster.devices.asks import ClaimKey
from tutti.cluster.transaction import Transaction
from tutti.placement.framework import Mask, Rows
from tutti.placement.gang import Ask, hardest_first
from tutti.placement.preemption.looks import Looks
from tutti.placement.preemption.pool import least_by_amounts, with_room_beside
from tutti.placement.preemption.search import VictimSearch
from tutti.placement.preemption.units import Numbers, SimulatedRemoval
from tutti.placement.together import fit_together, in_order


class ByTrial:
    """One choice.

    Args:
        search: Among whom, and by what.
        asks: What the gang wants.
        seen: Whether it matters who is where, beyond the room they take.
        within: bool[rows], where the gang may be; None where that is anywhere.
    """

    def __init__(self, search: VictimSearch, asks: Sequence[Ask], *, seen: bool, within: Mask | None = None) -> None:
        self._cluster, self._units, self._coverage = search.cluster, search.units, search.coverage
        self._profile, self._enough, self._trials = search.profile, search.enough, search.trials
        self._asks, self._seen, self._within = asks, seen, within
        self._weight = sum(1 + ask.required // _EQUAL_AS_ONE for ask in asks)
        self._searching = False  # whether one order of the asks is not enough, so that others are tried each time
        self._placed: list[Rows] = []

    def choose(self) -> Mask | None:
        """Return bool[units] that must go; None where the gang does not fit even without all of them."""
        everybody = np.ones(len(self._units), dtype=np.bool_)
        if not self._fits(everybody):
            self._searching = self._within is None
            if not self._fits(everybody):
                return None
        order = self._units.cheapest_first(self._units.over_budget(self._cluster, everybody, self._coverage))
        order = order[: self._shortest(order)]
        needed = self._without_idle(self._only(order))
        bound = self._bound_by_claims(needed)
        if not self._trials.allow(2 * int(needed.sum()) * self._cost(needed)):
            left = self._without_who_has_room(order[::-1], needed, bound)
            if left is None:
                return None
            needed = left
        return self._without_reprieved(order[::-1], needed, bound)

    def _shortest(self, order: Numbers) -> int:
        """Return how many units of an order have to go so that the gang fits; the last that fitted were these.

        Where not all of a halving can be tried it begins with as many as make room for all amounts together, goes up
        by less than a half, and ends early.
        """
        low, high, part = 0, len(order), 2
        if not self._trials.allow(_WHOLE_HALVING * self._cost(self._only(order))):
            low, part = least_by_amounts(self._cluster, self._units, order, self._asks), _SMALL_STEPS
        while low < high and self._trials.allow(_LEFT_FOR_MORE * self._cost(self._only(order[:high]))):
            middle = low + (high - low) // part
            if self._fits(self._only(order[:middle])):
                high = middle
            else:
                low = middle + 1
        return high

    def _without_idle(self, needed: Mask) -> Mask:
        """Reprieve all that are not on the nodes where the gang would be, if that does no harm."""
        used = np.zeros(len(self._cluster.nodes), dtype=np.bool_)
        used[np.concatenate(self._placed)] = True
        there = np.zeros(len(self._units), dtype=np.bool_)
        there[self._units.of[used[self._cluster.pod_columns.row[self._units.slots]]]] = True
        return needed & there if self._trials.allow(self._weight) and self._fits(needed & there) else needed

    def _without_who_has_room(self, most_important_first: Numbers, needed: Mask, bound: Mask) -> Mask | None:
        """Reprieve who has room beside the gang where it was placed last; None where it does not fit then."""
        may = needed & ~bound & ~self._in_the_way(np.concatenate(self._placed))
        some = most_important_first[may[most_important_first]]
        placed = list(zip(self._asks, self._placed, strict=True))
        stays = with_room_beside(self._cluster, self._units, needed, some, placed)
        left = needed.copy()
        left[stays] = False
        if self._fits(left):
            return left
        left = self._reprieve(stays, needed)
        return None if (left == needed).all() else left

    def _in_the_way(self, rows: Rows) -> Mask:
        """Return bool[units]: who may matter to pods on some rows beyond the room it takes."""
        out = np.zeros(len(self._units), dtype=np.bool_)
        if self._seen:
            looks = Looks.of(self._cluster, self._asks, self._profile)
            slots = self._units.slots
            there = np.flatnonzero(looks.near(self._cluster, rows)[self._cluster.pod_columns.row[slots]])
            minded = [looks.at(pod) for pod in self._cluster.pod_columns.at(slots[there])]
            out[self._units.of[there[minded]]] = True
        return out

    def _without_reprieved(self, most_important_first: Numbers, needed: Mask, bound: Mask) -> Mask:
        """Reprieve what can be."""
        while True:
            loose = needed & ~bound
            left = self._reprieve(most_important_first[loose[most_important_first]], needed)
            if not (needed & ~left).any():
                return left
            needed = left  # who was put back may be whom another pod must be near: then the others may not need to go

    def _bound_by_claims(self, needed: Mask) -> Mask:
        """Return bool[units]: which all must go, because the gang needs the devices that several of them share."""
        bound = np.zeros(len(self._units), dtype=np.bool_)
        if not any(ask.pod_class.features & Feature.DEVICES for ask in self._asks):
            return bound
        holders, sharing = self._cluster.device_users.holders, dict[ClaimKey, set[int]]()
        mine = np.flatnonzero(needed[self._units.of])
        records = self._cluster.pod_columns.at(self._units.slots[mine])
        for record, unit in zip(records, self._units.of[mine].tolist(), strict=True):
            for claim in holders.claims_for(record):
                sharing.setdefault(claim, set()).add(unit)
        for claim, several in sharing.items():
            users = list(several)
            if len(users) < SEVERAL or bound[users].all() or not self._trials.allow(self._weight):
                continue
            if not self._fits(needed, held_fast=claim):
                bound[users] = True
        return bound

    def _reprieve(self, some: Numbers, needed: Mask) -> Mask:
        """Put back what can be of some units, in order; returns bool[units] that must still go."""
        if not len(some) or not self._trials.allow(self._cost(needed)):
            return needed
        without = needed.copy()
        without[some] = False
        if self._fits(without):
            return without
        if len(some) == 1:
            return needed
        half = len(some) // 2
        return self._reprieve(some[half:], self._reprieve(some[:half], needed))

    def _fits(self, gone: Mask, *, held_fast: ClaimKey | None = None) -> bool:
        """Whether the gang fits if some units are gone, and one claim keeps its devices."""
        if not self._enough(gone):
            return False
        self._trials.note(self._cost(gone))
        holders = self._cluster.device_users.holders
        holders.held_fast = set() if held_fast is None else {held_fast}
        try:
            removal = SimulatedRemoval(self._cluster, self._units.pods(gone), seen=self._seen)
            with removal, self._cluster.transaction() as transaction:
                found = self._place(transaction)
        finally:
            holders.held_fast = set()
        if found is None or isinstance(found, int):
            return False
        self._placed = found
        return True

    def _cost(self, gone: Mask) -> int:
        """Return how many asks are placed in the time of a trial without some units."""
        return self._weight + (int(gone.sum()) // _GONE_AS_ONE if self._seen else 0)

    def _place(self, transaction: Transaction) -> list[Rows] | int | None:
        nodes = self._cluster.nodes
        if self._searching:
            return fit_together(nodes, transaction, self._asks, self._profile)
        order = hardest_first(nodes, self._asks)
        return in_order(nodes, transaction, self._asks, order, self._profile, within=self._within)

    def _only(self, some: Numbers) -> Mask:
        out = np.zeros(len(self._units), dtype=np.bool_)
        out[some] = True
        return out


_WHOLE_HALVING = 32
"""Where a gang can be placed so many times, all of a halving can be, and what follows it."""

_SMALL_STEPS = 8
_LEFT_FOR_MORE = 4
"""A halving leaves so many trials for what follows it."""

_GONE_AS_ONE = 128
"""To take so many pods out, and back, takes about as long as one ask, where it is seen who is where."""

_EQUAL_AS_ONE = 16
"""To place so many equal pods more takes about as long as one ask more."""

SEVERAL = 3
"""Of so many users of one claim, or more, it is asked for all at once whether its devices are needed."""
