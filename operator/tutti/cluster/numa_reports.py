"""What follows from the report of a node's agent and the pods on the node: whom it does not know yet, and who is where.

A report is older than what is seen of pods. Which of them it knows is worked out anew from the two whenever either
changes, so that it is the same after a restart, and so for pods of other schedulers:

    fingerprint    the report says of which pods it is: those that have come since are told apart by it
    time           it has another fingerprint: whoever was started before it was written is taken to be in it
    amounts        it has none: of those that were started since, as many are taken to be missing as it lacks amounts of

Source of the idea: scheduler-plugins, noderesourcetopology/cache/overreserve.go, which keeps what it has reserved in
memory, and keeps pods off a node where others have put any until the report is known to be right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tutti.api.numa import NodeTopology
from tutti.api.resources import Amounts
from tutti.cluster.numa_needs import own_part, zone_needs
from tutti.cluster.pod_fingerprint import METHOD_EXCLUSIVE, fingerprint, is_fingerprint
from tutti.cluster.pods import PodRecord
from tutti.cluster.requests import sum_of_amounts

SCAN_SECONDS: Final = 5.0
"""A pod that was started less than so long before a report was written may have come after the agent looked."""
_MOST_BEHIND: Final = 16
"""So many pods may have come since: agents report within a minute, most of them at once."""
_MOST_STEPS: Final = 512
"""So many ways to put pods in zones are looked at; two pods of a size in each of eight zones are fewer."""

Zones = tuple[Amounts, ...]
"""Amounts of each zone, in the order of the report."""


def unreported(report: NodeTopology, pods: Collection[PodRecord]) -> list[PodRecord]:
    """Return those pods on a node whose part of its zones is not in what its report calls available.

    Args:
        report: Of the node.
        pods: All that take room there, those included that are not bound yet.
    """
    pods = [pod for pod in pods if not pod.pod_class.problem]
    reserved = [pod for pod in pods if not pod.node and zone_needs(pod.pod_class).charged]
    bound = sorted((pod for pod in pods if pod.node), key=_begun)
    if not any(zone_needs(pod.pod_class).charged for pod in bound):
        return reserved
    return [*_missing(report, bound), *reserved]


def _begun(pod: PodRecord) -> tuple[float, str, str]:
    return float("inf") if pod.started is None else pod.started, pod.namespace, pod.name


def _missing(report: NodeTopology, bound: Sequence[PodRecord]) -> list[PodRecord]:
    """Return which bound pods a report does not know, of all in the order in which they were started."""
    fresh = [pod for pod in bound if pod.started is None or pod.started > report.written - SCAN_SECONDS]
    if not is_fingerprint(report.fingerprint):
        return _lacked(report, bound, fresh)
    counting = bound
    if report.fingerprint_method == METHOD_EXCLUSIVE:
        counting = [pod for pod in bound if zone_needs(pod.pod_class).charged]
    for known in range(len(counting), max(-1, len(counting) - _MOST_BEHIND - 1), -1):
        if fingerprint(pod.key for pod in counting[:known]) == report.fingerprint:
            return list(counting[known:])
    return fresh


def _lacked(report: NodeTopology, bound: Sequence[PodRecord], fresh: Sequence[PodRecord]) -> list[PodRecord]:
    """Return, of those that were started since a report was written, the last ones that make up what it lacks."""
    expected = sum_of_amounts(zone_needs(pod.pod_class).exclusive for pod in bound)
    used = sum_of_amounts(used_of_zones(report))
    lacking = {name: expected[name] - used[name] for name in used if name in expected}
    missing = []
    for pod in reversed(fresh):
        exclusive = zone_needs(pod.pod_class).exclusive
        told = [name for name in exclusive if name in lacking]
        if pod.started is None or any(lacking[name] > 0 for name in told):
            missing.append(pod)
            for name in told:
                lacking[name] -= exclusive[name]
    return missing


def used_of_zones(report: NodeTopology) -> Zones:
    """Return what is taken in each zone, of those resources of which the report says how much there is in all."""
    return tuple(
        {
            name: max(0, amount - zone.available.get(name, 0))
            for name, amount in zone.allocatable.items()
            if name in zone.available
        }
        for zone in report.zones
    )


def freed_by(report: NodeTopology, known: Sequence[PodRecord], gone: Sequence[PodRecord]) -> Zones | None:
    """Return what each zone would have more of without some pods, as far as that is sure.

    Nobody says which pod is in which zone. But pods must be in zones such that what is taken there adds up; where that
    can be in several ways, as much is sure as is freed in all of them. Ways that only exchange zones count as one.

    Args:
        report: Of the node.
        known: All pods that its report knows.
        gone: Those of them that would be gone.

    Returns:
        None where all zones would be empty.
    """
    leaving = {pod.key for pod in gone}
    if all(pod.key in leaving for pod in known if zone_needs(pod.pod_class).charged):
        return None
    used = used_of_zones(report)
    total = sum_of_amounts(used)
    expected = sum_of_amounts(zone_needs(pod.pod_class).exclusive for pod in known)
    names = [name for name in total if expected.get(name, 0) == total[name] > 0]
    search = _Packing([{name: zone.get(name, 0) for name in names} for zone in used])
    for pod in known:
        for item in _items(report, pod, names):
            search.items.append((item, pod.key in leaving))
    search.items.sort(key=lambda one: (-sum(one[0].values()), sorted(one[0].items()), one[1]))
    ways = search.ways()
    if not ways:
        return tuple({} for _ in used)
    shapes = {tuple(sorted(zip(map(_frozen, report_left(report)), map(_frozen, way), strict=True))) for way in ways}
    if len(shapes) == 1:
        return ways[0]
    least = (Counter({name: min(way[at].get(name, 0) for way in ways) for name in names}) for at in range(len(used)))
    return tuple(dict(+zone) for zone in least)


def report_left(report: NodeTopology) -> Zones:
    """Return what is available in each zone."""
    return tuple(zone.available for zone in report.zones)


def _frozen(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(item for item in amounts.items() if item[1]))


def _items(report: NodeTopology, pod: PodRecord, names: Sequence[str]) -> Iterator[Amounts]:
    """Yield what of a pod is in one zone each."""
    needs = zone_needs(pod.pod_class)
    parts = (
        [needs.exclusive]
        if report.pod_scope
        else [own_part(one, guaranteed=needs.guaranteed) for one in needs.containers]
    )
    for part in parts:
        item = {name: part[name] for name in names if part.get(name)}
        if item:
            yield item


@dataclass(slots=True)
class _Packing:
    """Looks for the ways in which items fill zones exactly.

    Attributes:
        left: What is yet to be filled in each zone.
        items: What each takes, and whether it would be gone.
    """

    left: list[Amounts]
    items: list[tuple[Amounts, bool]] = field(default_factory=list)
    _freed: list[Counter[str]] = field(default_factory=list)
    _found: dict[tuple[object, ...], Zones] = field(default_factory=dict)
    _steps: int = 0

    def ways(self) -> list[Zones]:
        """Return what would be freed in each zone, in each way; nothing where there are none, or too many."""
        self._freed = [Counter() for _ in self.left]
        self._place(0)
        return list(self._found.values()) if self._steps <= _MOST_STEPS else []

    def _place(self, at: int) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            return
        if at == len(self.items):
            if not any(any(zone.values()) for zone in self.left):
                way = tuple(dict(+one) for one in self._freed)
                self._found[tuple(map(_frozen, way))] = way
            return
        item, leaves = self.items[at]
        for zone, freed in zip(self.left, self._freed, strict=True):
            if all(zone.get(name, 0) >= amount for name, amount in item.items()):
                told = freed if leaves else Counter[str]()
                self._move(zone, told, item, 1)
                self._place(at + 1)
                self._move(zone, told, item, -1)

    @staticmethod
    def _move(zone: Amounts, freed: Counter[str], item: Amounts, sign: int) -> None:
        for name, amount in item.items():
            zone[name] -= sign * amount
            freed[name] += sign * amount
