"""What pod sets ask of a queue, as far as that follows from how both are written.

A waiting workload is looked at again and again while usage comes and goes; what is here stays the same meanwhile, and
is worked out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tutti.quota.eligibility import by_topology_only, mismatch
from tutti.quota.flavors import VIRTUAL, Flavor, Queue, ResourceGroup
from tutti.quota.podsets import PodSet
from tutti.quota.tree import add_to


class Asked(NamedTuple):
    """What pod sets that share their flavors ask for.

    Attributes:
        indexes: Theirs among all pod sets of the workload.
        pod_sets: Themselves.
        totals: What each of them asks for per resource, and `requests` what all do.
        groups: The resource groups concerned, by index, with the resources asked for of each, in order of name.
        uncovered: Whether they ask for something that the queue has no quota of.
    """

    indexes: list[int]
    pod_sets: list[PodSet]
    totals: list[dict[str, int]]
    requests: Mapping[str, int]
    groups: Mapping[int, list[str]]
    uncovered: bool


@dataclass(slots=True)
class Known:
    """What has been found out of some pod sets in a queue; it holds as long as they and all flavors stay as they are.

    Attributes:
        asked: What they ask for, by those that share their flavors; empty where that has not been found out.
        implied: Whether all pods of the queue are placed by topology, whether they ask for it or not.
    """

    asked: list[Asked] = field(default_factory=list)
    implied: bool = False
    _wrong: dict[tuple[int, str, int], str] = field(default_factory=dict)

    def find_out(self, queue: Queue, flavors: Mapping[str, Flavor], pod_sets: Sequence[PodSet]) -> None:
        """Find out what some pod sets ask of a queue, unless it is known."""
        if not self.asked:
            self.asked = [_asked(queue, pod_sets, indexes) for indexes in _grouped(pod_sets)]
            self.implied = by_topology_only(queue, flavors)

    def wrong(self, queue: Queue, flavors: Mapping[str, Flavor], asked: Asked, *, index: int, name: str) -> str:
        """Return why pod sets may not be counted in a flavor of a resource group; "" where they may."""
        key = index, name, asked.indexes[0]
        if key not in self._wrong:
            self._wrong[key] = self._find_wrong(queue.groups[index], flavors.get(name), asked, name)
        return self._wrong[key]

    def _find_wrong(self, group: ResourceGroup, flavor: Flavor | None, asked: Asked, name: str) -> str:
        if flavor is None:
            return f"flavor {name} does not exist"
        reasons = (mismatch(flavor, pods, group, implied=self.implied) for pods in asked.pod_sets)
        return next(filter(None, reasons), "")


def _asked(queue: Queue, pod_sets: Sequence[PodSet], indexes: list[int]) -> Asked:
    them = [pod_sets[index] for index in indexes]
    totals = [_totals(queue, pods) for pods in them]
    requests = _sum(totals)
    groups: dict[int, list[str]] = {}
    uncovered = False
    for name in sorted(requests):
        index = _group_of(queue, name)
        if index is not None:
            groups.setdefault(index, []).append(name)
        else:
            uncovered = uncovered or bool(requests[name])
    return Asked(indexes, them, totals, requests, groups, uncovered)


def _totals(queue: Queue, pods: PodSet) -> dict[str, int]:
    total = {name: amount * pods.count for name, amount in pods.per_pod.items()}
    if _group_of(queue, VIRTUAL) is not None:
        total[VIRTUAL] = pods.count
    return total


def _group_of(queue: Queue, resource: str) -> int | None:
    """Return the index of the resource group that covers a resource."""
    covering = (index for index, group in enumerate(queue.groups) if resource in group.covered)
    return next(covering, None)


def _grouped(pod_sets: Sequence[PodSet]) -> list[list[int]]:
    """Return the indexes of pod sets that share flavors, in the order of the first of each."""
    groups: dict[object, list[int]] = {}
    for index, pods in enumerate(pod_sets):
        groups.setdefault(pods.group or index, []).append(index)
    return list(groups.values())


def _sum(totals: Iterable[Mapping[str, int]]) -> dict[str, int]:
    result: dict[str, int] = {}
    for total in totals:
        add_to(result, total)
    return result
