"""Devices as amounts, for choosing victims on columns: so many that match are free on a node, a victim has so many.

That is less than what claims ask: devices may have to have an attribute in common, or take from the same counters. So
who is chosen by amounts must be tried by all rules; but nobody who could stay is chosen, and where amounts do not
suffice nothing does. How many pods a node can take at most, once all have left who may, is told by the claims.

Only pools that are a node's own count: for who may get devices that nodes share, victims are chosen by trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.cluster.devices.asks import RequestAsk, WayAsk
from tutti.cluster.devices.pools import NodePool
from tutti.cluster.devices.programs import DeviceProgram
from tutti.cluster.devices.search import SearchTooLong
from tutti.cluster.placed_pods import Slots
from tutti.placement.framework import Counts


@dataclass(frozen=True, slots=True)
class DeviceWish:
    """What the claims of a class ask for, as amounts.

    Attributes:
        request: int64[kinds], how many devices of each kind that is asked for one pod takes at least; above 0.
        free: int64[kinds, rows], how many are free on each node.
        matching: Per kind and row, which devices of each pool match: places as bits.
    """

    cluster: Cluster
    request: Counts
    free: NDArray[np.int64]
    matching: Sequence[Sequence[tuple[int, ...]]]

    @classmethod
    def of(cls, cluster: Cluster, pod_class: PodClass) -> DeviceWish | None:
        """Return what a class asks for; None where amounts say nothing of it."""
        nodes, needs = cluster.nodes, pod_class.devices
        devices = nodes.devices
        programs = devices.columns(needs, nodes.device_view(needs)).programs
        if len(programs) != 1:
            return None
        (program, where), rows = programs[0], devices.rows
        kinds: dict[tuple[WayAsk, ...], int] = {}
        for one in (one for claim in program.claims for one in claim.requests):
            amount = _least(one)
            if amount:
                kinds[one.ways] = kinds.get(one.ways, 0) + amount
        try:
            found = {ways: _matching(program, ways, rows.own[: len(nodes)]) for ways in kinds}
        except SearchTooLong:
            return None
        matching = [masks for masks in found.values() if masks is not None]
        if not matching:
            return None
        request = [kinds[ways] for ways, masks in found.items() if masks is not None]
        free = np.full((len(matching), len(nodes)), np.iinfo(np.int32).max, dtype=np.int64)
        for kind, masks in enumerate(matching):
            for row in np.flatnonzero(where).tolist():
                uses = rows.own_uses[row]
                free[kind, row] = sum((mask & ~use[0]).bit_count() for mask, use in zip(masks[row], uses, strict=True))
        return cls(cluster, np.array(request, dtype=np.int64), free, matching)

    def held(self, slots: Slots) -> NDArray[np.int64]:
        """Return int64[kinds, m]: how many of the devices that match each of these pods has."""
        columns, holders, rows = (
            self.cluster.pod_columns,
            self.cluster.device_users.holders,
            self.cluster.nodes.devices.rows,
        )
        out = np.zeros((len(self.request), len(slots)), dtype=np.int64)
        for at, (pod, row) in enumerate(zip(columns.at(slots), columns.row[slots].tolist(), strict=True)):
            for one in holders.held_by(pod) if holders.concerns(pod) else ():
                for number, pool in enumerate(rows.own[row]):
                    place = pool.positions.get(one.name) if pool.key == one.pool else None
                    if place is not None and one.consumed is None:
                        out[:, at] += [masks[row][number] >> place & 1 for masks in self.matching]
        return out


def _least(request: RequestAsk) -> int:
    """Return how many devices that nobody else may have a request takes at least."""
    return min(0 if way.admin else max(way.count, 1) for way in request.ways)


def _matching(
    program: DeviceProgram, ways: Sequence[WayAsk], pools: Sequence[tuple[NodePool, ...]]
) -> list[tuple[int, ...]] | None:
    """Return per row which devices of each of its pools one of several ways selects; None where some can be shared."""
    out = []
    for mine in pools:
        masks = []
        for pool in mine:
            mask = 0
            for found in [program.ways.matches(way, pool) for way in ways]:
                if found.selected & found.shared:
                    return None
                mask |= found.selected
            masks.append(mask)
        out.append(tuple(masks))
    return out
