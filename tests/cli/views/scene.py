"""One small cluster on which every view has something to show: who runs, who waits at which gate, and what is in the way.

Eight nodes in three racks, four of six A100 nodes in use; one node is cordoned and one tainted. Nobody schedules here:
pods that run were created on their nodes, so that the scene is the same each time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from tutti.api.configuration import TuttiConfiguration
from tutti.cli.views.listing import Listed
from tutti.cli.views.what_if import ObservedCluster
from tutti.controller.watch_list import WATCH_LIST, optional_kinds
from tutti.engine.records.observations import AnyObservation
from tutti.kube.client import Client
from tutti.kube.resources import APIResource

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
MODEL = "nvidia.com/gpu.product"
RACK = "topology.example.com/rack"
TUTTI = "scheduling.tutti.dev"
STREAM_OF = {stream.kind: stream for stream in WATCH_LIST}
AT = 1_700_000_000.0
"""When the scene is, for those who are told it without a cluster."""


def objects() -> list[Json]:
    """Return everything in the order in which it is created."""
    return [*_nodes(), *_namespaces(), *_queues(), *_running(), *_waiting(), *_others()]


def _nodes() -> Iterator[Json]:
    for index in range(1, 7):
        taints = [{"key": "maintenance", "value": "firmware", "effect": "NoSchedule"}] if index == 6 else []
        yield node(f"a100-{index}", "NVIDIA-A100", "r1" if index < 4 else "r2", taints=taints)
    yield node("h100-1", "NVIDIA-H100", "r3")
    yield node("h100-2", "NVIDIA-H100", "r3", unschedulable=True)


def _namespaces() -> Iterator[Json]:
    for name in ("vision", "speech", "serving"):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _queues() -> Iterator[Json]:
    yield ours("Topology", "racks", {"levels": [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]})
    yield ours("ResourceFlavor", "a100", {"nodeLabels": {MODEL: "NVIDIA-A100"}})
    yield ours("ResourceFlavor", "h100", {"nodeLabels": {MODEL: "NVIDIA-H100"}, "topologyName": "racks"})
    yield ours("Cohort", "company", {})
    yield ours("Cohort", "research", {"parentName": "company"})
    yield queue("vision", "research", "a100", 16, strict=True)
    yield queue("speech", "research", "a100", 16)
    yield queue("serving", "company", "h100", 16)
    for name in ("vision", "speech", "serving"):
        yield ours("LocalQueue", "main", {"clusterQueue": name}, name)


def _running() -> Iterator[Json]:
    yield group("vision", "train-1", 2)
    for index in range(2):
        yield pod("vision", f"train-1-{index}", 4, gang="train-1", on="a100-1", admitted=("vision", "a100"))
    yield group("speech", "tune", 3)
    for index in range(3):
        on = f"a100-{index + 2}"
        yield pod("speech", f"tune-{index}", 8, gang="tune", on=on, admitted=("speech", "a100"), owner="Job")


def _waiting() -> Iterator[Json]:
    yield group("vision", "train-2", 2)
    for index in range(2):
        yield pod("vision", f"train-2-{index}", 4, gang="train-2")
    yield group("vision", "warmup", 4)
    for index in range(2):
        yield pod("vision", f"warmup-{index}", 1, gang="warmup")
    yield group("serving", "llm", 2, rack=True)
    for index in range(2):
        yield pod("serving", f"llm-{index}", 4, gang="llm")
    yield group("serving", "batch", 1, queue="mian")
    yield pod("serving", "batch-0", 1, gang="batch")


def _others() -> Iterator[Json]:
    """What other schedulers have placed."""
    yield pod("serving", "notebook-a", 4, on="h100-1", scheduler="default-scheduler")
    yield pod("serving", "notebook-b", 2, on="h100-1", scheduler="default-scheduler", owner="StatefulSet")
    labels = {"app": "web"}
    for index, on in enumerate(("a100-4", "a100-5")):
        yield pod("serving", f"web-{index}", 0, on=on, scheduler="default-scheduler", owner="ReplicaSet", labels=labels)
    yield pod("kube-system", "agent-x", 0, on="a100-4", scheduler="default-scheduler", owner="DaemonSet")
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "serving"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": labels}},
        "status": {
            "disruptionsAllowed": 0,
            "currentHealthy": 2,
            "desiredHealthy": 2,
            "expectedPods": 2,
        },
    }


def node(name: str, model: str, rack: str, *, taints: list[Json] = [], unschedulable: bool = False) -> Json:  # noqa: B006
    labels = {"kubernetes.io/hostname": name, MODEL: model, RACK: rack}
    offers = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"}
    spec: Json = {"taints": taints} if taints else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec | ({"unschedulable": True} if unschedulable else {}),
        "status": {"allocatable": offers, "capacity": offers, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def ours(kind: str, name: str, spec: Json, namespace: str = "") -> Json:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{TUTTI}/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


def queue(name: str, cohort: str, flavor: str, gpus: int, *, strict: bool = False) -> Json:
    resources = [
        {"name": "cpu", "nominalQuota": 128},
        {"name": "memory", "nominalQuota": "1Ti"},
        {"name": GPU, "nominalQuota": gpus},
    ]
    groups = [{"coveredResources": ["cpu", "memory", GPU], "flavors": [{"name": flavor, "resources": resources}]}]
    more: Json = {"queueingStrategy": "StrictFIFO"} if strict else {}
    more |= {"cohortName": cohort} if cohort else {}
    return ours("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **more})


def group(namespace: str, name: str, members: int, *, queue: str = "main", rack: bool = False) -> Json:
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": members}}, "queueName": queue}
    if rack:
        spec["schedulingConstraints"] = {"topology": [{"key": RACK, "mode": "Required"}]}
    return ours("PodGroup", name, spec, namespace)


def pod(
    namespace: str,
    name: str,
    gpus: int,
    *,
    gang: str = "",
    on: str = "",
    admitted: tuple[str, str] | None = None,
    scheduler: str = "tutti",
    owner: str = "",
    labels: dict[str, str] | None = None,
) -> Json:
    meta: Json = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    if gang:
        meta["labels"][f"{TUTTI}/pod-group"] = gang
    if admitted is not None:
        said = {"clusterQueue": admitted[0], "flavors": dict.fromkeys(("cpu", "memory", GPU), admitted[1])}
        meta["annotations"] = {f"{TUTTI}/admission": json.dumps(said)}
    if owner:
        meta["ownerReferences"] = [
            {"apiVersion": "v1", "kind": owner, "name": name, "uid": f"uid-{name}", "controller": True}
        ]
    asks = {"cpu": "2", "memory": "8Gi"} | ({GPU: str(gpus)} if gpus else {})
    container = {"name": "main", "image": "registry.example/work", "resources": {"requests": asks, "limits": asks}}
    spec: Json = {"schedulerName": scheduler, "containers": [container], "restartPolicy": "Never"}
    made: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    if on:
        spec["nodeName"] = on
        made["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return made


async def create(client: Client, made: Json) -> None:
    """Create an object, and then give it the status that it is said to have."""
    group, _, version = made["apiVersion"].rpartition("/")
    meta, namespace = made["metadata"], made["metadata"].get("namespace", "")
    resource = APIResource(group, version, f"{made['kind'].lower()}s", namespaced=bool(namespace))
    if made["kind"] in STREAM_OF and STREAM_OF[made["kind"]].resource.group == group:
        resource = STREAM_OF[made["kind"]].resource
    await client.request("POST", resource.path(namespace), body=json.dumps(made).encode())
    if "status" in made:
        body = json.dumps({"status": made["status"]}).encode()
        path = resource.path(namespace, meta["name"], "status")
        await client.request("PATCH", path, body=body, content_type="application/merge-patch+json")


def told(made: list[Json] | None = None, *, at: float = AT) -> ObservedCluster:
    """Return who can be asked about the scene, or about other objects, without a cluster."""
    seen = []
    for number, one in enumerate(objects() if made is None else made):
        created = datetime.fromtimestamp(at - 600 + number, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        meta = {"uid": f"uid-{number}", "generation": 1, "creationTimestamp": created, **one["metadata"]}
        raw = json.dumps({**one, "metadata": meta}).encode()
        seen.append(_observed(raw, one.get("apiVersion", ""), one["kind"]))
    return ObservedCluster(Listed(seen), at)


def _observed(raw: bytes, api_version: str, kind: str) -> AnyObservation:
    """What is observed of an object, also of a kind that not every server has."""
    group, _, version = api_version.rpartition("/")
    for one in optional_kinds(TuttiConfiguration()):
        if one.group == group and one.plural in (f"{kind.lower()}s", f"{kind.lower()}es"):
            resource = APIResource(group, version, one.plural, namespaced=one.namespaced)
            return one.seen(resource, msgspec.json.decode(raw, type=one.view))
    stream = STREAM_OF[kind]
    return stream.seen(msgspec.json.decode(raw, type=stream.view))
