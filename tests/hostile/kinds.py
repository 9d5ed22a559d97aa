"""Every kind of object that the operator watches: where it is, what may stand in it, and honest ones to begin from."""

from __future__ import annotations

import copy
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import msgspec

import tutti.api
import tutti.cluster
import tutti.engine
import tutti.placement
from tests.api.manifests import RIGHT, manifest
from tests.hostile.shapes import ENTRY, Path, Shape, shape_in_table, shape_of, together
from tutti.api import network, numa, provisioning, throttles
from tutti.api.configuration import Conventions, TuttiConfiguration
from tutti.api.conventions import gang_objects, membership_keys, reading
from tutti.api.conventions.gang_objects import GANG_KINDS
from tutti.api.core import ObjectMeta, Pod, View
from tutti.api.frameworks import KNOWN_KINDS
from tutti.api.kinds import KINDS
from tutti.controller.watch_list import WATCH_LIST, optional_kinds
from tutti.engine.records.members import ADMITTED_CONDITION, PodAdmission
from tutti.kube.resources import APIResource

Json = dict[str, Any]

NAMESPACE = "hostile"
"""Where hostile objects are, as far as they are in a namespace."""
OWNER = "uid-of-an-owner"
_CONTROLLER = {"apiVersion": "batch/v1", "kind": "Job", "name": "owner", "uid": OWNER, "controller": True}
QUEUE = "hostile"
"""The LocalQueue and the ClusterQueue that they may use."""


@dataclass(frozen=True, eq=False)
class Target:
    """A kind of object.

    Attributes:
        name: As in messages: kinds of other projects with their group.
        resource: Where it is served.
        shape: What may stand in it.
        bases: Honest objects of it, by name.
    """

    name: str
    kind: str
    resource: APIResource
    shape: Shape
    bases: Mapping[str, Json]


# What a field says in an honest object that is made for the sake of another field in it.
_WORDS: Mapping[str, Any] = {
    "operator": "In",
    "key": "example.com/key",
    "values": ["x"],
    "effect": "NoSchedule",
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "maxSkew": 1,
    "weight": 1,
    "name": "x",
    "kind": "Pod",
    "claimName": "claim",
    "podGroupName": "native",
    "type": "Ready",
    "status": "True",
    "containerPort": 1,
    "driver": "csi.example.com",
    "nodeID": "n1",
}


def sample(shape: Shape, *, name: str = "") -> Any:
    """A small honest value of a shape: what must be there, and what makes it mean something."""
    if shape.kind == "record":
        wanted = [one for one in shape.members if one in shape.required or one in _WORDS]
        found = {one: sample(shape.members[one], name=one) for one in wanted}
        return {**found, "operator": "Exists"} if "tolerationSeconds" in shape.members else found
    if shape.kind == "list":
        return copy.deepcopy(_WORDS[name]) if isinstance(_WORDS.get(name), list) else [sample(shape.of or Shape("any"))]
    if shape.kind == "map":
        return {ENTRY: sample(shape.of or Shape("any"))}
    if isinstance(_WORDS.get(name), str | int) and (shape.kind == "text") == isinstance(_WORDS[name], str):
        return _WORDS[name]
    plain = {"text": "x", "number": 1, "quantity": "1", "truth": False, "time": "2026-01-01T00:00:00Z", "any": {}}
    return shape.words[0] if shape.words else plain[shape.kind]


def grafted(document: Json, path: Path, value: Any, shape: Shape) -> Json:
    """A copy of an object with a value at a place; what leads there is made where it is missing."""
    return _graft(document, path, value, shape)


def _graft(found: Any, path: Path, value: Any, shape: Shape) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(found) if isinstance(found, list) and found else sample(Shape("list", of=shape.of))
        return [_graft(items[0], rest, value, shape.of or Shape("any")), *items[1:]]
    inner = shape.members.get(step, Shape("any")) if shape.kind == "record" else shape.of or Shape("any")
    known = dict(found) if isinstance(found, dict) else {}
    if not isinstance(found, dict) and shape.kind == "record":
        known = sample(shape)
    return {**known, step: _graft(known.get(step), rest, value, inner)}


