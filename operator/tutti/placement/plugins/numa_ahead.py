"""From which NUMA zone the kubelet will give cores to the next pods of a class, so that their devices can be near them.

Claimed devices give the kubelet no hints: it puts what it pins in the zone of the lowest number that has all of it, and
devices can only be chosen to be there (kubernetes pkg/kubelet/cm/topologymanager, policy_single_numa_node.go, and
pkg/kubelet/cm/dra). Told is only what is sure as far as the report goes: pods that ask for the same take one zone after
another, and others that are pending must make no difference, whichever zones they get. With policies other than
`single-numa-node`, and of pods for which nothing is pinned, nothing is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.devices.zones import Zones, ZonesAhead
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.numa import SINGLE
from tutti.cluster.numa_needs import ZoneNeeds, own_part, zone_needs
from tutti.placement.framework import Counts, Mask, Rows
from tutti.placement.plugins.numa_fit import UNTOLD, ZoneSearch
from tutti.placement.plugins.numa_room import loaded

MOST_AHEAD: Final = 16
"""Of so many pods on a node it is told; few nodes have more devices."""
MOST_PENDING: Final = 32
"""Where so many that ask for the same are pending, it is told of none."""
MOST_CONTAINERS: Final = 16
"""Of pods that have more, it is told nothing."""


def zones_ahead(pod_class: PodClass, nodes: NodeColumns) -> ZonesAhead | None:
    """Return to which zones the next pods of a class go on each node; None where that is known of no node."""
    if not nodes.numa or pod_class.problem:
        return None
    nodes.numa.sync()
    stamp = (nodes.numa.version, nodes.capacity_version, len(nodes))
    return pod_class.keep("zones ahead", stamp, lambda: _zones_ahead(pod_class, nodes))


def _zones_ahead(pod_class: PodClass, nodes: NodeColumns) -> ZonesAhead | None:
    needs = zone_needs(pod_class)
    beside = [amounts for amounts, sidecar in needs.init if sidecar]
    if not needs.exclusive or any(own_part(one, guaranteed=needs.guaranteed) for one in beside):
        return None  # nothing is pinned, or something for a sidecar, which stays and is counted as if it ended
    if len(needs.init) + len(needs.containers) > MOST_CONTAINERS:
        return None
    shape = (pod_class.signature, nodes.numa.available.shape, nodes.allocatable.shape)
    told = nodes.keep("zones ahead", shape, lambda: _ToldZones(needs, len(nodes))).follow(nodes)
    if (told == UNTOLD).all():
        return None
    distinct, order_of = np.unique(told, axis=0, return_inverse=True)
    return ZonesAhead(pod_class.signature, tuple(_zones(one) for one in distinct.tolist()), order_of.reshape(-1))


class _ToldZones:
    """The zones of the next pods of the class that was asked about last: only rows that have changed are told anew."""

    def __init__(self, needs: ZoneNeeds, count: int) -> None:
        self._needs = needs
        self._told = np.full((count, MOST_AHEAD), UNTOLD, dtype=np.int64)
        self._told_of: tuple[NDArray[Any], ...] = ()

    def follow(self, nodes: NodeColumns) -> Counts:
        """Return int64[rows, MOST_AHEAD]: the zones as of now; UNTOLD where not sure."""
        numa, pending = nodes.numa, _pending(self._needs, nodes)
        known = (numa.policy == SINGLE) & ~numa.unusable & (pending < MOST_PENDING)
        if _holds_more_at_first(self._needs):
            known &= numa.pod_scope
        rows, least = np.flatnonzero(known), numa.available.copy()
        least[rows] = np.maximum(least[rows] - loaded(nodes, rows, besides=self._needs), 0)
        columns = (known, numa.pod_scope, pending, numa.available, least, numa.listed, numa.numbers, nodes.allocatable)
        changed, told = _changed(self._told_of, columns), self._told.copy()
        told[changed] = UNTOLD
        for whole in (False, True):
            at = np.flatnonzero(changed & known & (numa.pod_scope == whole))
            if len(at):
                told[at] = _told(self._needs, nodes, at, pending[at], least[at], whole=whole)
        self._told, self._told_of = told, tuple(one.copy() for one in columns)
        return told


def _changed(before: Sequence[NDArray[Any]], columns: Sequence[NDArray[Any]]) -> Mask:
    """Return bool[rows]: in which rows any of some columns is another than before; all, where nothing was before."""
    changed = np.full(len(columns[0]), not before)
    for then, now in zip(before, columns, strict=False):
        changed |= (then != now).reshape(len(now), -1).any(axis=1)
    return changed


def _holds_more_at_first(needs: ZoneNeeds) -> bool:
    """Whether an init container is pinned to more than stays: until it is gone, a zone has less for the next pod."""
    each = [own_part(amounts, guaranteed=needs.guaranteed) for amounts, _ in needs.init]
    return any(amount > needs.exclusive.get(name, 0) for own in each for name, amount in own.items())


def _told(needs: ZoneNeeds, nodes: NodeColumns, rows: Rows, pending: Counts, least: Counts, *, whole: bool) -> Counts:
    """Return int64[n, MOST_AHEAD]: the zones of the next pods on nodes of one scope; UNTOLD where not sure.

    Args:
        needs: Theirs.
        nodes: All of them.
        rows: int64[n], those that are looked at.
        pending: int64[n], how many pods that ask for the same are pending.
        least: int64[n, zones, resources], what is left beside all that others who are pending may take.
        whole: Whether pods are aligned as a whole there.
    """
    free, most = nodes.numa.available[rows], int(pending.max()) + MOST_AHEAD
    zones = ZoneSearch.of(nodes, needs, rows, free.copy(), restricted=False).in_order(whole=whole, most=most)
    if (least < free).any():
        other = ZoneSearch.of(nodes, needs, rows, least, restricted=False).in_order(whole=whole, most=most)
        zones = np.where(zones == other, zones, UNTOLD)
    found: Counts = np.take_along_axis(zones, pending[:, None] + np.arange(MOST_AHEAD), axis=1)
    return found


def _pending(needs: ZoneNeeds, nodes: NodeColumns) -> Counts:
    """Return int64[rows]: how many pods are pending that ask the same of zones."""
    found = np.zeros(len(nodes), dtype=np.int64)
    for pod_class, counts in nodes.numa.pending_of.items():
        if zone_needs(pod_class).asks_like(needs):
            for row, count in counts.items():
                found[row] += count
    return found


def _zones(numbers: list[int]) -> Zones:
    """Return zones by their numbers, without what is not told at the end."""
    zones = [None if one == UNTOLD else one for one in numbers]
    while zones and zones[-1] is None:
        zones.pop()
    return tuple(zones)
