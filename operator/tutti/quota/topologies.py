"""The topologies of all flavors, and what workloads have in them.

Rule: Kueue, tas_flavor_snapshot.go and clusterqueue_snapshot.go (0.20). Where the leaves of several flavors are nodes,
a node is the same in each of them: what is placed through one flavor takes room in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tutti.quota.domains import DomainTree, Values
from tutti.quota.flavors import Flavor
from tutti.quota.fungibility import Mode
from tutti.quota.outcome import Choice, NoFit, Verdict
from tutti.quota.podsets import PodSet
from tutti.quota.topology import Misplaced, Placement, Placer


class Occupied(NamedTuple):
    """Pods of one shape in a leaf of a flavor's topology."""

    flavor: str
    values: Values
    per_pod: Mapping[str, int]
    pods: int


@dataclass(frozen=True, slots=True)
class Topologies:
    """The topology of each flavor that has one, with what is free in it."""

    trees: Mapping[str, DomainTree]

    def take(self, occupied: Iterable[Occupied], sign: int = 1) -> None:
        """Count pods as placed; with a sign of -1, as gone."""
        for flavor, values, per_pod, pods in occupied:
            for tree in self._sharing(flavor):
                tree.take(values, per_pod, sign * pods)

    def fits(self, occupied: Iterable[Occupied]) -> bool:
        """Whether each leaf has room for what is to be placed there, looked at one by one."""
        return all(one.flavor in self.trees and self.trees[one.flavor].fits(*one[1:]) for one in occupied)

    def _sharing(self, flavor: str) -> list[DomainTree]:
        tree = self.trees.get(flavor)
        if tree is None:
            return []
        return [other for other in self.trees.values() if other.by_node] if tree.by_node else [tree]


@dataclass(frozen=True, slots=True)
class Placing:
    """Places the pod sets of one workload in the topologies of the flavors chosen for it."""

    topologies: Topologies
    flavors: Mapping[str, Flavor]

    def place(
        self, choice: Choice, pod_sets: Sequence[PodSet], *, empty: bool = False
    ) -> dict[str, Placement] | Misplaced:
        """Return where all its pods go that are placed by topology, or what has no place.

        Args:
            choice: The flavors chosen.
            pod_sets: What they were chosen for.
            empty: Whether to place as if nothing else were placed by topology.
        """
        by_flavor: dict[str, list[PodSet]] = {}
        for pods, mine in zip(pod_sets, choice.pod_sets, strict=False):
            if mine.topology_of and mine.count:
                by_flavor.setdefault(mine.topology_of, []).append(pods)
        shared: dict[Values, dict[str, int]] = {}
        result: dict[str, Placement] = {}
        for name in sorted(by_flavor):
            tree = self.topologies.trees[name]
            assumed = shared if tree.by_node else {}
            placer = Placer(tree, self.flavors[name].tolerations, empty, assumed)
            for placed, found in placer.place(by_flavor[name]).items():
                if isinstance(found, Misplaced):
                    return found
                result[placed] = found
        return result

    def settle(self, choice: Choice, pod_sets: Sequence[PodSet]) -> None:
        """Place what fits by quota; what finds no room needs preemption, and what never would does not fit."""
        if not any(mine.topology_of for mine in choice.pod_sets):
            return
        if choice.verdict is Verdict.FIT:
            found = self.place(choice, pod_sets)
            if isinstance(found, Misplaced):
                _set_mode(choice, found.name, Mode.PREEMPT)
            else:
                put(choice, found)
        if choice.verdict is Verdict.PREEMPT:
            found = self.place(choice, pod_sets, empty=True)
            if isinstance(found, Misplaced):
                _set_mode(choice, found.name, Mode.NO_FIT)
            else:
                for name in found:
                    _set_mode(choice, name, Mode.PREEMPT)


def put(choice: Choice, placements: Mapping[str, Placement]) -> None:
    """Note in a choice where its pod sets go."""
    for mine in choice.pod_sets:
        mine.placement = placements.get(mine.name, mine.placement)


def occupied(choice: Choice) -> tuple[Occupied, ...]:
    """Return what a choice takes of topologies."""
    return tuple(
        Occupied(mine.topology_of, values, mine.per_pod, count)
        for mine in choice.pod_sets
        if mine.placement is not None
        for values, count in mine.placement.domains
    )


def _set_mode(choice: Choice, name: str, mode: Mode) -> None:
    for mine in choice.pod_sets:
        if mine.name != name:
            continue
        for one in mine.flavors.values():
            one.rank = one.rank._replace(mode=mode)
        if mode is Mode.NO_FIT:
            why = NoFit.TOPOLOGY_PLACEMENT_FAILED
            mine.attempts = tuple(
                replace(one, mode=mode, why=why) if one.flavor == mine.topology_of else one for one in mine.attempts
            )
