"""Which devices a node can use: the slices of drivers, sorted into pools as each node sees them.

Rules: kube-scheduler 1.36, staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/
pools_incubating.go. Counters of a pool matter to the nodes that can use devices of it, and to no others: upstream looks
at them on every node, so that one broken pool of one node gives every node its reason.
"""

from __future__ import annotations

import enum
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tutti.api.device_taints import DeviceTaintRule
from tutti.api.devices import (
    ResourceSlice,
    ResourceSliceSpec,
)
from tutti.api.quantity import parse_quantity
from tutti.api.selectors import NodeSelector, Taint
from tutti.cluster.devices.published import CounterKey, PoolDevice, read_device
from tutti.cluster.devices.taint_rules import PoolKey, TaintRules

_MOST_CODES: Final = 1 << 16


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
        whose: Equal for slices whose selectors are; empty where each device says for itself where it can be used.
    """

    name: str
    uid: str
    spec: ResourceSliceSpec
    devices: tuple[PoolDevice, ...]
    counters: dict[CounterKey, int]
    sets: tuple[str, ...]
    problem: str
    alone: NodePool | None = None
    whose: bytes = b""

    def __post_init__(self) -> None:
        spec = self.spec
        if not (spec.per_device_node_selection or spec.node_name):
            self.whose = msgspec.json.encode([spec.all_nodes, spec.node_selector])

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
        self._rules = TaintRules()
        self._common: dict[tuple[str, ...], tuple[NodePool, ...]] = {}

    def __bool__(self) -> bool:
        """Whether any driver offers anything."""
        return bool(self._slices)

    def put(self, found: ResourceSlice) -> bool:
        """Add or change a slice; returns whether that makes a difference."""
        name = found.metadata.name
        known = self._slices.get(name)
        if known is not None and known.spec == found.spec:
            return False
        self._replace(_read(name, found.metadata.uid, found.spec, found.problem))
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
            self._replace(_read(one.name, one.uid, one.spec, one.problem))
        return bool(slices)

    def _replace(self, one: PublishedSlice) -> None:
        """Have a slice be as it has been read now."""
        name = one.name
        self.drop(name)
        one.devices = tuple([self._coded(device, self._rules.taints(one.key, device.name)) for device in one.devices])
        one.alone = _pool_of(one)
        self._slices[name] = one
        self._pools.setdefault(one.key, {})[name] = one
        if one.spec.node_name:
            self._of_node.setdefault(one.spec.node_name, {})[name] = None
        else:
            self._roaming[name] = one
        self._touch(one)

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
        return device._replace(taints=taints, base=self._code(alike), schema=self._code(names), values=values)

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
        """Return the pools that a node can use devices of, in the order in which they are tried.

        Nodes that can use the same devices, and no others, get the same tuple.
        """
        answers: dict[bytes, bool] = {}  # many slices are for the same nodes
        reached: dict[str, PublishedSlice] = {}
        for name, one in self._roaming.items():
            reaches = answers.get(one.whose) if one.whose else one.reaches(node, labels)
            if reaches is None:
                reaches = answers[one.whose] = one.reaches(node, labels)
            if reaches:
                reached[name] = one
        if self._of_node.get(node) or any(one.spec.per_device_node_selection for one in reached.values()):
            return self._pools_of(node, labels, reached)
        names = tuple(reached)
        common = self._common.get(names)
        if common is None:
            common = self._common[names] = self._pools_of(node, labels, reached)
        return common

    def _pools_of(
        self, node: str, labels: Mapping[str, str], reached: Mapping[str, PublishedSlice]
    ) -> tuple[NodePool, ...]:
        found: dict[PoolKey, dict[str, PublishedSlice]] = {}
        pools: list[NodePool | None] = []
        for name in self._of_node.get(node, ()):
            one = self._slices[name]
            if one.alone is not None and len(self._pools[one.key]) == 1:
                pools.append(one.alone)
            else:
                found.setdefault(one.key, {})[name] = one
        for name, one in reached.items():
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
        self._common.clear()
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
    devices = tuple(read_device(one, spec) for one in spec.devices)
    return PublishedSlice(name, uid, spec, devices, counters, tuple(one.name for one in spec.shared_counters), "")
