"""The kinds that other projects define and the operator watches, and those of Kubernetes that are watched while they are served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tests.hostile.shapes import Shape, shape_of, together
from tests.hostile.target import CONTROLLER, NAMESPACE, OWNER, QUEUE, Json, Target, frame, metadata
from tutti.api import network, numa, provisioning, throttles
from tutti.api.configuration import TuttiConfiguration
from tutti.api.conventions import gang_objects
from tutti.api.conventions.gang_objects import GANG_KINDS
from tutti.api.core import ObjectMeta, View
from tutti.api.frameworks import KNOWN_KINDS
from tutti.controller.watch_list import optional_kinds
from tutti.kube.resources import APIResource

_OF_GANGS: Mapping[str, tuple[str, Json]] = {
    "PodGroup.scheduling.k8s.io": ("native", {"schedulingPolicy": {"gang": {"minCount": 2}}}),
    "Workload.scheduling.k8s.io": ("native", {"podGroups": [{"name": "x", "policy": {"gang": {"minCount": 2}}}]}),
    "PodGroup.scheduling.x-k8s.io": ("sigs", {"minMember": 2}),
    "PodGroup.scheduling.sigs.k8s.io": ("sigs", {"minMember": 2}),
    "PodGroup.scheduling.volcano.sh": ("volcano", {"minMember": 2, "minTaskMember": {"task": 1}, "queue": QUEUE}),
}


def gang_objects_of_others() -> Iterator[Target]:
    """Objects of other projects: in the spec of each may stand what is read of any."""
    read = [one for one in vars(gang_objects).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    spec = Shape("record")
    for one in read:
        spec = together(spec, shape_of(one))
    shape = together(Shape("record", fields=lambda: {"spec": (spec, True)}), frame())
    for kind in GANG_KINDS:
        full = f"{kind.kind}.{kind.group}"
        name, honest = _OF_GANGS[full]
        resource = APIResource(kind.group, kind.versions[0], kind.plural)
        yield Target(full, kind.kind, resource, shape, {"plain": {"metadata": metadata(name), "spec": honest}})


class _Cost(msgspec.Struct):
    name: str = "node-0"
    value: int = 10


class _ZoneResource(msgspec.Struct):
    name: str = "cpu"
    capacity: str | int = "4"
    allocatable: str | int = "4"
    available: str | int = "4"


class _Zone(msgspec.Struct):
    name: str = "node-0"
    type: str = "Node"
    parent: str = ""
    costs: list[_Cost] = []
    resources: list[_ZoneResource] = []


class _Attribute(msgspec.Struct):
    name: str = "topologyManagerPolicy"
    value: str = "single-numa-node"


class _Report(msgspec.Struct, rename="camel"):
    """What an agent may write of the zones of a node."""

    metadata: ObjectMeta = ObjectMeta()
    topology_policies: list[str] = []
    attributes: list[_Attribute] = []
    zones: list[_Zone] = []


DEVICES: Mapping[str, dict[str, Any]] = {
    "DeviceClass": {"spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}},
    "ResourceSlice": {
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": "gpu-0", "attributes": {"index": {"int": 0}}, "capacity": {"memory": {"value": "8Gi"}}}
            ],
        }
    },
    "ResourceClaim": {
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}]}},
        "status": {},
    },
    "ResourceClaimTemplate": {
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}]}}}
    },
    "DeviceTaintRule": {
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"},
            "taint": {"key": "example.com/broken", "effect": "NoExecute"},
        }
    },
}
"""A plain object of each kind of dynamic resource allocation (resource.k8s.io/v1 of Kubernetes 1.36)."""


def device_kinds() -> Iterator[Target]:
    served = {one.plural: one for one in optional_kinds(TuttiConfiguration()) if one.group == "resource.k8s.io"}
    for kind, body in DEVICES.items():
        plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
        namespaced = kind.startswith("ResourceClaim")
        resource = APIResource("resource.k8s.io", "v1", plural, namespaced=namespaced)
        base = {"metadata": metadata("d", namespaced=namespaced), **body}
        yield Target(
            f"{kind}.resource.k8s.io", kind, resource, together(shape_of(served[plural].view), frame()), {"plain": base}
        )


def zones_of_nodes() -> Target:
    resources = [
        {"name": name, "capacity": amount, "allocatable": amount, "available": amount}
        for name, amount in (("cpu", "32"), ("memory", "64Gi"), ("nvidia.com/gpu", "4"))
    ]
    zones = [
        {"name": f"node-{at}", "type": "Node", "costs": [{"name": "node-0", "value": 10}], "resources": resources}
        for at in range(2)
    ]
    attributes = [
        {"name": "topologyManagerPolicy", "value": "single-numa-node"},
        {"name": "topologyManagerScope", "value": "pod"},
        {"name": "nodeTopologyPodsFingerprint", "value": "pfp0v001ef46db3751d8e999"},
    ]
    body = {"metadata": metadata("n1", namespaced=False), "attributes": attributes, "zones": zones}
    older = {**body, "attributes": [], "topologyPolicies": ["RestrictedContainerLevel"]}
    shape = together(shape_of(_Report), frame())
    resource = APIResource(numa.GROUP, numa.VERSIONS[0], numa.PLURAL, namespaced=False)
    return Target(f"{numa.KIND}.{numa.GROUP}", numa.KIND, resource, shape, {"plain": body, "older": older})


class _Throttle(View, frozen=True):
    """A Throttle."""

    metadata: ObjectMeta = ObjectMeta()
    spec: throttles.ThrottleSpec = throttles.ThrottleSpec()


def throttle() -> Target:
    """One of the hostile pods, with an override; those of all namespaces are an administrator's."""
    amounts = {"resourceCounts": {"pod": 5}, "resourceRequests": {"cpu": "1"}}
    spec = {
        "throttlerName": "kube-throttler",
        "selector": {"selectorTerms": [{"podSelector": {"matchLabels": {"app": "x"}}}]},
        "threshold": amounts,
        "temporaryThresholdOverrides": [
            {"begin": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00+01:00", "threshold": amounts}
        ],
    }
    kind = throttles.NAMESPACED_KIND
    resource = APIResource(throttles.GROUP, throttles.VERSION, throttles.PLURALS[kind])
    shape = together(shape_of(_Throttle), frame())
    base = {"plain": {"metadata": metadata("throttle"), "spec": spec}}
    return Target(f"{kind}.{throttles.GROUP}", kind, resource, shape, base)


class _AppGroup(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: network.AppGroupSpec = network.AppGroupSpec()
    status: network.AppGroupStatus = network.AppGroupStatus()


class _NetworkTopology(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: network.NetworkTopologySpec = network.NetworkTopologySpec()


def network_kinds() -> tuple[Target, ...]:
    """An application that talks, and what lies between zones."""
    needed = {"workload": {"selector": "db"}, "maxNetworkCost": 10, "minBandwidth": "1M"}
    workloads = [
        {"workload": {"selector": "web", "namespace": NAMESPACE}, "dependencies": [needed]},
        {"workload": {"selector": "db"}, "dependencies": []},
    ]
    group = {
        "metadata": metadata("app"),
        "spec": {"topologySortingAlgorithm": "KahnSort", "workloads": workloads},
        "status": {"topologyOrder": [{"workload": {"selector": "web"}, "index": 1}]},
    }
    costs = [{"destination": "z2", "networkCost": 5, "bandwidthCapacity": "1G"}]
    topology = [{"topologyKey": network.ZONE, "originList": [{"origin": "z1", "costList": costs}]}]
    between = {
        "metadata": metadata("nt-default"),
        "spec": {"weights": [{"name": "UserDefined", "topologyList": topology}]},
    }
    return tuple(
        Target(
            f"{kind}.{network.GROUPS[kind]}",
            kind,
            APIResource(network.GROUPS[kind], network.VERSION, network.PLURALS[kind]),
            together(shape_of(shape), frame()),
            {"plain": base},
        )
        for kind, shape, base in ((network.APP_GROUP, _AppGroup, group), (network.TOPOLOGY, _NetworkTopology, between))
    )


class _RequestCondition(View, frozen=True):
    """What an autoscaler says of a request."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class _RequestStatus(View, frozen=True):
    """All that it says."""

    conditions: list[_RequestCondition] = []
    provisioning_class_details: dict[str, str] = {}


class _Request(View, frozen=True):
    """A ProvisioningRequest."""

    metadata: ObjectMeta = ObjectMeta()
    status: _RequestStatus = _RequestStatus()


def provisioning_request() -> Target:
    """A request for nodes, as if it had been made for a workload; anybody in its namespace may write its status."""
    said = {"status": "True", "reason": "x", "message": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [{"type": name, **said} for name in provisioning.KNOWN_CONDITIONS]
    status = {"conditions": conditions, "provisioningClassDetails": {"pool": "p"}}
    owner = {
        "apiVersion": "scheduling.tutti.dev/v1alpha1",
        "kind": "Workload",
        "name": "w",
        "uid": "u",
        "controller": True,
    }
    meta = {**metadata("request"), "ownerReferences": [owner]}
    kind, group = provisioning.REQUEST_KIND, provisioning.AUTOSCALING_GROUP
    resource = APIResource(group, provisioning.REQUEST_VERSION, provisioning.REQUESTS)
    shape = together(shape_of(_Request), frame())
    return Target(f"{kind}.{group}", kind, resource, shape, {"plain": {"metadata": meta, "status": status}})


class _Owner(View, frozen=True):
    """Of what owns pods; its roles and numbers are fuzzed in tests/api/frameworks."""

    metadata: ObjectMeta = ObjectMeta()


def owners() -> Iterator[Target]:
    """Whatever controls pods, of which only the metadata is read; each is controlled in its turn."""
    for kind in KNOWN_KINDS:
        meta = metadata("owner", labels={"kueue.x-k8s.io/queue-name": QUEUE}, uid=OWNER, ownerReferences=[CONTROLLER])
        resource = APIResource(kind.group, kind.versions[0], kind.plural)
        shape = together(shape_of(_Owner), frame())
        yield Target(f"{kind.kind}.{kind.group}", kind.kind, resource, shape, {"plain": {"metadata": meta}})
