"""Which devices a node can use: the slices of drivers, sorted into pools as each node sees them.

Rules: kube-scheduler 1.36, staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/
pools_incubating.go. Counters of a pool matter to the nodes that can use devices of it, and to no others: upstream looks
at them on every node, so that one broken pool of one node gives every node its reason.
"""

from __future__ import annotations

import enum
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from tutti.api.devices import (
    AttributeValue,
    Device,
    ResourceSlice,
    ResourceSliceSpec,
)
from tutti.api.quantity import parse_quantity
from tutti.api.selectors import HARD_EFFECTS, NodeSelector, Taint
from tutti.cluster.devices.capacities import Capacity, capacity_of
from tutti.cluster.devices.expressions import DeviceContent

T = TypeVar("T")

_MOST_CODES: Final = 1 << 16

PoolKey = tuple[str, str]
"""A driver and the name of a pool of it."""

CounterKey = tuple[str, str]
"""A counter set and the name of a counter in it."""


class PoolDevice(NamedTuple):
    """A device as its pool lists it.

    Attributes:
        attributes: By name as the driver writes it.
        consumes: What it consumes of the counters of its pool, in milli-units.
        taints: Those that keep requests away.
        place: From where it can be used: a node by its name, a selector, or None for anywhere.
        binds: Whether it can be used only from the node that it is allocated for.
        base: Equal for devices that are alike in all but their attributes and where they can be used.
        schema: Equal for devices that have attributes of the same names.
        values: Those of its attributes, in the order of their names.
    """

    name: str
    content: DeviceContent
    attributes: Mapping[str, AttributeValue]
    capacities: tuple[Capacity, ...]
    consumes: tuple[tuple[CounterKey, int], ...]
    taints: tuple[Taint, ...]
    multiple: bool
    binding_conditions: tuple[str, ...]
    binding_failure_conditions: tuple[str, ...]
    place: str | NodeSelector | None
    binds: bool
    base: int = -1
    schema: int = -1
    values: tuple[AttributeValue, ...] = ()