def _meta(name: str, *, namespaced: bool = True, **more: Any) -> Json:
    return {"name": name, **({"namespace": NAMESPACE} if namespaced else {}), **more}


def pod(labels: Mapping[str, str] = {}, annotations: Mapping[str, str] = {}, **spec: Any) -> Json:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    plain = {"schedulerName": "tutti", "terminationGracePeriodSeconds": 0, "containers": [container]}
    meta = _meta("pod", labels=dict(labels), annotations=dict(annotations))
    return {"metadata": meta, "spec": {**plain, **spec}}


def owned() -> Json:
    """A pod that something controls."""
    found = pod()
    return {**found, "metadata": {**found["metadata"], "ownerReferences": [_CONTROLLER]}}


_KOORDINATOR, _YUNIKORN = "gang.scheduling.koordinator.sh/", "yunikorn.apache.org/"
_PFNET = Conventions().pfnet_prefix
PFNET_SIZE = f"{_PFNET}-size"

GANGS: Mapping[str, Json] = {
    "tutti": pod({"scheduling.tutti.dev/pod-group": "gang", "scheduling.tutti.dev/queue-name": QUEUE}),
    "kubernetes": pod(schedulingGroup={"podGroupName": "native"}),
    "scheduler_plugins": pod({"scheduling.x-k8s.io/pod-group": "sigs"}),
    "pfnet": pod(annotations={f"{_PFNET}-name": "pfnet", PFNET_SIZE: "2"}),
    "volcano": pod(annotations={"scheduling.k8s.io/group-name": "volcano", "volcano.sh/task-spec": "task"}),
    "koordinator": pod(annotations={f"{_KOORDINATOR}name": "koordinator", f"{_KOORDINATOR}min-available": "2"}),
    "yunikorn": pod(
        {"applicationId": "app", "queue": f"root.{QUEUE}"},
        {
            f"{_YUNIKORN}task-group-name": "work",
            f"{_YUNIKORN}task-groups": '[{"name": "work", "minMember": 1, "minResource": {"cpu": "1"}}]',
        },
    ),
    "kueue": pod(
        {"kueue.x-k8s.io/queue-name": QUEUE, "kueue.x-k8s.io/pod-group-name": "kueue"},
        {"kueue.x-k8s.io/pod-group-total-count": "2"},
    ),
}
"""A member of a gang in each convention."""

_PINNED = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}
PODS: Mapping[str, Json] = {
    "plain": pod(),
    "queued": pod({"scheduling.tutti.dev/queue-name": QUEUE}),
    "after others": pod(annotations={"scheduling.tutti.dev/after": "sample,other:Finished"}),
    "fast in some flavor": pod(annotations={"scheduling.tutti.dev/expected-seconds-by-flavor": "default=60,other=90"}),
    "near data": pod({"scheduling.tutti.dev/dataset": "images_words", "scheduling.tutti.dev/behaviour": "loading"}),
    "part of a workload": pod({"scheduling.tutti.dev/workload": "sample"}),
    **{f"gang of {name}": found for name, found in GANGS.items()},
    "running": {
        **pod(
            {"scheduling.tutti.dev/queue-name": QUEUE},
            {
                "scheduling.tutti.dev/admission": '{"clusterQueue": "hostile", "flavors": {"cpu": "default", "memory": "default"}}'
            },
            nodeName="n1",
        ),
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "Ready", "status": "True"},
                {
                    "type": ADMITTED_CONDITION,
                    "status": "True",
                    "message": '{"clusterQueue": "hostile", "flavors": {"cpu": "default", "memory": "default"}}',
                },
            ],
        },
    },
    "owned": owned(),
    "pinned": pod(
        containers=[
            {
                "name": "c",
                "image": "x",
                "resources": {"requests": _PINNED, "limits": _PINNED},
            }
        ]
    ),
    "with a claim": pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]),
    "with others": pod(
        affinity={
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
                ]
            }
        },
    ),
}
"""Honest pods, of all kinds that are treated in ways of their own."""

