"""Typed views of what dynamic resource allocation is made of, holding only the fields that scheduling reads.

Field names and meanings: Kubernetes API 1.36, resource.k8s.io/v1. The API server bounds every list in them; what
stands beyond its bounds came from elsewhere and is not believed (`problem`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from tutti.api.core import ObjectMeta, View
from tutti.api.quantity import QuantityError, parse_quantity
from tutti.api.selectors import NodeSelector, Taint, Toleration

DELETE_PROTECTION: Final = "resource.kubernetes.io/delete-protection"
"""The finalizer of a claim that has an allocation."""

EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""On a claim: a scheduler made it for what a pod asks for as extended resources."""

IMPLICIT_RESOURCE: Final = "deviceclass.resource.kubernetes.io/"
"""What a device class is asked for as an extended resource, followed by its name."""

MOST_DEVICES: Final = 128
"""Devices of a slice."""
MOST_RESULTS: Final = 32
"""Devices that one claim may have."""
MOST_REQUESTS: Final = 32
MOST_CONSUMERS: Final = 256
"""Pods that one claim may be reserved for."""

_MOST_VALUES: Final = 32
_MOST_COUNTER_SETS: Final = 8
_MOST_CONSUMED_SETS: Final = 2
_MOST_TAINTS: Final = 16
_MOST_SELECTORS: Final = 32
_MOST_SUB_REQUESTS: Final = 8
_LONGEST_EXPRESSION: Final = 10 * 1024
_MOST_SLICES: Final = 1 << 20

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Amount = str | int | float
"""A quantity as it is written."""

AttributeValue = tuple[Literal["int", "bool", "string", "version"], int | bool | str]
"""An attribute of a device: its type and its value."""


class DeviceAttribute(View, frozen=True):
    """One attribute; exactly one of its fields is set."""

    integer: Int64 | None = msgspec.field(default=None, name="int")
    boolean: bool | None = msgspec.field(default=None, name="bool")
    text: str | None = msgspec.field(default=None, name="string")
    version: str | None = None

    @property
    def value(self) -> AttributeValue | None:
        """Its type and value; None where it is of a type that is not read here (lists are alpha in 1.36)."""
        if self.integer is not None:
            return "int", self.integer
        if self.boolean is not None:
            return "bool", self.boolean
        if self.text is not None:
            return "string", self.text
        return None if self.version is None else ("version", self.version)


class CapacityRange(View, frozen=True):
    """Which amounts of a capacity may be had: from `min`, in steps, up to `max`."""

    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None


class CapacityPolicy(View, frozen=True):
    """How what is asked for of a capacity is rounded; `default` is had by who does not say."""

    default: Amount | None = None
    valid_values: list[Amount] = []
    valid_range: CapacityRange | None = None


class DeviceCapacity(View, frozen=True):
    """How much a device has of something."""

    value: Amount = 0
    request_policy: CapacityPolicy | None = None


class Counter(View, frozen=True):
    """How much there is, or is consumed, of a counter."""

    value: Amount = 0


class CounterSet(View, frozen=True):
    """Counters that devices of one pool share."""

    name: str = ""
    counters: dict[str, Counter] = {}


class CounterConsumption(View, frozen=True):
    """What a device consumes of a counter set."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}


class Device(View, frozen=True):
    """A device of a slice."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: list[CounterConsumption] = []
    taints: list[Taint] = []
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    binds_to_node: bool = False
    binding_conditions: list[str] = []
    binding_failure_conditions: list[str] = []
    allow_multiple_allocations: bool = False


class ResourcePool(View, frozen=True):
    """Which pool a slice is of, which state of it, and how many slices that state has."""

    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 1


class ResourceSliceSpec(View, frozen=True):
    """What a driver offers, and to which nodes."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: list[Device] = []
    shared_counters: list[CounterSet] = []


class ResourceSlice(View, frozen=True):
    """A part of a pool of devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()

    @property
    def problem(self) -> str:
        """Why it is not as an API server would have taken it, or ""; its pool is invalid then."""
        return next(_slice_problems(self.spec), "")


