"""What applications and networks say of each other: AppGroup and NetworkTopology, read with bounds into records.

Kinds: `appgroups.appgroup.diktyo.x-k8s.io` (diktyo-io/appgroup-api 4545744) and
`networktopologies.networktopology.diktyo.x-k8s.io` (diktyo-io/networktopology-api a0e4db2), both v1alpha1, whose
manifests are read unchanged. Which fields mean what: scheduler-plugins 903da7df, pkg/networkaware. What cannot be
right is told in `problem`, and nothing else of the object counts then.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from pydantic import Field

from tutti.api import quantity
from tutti.api.core import View
from tutti.api.messages import escape_controls, shortened
from tutti.api.model import Model
from tutti.api.quantity import QuantityError

VERSION: Final = "v1alpha1"
APP_GROUP: Final = "AppGroup"
TOPOLOGY: Final = "NetworkTopology"
GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {APP_GROUP: "appgroup.diktyo.x-k8s.io", TOPOLOGY: "networktopology.diktyo.x-k8s.io"}
)
"""Where they are served, by kind."""
PLURALS: Final[Mapping[str, str]] = MappingProxyType({APP_GROUP: "appgroups", TOPOLOGY: "networktopologies"})

GROUP_LABEL: Final = "appgroup.diktyo.x-k8s.io"
"""The label of a pod that names its AppGroup."""
WORKLOAD_LABEL: Final = "appgroup.diktyo.x-k8s.io.workload"
"""The label of a pod that says which workload of it the pod belongs to: its selector there."""
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"

MOST_COST: Final = 1_000_000
"""The project's definition allows 10000."""
MOST_BANDWIDTH: Final = 2**50
"""Bits per second, of a link or between two pods: more than any cable carries."""
MOST_WORKLOADS: Final = 128
"""Of one AppGroup."""
MOST_DEPENDENCIES: Final = 256
"""Of all workloads of one AppGroup."""
MOST_LINKS: Final = 65_536
"""Costs in one NetworkTopology, which are of 256 zones to one another."""

_Quantity = str | int | float
_Name = Annotated[str, msgspec.Meta(max_length=253)]
_Whole = Annotated[int, msgspec.Meta(ge=0, le=MOST_COST)]


class NetworkSettings(Model):
    """AppGroups and a NetworkTopology of diktyo: who talks to whom, and what that costs from where to where."""

    namespaces: Annotated[list[Annotated[str, Field(min_length=1, max_length=63)]], Field(min_length=1)] = ["default"]
    """Where the NetworkTopology is looked for, and AppGroups that are not in the namespace of their pods."""
    network_topology_name: Annotated[str, Field(min_length=1, max_length=253)] = "nt-default"
    """The name of the NetworkTopology."""
    weights_name: Annotated[str, Field(min_length=1, max_length=253)] = "UserDefined"
    """Which of its lists of weights counts."""
    weight: Annotated[int, Field(ge=1, le=100)] = 5
    """What the costs of a pod by itself count against other scores, of which each has up to 100 points. Gangs whose
    members talk to one another are placed to least cost first."""
    strict: bool = False
    """Whether every dependency has to stay within its maxNetworkCost; otherwise a node is ruled out where more of them
    are violated than satisfied, as NetworkOverhead has it."""
    bandwidth: bool = False
    """Whether minBandwidth of dependencies is taken from bandwidthCapacity between zones and regions."""


class _Workload(View, frozen=True):
    name: _Name = ""
    selector: _Name = ""
    namespace: _Name = ""


class _Dependency(View, frozen=True):
    workload: _Workload = _Workload()
    min_bandwidth: _Quantity | None = None
    max_network_cost: _Whole = 0


class _WorkloadOfGroup(View, frozen=True):
    workload: _Workload = _Workload()
    dependencies: list[_Dependency] = []


class AppGroupSpec(View, frozen=True):
    """The spec of an AppGroup as far as it is read."""

    topology_sorting_algorithm: _Name = ""
    workloads: Annotated[list[_WorkloadOfGroup], msgspec.Meta(max_length=MOST_WORKLOADS)] = []


