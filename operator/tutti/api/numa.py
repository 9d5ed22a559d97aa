"""What the agent of a node says of its NUMA zones: a NodeResourceTopology, read with bounds into one record.

Kind: `noderesourcetopologies.topology.node.k8s.io`, v1alpha2 (v1alpha1 is the same without attributes); its name is
that of the node. Which fields mean what: scheduler-plugins (noderesourcetopology/nodeconfig/topologymanager.go, and
pluginhelpers.go for the names of zones). Agents write whatever they like, since most fields are plain text; what cannot
be right is told in `problem`, and the node is not used by anybody who has to be aligned there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec

from tutti.api.core import View
from tutti.api.messages import escape_controls
from tutti.api.resources import AmountError, Amounts, parse_requests

GROUP: Final = "topology.node.k8s.io"
VERSIONS: Final = ("v1alpha2", "v1alpha1")
PLURAL: Final = "noderesourcetopologies"
KIND: Final = "NodeResourceTopology"

NONE = "none"
BEST_EFFORT = "best-effort"
RESTRICTED = "restricted"
SINGLE_NUMA_NODE = "single-numa-node"

HIGHEST_ZONE: Final = 63
"""The kubelet keeps sets of NUMA nodes in 64 bits; a zone of a higher number is left out, as scheduler-plugins does."""
MOST_RESOURCES: Final = 32
"""So many resources of one zone are read; no machine has as many kinds of devices."""
FARTHEST: Final = 255
"""The distance that stands for one that is not told, and for all that are greater (ACPI SLIT holds a byte)."""

_MOST_ZONES: Final = 256
_MOST_ATTRIBUTES: Final = 64
_DEFAULT_MOST: Final = 8
_HIGHEST_MOST: Final = 1024
_LONGEST_TEXT: Final = 256

_POLICIES: Final[Mapping[str, tuple[str, bool]]] = {
    "SingleNUMANodePodLevel": (SINGLE_NUMA_NODE, True),
    "SingleNUMANodeContainerLevel": (SINGLE_NUMA_NODE, False),
    "RestrictedPodLevel": (RESTRICTED, True),
    "RestrictedContainerLevel": (RESTRICTED, False),
    "BestEffortPodLevel": (BEST_EFFORT, True),
    "BestEffortContainerLevel": (BEST_EFFORT, False),
}
_FINGERPRINT: Final = "nodeTopologyPodsFingerprint"
_FINGERPRINT_METHOD: Final = "nodeTopologyPodsFingerprintMethod"
_FINGERPRINT_ANNOTATION: Final = "topology.node.k8s.io/fingerprint"
_ZONE: Final = re.compile(r"node-\+?([0-9]{1,4})", re.ASCII)
_INTEGER: Final = re.compile(r"\+?([0-9]{1,18})", re.ASCII)


class Write(View, frozen=True):
    """That somebody has written some fields, as the API server notes it."""

    time: datetime | None = None


class ReportMeta(View, frozen=True):
    """The metadata that is read, and when the object was written."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = {}
    managed_fields: list[Write] = []


class NodeResourceTopology(View, frozen=True):
    """The object as the API server has it; what stands in it, `read_topology` makes out."""

    metadata: ReportMeta = ReportMeta()
    topology_policies: Any = None
    attributes: Any = None
    zones: Any = None


class ZoneReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """One NUMA zone of a node.

    Attributes:
        number: The number of the NUMA node.
        available: What nobody has for himself, in scheduling units.
        allocatable: What pods can have at all; resources of which the agent does not say it are left out.
        costs: Distance to other zones by their number.
    """

    number: int
    available: Amounts = {}
    allocatable: Amounts = {}
    costs: dict[int, int] = {}