def _slice_problems(spec: ResourceSliceSpec) -> Iterator[str]:
    if len(spec.devices) > MOST_DEVICES:
        yield f"spec.devices has {len(spec.devices)} entries; {MOST_DEVICES} is the most"
    if len(spec.shared_counters) > _MOST_COUNTER_SETS:
        yield f"spec.sharedCounters has {len(spec.shared_counters)} entries; {_MOST_COUNTER_SETS} is the most"
    if not 1 <= spec.pool.resource_slice_count <= _MOST_SLICES:
        yield f"spec.pool.resourceSliceCount is {spec.pool.resource_slice_count}; it must be at least 1"
    for sets in spec.shared_counters:
        if len(sets.counters) > _MOST_VALUES:
            yield f"counter set {sets.name} has {len(sets.counters)} counters; {_MOST_VALUES} is the most"
        yield from _illegible(f"counter set {sets.name}", {name: one.value for name, one in sets.counters.items()})
    for device in spec.devices[:MOST_DEVICES]:
        yield from _device_problems(device)


def _device_problems(device: Device) -> Iterator[str]:
    at = f"device {device.name}"
    if len(device.attributes) + len(device.capacity) > _MOST_VALUES:
        yield f"{at} has more than {_MOST_VALUES} attributes and capacities"
    if len(device.taints) > _MOST_TAINTS or len(device.consumes_counters) > _MOST_CONSUMED_SETS:
        yield f"{at} has more than {_MOST_TAINTS} taints or consumes more than {_MOST_CONSUMED_SETS} counter sets"
    for used in device.consumes_counters:
        if len(used.counters) > _MOST_VALUES:
            yield f"{at} consumes {len(used.counters)} counters of a set; {_MOST_VALUES} is the most"
        yield from _illegible(at, {name: one.value for name, one in used.counters.items()})
    for name, capacity in device.capacity.items():
        amounts = {name: capacity.value}
        policy = capacity.request_policy
        if policy is not None:
            bounds = policy.valid_range or CapacityRange()
            said = (policy.default, bounds.min, bounds.max, bounds.step, *policy.valid_values[:_MOST_VALUES])
            amounts |= {f"{name} (requestPolicy {i})": one for i, one in enumerate(said) if one is not None}
        yield from _illegible(at, amounts)


def _illegible(at: str, amounts: dict[str, Amount]) -> Iterator[str]:
    for name, amount in amounts.items():
        try:
            parse_quantity(amount)
        except QuantityError as error:
            yield f"{at}, {name}: {error}"


class CELSelector(View, frozen=True):
    """An expression over a device."""

    expression: str = ""


class DeviceSelector(View, frozen=True):
    """What a device must be like."""

    cel: CELSelector = CELSelector()


class OpaqueConfiguration(View, frozen=True):
    """Parameters for a driver, handed on as they are written."""

    driver: str = ""
    parameters: msgspec.Raw = msgspec.Raw(b"{}")


class DeviceClassConfiguration(View, frozen=True):
    """What drivers are told of each device that is allocated by a class."""

    opaque: OpaqueConfiguration | None = None


class DeviceClassSpec(View, frozen=True):
    """Which devices are of a class."""

    selectors: list[DeviceSelector] = []
    config: list[DeviceClassConfiguration] = []
    extended_resource_name: str = ""


class DeviceClass(View, frozen=True):
    """A kind of devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class CapacityRequirements(View, frozen=True):
    """How much of the capacities of a device is asked for."""

    requests: dict[str, Amount] = {}


class DeviceSubRequest(View, frozen=True):
    """One way to fulfil a request."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[DeviceSelector] = []
    allocation_mode: str = "ExactCount"
    count: Int64 = 1
    tolerations: list[Toleration] = []
    capacity: CapacityRequirements = CapacityRequirements()
    admin_access: bool = False


class DeviceRequest(View, frozen=True):
    """Devices that are asked for: exactly these, or the first of several ways that is possible."""

    name: str = ""
    exactly: DeviceSubRequest | None = None
    first_available: list[DeviceSubRequest] = []

    @property
    def ways(self) -> list[tuple[str, DeviceSubRequest]]:
        """Each way to fulfil it, with what it is called in results, the best first."""
        if self.exactly is not None:
            return [(self.name, self.exactly)]
        return [(f"{self.name}/{one.name}", one) for one in self.first_available]


class DeviceConstraint(View, frozen=True):
    """What devices of several requests must have in common, or must not; without requests: of all of them."""

    requests: list[str] = []
    match_attribute: str = ""
    distinct_attribute: str = ""


class DeviceClaimConfiguration(View, frozen=True):
    """What drivers are told of devices of some requests; without requests: of all of them."""

    requests: list[str] = []
    opaque: OpaqueConfiguration | None = None


