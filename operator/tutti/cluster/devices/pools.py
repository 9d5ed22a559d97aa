"""Pools of devices, and the slices of drivers that they are made of, as each node sees them.

Rules: kube-scheduler 1.36, staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/
pools_incubating.go. Counters of a pool matter to the nodes that can use devices of it, and to no others: upstream looks
at them on every node, so that one broken pool of one node gives every node its reason.
"""

from __future__ import annotations

import enum
from collections import Counter as Tally
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import msgspec

from tutti.api.devices import AttributeValue, ResourceSliceSpec
from tutti.api.quantity import parse_quantity
from tutti.api.selectors import NodeSelector
from tutti.cluster.devices.published import CounterKey, PoolDevice, read_device
from tutti.cluster.devices.taint_rules import PoolKey

_MOST_CODES: Final = 1 << 16


class LikenessCodes:
    """Numbers what pools and devices are like, and what is taken of them: equal numbers are given for equals only."""

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}
        self._last = 0

    def of(self, value: Hashable) -> int:
        """Return the number of a value; it is another than before once too many others have come since."""
        known = self._codes.get(value)
        if known is None:
            if len(self._codes) >= _MOST_CODES:
                self._codes.clear()  # what is met from now on is merely not known to be like what was met before
            self._last += 1
            known = self._codes[value] = self._last
        return known


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
        binds: Whether a device is ready only when its driver says so, of those in slices that the node can use some of.
        shared: Whether other nodes may use the same devices.
        listed: All of these and, behind them, the others.
        values: Those of the attributes of all listed, one device after the other, each in the order of their names.
        likeness: Equal for pools that differ in nothing but their keys and `values`; -1 until the catalog has told.
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
    values: tuple[AttributeValue, ...] = ()
    likeness: int = -1
    projected: dict[int, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.listed = (*self.devices, *self.others)
        self.positions = {one.name: at for at, one in enumerate(self.listed)}
        self.values = tuple(chain.from_iterable([one.values for one in self.listed]))

    @property
    def nature(self) -> Hashable:
        """What is equal for pools that differ in nothing but their keys and `values`."""
        shape = tuple([(one.base, one.schema) for one in self.listed])
        return shape, self.status, len(self.devices), self.binds, tuple(sorted(self.counters.items()))


@dataclass(slots=True, eq=False)
class PublishedSlice:
    """A slice, read.

    Attributes:
        devices: Its devices; the `place` of each says which node it is for where the slice leaves that to them.
        counters: What it defines.
        twice: Whether it defines a counter set twice.
        key: Its pool, by name.
        alone: The pool that it is where it is all of it, and of one node; None where it is not.
        problem: Why it cannot be believed, or "".
        whose: Equal for slices whose selectors are; empty for those of one node, and where each device says for itself
            where it can be used.
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
    key: PoolKey = ("", "")

    def __post_init__(self) -> None:
        spec = self.spec
        self.key = spec.driver, spec.pool.name
        if not (spec.per_device_node_selection or spec.node_name):
            self.whose = msgspec.json.encode([spec.all_nodes, spec.node_selector])

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


def pool_for(
    everything: Mapping[str, PublishedSlice],
    reached: Mapping[str, PublishedSlice],
    node: str,
    labels: Mapping[str, str],
) -> NodePool | None:
    """Return a pool as a node sees it; None where it knows only slices that are out of date.

    Args:
        everything: All slices of the pool by name, of whichever generation.
        reached: Those that the node can use devices of, at least one.
        node: The name of the node.
        labels: Its labels.
    """
    mine = dict(reached) | {name: one for name, one in everything.items() if one.spec.shared_counters}
    newest = max(one.generation for one in mine.values())
    kept = [mine[name] for name in sorted(mine) if mine[name].generation == newest]
    current = [one for one in everything.values() if one.generation == newest]
    shared = any(not one.spec.node_name for one in current)
    wanted, key = kept[0].spec.pool.resource_slice_count, kept[0].key
    if len(kept) != wanted:
        if any(one.generation > newest for one in everything.values()):
            return None
        if len(current) != wanted:
            return NodePool(key, PoolStatus.INCOMPLETE, _devices(kept, node, labels), shared=shared)
    devices = _devices(kept, node, labels)
    if not _is_valid(kept, current):
        return NodePool(key, PoolStatus.INVALID, devices, shared=shared)
    binds = any(device.binding_conditions for one in kept for device in one.devices)
    counters = {name: value for one in kept for name, value in one.counters.items()}
    names = {one.name for one in devices}
    others = [device for one in current for device in one.devices if device.consumes and device.name not in names]
    return NodePool(key, PoolStatus.COMPLETE, devices, tuple(others), counters, binds, shared)


def whole_pool(one: PublishedSlice) -> NodePool | None:
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


def read_slice(name: str, uid: str, spec: ResourceSliceSpec, problem: str) -> PublishedSlice:
    """Return a slice, read; of one with a problem only that it is there, and the problem."""
    if problem:
        return PublishedSlice(name, uid, spec, (), {}, (), problem)
    counters = {
        (one.name, counter): parse_quantity(said.value)
        for one in spec.shared_counters
        for counter, said in one.counters.items()
    }
    devices = tuple(read_device(one, spec) for one in spec.devices)
    return PublishedSlice(name, uid, spec, devices, counters, tuple(one.name for one in spec.shared_counters), "")
