"""What nodes offer, as seen by those who look at some attributes of devices only.

Devices that differ in their serial numbers alone are of one kind to whoever does not ask for these, and nodes whose
devices are alike offer the same: they are in one situation. Of attributes that are only compared it is told which
devices of a node have the same, and not what that is: islands with names of their own are alike. Which situation each
row is in is worked out once for all claims that look at the same attributes, and again only for rows on which something
else is offered or taken since.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

import numpy as np

from tutti.api.devices import AttributeValue
from tutti.cluster.devices.expressions import DeviceContent
from tutti.cluster.devices.ledger import LocalUse
from tutti.cluster.devices.offers import NEAR, DeviceKind, Offer, OfferedPool
from tutti.cluster.devices.pools import NodePool
from tutti.cluster.devices.published import PoolDevice
from tutti.cluster.devices.rows import DeviceRows

_MOST_SITUATIONS: Final = 1 << 16
_MANY_POOLS: Final = 16


class _Plan(NamedTuple):
    """Which values count of the devices of pools of one shape: places of devices, and of values in them.

    Attributes:
        read: Those that expressions may look at.
        compared: Those that are only compared, and the names that they have there.
    """

    read: tuple[tuple[int, int], ...]
    compared: tuple[tuple[int, int, str], ...]


class _PoolView(NamedTuple):
    """A pool as it is seen.

    Attributes:
        code: Equal for pools that differ in nothing but what is compared.
        values: What is compared, in the order of the plan.
        alone: The number of the pool where no other is on its node.
    """

    code: int
    values: tuple[AttributeValue, ...]
    alone: int


class DeviceProjection:
    """The situation of each row.

    Attributes:
        offers: What each situation offers.
        situation_of: int64[n], the situation of each row, n being at least the rows.
        stamp: Of the rows, when these were last looked at.
        epoch: Grows when situations get other numbers.
    """

    def __init__(self, number: int, reads: frozenset[str] | None, compares: frozenset[str]) -> None:
        self.offers: list[Offer] = []
        self.situation_of = np.zeros(16, dtype=np.int64)
        self.stamp = -1
        self.epoch = 0
        self._number = number
        self._reads = reads
        self._compares = compares
        self._pools: list[OfferedPool] = []
        self._pool_numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        self._codes: dict[Hashable, int] = {}
        self._plans: dict[Hashable, _Plan] = {}
        self._kinds: dict[DeviceKind, DeviceKind] = {}
        self._known: dict[tuple[tuple[int, ...], tuple[LocalUse, ...]], int] = {}
        self._pools_of: list[tuple[int, ...]] = []
        self._last: tuple[tuple[NodePool, ...], tuple[int, ...]] | None = None

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
        alike: dict[tuple[int, int], int] = {}  # rows that have the same pools and uses, which keep these meanwhile
        for row in np.flatnonzero(rows.stamps[:count] > self.stamp).tolist():
            pools, uses = rows.pools[row], rows.uses[row]
            known = alike.get((id(pools), id(uses)))
            if known is None:
                known = alike[id(pools), id(uses)] = self._situation(self._numbers(pools), uses)
            self.situation_of[row] = known
        self.stamp = rows.stamp

    def next(self, situation: int, uses: tuple[LocalUse, ...]) -> int:
        """Return the situation of a node of which something else is taken."""
        return self._situation(self._pools_of[situation], uses)

    def kind(self, device: PoolDevice) -> DeviceKind:
        """Return what is seen of a device by itself, compared with no other; of equal ones the same object."""
        return self._kind(device, ())

    def code_of(self, pool: NodePool) -> int:
        """Return a number that is equal for pools whose devices are of the same kinds by themselves, place by place."""
        return self._view(pool).code

    def _situation(self, pools: tuple[int, ...], uses: tuple[LocalUse, ...]) -> int:
        known = self._known.get((pools, uses))
        if known is None:
            known = self._known[pools, uses] = len(self.offers)
            self._pools_of.append(pools)
            self.offers.append(Offer(tuple(self._pools[number] for number in pools), uses))
        return known

    def _numbers(self, pools: tuple[NodePool, ...]) -> tuple[int, ...]:
        """Return the numbers of the pools of one node; of many it is remembered which these were last."""
        if len(pools) < _MANY_POOLS:
            return self._numbers_of(pools)
        if self._last is None or self._last[0] is not pools:
            self._last = (pools, self._numbers_of(pools))
        return self._last[1]

    def _numbers_of(self, pools: Sequence[NodePool]) -> tuple[int, ...]:
        """Return the numbers of the pools of one node, beside one another."""
        views = [self._view(pool) for pool in pools]
        if len(views) == 1:
            return (views[0].alone,)
        told: dict[AttributeValue, int] = {}
        return tuple([self._number_of(pool, view, told) for pool, view in zip(pools, views, strict=True)])

    def _number_of(self, pool: NodePool, view: _PoolView, told: dict[AttributeValue, int]) -> int:
        """Return the number of a pool, given which of its values have been met on its node, and in which order."""
        marks = tuple([told.setdefault(one, len(told)) for one in view.values])
        number = self._pool_numbers.get((view.code, marks))
        if number is None:
            number = self._pool_numbers[view.code, marks] = len(self._pools)
            self._pools.append(self._offered(pool, marks))
        return number

    def _view(self, pool: NodePool) -> _PoolView:
        view = pool.projected.get(self._number)
        if view is None:
            view = pool.projected[self._number] = self._look_at(pool)
        assert isinstance(view, _PoolView)
        return view

    def _look_at(self, pool: NodePool) -> _PoolView:
        listed, plan = pool.listed, self._plan(pool)
        read = tuple([listed[at].values[place] for at, place in plan.read])
        what = (pool.shape, pool.status, len(pool.devices), pool.binds, read, tuple(sorted(pool.counters.items())))
        code = self._codes.setdefault(what, len(self._codes))
        view = _PoolView(code, tuple([listed[at].values[place] for at, place, _ in plan.compared]), -1)
        return view._replace(alone=self._number_of(pool, view, {}))

    def _offered(self, pool: NodePool, marks: Sequence[int]) -> OfferedPool:
        compared: list[list[tuple[str, AttributeValue]]] = [[] for _ in pool.listed]
        for (at, _, name), mark in zip(self._plan(pool).compared, marks, strict=True):
            compared[at].append((name, ("int", mark)))
        kinds = tuple([self._kind(device, mine) for device, mine in zip(pool.listed, compared, strict=True)])
        counters = tuple(sorted(pool.counters.items()))
        return OfferedPool(pool.status, kinds, len(pool.devices), counters, pool.binds)

    def _plan(self, pool: NodePool) -> _Plan:
        plan = self._plans.get(pool.shape)
        if plan is None:
            read, compared = [], []
            for at, device in enumerate(pool.listed):
                for place, name in enumerate(sorted(device.attributes)):
                    last = name.rpartition("/")[2]
                    if self._reads is None or last in self._reads:
                        read.append((at, place))
                    elif last in self._compares:
                        compared.append((at, place, name))
            plan = self._plans[pool.shape] = _Plan(tuple(read), tuple(compared))
        return plan

    def _kind(self, device: PoolDevice, compared: Sequence[tuple[str, AttributeValue]]) -> DeviceKind:
        content, attributes, reads = device.content, device.attributes, self._reads
        if reads is not None:
            content = DeviceContent(
                content.driver,
                tuple(one for one in content.attributes if one[0][1] in reads),
                tuple(one for one in content.capacity if one[0][1] in reads),
                content.multiple,
            )
            attributes = {name: one for name, one in attributes.items() if name.rpartition("/")[2] in reads}
        attributes = {**attributes, **dict(compared)}
        kind = DeviceKind(
            content,
            tuple(sorted(attributes.items())),
            device.capacities,
            device.consumes,
            device.taints,
            device.multiple,
            tuple(attributes.get(name) for name in NEAR),
        )
        return self._kinds.setdefault(kind, kind)
