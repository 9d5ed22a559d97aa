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

from tutti.placement.framework import Counts
from tutti.placement.topology.fill import DomainCapacity, FillCounts, sum_of_children
from tutti.placement.topology.request import SizedRequest
from tutti.placement.topology.tree import DomainTree, Index

WORK = 20_000
"""How many steps (numbers times how many are chosen) a search may take; each is a few passes over an array as long as
the sum. Beyond it, as with thousands of nodes one by one, the caller takes the largest numbers instead."""


def least_subset(plain: Counts, led: Counts | None, needed: int, count: int) -> Index | None:
    """Choose exactly `count` of the numbers with the least sum that is at least `needed`.

    Args:
        plain: int64[k], at least 0; a 0 is never chosen for itself.
        led: int64[k], what one of the chosen counts instead, just one of them, -1 where it cannot be that one; None
            where all count `plain`.
        needed: More than 0.
        count: How many to choose: the fewest that will do.

    Returns:
        Indexes in rising order, of equal sums the one found first in the order of the numbers; None where there is
        none, or where the search would take too long.
    """
    if len(plain) * count > WORK:
        return None
    search = _Search(count, needed + int(plain.max(initial=0)) + 1, with_leader=led is not None)
    for index, number in enumerate(plain.tolist()):
        search.add(index, number, int(led[index]) if led is not None else -1)
    return search.best(needed)


class _Search:
    """Sums that can be reached, by how many numbers are chosen and whether one of them leads.

    `last[i, l, s]` is the number through which the sum s was first reached with i numbers, -1 where it has not been;
    `led` whether that one leads; `step` what it counts.
    """

    def __init__(self, count: int, sums: int, *, with_leader: bool) -> None:
        self.count, self.leads = count, int(with_leader)
        shape = (count + 1, self.leads + 1, sums)
        self.last = np.full(shape, -1, dtype=np.int32)
        self.last[0, 0, 0] = 0
        self.step = np.zeros(shape, dtype=np.int32)
        self.led = np.zeros(shape, dtype=np.bool_)

    def add(self, index: int, plain: int, led: int) -> None:
        """Let one more number be chosen."""
        for chosen in range(min(self.count, index + 1), 0, -1):
            for leading in range(self.leads + 1):
                if plain > 0:
                    self._reach(chosen, leading, index, plain, leading)
                if leading and led >= 0:
                    self._reach(chosen, leading, index, led, 0)

    def best(self, needed: int) -> Index | None:
        """Return the numbers of the least sum that is enough."""
        reached = np.flatnonzero(self.last[self.count, self.leads, needed:] >= 0)
        if not len(reached):
            return None
        chosen, leading, total = self.count, self.leads, needed + int(reached[0])
        out = []
        while chosen:
            at = (chosen, leading, total)
            out.append(int(self.last[at]))
            chosen, leading, total = chosen - 1, leading - int(self.led[at]), total - int(self.step[at])
        return np.array(out[::-1], dtype=np.int64)

    def _reach(self, chosen: int, leading: int, index: int, step: int, before: int) -> None:
        """Reach sums with this number as the last of `chosen`, from those with one less and `before` leading."""
        size = self.last.shape[2] - step
        if size <= 0:
            return
        into = (chosen, leading, slice(step, None))
        new = (self.last[chosen - 1, before, :size] >= 0) & (self.last[into] < 0)
        self.last[into][new] = index
        self.step[into][new] = step
        self.led[into][new] = before != leading


@dataclass(frozen=True, slots=True, eq=False)
class _Thinned:
    """Domains of one parent, with what is left of their level and the one below without those that hold little."""

    domains: Index
    room: DomainCapacity
    below: DomainCapacity
    least: int
    used: int


