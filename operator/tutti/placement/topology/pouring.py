"""Pouring pods into domains in a given order: each is filled, and the last one used is the tightest that will do.

Rules: Kueue, tas_flavor_snapshot.go (0.20). A leader goes to the first domain that can have it without losing room
that is needed. Several lots of pods, each with domains of its own, are poured in one pass over arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tutti.placement.framework import Counts, Mask
from tutti.placement.topology.tree import Index

_NO_END = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Lots:
    """Domains to pour into.

    Attributes:
        domains: int64[k], in the order of their use, those of one lot side by side.
        lot: int64[k], which lot each belongs to, rising from 0 without gaps.
        units: int64[k], what each has room for; `led` beside a leader.
        leaders: bool[k], which have room for a leader.
        needed: int64[lots], what is to be poured.
        led_lot: The lot that a leader goes with; -1 for none.
    """

    domains: Index
    lot: Index
    units: Counts
    led: Counts
    leaders: Mask
    needed: Counts
    led_lot: int = -1

    def at(self, order: Index) -> Lots:
        """Return the same with its domains in another order."""
        return Lots(
            self.domains[order],
            self.lot[order],
            self.units[order],
            self.led[order],
            self.leaders[order],
            self.needed,
            self.led_lot,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Poured:
    """What came of it.

    Attributes:
        domains: int64[k], those used, in order; `units` int64[k], what each got.
        leader: The domain of the leader; -1 for none.
        missing: int64[lots], what found no room.
    """

    domains: Index
    units: Counts
    leader: int
    missing: Counts


def pour(lots: Lots, *, tight: bool) -> Poured:
    """Fill the domains of each lot in order; with `tight`, the last one is the first of the tightest that will do."""
    lots, front = _leader_first(lots)
    starts = np.searchsorted(lots.lot, np.arange(len(lots.needed)))
    units = lots.units.copy()
    floor = starts.copy()
    if front >= 0:
        begin = int(starts[lots.led_lot])
        units[begin : front + 1] = lots.led[begin : front + 1]
        floor[lots.led_lot] = front
    before = np.cumsum(units) - units
    before -= before[starts][lots.lot]
    left = lots.needed[lots.lot] - before
    parts = np.clip(left, 0, units)
    used = parts > 0
    leader = front
    last = _first((units >= left) & (np.arange(len(units)) >= floor[lots.lot]), lots.lot, starts)
    if tight:
        best = _tightest(lots, last, np.maximum(left, 0), front)
        swapped = np.flatnonzero(best != last)
        parts[best[swapped]] = np.maximum(left[last[swapped]], 0)
        parts[last[swapped]] = 0
        if front >= 0 and last[lots.led_lot] == front:
            leader = int(best[lots.led_lot])
        used = parts > 0
    missing = np.maximum(lots.needed - np.add.reduceat(parts, starts), 0)
    if leader >= 0:
        used[leader] = True
    return Poured(lots.domains[used], parts[used], int(lots.domains[leader]) if leader >= 0 else -1, missing)


def _leader_first(lots: Lots) -> tuple[Lots, int]:
    """Move the leader's domain to the front of its lot; returns where the leader then goes, -1 for nowhere."""
    if lots.led_lot < 0:
        return lots, -1
    mine = np.flatnonzero(lots.lot == lots.led_lot)
    cost = lots.units[mine] - lots.led[mine]
    spare = int(lots.units[mine].sum()) - int(lots.needed[lots.led_lot])
    able = np.flatnonzero(lots.leaders[mine])
    cheap = able[cost[able] <= spare]
    if not len(cheap):
        return lots, int(mine[able[0]]) if len(able) else -1
    order = np.arange(len(lots.domains))
    order[mine] = np.concatenate((mine[cheap[:1]], np.delete(mine, cheap[0])))
    return lots.at(order), int(mine[0])


def _tightest(lots: Lots, last: Index, left: Counts, front: int) -> Index:
    """Return per lot the first domain, from the last one on, of those with the least room that is enough."""
    done = last >= 0
    units, able = lots.units, np.arange(len(lots.units)) >= np.where(done, last, len(left))[lots.lot]
    if front >= 0 and last[lots.led_lot] == front:
        led = lots.lot == lots.led_lot
        units, able = np.where(led, lots.led, units), able & (lots.leaders | ~led)
    able &= units >= np.where(done, left[last], 0)[lots.lot]
    starts = np.searchsorted(lots.lot, np.arange(len(last)))
    cost = np.where(able, units, _NO_END)
    least = np.minimum.reduceat(cost, starts)
    return np.where(done, _first(able & (cost == least[lots.lot]), lots.lot, starts), -1)


def _first(chosen: Mask, lot: Index, starts: Index) -> Index:
    """Return int64[lots]: the first chosen position of each lot, -1 for none."""
    at = np.flatnonzero(chosen)
    out = np.full(len(starts), -1, dtype=np.int64)
    lots, first = np.unique(lot[at], return_index=True)
    out[lots] = at[first]
    return out
