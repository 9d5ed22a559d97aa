"""Devices as their drivers publish them, read into what claims are matched with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from tutti.api.devices import AttributeValue, Device, ResourceSliceSpec
from tutti.api.quantity import parse_quantity
from tutti.api.selectors import HARD_EFFECTS, NodeSelector, Taint
from tutti.cluster.devices.capacities import Capacity, capacity_of
from tutti.cluster.devices.expressions import DeviceContent

T = TypeVar("T")

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


def read_device(device: Device, spec: ResourceSliceSpec) -> PoolDevice:
    """Return a device of a slice, read."""
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
