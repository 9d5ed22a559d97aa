"""Which domains of a topology pods go to, once it is known what each has room for.

Rules: Kueue, tas_flavor_snapshot.go (0.20). Pods that must or should stay together go to the domain that fits most
tightly; if none has room for all, to one a level up as far as they may, or, where they may be in several, to as few of
the widest as possible, the last one again the tightest. Pods that may be anywhere fill up the domains with the least
room first. Then, level by level downwards, the same among the children.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutti.placement.framework import Counts
from tutti.placement.topology.balancing import balanced
from tutti.placement.topology.fill import DomainCapacity, FillCounts, FillTargets, fill_domains
from tutti.placement.topology.request import SizedRequest
from tutti.placement.topology.tree import DomainTree, Index


@dataclass(frozen=True, slots=True, eq=False)
class TopologyAssignment:
    """Where pods go.

    Attributes:
        leaves: int64[k], without repetition; `pods` int64[k], how many go to each, 0 for one with the leader alone.
        leader: The leaf of the leader; -1 for none.
    """

    leaves: Index
    pods: Counts
    leader: int = -1


@dataclass(frozen=True, slots=True)
class InsufficientRoom:
    """There is too little room.

    Attributes:
        fits: For how many slices (pods, where a slice is one) there is, in one domain or in all.
        level: Index of the level at which this was found.
        domain: The domain of it with the most room; -1 where there is none or several count.
    """

    fits: int
    level: int
    domain: int = -1


def assign_domains(
    tree: DomainTree, rooms: Sequence[DomainCapacity], wish: SizedRequest
) -> TopologyAssignment | InsufficientRoom:
    """Choose leaves.

    Args:
        tree: The domains.
        rooms: What all of them have room for, per level.
        wish: What is to be placed.
    """
    found = balanced(tree, rooms, wish) if wish.balanced else None
    if found is not None:
        at, poured = found
        return _descend(tree, rooms, wish, at, poured, pooled=False)
    chosen = _choose(rooms, wish, wish.level)
    if isinstance(chosen, InsufficientRoom):
        return chosen
    return _descend(tree, rooms, wish, *chosen, pooled=True)


def _choose(rooms: Sequence[DomainCapacity], wish: SizedRequest, at: int) -> tuple[int, FillCounts] | InsufficientRoom:
    """Return the level, and the domains of it, in which there is room for all."""
    room, led = rooms[at], bool(wish.leaders)
    if not len(room.pods):
        return InsufficientRoom(0, at)
    units = room.units(led=led, whole=True)
    enough = units >= wish.slices
    if led:
        enough &= room.leaders
    if enough.any():
        able = np.flatnonzero(enough)
        order = np.lexsort((able, room.pods_led[able], units[able]))
        return at, _only(int(able[order[0]]), wish)
    order = _led_order(room, wish)
    if at == wish.limit:
        top = int(order[0])
        return InsufficientRoom(int(room.slices[top]), at, top)
    if at > 0 and not wish.loose:
        return _choose(rooms, wish, at - 1)
    return _several(room, wish, order, at)


def _only(domain: int, wish: SizedRequest) -> FillCounts:
    return FillCounts(
        np.array([domain]), np.array([wish.slices]), domain if wish.leaders else -1, np.zeros(1, dtype=np.int64)
    )


def _several(
    room: DomainCapacity, wish: SizedRequest, order: Index, at: int
) -> tuple[int, FillCounts] | InsufficientRoom:
    """Return as many domains as it takes: the leader's first."""
    if wish.leaders:
        if not room.leaders.any():
            return InsufficientRoom(0, at)
        spare = int(room.slices.sum()) - wish.slices
        cheap = room.leaders[order] & (room.slices[order] - room.slices_led[order] <= spare)
        first = order[int(cheap.argmax())]
        rest = _order(room, wish, np.delete(np.arange(len(order)), first))
        order = np.concatenate(([first], rest))
    else:
        order = _order(room, wish, np.arange(len(order)))
    poured = _fill_pooled(room, wish, order)
    missing = int(poured.missing[0])
    return InsufficientRoom(wish.slices - missing, at) if missing else (at, poured)


def _descend(
    tree: DomainTree, rooms: Sequence[DomainCapacity], wish: SizedRequest, at: int, poured: FillCounts, *, pooled: bool
) -> TopologyAssignment | InsufficientRoom:
    """Go down to the leaves: above the slice level all domains used are one, below each keeps its own."""
    pods, leader = poured.units * wish.size, poured.leader
    domains = poured.domains
    for level in range(at + 1, tree.lowest + 1):
        room = rooms[level]
        parents = tree.parents[level]
        whose = np.full(int(parents[-1]) + 1, -1, dtype=np.int64)
        whose[domains] = np.arange(len(domains))
        below = np.flatnonzero(whose[parents] >= 0)
        if pooled and level <= wish.slice_level:
            poured = _fill_pooled(room, wish, _order(room, wish, below))
            size = wish.size
        else:
            size = wish.size if level <= wish.slice_level else wish.inner.get(level, 1)
            led = int(whose[leader]) if leader >= 0 else -1
            poured = _fill_each(room, wish, below, whose[parents[below]], pods // size, led, level, size)
        if poured.missing.any() or (wish.leaders and poured.leader < 0):
            return InsufficientRoom(int(poured.units.sum()), level)
        domains, pods, leader = poured.domains, poured.units * size, poured.leader
    order = np.argsort(domains)
    return TopologyAssignment(domains[order], pods[order], leader)


def _fill_pooled(room: DomainCapacity, wish: SizedRequest, order: Index) -> FillCounts:
    """Pour all slices into these domains, in order."""
    lots = FillTargets(
        order,
        np.zeros(len(order), dtype=np.int64),
        room.slices[order],
        room.slices_led[order],
        room.leaders[order],
        np.array([wish.slices]),
        0 if wish.leaders else -1,
    )
    return fill_domains(lots, tight=not wish.loose)


def _fill_each(
    room: DomainCapacity,
    wish: SizedRequest,
    below: Index,
    lot: Index,
    needed: Counts,
    led_lot: int,
    level: int,
    size: int,
) -> FillCounts:
    """Pour what each parent has into its children, in units of `size` pods.

    Args:
        room: That of the children's level.
        wish: What is to be placed.
        below: int64[k], the children.
        lot: int64[k], the parent of each.
        needed: int64[parents], units.
        led_lot: The parent that has the leader; -1 for none.
        level: The children's.
        size: Pods of a unit.
    """
    if level <= wish.slice_level:
        units, led = room.slices[below], room.slices_led[below]
    else:
        units, led = room.pods[below] // size, room.pods_led[below] // size
    slices = room.slices[below]  # as upstream, smaller slices do not count in the order
    order = np.lexsort((below, room.pods[below], slices if wish.loose else -slices, lot))
    lots = FillTargets(below, lot, units, led, room.leaders[below], needed, led_lot).at(order)
    return fill_domains(lots, tight=not wish.loose)


def _order(room: DomainCapacity, wish: SizedRequest, domains: Index) -> Index:
    """Return domains in the order of their use: with the most slices first, or the fewest where all are loose."""
    slices = room.slices[domains]
    return domains[np.lexsort((domains, room.pods[domains], slices if wish.loose else -slices))]


def _led_order(room: DomainCapacity, wish: SizedRequest) -> Index:
    """Return all domains in this order, those with room for a leader first."""
    slices = room.slices_led
    every = np.arange(len(slices))
    return np.lexsort((every, room.pods_led, slices if wish.loose else -slices, ~room.leaders))