_LABELS = {"topology.kubernetes.io/zone": "z"}
_NODE: Json = {
    "metadata": _meta("node", namespaced=False, labels={"kubernetes.io/hostname": "node", **_LABELS}),
    "spec": {},
    "status": {
        "allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "2"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
_SELECTING = ("ReplicationController", "ReplicaSet", "StatefulSet")
"""Of their templates, which are as large as pods, nothing is read."""
_SELECTOR = {"matchLabels": {"a": "b"}}
_BASES: Mapping[str, Json] = {
    "Node": _NODE,
    "Namespace": {"metadata": _meta("other", namespaced=False, labels={"a": "b"})},
    "PriorityClass": {"metadata": _meta("class", namespaced=False), "value": 1},
    "PodDisruptionBudget": {
        "metadata": _meta("budget"),
        "spec": {"selector": _SELECTOR},
        "status": {"disruptionsAllowed": 1},
    },
    "ResourceQuota": {
        "metadata": _meta("allowance"),
        "spec": {"hard": {"pods": "1000"}},
        "status": {"hard": {"pods": "1000"}, "used": {"pods": "1"}},
    },
    "Service": {"metadata": _meta("service"), "spec": {"selector": {"a": "b"}}},
    "ReplicationController": {"metadata": _meta("controller"), "spec": {"selector": {"a": "b"}}},
    "ReplicaSet": {"metadata": _meta("set"), "spec": {"selector": _SELECTOR}},
    "StatefulSet": {"metadata": _meta("set"), "spec": {"selector": _SELECTOR}},
    "StorageClass": {
        "metadata": _meta("class", namespaced=False),
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    "CSIDriver": {"metadata": _meta("csi.example.com", namespaced=False), "spec": {"storageCapacity": True}},
    "CSINode": {
        "metadata": _meta("n1", namespaced=False),
        "spec": {"drivers": [{"name": "csi.example.com", "nodeID": "n1", "allocatable": {"count": 3}}]},
    },
    "CSIStorageCapacity": {
        "metadata": _meta("capacity"),
        "storageClassName": "class",
        "capacity": "10Gi",
        "nodeTopology": {},
    },
    "PersistentVolume": {
        "metadata": _meta("volume", namespaced=False),
        "spec": {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "class"},
        "status": {"phase": "Available"},
    },
    "PersistentVolumeClaim": {
        "metadata": _meta("claim"),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "class",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    },
    "VolumeAttachment": {
        "metadata": _meta("attachment", namespaced=False),
        "spec": {"attacher": "csi.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "volume"}},
    },
}
_OF_GANGS: Mapping[str, tuple[str, Json]] = {
    "PodGroup.scheduling.k8s.io": ("native", {"schedulingPolicy": {"gang": {"minCount": 2}}}),
    "Workload.scheduling.k8s.io": ("native", {"podGroups": [{"name": "x", "policy": {"gang": {"minCount": 2}}}]}),
    "PodGroup.scheduling.x-k8s.io": ("sigs", {"minMember": 2}),
    "PodGroup.scheduling.sigs.k8s.io": ("sigs", {"minMember": 2}),
    "PodGroup.scheduling.volcano.sh": ("volcano", {"minMember": 2, "minTaskMember": {"task": 1}, "queue": QUEUE}),
}


@cache
def targets() -> tuple[Target, ...]:
    """Every kind that is watched."""
    return (
        *_built_in(),
        *_ours(),
        *_of_gangs(),
        *_owners(),
        _zones_of_nodes(),
        *_devices(),
        _throttle(),
        _request(),
        *_of_network(),
    )


def _built_in() -> Iterator[Target]:
    for stream in WATCH_LIST:
        if stream.kind in KINDS:
            continue
        theirs = _frame() if stream.kind in _SELECTING else shape_in_table(stream.kind)
        bases = PODS if stream.kind == "Pod" else {"plain": _BASES[stream.kind]}
        yield Target(stream.kind, stream.kind, stream.resource, together(shape_of(stream.view), theirs), bases)


def _ours() -> Iterator[Target]:
    """Ours, with a template read as what pods are made of."""
    template = together(
        Shape("record", fields=lambda: {"metadata": (shape_of(ObjectMeta), False), "spec": (_spec_of_pods(), False)}),
        shape_in_table("PodTemplateSpec"),
    )
    for stream in WATCH_LIST:
        if stream.kind not in KINDS:
            continue
        honest = {name: manifest(kind, spec) for name, (kind, spec) in RIGHT.items() if kind == stream.kind}
        for base in honest.values():
            if "namespace" in base["metadata"]:
                base["metadata"]["namespace"] = NAMESPACE
        shape = together(_frame(), shape_of(KINDS[stream.kind]))
        yield Target(stream.kind, stream.kind, stream.resource, _with_template(shape, template), honest)


def _spec_of_pods() -> Shape:
    return shape_of(Pod).members["spec"]


def _frame() -> Shape:
    return Shape("record", fields=lambda: {"metadata": (shape_in_table("ObjectMeta"), True)})


def _with_template(shape: Shape, template: Shape) -> Shape:
    """A shape in which every template that may be anything is one of pods."""
    if shape.kind == "record":
        return Shape(
            "record",
            fields=lambda: {
                name: (template if name == "template" else _with_template(inner, template), name in shape.required)
                for name, inner in shape.members.items()
            },
        )
    return Shape(shape.kind, of=_with_template(shape.of, template), words=shape.words) if shape.of else shape


def _of_gangs() -> Iterator[Target]:
    """Objects of other projects: in the spec of each may stand what is read of any."""
    read = [one for one in vars(gang_objects).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    spec = Shape("record")
    for one in read:
        spec = together(spec, shape_of(one))
    shape = together(Shape("record", fields=lambda: {"spec": (spec, True)}), _frame())
    for kind in GANG_KINDS:
        full = f"{kind.kind}.{kind.group}"
        name, honest = _OF_GANGS[full]
        resource = APIResource(kind.group, kind.versions[0], kind.plural)
        yield Target(full, kind.kind, resource, shape, {"plain": {"metadata": _meta(name), "spec": honest}})


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
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}]}}},
    },
    "DeviceTaintRule": {
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"},
            "taint": {"key": "example.com/broken", "effect": "NoExecute"},
        }
    },
}
"""A plain object of each kind of dynamic resource allocation (resource.k8s.io/v1 of Kubernetes 1.36)."""