def balanced(tree: DomainTree, rooms: Sequence[DomainCapacity], wish: SizedRequest) -> tuple[int, FillCounts] | None:
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
        poured = _fill_fewest(best.room, wish, best.domains, best.least)
        return None if poured is None else (wish.level, poured)
    spread = _evenness(best.below, tree.parents[wish.level + 1])
    slices = best.room.slices_led if wish.leaders else best.room.slices
    first = np.lexsort(tuple(key[best.domains] for key in (-spread, -slices, ~best.room.leaders)))
    chosen = _smallest(best.room, wish, best.domains[first], whole=False)
    if chosen is None:
        return None
    below = np.flatnonzero(np.isin(tree.parents[wish.level + 1], chosen))
    poured = _fill_fewest(best.below, wish, below, best.least)
    return None if poured is None else (wish.level + 1, poured)


def _siblings(tree: DomainTree, wish: SizedRequest) -> Iterator[Index]:
    """Yield the domains of the level asked for, those of each parent together."""
    parents = tree.parents[wish.level]
    starts = tree.starts(wish.level) if wish.level else np.zeros(min(1, len(parents)), dtype=np.int64)
    yield from (domains for domains in np.split(np.arange(len(parents)), starts[1:]) if len(domains))


def _thin(
    tree: DomainTree, rooms: Sequence[DomainCapacity], wish: SizedRequest, domains: Index, at_least: int
) -> _Thinned | None:
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


def _greedy(room: DomainCapacity, wish: SizedRequest, domains: Index) -> tuple[int, list[int], list[int]] | None:
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


def _without(
    tree: DomainTree, rooms: Sequence[DomainCapacity], wish: SizedRequest, least: int
) -> tuple[DomainCapacity, DomainCapacity]:
    """Return the level asked for, and the one below, without the domains that hold fewer slices than that."""
    if wish.level >= wish.slice_level:
        here = _kept(rooms[wish.level], wish, least)
        return here, here
    level = wish.level + 1
    below = _kept(rooms[level], wish, least)
    return _kept(sum_of_children(below, tree.starts(level), wish, level), wish, least), below


def _kept(room: DomainCapacity, wish: SizedRequest, least: int) -> DomainCapacity:
    enough = room.slices >= least
    leaders = room.leaders & enough & (room.slices_led >= least)
    led = leaders if wish.leaders else enough
    return DomainCapacity(room.pods * enough, leaders, room.pods_led * led, room.slices * enough, room.slices_led * led)


def _fill_fewest(room: DomainCapacity, wish: SizedRequest, domains: Index, least: int) -> FillCounts | None:
    """Give each of the fewest domains that will do its least, and what is left over to the first."""
    for whole in (False, True):
        chosen = _smallest(room, wish, domains, whole=whole)
        poured = None if chosen is None else _fill_evenly(room, wish, _led_first(room, chosen), least)
        if poured is not None:
            return poured
    return None


def _fill_evenly(room: DomainCapacity, wish: SizedRequest, order: Index, least: int) -> FillCounts | None:
    over = room.slices[order] - least
    if wish.leaders:
        over[0] = room.slices_led[order[0]] - least
    extra = wish.slices - len(order) * least
    units = least + np.clip(extra - (np.cumsum(over) - over), 0, np.maximum(over, 0))
    if extra < 0 or over[0] < 0 or int(units.sum()) < wish.slices:
        return None
    return FillCounts(order, units, int(order[0]) if wish.leaders else -1, np.zeros(1, dtype=np.int64))


def _smallest(room: DomainCapacity, wish: SizedRequest, domains: Index, *, whole: bool) -> Index | None:
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


def _led_first(room: DomainCapacity, domains: Index) -> Index:
    keys = (domains, room.pods_led[domains], -room.slices_led[domains], ~room.leaders[domains])
    return domains[np.lexsort(keys)]


def _evenness(below: DomainCapacity, parents: Index) -> NDArray[np.float64]:
    """Return float64[domains]: the entropy of what the children of each hold, rounded so that equals are equal."""
    size = int(parents[-1]) + 1
    total = np.bincount(parents, below.pods, size)[parents]
    share = np.divide(below.pods, total, out=np.zeros(len(parents)), where=below.pods > 0)
    bits = np.log2(share, out=np.zeros(len(parents)), where=share > 0)
    return np.round(np.bincount(parents, -share * bits, size), 9)