class PoolStatus(enum.Enum):
    """Whether all of a pool is known, and makes sense."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    INVALID = "invalid"


@dataclass(slots=True, eq=False)
class NodePool:
    """A pool as one node sees it.

    Attributes:
        devices: Those that the node can use, in the order in which they are tried.
        others: Those of other nodes that consume counters of the pool.
        positions: Name to place in `devices` and behind them in `others`.
        counters: What there is of each, in milli-units.
        binds: Whether a device that the node can use is ready only when its driver says so.
        shared: Whether other nodes may use the same devices.
        listed: All of these and, behind them, the others.
        shape: Equal for pools whose devices differ in nothing but the values of their attributes.
        projected: How it is seen, by the number of who looks at it.
    """

    key: PoolKey
    status: PoolStatus
    devices: tuple[PoolDevice, ...] = ()
    others: tuple[PoolDevice, ...] = ()
    counters: Mapping[CounterKey, int] = field(default_factory=dict)
    binds: bool = False
    shared: bool = False
    positions: dict[str, int] = field(default_factory=dict)
    listed: tuple[PoolDevice, ...] = ()
    shape: tuple[tuple[int, int], ...] = ()
    projected: dict[int, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.listed = (*self.devices, *self.others)
        self.positions = {one.name: at for at, one in enumerate(self.listed)}
        self.shape = tuple([(one.base, one.schema) for one in self.listed])


@dataclass(slots=True, eq=False)
class PublishedSlice:
    """A slice, read.

    Attributes:
        devices: Its devices; the `place` of each says which node it is for where the slice leaves that to them.
        counters: What it defines.
        twice: Whether it defines a counter set twice.
        alone: The pool that it is where it is all of it, and of one node; None where it is not.
        problem: Why it cannot be believed, or "".
    """

    name: str
    uid: str
    spec: ResourceSliceSpec
    devices: tuple[PoolDevice, ...]
    counters: dict[CounterKey, int]
    sets: tuple[str, ...]
    problem: str
    alone: NodePool | None = None

    @property
    def key(self) -> PoolKey:
        """Its pool."""
        return self.spec.driver, self.spec.pool.name

    @property
    def generation(self) -> int:
        """Which state of its pool it is of."""
        return self.spec.pool.generation

    def reaches(self, node: str, labels: Mapping[str, str]) -> bool:
        """Whether a node can use it, or some device of it."""
        spec = self.spec
        if spec.per_device_node_selection:
            return any(_is_for(device.place, node, labels) for device in self.devices)
        if spec.node_name:
            return spec.node_name == node
        return spec.all_nodes or (spec.node_selector is not None and spec.node_selector.matches(labels, node))

    def usable(self, node: str, labels: Mapping[str, str]) -> Iterator[bool]:
        """Yield for each of its devices whether a node that it reaches can use it."""
        for device in self.devices:
            yield not self.spec.per_device_node_selection or _is_for(device.place, node, labels)


def _is_for(place: str | NodeSelector | None, node: str, labels: Mapping[str, str]) -> bool:
    if isinstance(place, str):
        return place == node
    return place is None or place.matches(labels, node)


class DeviceCatalog:
    """All slices.

    Attributes:
        changed: The nodes whose pools have become others since these were last taken; None: those of all nodes.
        version: Grows with every change.
        names: Those of all attributes and capacities, without their domains, that devices have ever had.
        touched: The pools of which slices have changed since these were last taken.
    """

    def __init__(self) -> None:
        self.version = 0
        self.changed: set[str] | None = set()
        self.touched: dict[PoolKey, None] = {}
        self._slices: dict[str, PublishedSlice] = {}
        self._of_node: dict[str, dict[str, None]] = {}
        self._roaming: dict[str, PublishedSlice] = {}
        self._pools: dict[PoolKey, dict[str, PublishedSlice]] = {}
        self.names: set[str] = set()
        self._codes: dict[object, int] = {}
        self._last_code = 0

    def __bool__(self) -> bool:
        """Whether any driver offers anything."""
        return bool(self._slices)

    def put(self, found: ResourceSlice) -> bool:
        """Add or change a slice; returns whether that makes a difference."""
        name = found.metadata.name
        known = self._slices.get(name)
        if known is not None and known.spec == found.spec:
            return False
        self.drop(name)
        one = _read(name, found.metadata.uid, found.spec, found.problem)
        one.devices = tuple(map(self._coded, one.devices))
        one.alone = _pool_of(one)
        self._slices[name] = one
        self._pools.setdefault(one.key, {})[name] = one
        if one.spec.node_name:
            self._of_node.setdefault(one.spec.node_name, {})[name] = None
        else:
            self._roaming[name] = one
        self._touch(one)
        return True

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

    def take_touched(self) -> Sequence[PoolKey]:
        """Return `touched`, for whoever takes note of all of them now."""
        touched, self.touched = self.touched, {}
        return tuple(touched)

    def devices(self) -> Iterator[PoolDevice]:
        """Yield all devices that are published."""
        for one in self._slices.values():
            yield from one.devices

    def _coded(self, device: PoolDevice) -> PoolDevice:
        """Return a device with what tells at once whether it is like another."""
        names = tuple(sorted(device.attributes))
        content = device.content
        self.names.update(name for (_, name), _ in (*content.attributes, *content.capacity))
        alike = (
            content.driver,
            content.capacity,
            device.capacities,
            device.consumes,
            device.taints,
            device.multiple,
        )
        values = tuple(device.attributes[name] for name in names)
        return device._replace(base=self._code(alike), schema=self._code(names), values=values)

    def _code(self, value: object) -> int:
        known = self._codes.get(value)
        if known is None:
            if len(self._codes) >= _MOST_CODES:
                self._codes.clear()  # what is read from now on is merely not known to be like what was before
            self._last_code += 1
            known = self._codes[value] = self._last_code
        return known

    def drop(self, name: str) -> bool:
        """Forget a slice; returns whether it was known."""
        one = self._slices.pop(name, None)
        if one is None:
            return False
        self._touch(one)
        del self._pools[one.key][name]
        if not self._pools[one.key]:
            del self._pools[one.key]
        self._roaming.pop(name, None)
        if one.spec.node_name:
            del self._of_node[one.spec.node_name][name]
            if not self._of_node[one.spec.node_name]:
                del self._of_node[one.spec.node_name]
        return True

    def take_changed(self) -> set[str] | None:
        """Return `changed`, for whoever takes note of all of them now."""
        changed, self.changed = self.changed, set()
        return changed

    def pools_of(self, node: str, labels: Mapping[str, str]) -> tuple[NodePool, ...]:
        """Return the pools that a node can use devices of, in the order in which they are tried."""
        found: dict[PoolKey, dict[str, PublishedSlice]] = {}
        pools: list[NodePool | None] = []
        for name in self._of_node.get(node, ()):
            one = self._slices[name]
            if one.alone is not None and len(self._pools[one.key]) == 1:
                pools.append(one.alone)
            else:
                found.setdefault(one.key, {})[name] = one
        for name, one in self._roaming.items():
            if one.reaches(node, labels):
                found.setdefault(one.key, {})[name] = one
        pools += [self._pool(key, mine, node, labels) for key, mine in found.items()]
        return tuple(sorted((one for one in pools if one is not None), key=lambda one: (one.binds, one.key)))

    def _pool(
        self, key: PoolKey, mine: dict[str, PublishedSlice], node: str, labels: Mapping[str, str]
    ) -> NodePool | None:
        everything = self._pools[key]
        mine = mine | {name: one for name, one in everything.items() if one.spec.shared_counters}
        newest = max(one.generation for one in mine.values())
        kept = [mine[name] for name in sorted(mine) if mine[name].generation == newest]
        current = [one for one in everything.values() if one.generation == newest]
        shared = any(not one.spec.node_name for one in current)
        wanted = kept[0].spec.pool.resource_slice_count
        if len(kept) != wanted:
            if any(one.generation > newest for one in everything.values()):
                return None
            if len(current) < wanted:
                return NodePool(key, PoolStatus.INCOMPLETE, _devices(kept, node, labels), shared=shared)
        devices = _devices(kept, node, labels)
        binds = any(one.binding_conditions for one in devices)
        if not _is_valid(kept, current):
            return NodePool(key, PoolStatus.INVALID, devices, binds=binds, shared=shared)
        counters = {name: value for one in kept for name, value in one.counters.items()}
        names = {one.name for one in devices}
        others = [device for one in current for device in one.devices if device.consumes and device.name not in names]
        return NodePool(key, PoolStatus.COMPLETE, devices, tuple(others), counters, binds, shared)

    def _touch(self, one: PublishedSlice) -> None:
        self.version += 1
        self.touched[one.key] = None
        if self.changed is None:
            return
        if any(not other.spec.node_name for other in self._pools[one.key].values()):
            self.changed = None
        else:
            self.changed.update(other.spec.node_name for other in self._pools[one.key].values())


def _pool_of(one: PublishedSlice) -> NodePool | None:
    """Return the pool of a slice that is all of it, on a node of its own; None where more has to be known for that."""
    spec = one.spec
    if not spec.node_name or spec.pool.resource_slice_count != 1 or one.counters or not _is_valid([one], [one]):
        return None
    return NodePool(one.key, PoolStatus.COMPLETE, one.devices, binds=any(d.binding_conditions for d in one.devices))


def _devices(slices: Sequence[PublishedSlice], node: str, labels: Mapping[str, str]) -> tuple[PoolDevice, ...]:
    return tuple(
        device
        for one in slices
        if one.reaches(node, labels)
        for device, usable in zip(one.devices, one.usable(node, labels), strict=True)
        if usable
    )


def _is_valid(kept: Sequence[PublishedSlice], current: Sequence[PublishedSlice]) -> bool:
    """Whether names are unique among the slices of a node, and all counters defined that the pool's devices consume."""
    names = Tally(device.name for one in kept for device in one.devices)
    sets = Tally(name for one in kept for name in one.sets)
    defined = {name for one in kept for name in one.counters}
    consumed = {name for one in current for device in one.devices for name, _ in device.consumes}
    unique = all(count == 1 for count in (*names.values(), *sets.values()))
    return unique and consumed <= defined and not any(one.problem for one in (*kept, *current))