def _devices() -> Iterator[Target]:
    served = {one.plural: one for one in optional_kinds(TuttiConfiguration()) if one.group == "resource.k8s.io"}
    for kind, body in DEVICES.items():
        plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
        namespaced = kind.startswith("ResourceClaim")
        resource = APIResource("resource.k8s.io", "v1", plural, namespaced=namespaced)
        base = {"metadata": _meta("d", namespaced=namespaced), **body}
        yield Target(
            f"{kind}.resource.k8s.io",
            kind,
            resource,
            together(shape_of(served[plural].view), _frame()),
            {"plain": base},
        )


def _zones_of_nodes() -> Target:
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
    body = {"metadata": _meta("n1", namespaced=False), "attributes": attributes, "zones": zones}
    older = {**body, "attributes": [], "topologyPolicies": ["RestrictedContainerLevel"]}
    shape = together(shape_of(_Report), _frame())
    resource = APIResource(numa.GROUP, numa.VERSIONS[0], numa.PLURAL, namespaced=False)
    return Target(f"{numa.KIND}.{numa.GROUP}", numa.KIND, resource, shape, {"plain": body, "older": older})


class _Throttle(View, frozen=True):
    """A Throttle."""

    metadata: ObjectMeta = ObjectMeta()
    spec: throttles.ThrottleSpec = throttles.ThrottleSpec()


def _throttle() -> Target:
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
    shape = together(shape_of(_Throttle), _frame())
    base = {"plain": {"metadata": _meta("throttle"), "spec": spec}}
    return Target(f"{kind}.{throttles.GROUP}", kind, resource, shape, base)


