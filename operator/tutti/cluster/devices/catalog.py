"""All slices that drivers publish, and the pools that each node can use devices of.

Pools that only slices of whole groups of nodes make up (devices of a network) are the same to all nodes that these
slices reach: they are built once for all of these (`CommonPools`), and each again only when one of its slices changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from tutti.api.device_taints import DeviceTaintRule
from tutti.api.devices import ResourceSlice
from tutti.api.selectors import Taint
from tutti.cluster.devices.pools import (
    LikenessCodes,
    NodePool,
    PoolStatus,
    PublishedSlice,
    pool_for,
    read_slice,
    whole_pool,
)
from tutti.cluster.devices.published import PoolDevice
from tutti.cluster.devices.taint_rules import PoolKey, TaintRules
from tutti.cluster.devices.troubles import left_behind

K = TypeVar("K")
V = TypeVar("V")

PoolOrder = tuple[bool, PoolKey]
"""What pools of a node are tried by, the least first."""


@dataclass(slots=True, eq=False)
class CommonPools:
    """Pools that are the same to several nodes, in the order in which they are tried.

    Attributes:
        places: The place of each.
        orders: By what each is tried.
    """

    pools: tuple[NodePool, ...]
    places: dict[PoolKey, int] = field(init=False)
    orders: list[PoolOrder] = field(init=False)

    def __post_init__(self) -> None:
        self.places = {one.key: at for at, one in enumerate(self.pools)}
        self.orders = [pool_order(one) for one in self.pools]


class PoolsOfNode(NamedTuple):
    """The pools that a node can use devices of: those that are not the same to others, and the others."""

    own: tuple[NodePool, ...]
    common: CommonPools


NO_POOLS: Final = PoolsOfNode((), CommonPools(()))


class DeviceCatalog:
    """All slices.

    Attributes:
        changed: The nodes whose pools have become others since these were last taken; None: those of all nodes.
        version: Grows with every change.
        names: Those of all attributes and capacities, without their domains, that devices have ever had.
        touched: The pools to look at again: slices of these have changed, or they lack a device that is held.
    """

    def __init__(self) -> None:
        self.version = 0
        self.changed: set[str] | None = set()
        self.touched: dict[PoolKey, None] = {}
        self._slices: dict[str, PublishedSlice] = {}
        self._of_node: dict[str, dict[str, None]] = {}
        self._by_selector: dict[bytes, dict[str, PublishedSlice]] = {}
        self._by_device: dict[str, PublishedSlice] = {}
        self._mixed: dict[PoolKey, dict[str, PublishedSlice]] = {}
        self._pools: dict[PoolKey, dict[str, PublishedSlice]] = {}
        self.names: set[str] = set()
        self._codes = LikenessCodes()
        self._rules = TaintRules()
        self._common: dict[tuple[bytes, ...], CommonPools] = {}
        self._behind: tuple[int, list[tuple[PublishedSlice, NodePool]]] = (-1, [])
        self._made: dict[PoolKey, dict[tuple[str, ...], NodePool | None]] = {}

    def __bool__(self) -> bool:
        """Whether any driver offers anything."""
        return bool(self._slices)

    def put(self, found: ResourceSlice) -> bool:
        """Add or change a slice; returns whether that makes a difference."""
        name = found.metadata.name
        known = self._slices.get(name)
        if known is not None and known.spec == found.spec:
            return False
        self._replace(read_slice(name, found.metadata.uid, found.spec, found.problem))
        return True

    def put_rule(self, rule: DeviceTaintRule) -> bool:
        """Add or change a taint of an administrator's; returns whether that makes a difference."""
        return self._taint_anew(self._rules.put(rule))

    def drop_rule(self, name: str) -> bool:
        """Forget a taint of an administrator's; returns whether that makes a difference."""
        return self._taint_anew(self._rules.drop(name))

    def _taint_anew(self, concerned: Callable[[PoolKey], bool]) -> bool:
        """Read the slices anew of pools that rules are, or were, about."""
        slices = [one for one in self._slices.values() if concerned(one.key)]
        for one in slices:
            self._replace(read_slice(one.name, one.uid, one.spec, one.problem))
        return bool(slices)

    def _replace(self, one: PublishedSlice) -> None:
        """Have a slice be as it has been read now."""
        name = one.name
        self.drop(name)
        one.devices = tuple([self._coded(device, self._rules.taints(one.key, device.name)) for device in one.devices])
        alone = whole_pool(one)
        one.alone = alone if alone is None else self._compared(alone)
        self._slices[name] = one
        self._pools.setdefault(one.key, {})[name] = one
        if one.spec.node_name:
            self._of_node.setdefault(one.spec.node_name, {})[name] = None
        elif one.whose:
            self._by_selector.setdefault(one.whose, {})[name] = one
        else:
            self._by_device[name] = one
        self._touch(one)
        self._sort(one.key)

    def find(self, key: PoolKey, name: str) -> PoolDevice | None:
        """Return a device of a pool as the newest of its slices that list it have it."""
        slices = sorted(self._pools.get(key, {}).values(), key=lambda one: -one.generation)
        return next((device for one in slices for device in one.devices if device.name == name), None)

    def pools(self) -> Sequence[PoolKey]:
        """Return all pools of which there are slices."""
        return tuple(self._pools)

    def slices_of(self, key: PoolKey) -> Sequence[PublishedSlice]:
        """Return the slices of a pool, of whichever generation."""
        return tuple(self._pools.get(key, {}).values())

    def behind(self) -> Sequence[tuple[PublishedSlice, NodePool]]:
        """Return the slices that their pools have left behind (`troubles.py`), and what nodes would have of each."""
        if self._behind[0] != self.version:
            several = (list(one.values()) for one in self._pools.values() if len(one) > 1)
            slices = [one for pool in several for one in left_behind(pool)]
            pools = [
                self._compared(NodePool(one.key, PoolStatus.INCOMPLETE, one.devices, shared=True)) for one in slices
            ]
            self._behind = self.version, list(zip(slices, pools, strict=True))
        return self._behind[1]

    def touch_unlisted(self, devices: Iterable[tuple[PoolKey, str]]) -> None:
        """Have those pools looked at again of which no slice lists a device that is held, or was."""
        for key, name in devices:
            if not any(_lists(one, name) for one in self._pools.get(key, {}).values()):
                self.touched[key] = None

    def take_touched(self) -> Sequence[PoolKey]:
        """Return `touched`, for whoever takes note of all of them now."""
        touched, self.touched = self.touched, {}
        return tuple(touched)

    def devices(self) -> Iterator[PoolDevice]:
        """Yield all devices that are published."""
        for one in self._slices.values():
            yield from one.devices

    def _coded(self, device: PoolDevice, more: tuple[Taint, ...]) -> PoolDevice:
        """Return a device with further taints, and with what tells at once whether it is like another."""
        names = tuple(sorted(device.attributes))
        content = device.content
        self.names.update(name for (_, name), _ in (*content.attributes, *content.capacity))
        alike = (
            content.driver,
            content.capacity,
            device.capacities,
            device.consumes,
            taints := (*device.taints, *more),
            device.multiple,
        )
        values = tuple(device.attributes[name] for name in names)
        return device._replace(taints=taints, base=self._codes.of(alike), schema=self._codes.of(names), values=values)

    def drop(self, name: str) -> bool:
        """Forget a slice; returns whether it was known."""
        one = self._slices.pop(name, None)
        if one is None:
            return False
        self._touch(one)
        del self._pools[one.key][name]
        if not self._pools[one.key]:
            del self._pools[one.key]
        self._by_device.pop(name, None)
        if one.whose:
            _remove(self._by_selector, one.whose, name)
        elif one.spec.node_name:
            _remove(self._of_node, one.spec.node_name, name)
        self._sort(one.key)
        return True

    def take_changed(self) -> set[str] | None:
        """Return `changed`, for whoever takes note of all of them now."""
        changed, self.changed = self.changed, set()
        return changed

    def pools_of(self, node: str, labels: Mapping[str, str]) -> PoolsOfNode:
        """Return the pools that a node can use devices of, each part in the order in which they are tried."""
        names = self._of_node.get(node, {})
        if not (names or self._by_device or self._by_selector):
            return NO_POOLS
        own: list[NodePool] = []
        found: dict[PoolKey, dict[str, PublishedSlice]] = {}
        for name in names:
            one = self._slices[name]
            if one.alone is not None and len(self._pools[one.key]) == 1:
                own.append(one.alone)
            else:
                found.setdefault(one.key, {})[name] = one
        if len(own) == 1 and not (found or self._by_device or self._by_selector):  # as of most nodes
            return PoolsOfNode((own[0],), NO_POOLS.common)
        for name, one in self._by_device.items():
            if one.reaches(node, labels):
                found.setdefault(one.key, {})[name] = one
        selectors = self._by_selector.items()
        reached = tuple([whose for whose, slices in selectors if next(iter(slices.values())).reaches(node, labels)])
        for key, slices in self._mixed.items():
            there = {name: one for name, one in slices.items() if one.whose in reached}
            if there:
                found.setdefault(key, {}).update(there)
        if not (own or found or reached):
            return NO_POOLS
        made = (self._pool_for(key, mine, node, labels) for key, mine in found.items())
        own += [one for one in made if one is not None]
        return PoolsOfNode(tuple(sorted(own, key=pool_order)), self._common_pools(reached, node, labels))

    def _common_pools(self, reached: tuple[bytes, ...], node: str, labels: Mapping[str, str]) -> CommonPools:
        """Return the pools of slices of some selectors, as those nodes see them that just these reach."""
        known = self._common.get(reached)
        if known is not None:
            return known
        found: dict[PoolKey, dict[str, PublishedSlice]] = {}
        for whose in reached:
            for name, one in self._by_selector[whose].items():
                if one.key not in self._mixed:
                    found.setdefault(one.key, {})[name] = one
        pools = []
        for key, mine in found.items():
            made, names = self._made.setdefault(key, {}), tuple(mine)
            if names not in made:
                made[names] = self._pool_for(key, mine, node, labels)
            pools.append(made[names])
        ordered = sorted((one for one in pools if one is not None), key=pool_order)
        common = self._common[reached] = CommonPools(tuple(ordered)) if ordered else NO_POOLS.common
        return common

    def _pool_for(
        self, key: PoolKey, reached: Mapping[str, PublishedSlice], node: str, labels: Mapping[str, str]
    ) -> NodePool | None:
        """Return a pool as a node sees it that can use devices of these slices of it; None as `pool_for` says."""
        pool = pool_for(self._pools[key], reached, node, labels)
        return pool if pool is None else self._compared(pool)

    def _compared(self, pool: NodePool) -> NodePool:
        """Return a pool that has just been made, once it is told which others are like it."""
        pool.likeness = self._codes.of(pool.nature)
        return pool

    def _sort(self, key: PoolKey) -> None:
        """Note whether a pool has slices of nodes, or of single devices, beside those of groups of nodes."""
        slices = self._pools.get(key, {})
        roaming = {name: one for name, one in slices.items() if one.whose}
        if roaming and len(roaming) < len(slices):
            self._mixed[key] = roaming
        else:
            self._mixed.pop(key, None)

    def _touch(self, one: PublishedSlice) -> None:
        self.version += 1
        self._common.clear()
        self._made.pop(one.key, None)
        self.touched[one.key] = None
        if self.changed is None:
            return
        if any(not other.spec.node_name for other in self._pools[one.key].values()):
            self.changed = None
        else:
            self.changed.update(other.spec.node_name for other in self._pools[one.key].values())


def pool_order(pool: NodePool) -> PoolOrder:
    """Return what the pools of a node are tried by: those whose devices are not ready at once come last."""
    return pool.binds, pool.key


def _remove(several: dict[K, dict[str, V]], key: K, name: str) -> None:
    del several[key][name]
    if not several[key]:
        del several[key]


def _lists(one: PublishedSlice, name: str) -> bool:
    """Whether a slice has a device of a name."""
    if one.alone is not None:
        return name in one.alone.positions
    return any(device.name == name for device in one.devices)
