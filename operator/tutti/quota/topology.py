"""Placing the pod sets of a workload into the domains of a topology.

Rules: Kueue, tas_flavor_snapshot.go `FindTopologyAssignmentsForFlavor` (0.20). Pod sets are placed one after the
other, each counting what those before it take; two of one group, a leader and its workers, are placed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tutti.api.taints import Toleration
from tutti.quota.domain_fit import TooFew, Wish, fit
from tutti.quota.domain_room import Counting, Spot
from tutti.quota.domains import DomainTree, Values, with_pod
from tutti.quota.podsets import PodSet, Together, TopologyRequest


@dataclass(frozen=True, slots=True)
class Placement:
    """Where pods go: how many to each leaf, by its values, in the order of these."""

    levels: tuple[str, ...]
    domains: tuple[tuple[Values, int], ...]


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Why pods cannot be placed; `fits` of how many slices (or pods) there is room for, where that is known."""

    name: str
    message: str
    fits: int | None = None


@dataclass(slots=True)
class Placer:
    """Places pod sets in one topology.

    Attributes:
        tolerations: Those of the flavor.
        empty: Whether to place as if nothing else were placed by topology.
        assumed: What has been placed so far, by leaf.
    """

    tree: DomainTree
    tolerations: tuple[Toleration, ...] = ()
    empty: bool = False
    assumed: dict[Values, dict[str, int]] = field(default_factory=dict)

    def place(self, pod_sets: Sequence[PodSet]) -> dict[str, Placement | Misplaced]:
        """Place pod sets in order, those that do not say where anywhere; ends with the first that has no place."""
        groups: dict[object, list[PodSet]] = {}
        for index, pods in enumerate(pod_sets):
            groups.setdefault(pods.group or index, []).append(pods)
        result: dict[str, Placement | Misplaced] = {}
        for members in groups.values():
            found = self._place(members)
            if isinstance(found, Misplaced):
                return {**result, **dict.fromkeys((pods.name for pods in members), found)}
            for pods in members:
                self._assume(pods, found[pods.name])
            result |= found
        return result

    def _place(self, members: Sequence[PodSet]) -> dict[str, Placement] | Misplaced:
        pods, leader = _worker_and_leader(members)
        asked = pods.topology or TopologyRequest()
        wish = self._wish(asked, pods.count, 0 if leader is None else 1)
        if isinstance(wish, str):
            return Misplaced(pods.name, wish)
        inner = self._inner(asked, wish)
        if isinstance(inner, str):
            return Misplaced(pods.name, inner)
        counting = Counting(
            pods.per_pod,
            None if leader is None else leader.per_pod,
            wish.size,
            wish.slice_level,
            inner,
            pods.node_selector,
            pods.affinity,
            (*pods.tolerations, *self.tolerations),
            self.assumed,
            self.empty,
        )
        try:
            spots = fit(counting.spots(self.tree), wish, inner)
        except TooFew as few:
            unit = "slices" if wish.size > 1 else "pods"
            message = f"the topology has room for {few.fits} of {wish.count // wish.size} {unit}"
            return Misplaced(pods.name, message, few.fits)
        placed = {pods.name: self._placement([(spot, spot.pods) for spot in spots])}
        if leader is not None:
            placed[leader.name] = self._placement([(spot, spot.leaders) for spot in spots])
        return placed

    def _wish(self, asked: TopologyRequest, count: int, leaders: int) -> Wish | str:
        """Return what to place, or why that cannot be."""
        levels, first = self.tree.levels, asked.slices[0] if asked.slices else None
        loose = asked.together is Together.ANYWHERE
        named = asked.level or levels[0 if first and loose else -1]
        slice_level = first.level if first else levels[-1]
        for level in (named, slice_level):
            if level not in levels:
                return f"the topology has no level {level}"
        if first and first.size <= 0:
            return f"slices of {first.size} pods cannot be; give a size of 1 or more"
        if levels.index(named) > levels.index(slice_level):
            return f"slices cannot be kept in {slice_level}, which is wider than {named}"
        return Wish(
            count,
            leaders,
            first.size if first else 1,
            levels.index(named),
            levels.index(slice_level),
            required=asked.together is Together.REQUIRED,
            loose=loose,
        )

    def _inner(self, asked: TopologyRequest, wish: Wish) -> dict[int, int] | str:
        """Return the sizes of smaller slices per level, or why they cannot be."""
        sizes: dict[int, int] = {}
        size, at = wish.size, wish.slice_level
        for one in asked.slices[1:]:
            if one.level not in self.tree.levels:
                return f"the topology has no level {one.level}"
            below = self.tree.levels.index(one.level)
            if below <= at:
                return f"slices in {one.level} must be within those in {self.tree.levels[at]}"
            if one.size <= 0 or size % one.size:
                return f"slices of {size} pods cannot be divided into slices of {one.size}"
            sizes |= dict.fromkeys(range(at + 1, below + 1), one.size)
            size, at = one.size, below
        return sizes

    def _placement(self, spots: Sequence[tuple[Spot, int]]) -> Placement:
        used = sorted((spot.values, count) for spot, count in spots if count)
        levels = self.tree.levels[-1:] if self.tree.by_node else self.tree.levels
        return Placement(levels, tuple((values[-len(levels) :], count) for values, count in used))

    def _assume(self, pods: PodSet, placement: Placement) -> None:
        for values, count in placement.domains:
            taken = self.assumed.setdefault(values, {})
            for name, amount in with_pod(pods.per_pod).items():
                taken[name] = taken.get(name, 0) + amount * count


def _worker_and_leader(members: Sequence[PodSet]) -> tuple[PodSet, PodSet | None]:
    """Of two pod sets, the one with fewer pods leads; the second of equals."""
    if len(members) == 1:
        return members[0], None
    first, second = members[:2]
    return (second, first) if second.count > first.count else (first, second)
