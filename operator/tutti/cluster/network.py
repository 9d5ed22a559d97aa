"""AppGroups and the NetworkTopology that counts, who of their pods is where, and what these take of links.

What lies between nodes is told by `network_places`. All of this is kept only where the configuration has `network`
(`NetworkState.on`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.api.network import GROUP_LABEL, REGION, WORKLOAD_LABEL, ZONE, AppGroup, Dependency, NetworkTopology
from tutti.cluster.app_groups import places_in
from tutti.cluster.network_places import (
    MOST_TRAFFIC,
    Counts,
    LabelCodes,
    Places,
    Traffic,
    count_by_place,
    sort_into_places,
    sum_by_link,
    traffic,
)
from tutti.cluster.pods import AssumedAlike, PodKey, PodRecord

Home = tuple[str, str]
"""The namespace of pods, and the name of the AppGroup that they say they are in."""


class Peers(NamedTuple):
    """Pods that those of a class talk to.

    Attributes:
        workload: Theirs, in the AppGroup of the class.
        by: What is asked of the network between a pod of the class and one of them.
        is_needed: Whether the class depends on them; otherwise they depend on it.
    """

    workload: str
    by: Dependency
    is_needed: bool


class NetworkState:
    """AppGroups, what lies between places, and who is where.

    Attributes:
        on: Whether anything of this is kept.
        namespaces: Where AppGroups and the NetworkTopology are looked for, in this order.
        topology_name, weights_name: Which NetworkTopology, and which of its weights count.
        version: Grows whenever an AppGroup or the NetworkTopology changes.
    """

    def __init__(self) -> None:
        self.on = False
        self.namespaces: Sequence[str] = ()
        self.topology_name = self.weights_name = ""
        self.version = 0
        self._topology_version = 0
        self._groups: dict[tuple[str, str], AppGroup] = {}
        self._orders: dict[tuple[str, str], Mapping[str, int]] = {}
        self._topologies: dict[str, NetworkTopology] = {}
        self._there: dict[PodKey, tuple[Home, str, str]] = {}
        self._coming: list[tuple[Home, str, AssumedAlike]] = []  # who came since it was last asked who is where
        self._placed: dict[Home, dict[str, dict[str, int]]] = {}
        self._spaces: dict[str, dict[str, None]] = {}  # in which namespaces there are pods of an AppGroup of a name
        self._changed: dict[str, int] = {}
        self._places: tuple[tuple[int, int, int], Places] | None = None
        self._usage: dict[str, tuple[tuple[int, Places], Counts]] = {}

    def __bool__(self) -> bool:
        """Whether any of it is kept."""
        return self.on

    # what is written

    def put_group(self, found: AppGroup) -> bool:
        """Take in an AppGroup; returns whether that changed anything."""
        key = (found.namespace, found.name)
        if self._groups.get(key) == found:
            return False
        self._groups[key] = found
        self._group_changed(key)
        return True

    def drop_group(self, namespace: str, name: str) -> bool:
        """Forget an AppGroup; returns whether it was known."""
        known = self._groups.pop((namespace, name), None) is not None
        if known:
            self._group_changed((namespace, name))
        return known

    def _group_changed(self, key: tuple[str, str]) -> None:
        self._orders.pop(key, None)
        self.version += 1
        if key[1] in self._changed:  # what its pods take of links is another matter now
            self._changed[key[1]] += 1

    def put_topology(self, found: NetworkTopology) -> bool:
        """Take in a NetworkTopology; returns whether that changed anything, as only the one that counts can."""
        if found.name != self.topology_name or self._topologies.get(found.namespace) == found:
            return False
        self._topologies[found.namespace] = found
        self.version += 1
        self._topology_version += 1
        return True

    def drop_topology(self, namespace: str, name: str) -> bool:
        """Forget a NetworkTopology; returns whether it was known."""
        known = name == self.topology_name and self._topologies.pop(namespace, None) is not None
        self.version += known
        self._topology_version += known
        return known

    def group_of(self, namespace: str, name: str) -> AppGroup | None:
        """Return the AppGroup that pods of a namespace mean: their own, or one where all are looked for."""
        wheres = (namespace, *self.namespaces)
        return next((found for where in wheres if (found := self._groups.get((where, name))) is not None), None)

    def workload_places(self, group: AppGroup) -> Mapping[str, int]:
        """Return the places of the workloads of an AppGroup that is known, in its order."""
        key = (group.namespace, group.name)
        if key not in self._orders:
            self._orders[key] = places_in(group)
        return self._orders[key]

    @property
    def topology(self) -> NetworkTopology | None:
        """The NetworkTopology that counts; None where there is none, or it is of no use."""
        for where in (*self.namespaces, ""):
            found = self._topologies.get(where)
            if found is not None:
                return None if found.problem else found
        return None

    def groups(self) -> Iterator[AppGroup]:
        """Yield every AppGroup that is known."""
        yield from self._groups.values()

    # who is where

    def come(self, record: PodRecord, node: str) -> None:
        """Count a pod on a node, if it belongs to an application."""
        labels = record.pod_signature.labels
        name = labels.get(GROUP_LABEL, "")
        now = ((record.namespace, name), labels.get(WORKLOAD_LABEL, ""), node) if name else None
        if self._by_pod().get(record.key) == now:
            return
        self.leave(record.key)
        if now is not None:
            self._there[record.key] = now
            self._count(now[0], now[1], {node: 1}, 1)

    def come_all(self, alike: Sequence[AssumedAlike]) -> None:
        """Note which pods were just promised nodes, where `take` has counted them by the same labels."""
        for pods in alike:
            labels, namespace = pods.pod_signature.labels, pods.records[0].namespace
            name, workload = labels.get(GROUP_LABEL, ""), labels.get(WORKLOAD_LABEL, "")
            if name:
                self._coming.append(((namespace, name), workload, pods))

    def _by_pod(self) -> dict[PodKey, tuple[Home, str, str]]:
        """Return of what each pod is a part, and where, those included that have come since this was last asked."""
        there, self._coming, coming = self._there, [], self._coming
        for home, workload, pods in coming:
            now = {record.key: (home, workload, node) for record, node in zip(pods.records, pods.nodes, strict=True)}
            for key in () if there.keys().isdisjoint(now) else now:
                self.leave(key)
            there.update(now)
        return there

    def leave(self, key: PodKey) -> None:
        """Count a pod no more."""
        before = self._by_pod().pop(key, None)
        if before is not None:
            self._count(before[0], before[1], {before[2]: 1}, -1)

    def lift(self, key: PodKey, *, back: bool) -> None:
        """Count a pod no more for a while, or again; one of no application is none of the network's."""
        known = self._by_pod().get(key)
        if known is not None:
            self._count(known[0], known[1], {known[2]: 1}, 1 if back else -1)

    def take(self, namespace: str, labels: Mapping[str, str], counts: Mapping[str, int], sign: int) -> None:
        """Count pods of a class with these labels on nodes, or no more, before it is known which pods these are."""
        name = labels.get(GROUP_LABEL, "")
        if name:
            self._count((namespace, name), labels.get(WORKLOAD_LABEL, ""), counts, sign)

    def _count(self, home: Home, workload: str, counts: Mapping[str, int], sign: int) -> None:
        here = self._placed.setdefault(home, {}).setdefault(workload, {})
        for node, many in counts.items():
            now = here[node] = here.get(node, 0) + sign * many
            if not now:
                del here[node]
        self._spaces.setdefault(home[1], {})[home[0]] = None
        self._changed[home[1]] = self._changed.get(home[1], 0) + 1
        if here:
            return
        del self._placed[home][workload]
        if not self._placed[home]:
            del self._placed[home]
            del self._spaces[home[1]][home[0]]
            if not self._spaces[home[1]]:
                del self._spaces[home[1]]
                del self._changed[home[1]]
                self._usage.pop(home[1], None)

    def pods_of(
        self, namespace: str, group: AppGroup, workload: str, rows: Mapping[str, int]
    ) -> tuple[NDArray[np.int64], Counts]:
        """Return where the pods of a workload are as those of a namespace see it: rows int64[m], how many int64[m].

        Pods of other namespaces count where the AppGroup says that the workload is there.
        """
        found: dict[int, int] = {}
        for where in dict.fromkeys((namespace, *group.homes.get(workload, ()))):
            for node, many in self._placed.get((where, group.name), {}).get(workload, {}).items():
                if node in rows:
                    found[rows[node]] = found.get(rows[node], 0) + many
        at = np.fromiter(found, dtype=np.int64, count=len(found))
        return at, np.fromiter(found.values(), dtype=np.int64, count=len(found))

    # what lies between

    def places(self, version: int, regions: LabelCodes, zones: LabelCodes, count: int) -> Places:
        """Return where `count` rows are; the labels are those of regions and zones, as of `version` of the nodes."""
        stamp = (version, self._topology_version, count)
        if self._places is None or self._places[0] != stamp:
            topology = self.topology
            links = [{} if topology is None else topology.links(self.weights_name, key) for key in (REGION, ZONE)]
            self._places = stamp, sort_into_places(regions, zones, count, *links)
        return self._places[1]

    def usage(self, places: Places, rows: Mapping[str, int]) -> Counts:
        """Return int64[links]: what all applications take of each, in bits per second."""
        total = np.zeros(len(places.links), dtype=np.int64)
        for name in self._spaces:
            stamp = (self._changed[name], places)
            kept = self._usage.get(name)
            if kept is None or kept[0] != stamp:
                kept = self._usage[name] = stamp, self._usage_of(name, places, rows)
            total = np.minimum(total + kept[1], MOST_TRAFFIC)
        return total

    def _usage_of(self, name: str, places: Places, rows: Mapping[str, int]) -> Counts:
        """Return int64[links]: what the applications of one name take of each, one in each namespace."""
        return sum_by_link(
            places, chain.from_iterable(self._traffic_of(one, name, places, rows) for one in self._spaces[name])
        )

    def _traffic_of(self, namespace: str, name: str, places: Places, rows: Mapping[str, int]) -> Iterator[Traffic]:
        """Yield what the pods of a namespace take of links, workload by workload and dependency by dependency."""
        group = self.group_of(namespace, name)
        if group is None or group.problem:
            return
        there: dict[str, Counts] = {}  # where the pods of each workload are, as those of the namespace see it
        for workload, needed in group.dependencies.items():
            here = self._placed[namespace, name].get(workload)
            if not here or not any(one.bandwidth for one in needed):
                continue
            mine = _by_place(places, [(rows[node], many) for node, many in here.items() if node in rows])
            for one in needed:
                if one.on not in there:
                    there[one.on] = count_by_place(places, *self.pods_of(namespace, group, one.on, rows))
                yield traffic(places, mine, there[one.on], one.bandwidth)


def _by_place(places: Places, pods: Sequence[tuple[int, int]]) -> Counts:
    pairs = np.array(pods, dtype=np.int64).reshape(-1, 2)
    return count_by_place(places, pairs[:, 0], pairs[:, 1])


def peers_of(group: AppGroup, workload: str, *, reverse: bool) -> Iterator[Peers]:
    """Yield whom the pods of a workload depend on and, if asked, who depends on them."""
    for one in group.dependencies.get(workload, ()):
        yield Peers(one.on, one, is_needed=True)
    for other, needed in group.dependencies.items() if reverse else ():
        for one in needed:
            if one.on == workload:
                yield Peers(other, one, is_needed=False)
