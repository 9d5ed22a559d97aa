"""Placing the pod sets of a workload into the domains of a flavor's topology.

Rules: Kueue, tas_flavor_snapshot.go `FindTopologyAssignmentsForFlavor` (0.20). Pod sets are placed one after the
other, each counting what those before it take; two of one group, a leader and its workers, are placed together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tutti.api.taints import HARD_EFFECTS, Toleration, untolerated
from tutti.api.wording import counted
from tutti.placement.framework import Mask
from tutti.placement.topology.fitting import TooFew, fit
from tutti.placement.topology.request import TopologyRequest, wish
from tutti.placement.topology.room import Room, in_domains, in_leaves
from tutti.quota.domains import DomainTree, Place, Values, beside, pods_in, with_pod
from tutti.quota.podsets import PodSet


@dataclass(frozen=True, slots=True)
class Placement:
    """Where pods go: how many to each leaf, by its values, in the order of these from the widest level."""

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
        if leader is not None and leader.count != 1:
            return Misplaced(leader.name, f"of two pod sets in a group, one must have a single pod, not {leader.count}")
        asked = wish(pods.topology or TopologyRequest(), self.tree.levels, pods.count, 0 if leader is None else 1)
        if isinstance(asked, str):
            return Misplaced(pods.name, asked)
        spots = fit(self.tree.tree, in_domains(self.tree.tree, self._leaves(pods, leader), asked), asked)
        if isinstance(spots, TooFew):
            unit = "slice" if asked.size > 1 else "pod"
            text = f"the topology has room for {spots.fits} of {counted(asked.slices, unit)}"
            return Misplaced(pods.name, text, spots.fits)
        placed = {pods.name: self._placement(zip(spots.leaves.tolist(), spots.pods.tolist(), strict=True))}
        if leader is not None:
            placed[leader.name] = self._placement([(spots.leader, leader.count)])
        return placed

    def _leaves(self, pods: PodSet, leader: PodSet | None) -> Room:
        """Return how many pods each leaf has room for, after what has been placed so far."""
        left, leaves = self.tree.left(empty=self.empty), len(self.tree.values)
        for values, taken in self.assumed.items():
            if values in self.tree.leaf_of:
                here = np.arange(leaves) == self.tree.leaf_of[values]
                left = beside(taken, {**{name: np.zeros(leaves, dtype=np.int64) for name in taken}, **left}, here)
        usable = self._usable(pods)
        need = with_pod(pods.per_pod)
        alone = pods_in(need, left, leaves) * usable
        if leader is None:
            return in_leaves(alone)
        with_leader = with_pod(leader.per_pod)
        leads = (pods_in(with_leader, left, leaves) > 0) & usable
        return in_leaves(alone, leads, pods_in(need, beside(with_leader, left, leads), leaves) * usable)

    def _usable(self, pods: PodSet) -> Mask:
        """Return bool[leaves]: where pods may be; several nodes taken together are not looked at one by one."""
        if not self.tree.by_node:
            return np.ones(len(self.tree.values), dtype=np.bool_)
        tolerations = (*pods.tolerations, *self.tolerations)
        places = [self.tree.places[i] for i in self.tree.tree.samples.tolist()]
        return np.array([_may_be_on(place, pods, tolerations) for place in places], dtype=np.bool_)

    def _placement(self, used: Iterable[tuple[int, int]]) -> Placement:
        levels = self.tree.levels[-1:] if self.tree.by_node else self.tree.levels
        return Placement(levels, tuple((self.tree.values[leaf], count) for leaf, count in used if count))

    def _assume(self, pods: PodSet, placement: Placement) -> None:
        for values, count in placement.domains:
            taken = self.assumed.setdefault(values, {})
            for name, amount in with_pod(pods.per_pod).items():
                taken[name] = taken.get(name, 0) + amount * count


def _may_be_on(place: Place, pods: PodSet, tolerations: Sequence[Toleration]) -> bool:
    if untolerated(place.taints, tolerations, HARD_EFFECTS) is not None:
        return False
    if any(place.labels.get(key) != value for key, value in pods.node_selector.items()):
        return False
    return pods.affinity is None or pods.affinity.matches(place.labels, place.name)


def _worker_and_leader(members: Sequence[PodSet]) -> tuple[PodSet, PodSet | None]:
    """Of two pod sets, the one with fewer pods leads; the second of equals."""
    if len(members) == 1:
        return members[0], None
    first, second = members[:2]
    return (second, first) if second.count > first.count else (first, second)