class NodeTopology(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of the zones of the node of this name, and of how its kubelet aligns.

    Attributes:
        policy: Of the topology manager.
        pod_scope: Whether a pod is aligned as a whole; otherwise each of its containers is.
        max_zones: How many NUMA nodes the kubelet takes into account.
        zones: By number.
        fingerprint: Of the pods that the report knows, or "".
        fingerprint_method: Which pods count for it.
        written: When the report was last written, Unix seconds; 0 where the server does not say.
        problem: Why the report cannot be used, or "".
    """

    name: str
    uid: str = ""
    api_version: str = f"{GROUP}/{VERSIONS[0]}"
    policy: str = NONE
    pod_scope: bool = False
    max_zones: int = _DEFAULT_MOST
    zones: tuple[ZoneReport, ...] = ()
    fingerprint: str = ""
    fingerprint_method: str = ""
    written: float = 0.0
    problem: str = ""


def read_topology(found: NodeResourceTopology, api_version: str) -> NodeTopology:
    """Read a report; whatever stands in it, nothing is raised."""
    meta = found.metadata
    written = [
        (one["name"], one["value"])
        for one in islice(_mappings(found.attributes), _MOST_ATTRIBUTES)
        if isinstance(one.get("name"), str) and isinstance(one.get("value"), str)
    ]
    attributes = dict(written)
    policy, pod_scope, most = _configuration(found.topology_policies, written)
    zones: tuple[ZoneReport, ...] = ()
    problem = ""
    try:
        zones = tuple(sorted(_zones(found.zones), key=lambda zone: zone.number))
    except _ReportError as error:
        problem = str(error)
    return NodeTopology(
        name=meta.name,
        uid=meta.uid,
        api_version=api_version,
        policy=policy,
        pod_scope=pod_scope,
        max_zones=most,
        zones=zones,
        fingerprint=attributes.get(_FINGERPRINT, meta.annotations.get(_FINGERPRINT_ANNOTATION, ""))[:_LONGEST_TEXT],
        fingerprint_method=attributes.get(_FINGERPRINT_METHOD, "")[:_LONGEST_TEXT],
        written=max((one.time.timestamp() for one in meta.managed_fields if one.time is not None), default=0.0),
        problem=problem,
    )


class _ReportError(ValueError):
    """What in a report cannot be right; the message says where, and what would be."""


def _configuration(policies: object, attributes: Iterable[tuple[str, str]]) -> tuple[str, bool, int]:
    """Return policy, whether the scope is the pod, and how many NUMA nodes count; of each the last that is one."""
    first = next(iter(policies), None) if isinstance(policies, list) else None
    policy, pod_scope = _POLICIES.get(first, (NONE, False)) if isinstance(first, str) else (NONE, False)
    most = _DEFAULT_MOST
    for name, value in attributes:
        if name == "topologyManagerPolicy" and value in (NONE, BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE):
            policy = value
        elif name == "topologyManagerScope" and value in ("container", "pod"):
            pod_scope = value == "pod"
        elif name == "topologyManagerMaxNUMANodes" and (number := _INTEGER.fullmatch(value)) and int(number[1]) > 1:
            most = min(int(number[1]), _HIGHEST_MOST)
    return policy, pod_scope, most


def _zones(raw: object) -> Iterator[ZoneReport]:
    """Yield the zones that are NUMA nodes; others, such as sockets, say nothing that anybody aligns by."""
    seen: set[int] = set()
    for zone in islice(_mappings(raw), _MOST_ZONES):
        number = _number(zone.get("name")) if zone.get("type") == "Node" else None
        if number is None:
            continue
        if number in seen:
            raise _ReportError(f"zones: two of them are node-{number}; each NUMA node is to stand there once")
        seen.add(number)
        yield _zone(zone, number)


def _zone(zone: Mapping[str, Any], number: int) -> ZoneReport:
    available: dict[str, Any] = {}
    allocatable: dict[str, Any] = {}
    for resource in _mappings(zone.get("resources")):
        name = resource.get("name")
        if not isinstance(name, str):
            raise _ReportError(f"zones: node-{number} has a resource without a name")
        if len(available) == MOST_RESOURCES:
            raise _ReportError(f"zones: node-{number} has more than {MOST_RESOURCES} resources; leave some out")
        available[name] = _quantity(resource.get("available"), f"node-{number} {name}: available")
        if resource.get("allocatable") is not None:
            allocatable[name] = _quantity(resource["allocatable"], f"node-{number} {name}: allocatable")
    try:
        return ZoneReport(number, parse_requests(available), parse_requests(allocatable), _costs(zone.get("costs")))
    except AmountError as error:
        raise _ReportError(f"zones: node-{number}: {error}") from error


def _quantity(found: object, where: str) -> str | int | float:
    if isinstance(found, str | int | float) and not isinstance(found, bool):
        return found
    raise _ReportError(f"zones: {escape_controls(where[:_LONGEST_TEXT])} must be a quantity, such as 8 or 64Gi")


def _costs(raw: object) -> dict[int, int]:
    costs: dict[int, int] = {}
    for cost in islice(_mappings(raw), _MOST_ZONES):
        number, value = _number(cost.get("name")), cost.get("value")
        if number is not None and isinstance(value, int) and not isinstance(value, bool):
            costs[number] = max(0, min(value, FARTHEST))
    return costs


def _number(name: object) -> int | None:
    """Return the number of a NUMA node by the name of its zone; None where it is none that a kubelet can have."""
    found = _ZONE.fullmatch(name) if isinstance(name, str) else None
    number = int(found[1]) if found is not None else HIGHEST_ZONE + 1
    return number if number <= HIGHEST_ZONE else None


def _mappings(found: object) -> Iterable[Mapping[str, Any]]:
    return (one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()
