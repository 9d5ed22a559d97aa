"""How many pods find room in each domain of a topology, from its leaves upwards.

Rules: Kueue, tas_flavor_snapshot.go `fillInCounts` (0.20). Counted in pods and in slices (so many pods that must stay
in one domain of the slice level), both with and without a leader: a pod of another shape that has to be in the same
domain. A leader costs a domain as much as it costs the child in which it costs least.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tutti.placement.framework import Counts, Mask
from tutti.placement.topology.request import Wish
from tutti.placement.topology.tree import Index, Tree

_NO_END = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Room:
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


def in_leaves(pods: Counts, leaders: Mask | None = None, pods_led: Counts | None = None) -> Room:
    """Return what leaves have room for, in pods alone."""
    none = np.zeros(len(pods), dtype=np.int64)
    there = np.zeros(len(pods), dtype=np.bool_) if leaders is None else leaders
    return Room(pods, there, pods if pods_led is None else pods_led, none, none)


def in_domains(tree: Tree, leaves: Room, wish: Wish, *, top: int = 0) -> list[Room]:
    """Return what all domains have room for, per level from `top` down; nothing for the levels above."""
    by_level = [_sliced(leaves, wish, tree.lowest)]
    for level in range(tree.lowest, top, -1):
        by_level.append(_sliced(summed(by_level[-1], tree.starts(level), wish, level), wish, level - 1))
    return by_level[::-1]


def _sliced(room: Room, wish: Wish, level: int) -> Room:
    if level != wish.slice_level:
        return room
    return Room(room.pods, room.leaders, room.pods_led, room.pods // wish.size, room.pods_led // wish.size)


def summed(below: Room, starts: Index, wish: Wish, level: int) -> Room:
    """Sum up the domains of a level in those above them; `starts` are where the children of each begin."""
    inner = wish.inner.get(level, 1)
    pods, led = below.pods // inner * inner, below.pods_led // inner * inner
    total, slices = np.add.reduceat(pods, starts), np.add.reduceat(below.slices, starts)
    if not wish.leaders:
        return Room(total, np.zeros(len(total), dtype=np.bool_), total, slices, slices)
    leaders = np.logical_or.reduceat(below.leaders, starts)
    cost = np.minimum.reduceat(np.where(below.leaders, pods - led, _NO_END), starts)
    cost_slices = np.minimum.reduceat(np.where(below.leaders, below.slices - below.slices_led, _NO_END), starts)
    return Room(
        total,
        leaders,
        np.where(leaders, total - cost, 0),
        slices,
        np.where(leaders, slices - cost_slices, 0),
    )
