"""Situations of nodes on which it is known from which NUMA zone the kubelet will give cores to the pods that come next.

The kubelet gets no hints from claimed devices: it chooses a zone by what else a pod asks for, and devices can only be
chosen to be in that zone. So nodes that offer the same are in one situation only if the next pods go to the same zones
on them, and once a pod has been put, the situation is that of the pod after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.devices.ledger import LocalUse
from tutti.cluster.devices.offers import DeviceKind, Offer
from tutti.cluster.devices.pools import NodePool
from tutti.cluster.devices.projections import DeviceProjection, PoolKinds
from tutti.cluster.devices.rows import DeviceRows
from tutti.cluster.devices.selections import Contents

ZONE_ATTRIBUTE: Final = "numaNode"
"""Says in which zone a device is (of the domain resource.kubernetes.io)."""

_MOST_SITUATIONS: Final = 1 << 16

Zones = tuple[int | None, ...]
"""The zone of the next pod, of the one after it, and so on; None where it cannot be told."""


@dataclass(frozen=True, slots=True, eq=False)
class ZonesAhead:
    """To which zones the next pods of a class go on each node.

    Attributes:
        key: Of the class.
        orders: The different ones.
        order_of: int64[rows], which of them each row has.
    """

    key: bytes
    orders: tuple[Zones, ...]
    order_of: NDArray[np.int64]

    def after(self, pods: int) -> ZonesAhead:
        """Return where those go that come after so many pods on each node."""
        if not pods:
            return self
        return ZonesAhead(self.key, tuple(one[pods:] for one in self.orders), self.order_of)


class ZonedProjection:
    """The situation of each row, zones included; used in place of the projection that it is made of.

    Attributes:
        base: Tells the situations without zones.
        zones: To which zones pods go; another object whenever that changes.
        offers: What each situation offers.
        situation_of: int64[n], the situation of each row.
        stamp: Grows whenever situations of rows change.
        epoch: Grows when situations get other numbers.
    """

    def __init__(self, base: DeviceProjection, zones: ZonesAhead) -> None:
        self.base = base
        self.zones = zones
        self.offers: list[Offer] = []
        self.situation_of = np.zeros(0, dtype=np.int64)
        self.stamp = self.epoch = 0
        self._made_of: list[tuple[int, Zones]] = []
        self._known: dict[tuple[int, Zones], int] = {}
        self._seen: tuple[int, int, int] | None = None
        self._of: ZonesAhead | None = None

    def refresh(self, rows: DeviceRows, count: int) -> None:
        """Bring the situations of the first `count` rows up to date."""
        base, zones = self.base, self.zones
        base.refresh(rows, count)
        seen = (base.epoch, base.stamp, count)
        if seen == self._seen and zones is self._of:
            return
        if (self._seen is not None and self._seen[0] != base.epoch) or len(self.offers) > _MOST_SITUATIONS:
            self.offers, self._made_of, self._known = [], [], {}
            self.epoch += 1
        width = len(zones.orders)
        pairs, inverse = np.unique(base.situation_of[:count] * width + zones.order_of[:count], return_inverse=True)
        numbers = [self._number(pair // width, zones.orders[pair % width]) for pair in pairs.tolist()]
        self.situation_of = np.array(numbers, dtype=np.int64)[inverse]
        self.stamp += 1
        self._seen, self._of = seen, zones

    def settle(self, rows: DeviceRows, those: Sequence[int], situation: int, uses: tuple[LocalUse, ...]) -> None:
        """Note, for the rows as well, what is taken now on some that are up to date, apart, and in one situation."""
        self.base.settle(rows, those, self._made_of[situation][0], uses)

    def next(self, situation: int, uses: tuple[LocalUse, ...]) -> int:
        """Return the situation of a node on which one more pod has been put, so that something else is taken."""
        base, zones = self._made_of[situation]
        return self._number(self.base.next(base, uses), zones[1:])

    def pools_at(self, rows: DeviceRows, row: int) -> Sequence[NodePool]:
        """Return the pools of a row, as its situation offers them."""
        return self.base.pools_at(rows, row)

    def pools_of(self, rows: DeviceRows, those: Sequence[int]) -> list[Sequence[NodePool]]:
        """Return the pools of each of some rows, as its situation offers them."""
        return self.base.pools_of(rows, those)

    @property
    def contents(self) -> Contents:
        """The different devices that are seen."""
        return self.base.contents

    def seen(self, pool: NodePool) -> PoolKinds:
        """Return what is seen of the devices of a pool, each by itself."""
        return self.base.seen(pool)

    def shared(self, rows: DeviceRows) -> Sequence[DeviceKind]:
        """Return what is seen of devices that several rows can use, each different one once."""
        return self.base.shared(rows)

    def code_of(self, pool: NodePool) -> int:
        """Return a number that is equal for pools whose devices are of the same kinds by themselves, place by place."""
        return self.base.code_of(pool)

    def _number(self, base: int, zones: Zones) -> int:
        """Return the number of a situation."""
        number = self._known.get((base, zones))
        if number is None:
            number = self._known[base, zones] = len(self.offers)
            self._made_of.append((base, zones))
            self.offers.append(self.base.offers[base]._replace(zone=zones[0] if zones else None))
        return number


Situations = DeviceProjection | ZonedProjection
