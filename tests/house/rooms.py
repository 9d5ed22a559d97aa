"""Which rooms of a package import which, and how far that is from layers.

A room is a folder of the package, or a module that stands in no folder of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

from tests.house.source import Module, Tree, imported

Arrow = tuple[str, str]
"""A room that imports, and one that it imports from."""


def rooms(tree: Tree, package: str) -> list[str]:
    """The rooms of a package, by name."""
    return sorted({_room(module, package) for module in tree.values()} - {""})


def arrows(tree: Tree, package: str) -> set[Arrow]:
    """Which rooms of a package import from which others, however often."""
    found = {
        (_room(module, package), _room(tree[name], package))
        for module in tree.values()
        if _room(module, package)
        for name in imported(module, tree)
    }
    return {(one, other) for one, other in found if other and one != other}


def pairs(between: Collection[Arrow]) -> int:
    """How many pairs of rooms import each other."""
    return sum((one, other) in between and (other, one) in between for one, other in combinations(_named(between), 2))


def upward(between: Collection[Arrow]) -> int:
    """How many arrows run up, however the rooms are put one above the other: the fewest over all orders.

    So it is 0 exactly where the rooms can be layers. It is worked out knot by knot (a knot is a set of rooms each of
    which can be reached from each other), over all subsets of a knot, from the bottom (Held and Karp's way).
    """
    return sum(_least(knot, between) for knot in knots(between))


def knots(between: Collection[Arrow]) -> list[list[str]]:
    """Sets of two or more rooms that import each other in a round, each room in one set, in the order of names."""
    names = _named(between)
    reached = {name: _reached(name, between) for name in names}
    found: list[list[str]] = []
    for name in names:
        knot = [other for other in names if other in reached[name] and name in reached[other]]
        if len(knot) > 1 and knot not in found:
            found.append(knot)
    return found


def _least(knot: Sequence[str], between: Collection[Arrow]) -> int:
    number = {name: place for place, name in enumerate(knot)}
    below = [0] * len(knot)  # of each room, a bit for each that it imports from
    for one, other in between:
        if one in number and other in number:
            below[number[one]] |= 1 << number[other]
    whole = (1 << len(knot)) - 1
    fewest = [0] + [len(between)] * whole  # of each set of rooms that stand at the bottom already
    for placed in range(whole):
        for room, wanted in enumerate(below):
            after = placed | 1 << room
            if after != placed:
                fewest[after] = min(fewest[after], fewest[placed] + (wanted & ~after).bit_count())
    return fewest[whole]


def _reached(start: str, between: Collection[Arrow]) -> set[str]:
    """Rooms that can be reached from one by an arrow or more."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        room = ahead.pop()
        new = {other for one, other in between if one == room} - found
        found |= new
        ahead += new
    return found


def _named(between: Collection[Arrow]) -> list[str]:
    return sorted({name for arrow in between for name in arrow})


def _room(module: Module, package: str) -> str:
    """The room of a module; "" of what is not in the package, or is the package itself."""
    inside = module.name.removeprefix(f"{package}.")
    return "" if inside == module.name else inside.split(".")[0]
