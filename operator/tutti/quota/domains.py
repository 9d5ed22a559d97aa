"""The domains of a topology: blocks, racks and nodes as one tree, and what is free in its leaves.

Rules: Kueue, tas_topology_tree.go and tas_flavor_snapshot.go (0.20). A leaf is a node where the lowest level is the
host name; otherwise all nodes that share the values of all levels, taken together. A node counts if it is ready and
has all level labels and the labels of the flavor. Free is what is allocatable, less what pods use that are not placed
by topology, less what is placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tutti.api.taints import Taint

HOSTNAME = "kubernetes.io/hostname"
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


@dataclass(slots=True, eq=False)
class Domain:
    """A node of the tree.

    Attributes:
        values: Of all levels down to this one.
        children: Empty for a leaf.
        place: The node, where the leaf is one.
        free: What a leaf has for pods placed by topology.
        taken: What is placed in a leaf.
    """

    values: Values
    children: list[Domain] = field(default_factory=list)
    place: Place | None = None
    free: dict[str, int] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)


class DomainTree:
    """All domains of the nodes of one flavor.

    Args:
        levels: Label keys, the widest first.
        places: The nodes of the flavor; those without all levels are left out.
    """

    def __init__(self, levels: Sequence[str], places: Iterable[Place]) -> None:
        self.levels = tuple(levels)
        self.by_node = self.levels[-1] == HOSTNAME
        self.roots: list[Domain] = []
        self.leaves: dict[Values, Domain] = {}
        self._domains: dict[Values, Domain] = {}
        for place in places:
            if all(level in place.labels for level in self.levels):
                self._add(place)

    def shown(self, domain: Domain) -> Values:
        """Return the values that a leaf goes by."""
        return domain.values[-1:] if self.by_node else domain.values

    def take(self, values: Values, per_pod: Mapping[str, int], count: int) -> None:
        """Count pods as placed in a leaf, or with a negative count as gone; a leaf that is gone has no room."""
        leaf = self.leaves.get(values)
        if leaf is not None:
            for name, amount in with_pod(per_pod).items():
                leaf.taken[name] = leaf.taken.get(name, 0) + amount * count

    def fits(self, values: Values, per_pod: Mapping[str, int], count: int) -> bool:
        """Whether a leaf has room for so many pods more."""
        leaf = self.leaves.get(values)
        return leaf is not None and pods_in(with_pod(per_pod), left_in(leaf)) >= count

    def _add(self, place: Place) -> None:
        values = tuple(place.labels[level] for level in self.levels)
        key = values[-1:] if self.by_node else values
        leaf = self.leaves.get(key)
        if leaf is None:
            leaf = self.leaves[key] = Domain(values, place=place if self.by_node else None)
            self._join(leaf)
        for sign, amounts in ((1, place.allocatable), (-1, place.used)):
            for name, amount in amounts.items():
                leaf.free[name] = leaf.free.get(name, 0) + sign * amount

    def _join(self, domain: Domain) -> None:
        above = domain.values[:-1]
        if not above:
            self.roots.append(domain)
            return
        parent = self._domains.get(above)
        if parent is None:
            parent = self._domains[above] = Domain(above)
            self._join(parent)
        parent.children.append(domain)


def with_pod(per_pod: Mapping[str, int]) -> dict[str, int]:
    """Return what one pod needs, and that it is one."""
    return {**per_pod, PODS: per_pod.get(PODS, 0) + 1}


def left_in(leaf: Domain, *, empty: bool = False) -> dict[str, int]:
    """Return what is free in a leaf; `empty` as if nothing were placed by topology."""
    if empty:
        return dict(leaf.free)
    return {name: leaf.free.get(name, 0) - leaf.taken.get(name, 0) for name in {**leaf.free, **leaf.taken}}


def pods_in(need: Mapping[str, int], room: Mapping[str, int]) -> int:
    """Return how many pods of this need find room."""
    return max(0, min((room.get(name, 0) // amount for name, amount in need.items() if amount > 0), default=0))