class _Place(View, frozen=True):
    workload: _Workload = _Workload()
    index: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] = 0


class AppGroupStatus(View, frozen=True):
    """The status of an AppGroup as far as it is read."""

    topology_order: Annotated[list[_Place], msgspec.Meta(max_length=MOST_WORKLOADS)] = []


class _Cost(View, frozen=True):
    destination: _Name = ""
    network_cost: _Whole = 0
    bandwidth_capacity: _Quantity | None = None


class _Origin(View, frozen=True):
    origin: _Name = ""
    cost_list: list[_Cost] = []


class _Topology(View, frozen=True):
    topology_key: _Name = ""
    origin_list: list[_Origin] = []


class _Weights(View, frozen=True):
    name: _Name = ""
    topology_list: list[_Topology] = []


class NetworkTopologySpec(View, frozen=True):
    """The spec of a NetworkTopology as far as it is read."""

    weights: Annotated[list[_Weights], msgspec.Meta(max_length=64)] = []


class Dependency(msgspec.Struct, frozen=True):
    """That pods of one workload talk to those of another.

    Attributes:
        on: The workload it needs, by its selector.
        max_cost: What it may cost at most from a pod of the one to a pod of the other.
        bandwidth: How much every two of them take at least, in bits per second.
    """

    on: str
    max_cost: int = 0
    bandwidth: int = 0


class AppGroup(msgspec.Struct, frozen=True):
    """Who depends on whom in one application.

    Attributes:
        dependencies: By workload, what its pods need.
        workloads: Every workload, in the order in which they are written.
        homes: The namespaces in which the pods of each workload are, as far as it is said; others are not believed to
            be part of the application.
        algorithm: How workloads are put in order where the status does not say in which they are.
        order: The place of each workload as the status has it; empty where it says nothing.
        created: When it was made, Unix seconds.
        problem: Why it cannot be used, or "".
    """

    namespace: str
    name: str
    uid: str = ""
    dependencies: dict[str, tuple[Dependency, ...]] = {}
    workloads: tuple[str, ...] = ()
    homes: dict[str, tuple[str, ...]] = {}
    algorithm: str = ""
    order: dict[str, int] = {}
    created: float = 0.0
    problem: str = ""


class Link(msgspec.Struct, frozen=True):
    """What lies between two places.

    Attributes:
        cost: Of a pod in the one that talks to a pod in the other.
        capacity: How much can be taken, in bits per second; None: it is not said.
    """

    cost: int
    capacity: int | None = None


Links = Mapping[tuple[str, str], Link]
"""By origin and destination."""


class NetworkTopology(msgspec.Struct, frozen=True):
    """What lies between regions, and between zones.

    Attributes:
        weights: By the name of a list of weights, and by the label that names the places, what lies between them.
        problem: Why it cannot be used, or "".
    """

    namespace: str
    name: str
    uid: str = ""
    weights: dict[str, dict[str, dict[tuple[str, str], Link]]] = {}
    problem: str = ""

    def links(self, weights: str, key: str) -> Links:
        """Return what lies between the places of a label, by one list of weights."""
        return self.weights.get(weights, {}).get(key, {})


def read_app_group(raw: Mapping[str, Any]) -> AppGroup:
    """Read an AppGroup; whatever stands in it, nothing is raised."""
    namespace, name, uid, created = _meta(raw)
    try:
        spec = msgspec.convert(raw.get("spec") or {}, AppGroupSpec, strict=False)
        status = msgspec.convert(raw.get("status") or {}, AppGroupStatus, strict=False)
        found = _dependencies(spec)
    except (msgspec.ValidationError, RecursionError, _NetworkError) as error:
        return AppGroup(namespace, name, uid, created=created, problem=_told(error))
    return AppGroup(
        namespace,
        name,
        uid,
        found,
        tuple(dict.fromkeys(one.workload.selector for one in spec.workloads)),
        _homes(spec, namespace),
        spec.topology_sorting_algorithm,
        {one.workload.selector: one.index for one in status.topology_order},
        created,
    )


