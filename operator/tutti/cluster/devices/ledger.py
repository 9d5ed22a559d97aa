"""Who holds which device: what claims have, and what has been promised to claims and is not written yet.

Rule: kube-scheduler 1.36, plugins/dynamicresources/allocateddevices.go. Whoever has written an allocation, it counts;
admin access takes nothing; a share takes what it says of the capacities of its device, all else the whole device.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tutti.api.devices import AllocatedDevice, Allocation
from tutti.api.quantity import QuantityError, parse_quantity
from tutti.cluster.devices.pools import NodePool
from tutti.cluster.devices.taint_rules import PoolKey

LocalUse = tuple[int, tuple[tuple[int, tuple[int, ...]], ...]]
"""What is taken of a pool as one node sees it: the places of whole devices as bits of an int; and for each device that
is shared, its place and how much of each of its capacities is consumed, in milli-units."""

UNUSED: LocalUse = (0, ())


class HeldDevice(msgspec.Struct, frozen=True, gc=False):
    """A device that somebody holds; `consumed`, in milli-units: what of it, None where it is held whole."""

    pool: PoolKey
    name: str
    consumed: tuple[tuple[str, int], ...] | None = None


def held_by(allocation: Allocation) -> list[HeldDevice]:
    """Return what an allocation holds; what cannot be read of a share's consumption counts as nothing of it."""
    return [
        HeldDevice((one.driver, one.pool), one.device, _consumed(one) if one.share_id else None)
        for one in allocation.devices.results
        if not one.admin_access
    ]


def _consumed(one: AllocatedDevice) -> tuple[tuple[str, int], ...]:
    out = []
    for name, amount in one.consumed_capacity.items():
        try:
            out.append((name, parse_quantity(amount)))
        except QuantityError:
            continue  # an API server lets nobody write it
    return tuple(sorted(out))


class _Shares:
    """The shares of one device: how many there are, and what they consume together."""

    __slots__ = ("consumed", "count")

    def __init__(self) -> None:
        self.count = 0
        self.consumed: dict[str, int] = {}


class DeviceLedger:
    """What is held of each pool.

    Attributes:
        changed: The pools of which something else is held since these were last taken.
    """

    def __init__(self) -> None:
        self.changed: set[PoolKey] = set()
        self._whole: dict[PoolKey, dict[str, int]] = {}
        self._shares: dict[PoolKey, dict[str, _Shares]] = {}

    def take(self, devices: Iterable[HeldDevice]) -> None:
        """Note that devices are held."""
        for one in devices:
            self._count(one, 1)

    def take_whole(self, devices: Iterable[tuple[PoolKey, str]], *, known: bool = False) -> None:
        """Note that devices, named with their pools, are held whole; `known`: whoever looks at `changed` knows it."""
        whole, changed = self._whole, self.changed
        for pool, name in devices:
            of_pool = whole.get(pool)
            if of_pool is None:
                whole[pool] = {name: 1}
            else:
                of_pool[name] = of_pool.get(name, 0) + 1
            if not known:
                changed.add(pool)

    def free(self, devices: Iterable[HeldDevice]) -> None:
        """Note that devices are held no more."""
        for one in devices:
            self._count(one, -1)

    def use(self, pool: NodePool) -> LocalUse:
        """Return what is taken of a pool as a node sees it."""
        whole, shares = self._whole.get(pool.key), self._shares.get(pool.key) if self._shares else None
        if whole is None and shares is None:
            return UNUSED
        positions = pool.positions
        mask = 0
        for name in whole or ():
            at = positions.get(name)
            if at is not None:
                mask |= 1 << at
        if not shares:
            return mask, ()
        listed = (*pool.devices, *pool.others)
        parts = []
        for name, one in shares.items():
            at = positions.get(name)
            if at is not None:
                parts.append((at, tuple(one.consumed.get(capacity.name, 0) for capacity in listed[at].capacities)))
        return mask, tuple(sorted(parts))

    def holders(self, pool: PoolKey, name: str) -> int:
        """Return how many hold a device whole; more than one is a conflict."""
        return self._whole.get(pool, {}).get(name, 0)

    def pools(self) -> set[PoolKey]:
        """Return the pools of which anybody holds something."""
        return {*self._whole, *self._shares}

    def held_of(self, pool: PoolKey) -> list[str]:
        """Return the names of the devices of a pool that anybody holds, or has a share of."""
        return [*self._whole.get(pool, ()), *self._shares.get(pool, ())]

    def take_changed(self) -> set[PoolKey]:
        """Return `changed`, for whoever takes note of all of them now."""
        changed, self.changed = self.changed, set()
        return changed

    def _count(self, one: HeldDevice, sign: int) -> None:
        self.changed.add(one.pool)
        if one.consumed is None:
            whole = self._whole.setdefault(one.pool, {})
            whole[one.name] = whole.get(one.name, 0) + sign
            if not whole[one.name]:
                del whole[one.name]
                if not whole:
                    del self._whole[one.pool]
            return
        of_pool = self._shares.setdefault(one.pool, {})
        shares = of_pool.setdefault(one.name, _Shares())
        shares.count += sign
        for name, amount in one.consumed:
            shares.consumed[name] = shares.consumed.get(name, 0) + sign * amount
        if not shares.count:
            del of_pool[one.name]
            if not of_pool:
                del self._shares[one.pool]
