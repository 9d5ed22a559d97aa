"""What nodes offer, as seen by those who look at some attributes of devices only.

Devices that differ in their serial numbers alone are of one kind to whoever does not ask for these, and nodes whose
devices are alike offer the same: they are in one situation. Which situation each row is in is worked out once for all
claims that look at the same attributes, and again only for rows on which something else is offered or taken since.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from tutti.api.devices import AttributeValue
from tutti.cluster.devices.expressions import DeviceContent
from tutti.cluster.devices.ledger import LocalUse
from tutti.cluster.devices.offers import DeviceKind, Offer, OfferedPool
from tutti.cluster.devices.pools import NodePool, PoolDevice
from tutti.cluster.devices.rows import DeviceRows

_MOST_SITUATIONS: Final = 1 << 16


class DeviceProjection:
    """The situation of each row.

    Attributes:
        offers: What each situation offers.
        situation_of: int64[n], the situation of each row, n being at least the rows.
        stamp: Of the rows, when these were last looked at.
        epoch: Grows when situations get other numbers.
    """

    def __init__(self, number: int, reads: frozenset[str] | None) -> None:
        self.offers: list[Offer] = []
        self.situation_of = np.zeros(16, dtype=np.int64)
        self.stamp = -1
        self.epoch = 0
        self._number = number
        self._reads = reads
        self._pools: list[OfferedPool] = []
        self._pool_numbers: dict[Hashable, int] = {}
        self._kinds: dict[DeviceKind, DeviceKind] = {}
        self._kind_of: dict[tuple[int, int, tuple[AttributeValue, ...]], DeviceKind] = {}
        self._places: dict[int, tuple[int, ...]] = {}
        self._known: dict[tuple[tuple[int, ...], tuple[LocalUse, ...]], int] = {}
        self._pools_of: list[tuple[int, ...]] = []

    def refresh(self, rows: DeviceRows, count: int) -> None:
        """Bring the situations of the first `count` rows up to date."""
        if self.stamp == rows.stamp and len(self.situation_of) >= count:
            return
        if len(self.offers) > _MOST_SITUATIONS:
            self._known.clear()
            self._pools_of, self.offers = [], []
            self.epoch += 1
            self.stamp = -1
        if len(self.situation_of) < count or self.stamp < 0:
            self.situation_of = np.full(2 * count, self._situation((), ()), dtype=np.int64)
            self.stamp = 0
        for row in np.flatnonzero(rows.stamps[:count] > self.stamp).tolist():
            pools = tuple([self._number_of(pool) for pool in rows.pools[row]])
            self.situation_of[row] = self._situation(pools, rows.uses[row])
        self.stamp = rows.stamp

    def next(self, situation: int, uses: tuple[LocalUse, ...]) -> int:
        """Return the situation of a node of which something else is taken."""
        return self._situation(self._pools_of[situation], uses)

    def kind(self, device: PoolDevice) -> DeviceKind:
        """Return what is seen of a device; of equal ones the same object."""
        places = self._places.get(device.schema)
        if places is None:
            places = self._places[device.schema] = self._places_read(device)
        key = (device.base, device.schema, tuple([device.values[at] for at in places]))
        known = self._kind_of.get(key)
        if known is None:
            kind = self._make_kind(device)
            known = self._kind_of[key] = self._kinds.setdefault(kind, kind)
        return known

    def _situation(self, pools: tuple[int, ...], uses: tuple[LocalUse, ...]) -> int:
        known = self._known.get((pools, uses))
        if known is None:
            known = self._known[pools, uses] = len(self.offers)
            self._pools_of.append(pools)
            self.offers.append(Offer(tuple(self._pools[number] for number in pools), uses))
        return known

    def _number_of(self, pool: NodePool) -> int:
        number = pool.projected.get(self._number)
        if number is None:
            number = pool.projected[self._number] = self._project(pool)
        return number

    def _project(self, pool: NodePool) -> int:
        kinds = tuple([self.kind(device) for device in (*pool.devices, *pool.others)])
        key = (pool.status, tuple(map(id, kinds)), len(pool.devices), tuple(sorted(pool.counters.items())))
        number = self._pool_numbers.get(key)
        if number is None:
            number = self._pool_numbers[key] = len(self._pools)
            self._pools.append(OfferedPool(pool.status, kinds, len(pool.devices), key[3]))
        return number

    def _places_read(self, device: PoolDevice) -> tuple[int, ...]:
        """Return which of the attributes of a device, in the order of their names, may be looked at."""
        names, reads = sorted(device.attributes), self._reads
        return tuple(at for at, name in enumerate(names) if reads is None or name.rpartition("/")[2] in reads)

    def _make_kind(self, device: PoolDevice) -> DeviceKind:
        content, attributes, reads = device.content, device.attributes, self._reads
        if reads is not None:
            content = DeviceContent(
                content.driver,
                tuple(one for one in content.attributes if one[0][1] in reads),
                tuple(one for one in content.capacity if one[0][1] in reads),
                content.multiple,
            )
            attributes = {name: one for name, one in attributes.items() if name.rpartition("/")[2] in reads}
        return DeviceKind(
            content,
            tuple(sorted(attributes.items())),
            device.capacities,
            device.consumes,
            device.taints,
            device.multiple,
        )