class _AppGroup(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: network.AppGroupSpec = network.AppGroupSpec()
    status: network.AppGroupStatus = network.AppGroupStatus()


class _NetworkTopology(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: network.NetworkTopologySpec = network.NetworkTopologySpec()


def _of_network() -> tuple[Target, ...]:
    """An application that talks, and what lies between zones."""
    needed = {"workload": {"selector": "db"}, "maxNetworkCost": 10, "minBandwidth": "1M"}
    workloads = [
        {"workload": {"selector": "web", "namespace": NAMESPACE}, "dependencies": [needed]},
        {"workload": {"selector": "db"}, "dependencies": []},
    ]
    group = {
        "metadata": _meta("app"),
        "spec": {"topologySortingAlgorithm": "KahnSort", "workloads": workloads},
        "status": {"topologyOrder": [{"workload": {"selector": "web"}, "index": 1}]},
    }
    costs = [{"destination": "z2", "networkCost": 5, "bandwidthCapacity": "1G"}]
    topology = [{"topologyKey": network.ZONE, "originList": [{"origin": "z1", "costList": costs}]}]
    between = {
        "metadata": _meta("nt-default"),
        "spec": {"weights": [{"name": "UserDefined", "topologyList": topology}]},
    }
    return tuple(
        Target(
            f"{kind}.{network.GROUPS[kind]}",
            kind,
            APIResource(network.GROUPS[kind], network.VERSION, network.PLURALS[kind]),
            together(shape_of(shape), _frame()),
            {"plain": base},
        )
        for kind, shape, base in (
            (network.APP_GROUP, _AppGroup, group),
            (network.TOPOLOGY, _NetworkTopology, between),
        )
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


def _request() -> Target:
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
    meta = {**_meta("request"), "ownerReferences": [owner]}
    kind, group = provisioning.REQUEST_KIND, provisioning.AUTOSCALING_GROUP
    resource = APIResource(group, provisioning.REQUEST_VERSION, provisioning.REQUESTS)
    shape = together(shape_of(_Request), _frame())
    return Target(f"{kind}.{group}", kind, resource, shape, {"plain": {"metadata": meta, "status": status}})


class _Owner(View, frozen=True):
    """Of what owns pods; its roles and numbers are fuzzed in tests/api/frameworks."""

    metadata: ObjectMeta = ObjectMeta()


def _owners() -> Iterator[Target]:
    """Whatever controls pods, of which only the metadata is read; each is controlled in its turn."""
    for kind in KNOWN_KINDS:
        meta = _meta("owner", labels={"kueue.x-k8s.io/queue-name": QUEUE}, uid=OWNER, ownerReferences=[_CONTROLLER])
        resource = APIResource(kind.group, kind.versions[0], kind.plural)
        shape = together(shape_of(_Owner), _frame())
        yield Target(f"{kind.kind}.{kind.group}", kind.kind, resource, shape, {"plain": {"metadata": meta}})


# Labels and annotations.


def _modules(*packages: ModuleType) -> Iterator[ModuleType]:
    for package in packages:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)


@cache
def keys() -> tuple[str, ...]:
    """Every key of a label or an annotation that anybody reads, and more that only look like one."""
    found = set(membership_keys(Conventions()))
    for module in _modules(tutti.api, tutti.cluster, tutti.placement, tutti.engine):
        for value in vars(module).values():
            texts = value if isinstance(value, tuple | frozenset | list) else (value,)
            found |= {one for one in texts if isinstance(one, str) and _is_key(one)}
    return tuple(sorted(found))


def _is_key(text: str) -> bool:
    domain, _, name = text.partition("/")
    return "." in domain and name.replace("-", "").replace("_", "").replace(".", "").isalnum() and " " not in domain


JSON = {"_GANGS_JSON": "koordinator", "_TASK_GROUPS_JSON": "yunikorn", "_LAYERS": "kueue"}
"""The convention of each decoder of JSON in an annotation."""


@cache
def texts_of_json() -> Mapping[str, Shape]:
    """What the JSON of annotations may be, by the key of the annotation."""
    found: dict[str, Shape] = {"scheduling.tutti.dev/admission": shape_of(PodAdmission)}
    for module in _modules(importlib.import_module("tutti.api.conventions")):
        for name, value in vars(module).items():
            if isinstance(value, msgspec.json.Decoder):
                shape = shape_of(value.type)
                found.update({key: shape for key in reading.KEYS[JSON[name]](Conventions()) if key not in found})
    return found
