"""Which nodes have devices that are linked to one another: NVLink domains, cliques, pools of one network.

Drivers say so by an attribute that all devices of an island have in common, whatever node they are of. Where none is
said, nodes that can use the same pools of a network, and not those of all others, are an island.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.devices.pools import NodePool
from tutti.cluster.devices.rows import DeviceRows

APART = -1
"""The island of a node whose devices are linked to those of no other."""


class DeviceIslands:
    """The islands of nodes, worked out again when any node has other pools."""

    def __init__(self, rows: DeviceRows) -> None:
        self._rows = rows
        self._known: tuple[Hashable, NDArray[np.int64]] = (None, np.zeros(0, dtype=np.int64))

    def of(self, names: frozenset[str], count: int) -> NDArray[np.int64]:
        """Return int64[count]: the island of each of the first rows, APART where it is in none.

        Args:
            names: The attributes that tell islands, without their domains.
            count: How many rows.
        """
        stamp = (self._rows.version, names, count)
        if self._known[0] != stamp:
            self._known = stamp, self._told(names, count)
        return self._known[1]

    def _told(self, names: frozenset[str], count: int) -> NDArray[np.int64]:
        numbers: dict[Hashable, int] = {}
        several = len(self._rows.commons()) > 1
        of_common: dict[int, Hashable] = {}
        out = np.full(count, APART, dtype=np.int64)
        for row in range(count):
            common = self._rows.shared[row]
            if id(common) not in of_common:
                said = _said(common.pools.pools, names)
                alone = several and bool(common.pools.pools)
                of_common[id(common)] = said if said is not None else id(common) if alone else None
            island = _said(self._rows.own[row], names)
            island = of_common[id(common)] if island is None else island
            if island is not None:
                out[row] = numbers.setdefault(island, len(numbers))
        return out


def _said(pools: Iterable[NodePool], names: frozenset[str]) -> Hashable:
    """Return what all devices of some pools that are in an island say of it; None where they do not agree."""
    found = {
        (name, value)
        for pool in pools
        for device in pool.devices
        for name, value in device.attributes.items()
        if name.rpartition("/")[2] in names
    }
    return next(iter(found)) if len(found) == 1 else None