class DeviceClaim(View, frozen=True):
    """What a claim asks for."""

    requests: list[DeviceRequest] = []
    constraints: list[DeviceConstraint] = []
    config: list[DeviceClaimConfiguration] = []


class ResourceClaimSpec(View, frozen=True):
    """What a claim asks for."""

    devices: DeviceClaim = DeviceClaim()


# Of what is made for each claim nothing leads back to itself, so the garbage collector need not look at it (gc=False).


class AllocatedDevice(View, frozen=True, gc=False):
    """A device that a claim has."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str = msgspec.field(default="", name="shareID")
    consumed_capacity: dict[str, Amount] = {}


class AllocationConfiguration(View, frozen=True):
    """What the drivers of allocated devices are told, and who says so: FromClass or FromClaim."""

    source: str = ""
    requests: list[str] = []
    opaque: OpaqueConfiguration | None = None


class DeviceAllocation(View, frozen=True, gc=False):
    """The devices of a claim."""

    results: list[AllocatedDevice] = []
    config: list[AllocationConfiguration] = []


class Allocation(View, frozen=True, gc=False):
    """What a claim has, and from which nodes it can be used; without a selector: from all."""

    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None
    allocation_timestamp: datetime | None = None


class ClaimConsumer(View, frozen=True, gc=False):
    """Who uses a claim: pods, unless another resource is named."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceCondition(View, frozen=True):
    """What a driver says of a device."""

    type: str = ""
    status: str = ""


class AllocatedDeviceStatus(View, frozen=True):
    """What a driver says of an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str = msgspec.field(default="", name="shareID")
    conditions: list[DeviceCondition] = []


class ResourceClaimStatus(View, frozen=True):
    """What a claim has, and who uses it."""

    allocation: Allocation | None = None
    reserved_for: list[ClaimConsumer] = []
    devices: list[AllocatedDeviceStatus] = []


class ResourceClaim(View, frozen=True):
    """A claim on devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.metadata.namespace, self.metadata.name

    @property
    def is_extended(self) -> bool:
        """Whether it was made for what a pod asks for as extended resources."""
        return self.metadata.annotations.get(EXTENDED_CLAIM) == "true"

    @property
    def problem(self) -> str:
        """Why it is not as an API server would have taken it, or ""; nothing is allocated for it then."""
        return next(_claim_problems(self.spec.devices), "")


def _claim_problems(asked: DeviceClaim) -> Iterator[str]:
    if len(asked.requests) > MOST_REQUESTS or len(asked.constraints) > MOST_REQUESTS:
        yield f"spec.devices has more than {MOST_REQUESTS} requests or constraints"
    for request in asked.requests[:MOST_REQUESTS]:
        if (request.exactly is None) == (not request.first_available):
            yield f"request {request.name} must have exactly one of exactly and firstAvailable"
        if len(request.first_available) > _MOST_SUB_REQUESTS:
            yield f"request {request.name} has {len(request.first_available)} ways; {_MOST_SUB_REQUESTS} is the most"
        for name, way in request.ways[:_MOST_SUB_REQUESTS]:
            yield from _way_problems(name, way)


def _way_problems(name: str, way: DeviceSubRequest) -> Iterator[str]:
    if way.allocation_mode not in ("ExactCount", "All", ""):
        yield f"request {name}: allocationMode {way.allocation_mode!r} is neither ExactCount nor All"
    if way.count < 1:
        yield f"request {name}: count is {way.count}; it must be at least 1"
    if len(way.selectors) > _MOST_SELECTORS:
        yield f"request {name} has {len(way.selectors)} selectors; {_MOST_SELECTORS} is the most"
    if any(len(one.cel.expression) > _LONGEST_EXPRESSION for one in way.selectors):
        yield f"request {name}: a selector is longer than {_LONGEST_EXPRESSION} characters"
    if len(way.tolerations) > _MOST_TAINTS or len(way.capacity.requests) > _MOST_VALUES:
        yield f"request {name} has more than {_MOST_TAINTS} tolerations or {_MOST_VALUES} capacities"
    yield from _illegible(f"request {name}", way.capacity.requests)


class ResourceClaimTemplateSpec(View, frozen=True):
    """What the claims of a template are."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(View, frozen=True):
    """What claims are made from, one for each pod that names it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()