def read_network_topology(raw: Mapping[str, Any]) -> NetworkTopology:
    """Read a NetworkTopology; whatever stands in it, nothing is raised."""
    namespace, name, uid, _ = _meta(raw)
    try:
        spec = msgspec.convert(raw.get("spec") or {}, NetworkTopologySpec, strict=False)
        weights = _links(spec)
    except (msgspec.ValidationError, RecursionError, _NetworkError) as error:
        return NetworkTopology(namespace, name, uid, problem=_told(error))
    return NetworkTopology(namespace, name, uid, weights)


class _NetworkError(ValueError):
    """Something that cannot be right."""


def _dependencies(spec: AppGroupSpec) -> dict[str, tuple[Dependency, ...]]:
    if sum(len(one.dependencies) for one in spec.workloads) > MOST_DEPENDENCIES:
        raise _NetworkError(f"its workloads have more than {MOST_DEPENDENCIES} dependencies together: write fewer")
    found: dict[str, tuple[Dependency, ...]] = {}
    for one in spec.workloads:
        mine = tuple(
            Dependency(of.workload.selector, of.max_network_cost, _bits(of.min_bandwidth, "minBandwidth"))
            for of in one.dependencies
        )
        if mine:
            found[one.workload.selector] = (*found.get(one.workload.selector, ()), *mine)
    return found


def _homes(spec: AppGroupSpec, namespace: str) -> dict[str, tuple[str, ...]]:
    """Return where the pods of each workload are: where it says so, else where the AppGroup is."""
    found: dict[str, dict[str, None]] = {}
    for one in spec.workloads:
        for of in (one.workload, *(needed.workload for needed in one.dependencies)):
            found.setdefault(of.selector, {})[of.namespace or namespace] = None
    return {selector: tuple(names) for selector, names in found.items()}


def _links(spec: NetworkTopologySpec) -> dict[str, dict[str, dict[tuple[str, str], Link]]]:
    count = sum(len(of.cost_list) for one in spec.weights for key in one.topology_list for of in key.origin_list)
    if count > MOST_LINKS:
        raise _NetworkError(f"it has {count} costs, and {MOST_LINKS} are read at most: write them for regions")
    weights: dict[str, dict[str, dict[tuple[str, str], Link]]] = {}
    for one in spec.weights:
        for key in one.topology_list:
            links = weights.setdefault(one.name, {}).setdefault(key.topology_key, {})
            for of in key.origin_list:
                for to in of.cost_list:
                    capacity = to.bandwidth_capacity
                    told = None if capacity is None else _bits(capacity, "bandwidthCapacity")
                    links[of.origin, to.destination] = Link(to.network_cost, told)
    return weights


def _bits(text: _Quantity | None, field: str) -> int:
    """Return an amount of bandwidth, in bits per second, rounded up."""
    if text is None:
        return 0
    try:
        milli = quantity.parse_quantity(text)
    except QuantityError as error:
        raise _NetworkError(f"{field}: {error}") from error
    if not 0 <= milli <= 1000 * MOST_BANDWIDTH:
        raise _NetworkError(f"{field} {shortened(str(text))!r} is not from 0 to {MOST_BANDWIDTH}")
    return -(-milli // 1000)


def _meta(raw: Mapping[str, Any]) -> tuple[str, str, str, float]:
    meta = raw["metadata"]
    at = str(meta.get("creationTimestamp") or "")
    try:
        created = datetime.fromisoformat(at).timestamp() if at else 0.0
    except (ValueError, OverflowError):
        created = 0.0
    return str(meta.get("namespace", "")), str(meta["name"]), str(meta.get("uid", "")), created


def _told(error: Exception) -> str:
    return shortened(f"it cannot be read: {escape_controls(str(error))}")
