"""The balanced choice: about as many pods in each domain used, so that none of them holds the others up.

Rules: Kueue, tas_balanced_placement.go (0.20), for pods that should be together in a level. Among the domains of that
level that share a parent, the best are those on which the least filled domain one level below gets the most; then the
fewest. All others stay empty. Where this cannot be, the caller falls back to the tightest choice.

Deviations: only levels in which slices are counted are thinned out; and where the set of domains with the least room
in pods cannot hold the slices, the one with the least room in slices is taken. Kueue's code then falls back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti.placement.topology.pouring import Poured
from tutti.placement.topology.request import Wish
from tutti.placement.topology.room import Room, summed
from tutti.placement.topology.subsets import least_subset
from tutti.placement.topology.tree import Index, Tree


@dataclass(frozen=True, slots=True, eq=False)
class _Thinned:
    """Domains of one parent, with what is left of their level and the one below without those that hold little."""

    domains: Index
    room: Room
    below: Room
    least: int
    used: int


def balanced(tree: Tree, rooms: Sequence[Room], wish: Wish) -> tuple[int, Poured] | None:
    """Return the level and its domains, with how many slices go to each; None where it cannot be balanced."""
    if not wish.slices:
        return None
    best: _Thinned | None = None
    for domains in _siblings(tree, wish):
        found = _thin(tree, rooms, wish, domains, best.least if best else 0)
        if found and (best is None or (-found.least, found.used) < (-best.least, best.used)):
            best = found
    if best is None or best.least <= 0:
        return None
    if wish.level >= wish.slice_level:
        poured = _fill(best.room, wish, best.domains, best.least)
        return None if poured is None else (wish.level, poured)
    spread = _evenness(best.below, tree.parents[wish.level + 1])
    slices = best.room.slices_led if wish.leaders else best.room.slices
    first = np.lexsort(tuple(key[best.domains] for key in (-spread, -slices, ~best.room.leaders)))
    chosen = _smallest(best.room, wish, best.domains[first], whole=False)
    if chosen is None:
        return None
    below = np.flatnonzero(np.isin(tree.parents[wish.level + 1], chosen))
    poured = _fill(best.below, wish, below, best.least)
    return None if poured is None else (wish.level + 1, poured)


def _siblings(tree: Tree, wish: Wish) -> Iterator[Index]:
    """Yield the domains of the level asked for, those of each parent together."""
    parents = tree.parents[wish.level]
    starts = tree.starts(wish.level) if wish.level else np.zeros(min(1, len(parents)), dtype=np.int64)
    yield from (domains for domains in np.split(np.arange(len(parents)), starts[1:]) if len(domains))


def _thin(tree: Tree, rooms: Sequence[Room], wish: Wish, domains: Index, at_least: int) -> _Thinned | None:
    """Return what is left of some domains if each used is to have as many slices as possible; None if less than that.

    With a leader, a second try leaves room for it in the last domain used.
    """
    deeper = wish.level < wish.slice_level
    lower = np.flatnonzero(np.isin(tree.parents[wish.level + 1], domains)) if deeper else domains
    room = rooms[wish.level + deeper]
    greedy = _greedy(room, wish, lower)
    if greedy is None:
        return None
    count, led, last = greedy
    least = wish.slices // count
    least = min([least, *(int(room.slices_led[one]) for one in led), *(int(room.slices[one]) for one in last)])
    reserved = min([least, *(int(room.slices_led[one]) for one in last)]) if wish.leaders else least
    for many in dict.fromkeys((least, reserved)):
        if many <= 0 or many < at_least:
            return None
        here, below = _without(tree, rooms, wish, many)
        found = _greedy(here, wish, domains)
        if found is not None:
            return _Thinned(domains, here, below, many, found[0])
    return None


def _greedy(room: Room, wish: Wish, domains: Index) -> tuple[int, list[int], list[int]] | None:
    """Fill the domains with the most room first.

    Returns:
        How many that takes, the one with the leader and the last without, where there are such; None if all are
        too few.
    """
    left, led = wish.slices, []
    if wish.leaders:
        order = _led_first(room, domains)
        if not len(order) or not room.leaders[order[0]]:
            return None
        led, domains = [int(order[0])], order[1:]
        left -= int(room.slices_led[led[0]])
    slices = room.slices[domains]
    order = np.lexsort((domains, room.pods[domains], -slices))
    filled = np.cumsum(slices[order])
    more = int(np.searchsorted(filled, left)) + 1 if left > 0 else 0
    if more > len(order):
        return None
    return len(led) + more, led, [int(domains[order[more - 1]])] if more else []


def _without(tree: Tree, rooms: Sequence[Room], wish: Wish, least: int) -> tuple[Room, Room]:
    """Return the level asked for, and the one below, without the domains that hold fewer slices than that."""
    if wish.level >= wish.slice_level:
        here = _kept(rooms[wish.level], wish, least)
        return here, here
    level = wish.level + 1
    below = _kept(rooms[level], wish, least)
    return _kept(summed(below, tree.starts(level), wish, level), wish, least), below


def _kept(room: Room, wish: Wish, least: int) -> Room:
    enough = room.slices >= least
    leaders = room.leaders & enough & (room.slices_led >= least)
    led = leaders if wish.leaders else enough
    return Room(room.pods * enough, leaders, room.pods_led * led, room.slices * enough, room.slices_led * led)


def _fill(room: Room, wish: Wish, domains: Index, least: int) -> Poured | None:
    """Give each of the fewest domains that will do its least, and what is left over to the first."""
    for whole in (False, True):
        chosen = _smallest(room, wish, domains, whole=whole)
        poured = None if chosen is None else _pour_evenly(room, wish, _led_first(room, chosen), least)
        if poured is not None:
            return poured
    return None


def _pour_evenly(room: Room, wish: Wish, order: Index, least: int) -> Poured | None:
    over = room.slices[order] - least
    if wish.leaders:
        over[0] = room.slices_led[order[0]] - least
    extra = wish.slices - len(order) * least
    units = least + np.clip(extra - (np.cumsum(over) - over), 0, np.maximum(over, 0))
    if extra < 0 or over[0] < 0 or int(units.sum()) < wish.slices:
        return None
    return Poured(order, units, int(order[0]) if wish.leaders else -1, np.zeros(1, dtype=np.int64))


def _smallest(room: Room, wish: Wish, domains: Index, *, whole: bool) -> Index | None:
    """Return, of the sets with as few domains as possible, the one with the least room that is enough.

    Room is counted in pods, as upstream, which may not be enough in whole slices; or in these.
    """
    greedy = _greedy(room, wish, domains)
    if greedy is None:
        return None
    plain = room.units(led=False, whole=whole)[domains]
    led = np.where(room.leaders, room.units(led=True, whole=whole), -1)[domains] if wish.leaders else None
    needed = wish.slices if whole else wish.slices * wish.size
    chosen = least_subset(plain * (room.slices[domains] > 0), led, needed, greedy[0])
    return _led_first(room, domains)[: greedy[0]] if chosen is None else domains[chosen]


def _led_first(room: Room, domains: Index) -> Index:
    keys = (domains, room.pods_led[domains], -room.slices_led[domains], ~room.leaders[domains])
    return domains[np.lexsort(keys)]


def _evenness(below: Room, parents: Index) -> NDArray[np.float64]:
    """Return float64[domains]: the entropy of what the children of each hold, rounded so that equals are equal."""
    size = int(parents[-1]) + 1
    total = np.bincount(parents, below.pods, size)[parents]
    share = np.divide(below.pods, total, out=np.zeros(len(parents)), where=below.pods > 0)
    bits = np.log2(share, out=np.zeros(len(parents)), where=share > 0)
    return np.round(np.bincount(parents, -share * bits, size), 9)
