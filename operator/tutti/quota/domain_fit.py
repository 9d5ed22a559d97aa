"""Which domains of a topology pods go to, once it is known what each has room for.

Rules: Kueue, tas_flavor_snapshot.go (0.20). Pods that must or should stay together go to the domain that fits most
tightly; if none has room for all, and they only should, to domains one level up, or to as few of the widest domains
as possible, the last one again the tightest. Pods that may be anywhere fill up the domains with the least room first.
Then, level by level downwards, the same among the children.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.quota.domain_room import Spot


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be placed.

    Attributes:
        count: Pods.
        leaders: 1 where a leader goes with them, else 0.
        size: Pods of a slice.
        level: Index of the level in one of whose domains all must or should be.
        slice_level: Index of the level in one of whose domains a slice must be.
        required: Whether they must.
        loose: Whether they may be anywhere.
    """

    count: int
    leaders: int = 0
    size: int = 1
    level: int = 0
    slice_level: int = 0
    required: bool = False
    loose: bool = False


class TooFew(Exception):  # noqa: N818  it is not an error of the program: the caller tells it to the user
    """There is room for less than was asked for; carries how many slices (pods, where a slice is one) there is."""

    def __init__(self, fits: int) -> None:
        super().__init__(f"there is room for {fits}")
        self.fits = fits


def fit(by_level: Sequence[Sequence[Spot]], wish: Wish, inner: dict[int, int]) -> list[Spot]:
    """Return the leaves to use, with `pods` and `leaders` of each set to what goes there.

    Args:
        by_level: What all domains have room for, the widest level first.
        wish: What is to be placed.
        inner: Sizes of smaller slices, by index of the level they must stay in.

    Raises:
        TooFew: There is not enough room.
    """
    at, spots = _choose(by_level, wish, wish.level)
    spots = _spread(spots, wish.count, wish.leaders, wish, size=wish.size, whole=True)
    lowest = len(by_level) - 1
    while at < min(lowest, wish.slice_level):
        below = _sorted([child for spot in spots for child in spot.children], wish)
        spots = _spread(below, wish.count, wish.leaders, wish, size=wish.size, whole=True)
        at += 1
    while at < lowest:
        size = inner.get(at + 1, 1)
        spots = [leaf for spot in spots for leaf in _below(spot, wish, size)]
        at += 1
    return spots


def _below(spot: Spot, wish: Wish, size: int) -> list[Spot]:
    children = _sorted(spot.children, wish)
    if size > 1:
        for child in children:
            child.slices, child.slices_led = child.pods // size, child.pods_led // size
    return _spread(children, spot.pods, spot.leaders, wish, size=size, whole=size > 1)


def _choose(by_level: Sequence[Sequence[Spot]], wish: Wish, at: int) -> tuple[int, list[Spot]]:
    """Return the level, and the domains of it, in which there is room for all."""
    if not by_level[at]:
        raise TooFew(0)
    slices = wish.count // wish.size
    spots = sorted(by_level[at], key=lambda spot: _led_key(spot, wish))
    if wish.loose:
        for spot in spots:
            if spot.leaders >= wish.leaders and (spot.slices_led if wish.leaders else spot.slices) >= slices:
                return at, [spot]
    top = spots[0]
    if top.slices_led >= slices and top.leaders >= wish.leaders:
        return at, [top if wish.loose else _tightest(spots, slices, wish.leaders, whole=True)]
    if wish.required:
        raise TooFew(top.slices)
    if at > 0 and not wish.loose:
        return _choose(by_level, wish, at - 1)
    return at, _several(spots, wish, slices)


def _several(spots: list[Spot], wish: Wish, slices: int) -> list[Spot]:
    """Return as many domains as it takes: the leader's first."""
    chosen: list[Spot] = []
    spots = _leader_first(spots, wish.count, wish.leaders, size=wish.size, whole=True)
    left, leaders, index = slices, wish.leaders, 0
    while leaders > 0 and index < len(spots) and spots[index].leaders > 0:
        spot = spots[index]
        if not wish.loose and spot.slices_led >= left:
            spot = _tightest(spots[index:], left, leaders, whole=True)
        chosen.append(spot)
        leaders -= spot.leaders
        left -= spot.slices_led
        index += 1
    if leaders > 0:
        raise TooFew(wish.leaders - leaders)
    rest = _sorted(spots[index:], wish)
    for index, first in enumerate(rest):
        if left <= 0:
            break
        spot = first
        if not wish.loose and spot.slices >= left:
            spot = _tightest(rest[index:], left, 0, whole=True)
        chosen.append(spot)
        left -= spot.slices
    if left > 0:
        raise TooFew(slices - left)
    return chosen


def _spread(spots: list[Spot], count: int, leaders: int, wish: Wish, *, size: int, whole: bool) -> list[Spot]:
    """Put so many pods into these domains, in order, the last one the tightest; sets what goes to each."""
    spots = _leader_first(spots, count, leaders, size=size, whole=whole)
    left, used = count // size if whole else count, []
    for index, first in enumerate(spots):
        led = leaders > 0
        spot = first
        if not wish.loose and _units(spot, led=led, whole=whole) >= left and (not led or spot.leaders >= leaders):
            spot = _tightest(spots[index:], left, leaders, whole=whole)
        done = _units(spot, led=led, whole=whole) >= left and (not led or spot.leaders >= leaders)
        part = left if done else min(_units(spot, led=led, whole=whole), left)
        spot.leaders = min(spot.leaders, leaders)
        spot.pods = part * size
        spot.slices = part if whole else spot.slices
        leaders -= spot.leaders
        left -= part
        used.append(spot)
        if done:
            break
    return used


def _leader_first(spots: list[Spot], count: int, leaders: int, *, size: int, whole: bool) -> list[Spot]:
    """Move to the front the first domain that can have the leader without losing room that is needed."""
    if not leaders:
        return spots
    needed = count // size if whole else count
    room = sum(_units(spot, led=False, whole=whole) for spot in spots)
    for index, spot in enumerate(spots):
        cost = _units(spot, led=False, whole=whole) - _units(spot, led=True, whole=whole)
        if spot.leaders >= leaders and room - cost >= needed:
            return [spot, *spots[:index], *spots[index + 1 :]]
    return spots


def _tightest(spots: Sequence[Spot], needed: int, leaders: int, *, whole: bool) -> Spot:
    """Return the first domain with the least room that is enough; the first of all where none has enough."""
    able = [spot for spot in spots if spot.leaders >= leaders and _units(spot, led=leaders > 0, whole=whole) >= needed]
    return min(able, key=lambda spot: _units(spot, led=leaders > 0, whole=whole), default=spots[0])


def _units(spot: Spot, *, led: bool, whole: bool) -> int:
    if whole:
        return spot.slices_led if led else spot.slices
    return spot.pods_led if led else spot.pods


def _sorted(spots: Sequence[Spot], wish: Wish) -> list[Spot]:
    order = 1 if wish.loose else -1
    return sorted(spots, key=lambda spot: (order * spot.slices, spot.pods, spot.values))


def _led_key(spot: Spot, wish: Wish) -> tuple[object, ...]:
    order = 1 if wish.loose else -1
    return -spot.leaders, order * spot.slices_led, spot.pods_led, spot.values
