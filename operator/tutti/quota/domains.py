"""What is free in the leaves of a flavor's topology.

Rules: Kueue, tas_topology_tree.go and tas_flavor_snapshot.go (0.20). A leaf is a node where the lowest level is the
host name; otherwise all nodes that share the values of all levels, taken together. A node counts if it is ready and
has all level labels and the labels of the flavor. Free is what is allocatable, less what pods use that are not placed
by topology, less what is placed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tutti.api.taints import Taint
from tutti.placement.framework import Mask
from tutti.placement.topology.request import HOSTNAME
from tutti.placement.topology.tree import Counts, Index, grow

PODS = "pods"
Values = tuple[str, ...]
"""The values of a domain's levels, the widest first; of the host name alone where that is the lowest level."""


@dataclass(frozen=True, slots=True)
class Place:
    """A node, as topology sees it; `used` is what pods use that are not placed by topology, and counts them."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    taints: Sequence[Taint] = ()
    used: Mapping[str, int] = field(default_factory=dict)


class DomainTree:
    """All domains of the nodes of one flavor.

    Args:
        levels: Label keys, the widest first.
        places: The nodes of the flavor; those without all levels are left out.

    Attributes:
        tree: Its domains; the places are those given.
        leaf_of: The leaf of each combination of values.
        values: The reverse.
    """

    def __init__(self, levels: Sequence[str], places: Sequence[Place]) -> None:
        self.levels = tuple(levels)
        self.by_node = self.levels[-1] == HOSTNAME
        self.places = tuple(places)
        self.tree = grow(self.levels, [_ranks([place.labels.get(level) for place in places]) for level in levels])
        shown = levels[-1:] if self.by_node else levels
        samples = [places[i] for i in self.tree.samples.tolist()]
        self.values: list[Values] = [tuple(place.labels[level] for level in shown) for place in samples]
        self.leaf_of = {values: leaf for leaf, values in enumerate(self.values)}
        self._free: dict[str, Counts] = {}
        self._taken: dict[str, Counts] = {}
        for sign, amounts in ((1, "allocatable"), (-1, "used")):
            for place, leaf in zip(places, self.tree.leaf_of.tolist(), strict=True):
                if leaf >= 0:
                    self._add(self._free, leaf, getattr(place, amounts), sign)

    def take(self, values: Values, per_pod: Mapping[str, int], count: int) -> None:
        """Count pods as placed in a leaf, or with a negative count as gone; a leaf that is gone has no room."""
        leaf = self.leaf_of.get(values)
        if leaf is not None:
            self._add(self._taken, leaf, with_pod(per_pod), count)

    def fits(self, values: Values, per_pod: Mapping[str, int], count: int) -> bool:
        """Whether a leaf has room for so many pods more."""
        leaf = self.leaf_of.get(values)
        return leaf is not None and int(pods_in(with_pod(per_pod), self.left(), len(self.values))[leaf]) >= count

    def left(self, *, empty: bool = False) -> dict[str, Counts]:
        """Return per resource int64[leaves] what is free; `empty` as if nothing were placed by topology."""
        if empty:
            return dict(self._free)
        none = np.zeros(len(self.values), dtype=np.int64)
        names = dict.fromkeys((*self._free, *self._taken))
        return {name: self._free.get(name, none) - self._taken.get(name, none) for name in names}

    def _add(self, to: dict[str, Counts], leaf: int, amounts: Mapping[str, int], times: int) -> None:
        for name, amount in amounts.items():
            if name not in to:
                to[name] = np.zeros(len(self.values), dtype=np.int64)
            to[name][leaf] += amount * times


def with_pod(per_pod: Mapping[str, int]) -> dict[str, int]:
    """Return what one pod needs, and that it is one."""
    return {**per_pod, PODS: per_pod.get(PODS, 0) + 1}


def pods_in(need: Mapping[str, int], room: Mapping[str, Counts], leaves: int) -> Counts:
    """Return int64[leaves]: how many pods of this need find room in each."""
    fits: Counts = np.full(leaves, np.iinfo(np.int64).max)
    for name, amount in need.items():
        if amount > 0:
            fits = np.minimum(fits, room[name] // amount if name in room else 0)
    return np.maximum(fits, 0)


def beside(need: Mapping[str, int], room: Mapping[str, Counts], where: Mask) -> dict[str, Counts]:
    """Return what is left in each leaf with one more pod of this need in some of them."""
    return {name: amounts - need.get(name, 0) * where for name, amounts in room.items()}


def _ranks(values: Sequence[str | None]) -> Index:
    rank_of = {value: rank for rank, value in enumerate(sorted({value for value in values if value is not None}))}
    return np.array([-1 if value is None else rank_of[value] for value in values], dtype=np.int64)