def _read(name: str, uid: str, spec: ResourceSliceSpec, problem: str) -> PublishedSlice:
    if problem:
        return PublishedSlice(name, uid, spec, (), {}, (), problem)
    counters = {
        (one.name, counter): parse_quantity(said.value)
        for one in spec.shared_counters
        for counter, said in one.counters.items()
    }
    devices = tuple(_device(one, spec) for one in spec.devices)
    return PublishedSlice(name, uid, spec, devices, counters, tuple(one.name for one in spec.shared_counters), "")


def _device(device: Device, spec: ResourceSliceSpec) -> PoolDevice:
    said = {name: one.value for name, one in device.attributes.items()}
    attributes = {name: value for name, value in said.items() if value is not None}
    capacities = tuple(capacity_of(name, one) for name, one in sorted(device.capacity.items()))
    content = DeviceContent(
        spec.driver,
        tuple(sorted(_qualified(attributes.items(), spec.driver).items())),
        tuple(sorted(_qualified(((one.name, one.value) for one in capacities), spec.driver).items())),
        device.allow_multiple_allocations,
    )
    return PoolDevice(
        name=device.name,
        content=content,
        attributes=attributes,
        capacities=capacities,
        consumes=tuple(
            ((used.counter_set, name), parse_quantity(one.value))
            for used in device.consumes_counters
            for name, one in used.counters.items()
        ),
        taints=tuple(one for one in device.taints if one.effect in HARD_EFFECTS),
        multiple=device.allow_multiple_allocations,
        binding_conditions=tuple(device.binding_conditions),
        binding_failure_conditions=tuple(device.binding_failure_conditions),
        place=_place(device, spec),
        binds=device.binds_to_node,
    )


def _place(device: Device, spec: ResourceSliceSpec) -> str | NodeSelector | None:
    """Return from where a device can be used; a node without a name: from nowhere."""
    source = device if spec.per_device_node_selection else spec
    if source.node_name:
        return source.node_name
    if spec.per_device_node_selection and source.node_selector is None and not source.all_nodes:
        return ""  # it names no node at all
    return None if source.all_nodes else source.node_selector


def _qualified(items: Iterable[tuple[str, T]], driver: str) -> dict[tuple[str, str], T]:
    """Return values by domain and name; what is written in full goes before what is of the driver's own domain."""
    out: dict[tuple[str, str], T] = {}
    for name, value in sorted(items, key=lambda one: "/" in one[0]):
        domain, slash, own = name.partition("/")
        out[(domain, own) if slash else (driver, name)] = value
    return out
