"""How many pods each domain of a topology has room for, and how many it is given.

Rules: Kueue, tas_flavor_snapshot.go (0.20), `fillInCounts` for the room. Counted in pods and in slices (so many pods
that must stay in one domain of the slice level), both with and without a leader: a pod of another shape that has to
be in the same domain. A leader costs a domain as much as it costs the child in which it costs least.

Domains are filled in a given order, and the last one used is the tightest that will do. A leader goes to the first
domain that can have it without losing room that is needed. Several sets of pods, each with domains of its own, are
given out in one pass over arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tutti.placement.framework import Counts, Mask
from tutti.placement.topology.request import SizedRequest
from tutti.placement.topology.tree import DomainTree, Index

_NO_COST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class DomainCapacity:
    """What the domains of one level have room for; all int64[domains] but `leaders`.

    Attributes:
        leaders: bool[domains], whether a leader finds room.
        pods_led: Pods beside a leader; where no leader is asked for, the same as `pods`.
        slices: Whole slices; 0 below the slice level. `slices_led` likewise.
    """

    pods: Counts
    leaders: Mask
    pods_led: Counts
    slices: Counts
    slices_led: Counts

    def units(self, *, led: bool, whole: bool) -> Counts:
        """Return the slices, or the pods, with or without a leader."""
        if whole:
            return self.slices_led if led else self.slices
        return self.pods_led if led else self.pods


def leaf_capacity(pods: Counts, leaders: Mask | None = None, pods_led: Counts | None = None) -> DomainCapacity:
    """Return what leaves have room for, in pods alone."""
    none = np.zeros(len(pods), dtype=np.int64)
    there = np.zeros(len(pods), dtype=np.bool_) if leaders is None else leaders
    return DomainCapacity(pods, there, pods if pods_led is None else pods_led, none, none)


def domain_capacity(
    tree: DomainTree, leaves: DomainCapacity, wish: SizedRequest, *, top: int = 0
) -> list[DomainCapacity]:
    """Return what all domains have room for, per level from `top` down; nothing for the levels above."""
    by_level = [_sliced(leaves, wish, tree.lowest)]
    for level in range(tree.lowest, top, -1):
        by_level.append(_sliced(sum_of_children(by_level[-1], tree.starts(level), wish, level), wish, level - 1))
    return by_level[::-1]


def _sliced(room: DomainCapacity, wish: SizedRequest, level: int) -> DomainCapacity:
    if level != wish.slice_level:
        return room
    return DomainCapacity(room.pods, room.leaders, room.pods_led, room.pods // wish.size, room.pods_led // wish.size)


def sum_of_children(below: DomainCapacity, starts: Index, wish: SizedRequest, level: int) -> DomainCapacity:
    """Sum up the domains of a level in those above them; `starts` are where the children of each begin."""
    inner = wish.inner.get(level, 1)
    pods, led = below.pods // inner * inner, below.pods_led // inner * inner
    total, slices = np.add.reduceat(pods, starts), np.add.reduceat(below.slices, starts)
    if not wish.leaders:
        return DomainCapacity(total, np.zeros(len(total), dtype=np.bool_), total, slices, slices)
    leaders = np.logical_or.reduceat(below.leaders, starts)
    cost = np.minimum.reduceat(np.where(below.leaders, pods - led, _NO_COST), starts)
    cost_slices = np.minimum.reduceat(np.where(below.leaders, below.slices - below.slices_led, _NO_COST), starts)
    return DomainCapacity(
        total,
        leaders,
        np.where(leaders, total - cost, 0),
        slices,
        np.where(leaders, slices - cost_slices, 0),
    )


_UNBOUNDED = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class FillTargets:
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

    def at(self, order: Index) -> FillTargets:
        """Return the same with its domains in another order."""
        return FillTargets(
            self.domains[order],
            self.lot[order],
            self.units[order],
            self.led[order],
            self.leaders[order],
            self.needed,
            self.led_lot,
        )


@dataclass(frozen=True, slots=True, eq=False)
class FillCounts:
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


def fill_domains(lots: FillTargets, *, tight: bool) -> FillCounts:
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
    return FillCounts(lots.domains[used], parts[used], int(lots.domains[leader]) if leader >= 0 else -1, missing)


def _leader_first(lots: FillTargets) -> tuple[FillTargets, int]:
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


def _tightest(lots: FillTargets, last: Index, left: Counts, front: int) -> Index:
    """Return per lot the first domain, from the last one on, of those with the least room that is enough."""
    done = last >= 0
    units, able = lots.units, np.arange(len(lots.units)) >= np.where(done, last, len(left))[lots.lot]
    if front >= 0 and last[lots.led_lot] == front:
        led = lots.lot == lots.led_lot
        units, able = np.where(led, lots.led, units), able & (lots.leaders | ~led)
    able &= units >= np.where(done, left[last], 0)[lots.lot]
    starts = np.searchsorted(lots.lot, np.arange(len(last)))
    cost = np.where(able, units, _UNBOUNDED)
    least = np.minimum.reduceat(cost, starts)
    return np.where(done, _first(able & (cost == least[lots.lot]), lots.lot, starts), -1)


def _first(chosen: Mask, lot: Index, starts: Index) -> Index:
    """Return int64[lots]: the first chosen position of each lot, -1 for none."""
    at = np.flatnonzero(chosen)
    out = np.full(len(starts), -1, dtype=np.int64)
    lots, first = np.unique(lot[at], return_index=True)
    out[lots] = at[first]
    return out
