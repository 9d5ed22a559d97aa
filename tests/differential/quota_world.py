"""Builds the cluster of a quota record for the engine: queues, flavors, nodes, and workloads that run or wait.

The engine is told of them as the operator tells it: kinds of ours as written, nodes and pods as core objects. Names
become names that an API server takes. What a record leaves open is plenty: one without nodes has a node for each
combination of flavors with room for everything, so that quota alone decides.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from tests.differential.quota_flavors import group_of
from tests.differential.quota_reading import Record, count_left
from tests.engine.world import START, World
from tutti.api.conditions import timestamp
from tutti.api.core import Namespace, Node, ObjectMeta, Pod
from tutti.api.kinds.flavors import HOSTNAME
from tutti.api.quantity import parse_quantity
from tutti.api.resources import parse_amounts
from tutti.engine.records.observations import NamespaceSeen, NodeSeen, ObjectSeen, PodSeen, Synced
from tutti.engine.records.workloads import Workload

MUCH = "1000000000000"
NOW = START + 100_000
"""When the engine decides; the clock of a record starts at START."""
LONG_AGO = START - 100_000
"""When what has no time in a record was made: before everything that has one."""
MODES = {"required": "Required", "preferred": "Preferred", "unconstrained": "Unconstrained"}
OWN = "flavor.test/"
"""Begins the node label by which a flavor is told apart that has none in the record."""
OVER = ("Succeeded", "Failed")


def named(text: str) -> str:
    """A name that an object can have."""
    return text.lower().replace("_", "-")


def at(seconds: float | None) -> float:
    """Unix seconds of a time in a record."""
    return LONG_AGO if seconds is None else START + seconds


@dataclass
class Scene:
    """A record, as the engine was told of it.

    Attributes:
        world: The engine and what it was told.
        called: The record's name of each workload, by namespace and name.
    """

    case: Record
    world: World
    called: dict[tuple[str, str], str] = field(default_factory=dict)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    free: dict[str, dict[str, int]] = field(default_factory=dict)
    doors: dict[tuple[str, str], None] = field(default_factory=dict)

    def workload(self, name: str) -> Workload | None:
        """The engine's workload of a name in the record."""
        namespace, _, own = name.rpartition("/")
        return self.world.engine.state.workloads.get(("Workload", named(namespace or "default"), named(own)))

    def decide(self, turns: int = 1) -> None:
        """Let the engine decide; nothing of it is carried out."""
        for _ in range(turns):
            self.world.engine.decide(self.world.now)


def scene_of(case: Record) -> Scene:
    """Tell a new engine of everything in a record."""
    world = World(namespaces=(), synced=False, **_configuration(case["options"]))
    scene = Scene(case, world)
    for name in sorted(_namespaces(case)):
        labels = {**case.get("namespaces", {}).get(name, {}), "kubernetes.io/metadata.name": named(name)}
        world.tell(NamespaceSeen(Namespace(ObjectMeta(name=named(name), labels=labels))))
    world.now = LONG_AGO
    _tell_flavors(scene)
    _tell_nodes(scene)
    _tell_queues(scene)
    for said in case.get("pods", []):
        _tell_other_pod(scene, said)
    for said in case["workloads"]:
        _tell_workload(scene, said)
    world.now = NOW
    world.tell(Synced())
    return scene


def _configuration(options: Record) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if options.get("fairSharing"):
        out["fair_sharing"] = {"enable": True}
        if options.get("strategies"):
            out["fair_sharing"]["preemptionStrategies"] = options["strategies"]
    past = options.get("admissionFairSharing")
    if past:
        out["admission_fair_sharing"] = {
            "usageHalfLifeSeconds": past["usageHalfLifeSeconds"],
            "usageSamplingIntervalSeconds": past["usageSamplingSeconds"],
            "resourceWeights": past.get("resourceWeights") or {},
        }
    return out


def _namespaces(case: Record) -> set[str]:
    names = [one["name"] for one in (*case["workloads"], *case["localQueues"])]
    return {name.rpartition("/")[0] or "default" for name in names} | set(case.get("namespaces", {}))


# Flavors and nodes.


def labels_of(flavor: Record, *, real: bool) -> dict[str, str]:
    """The node labels of a flavor; where there are no real nodes, each flavor has one of its own."""
    said = flavor.get("nodeLabels", {})
    return dict(said) if real else {**said, f"{OWN}{named(flavor['name'])}": "yes"}


def _tell_flavors(scene: Scene) -> None:
    case, real = scene.case, "nodes" in scene.case
    for one in case.get("topologies", []):
        levels = [{"nodeLabel": level} for level in one["levels"]]
        scene.world.object("Topology", named(one["name"]), {"levels": levels})
    for one in case["flavors"]:
        spec = {
            "nodeLabels": labels_of(one, real=real),
            "nodeTaints": one.get("taints", []),
            "tolerations": one.get("tolerations", []),
        }
        if one.get("topology"):
            spec["topologyName"] = named(one["topology"])
        scene.world.object("ResourceFlavor", named(one["name"]), spec)


def _tell_nodes(scene: Scene) -> None:
    case = scene.case
    for said in case.get("nodes", []) if "nodes" in case else _plenty(case):
        taints = list(said.get("taints", []))
        if not said["ready"]:  # as the node lifecycle controller of Kubernetes does
            taints.append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
        raw = {
            "metadata": {"name": said["name"], "labels": said["labels"]},
            "spec": {"unschedulable": bool(said.get("unschedulable")), "taints": taints},
            "status": {"allocatable": said["allocatable"]},
        }
        scene.nodes[said["name"]] = said["labels"]
        scene.free[said["name"]] = dict(parse_amounts(said["allocatable"]))
        scene.world.tell(NodeSeen(msgspec.convert(raw, Node)))


def _plenty(case: Record) -> Iterator[Record]:
    """A node with plenty for each way to combine flavors: one of each resource group of a queue."""
    flavors = {one["name"]: one for one in case["flavors"]}
    resources = {r for one in case["workloads"] for pods in one["podSets"] for r in pods.get("requests", {})}
    resources |= {
        r for one in case["clusterQueues"] for g in one.get("resourceGroups", []) for r in g["coveredResources"]
    }
    allocatable = {**dict.fromkeys(sorted({*resources, "cpu", "memory"}), MUCH), "pods": MUCH}
    seen: set[frozenset[str]] = set()
    for queue in case["clusterQueues"]:
        groups = [[one["name"] for one in g["flavors"]] for g in queue.get("resourceGroups", [])]
        for chosen in itertools.product(*groups):
            which = frozenset(chosen)
            if which in seen or not which <= flavors.keys():
                continue
            seen.add(which)
            own: dict[str, str] = {}
            for name in chosen:
                own |= labels_of(flavors[name], real=False)
            labels = _asked_beside(case) | own
            name = f"node-{len(seen)}"
            taints = [taint for one in chosen for taint in flavors[one].get("taints", [])]
            yield {
                "name": name,
                "labels": {**labels, HOSTNAME: name},
                "allocatable": allocatable,
                "taints": taints,
                "ready": True,
            }


def _asked_beside(case: Record) -> dict[str, str]:
    """The node labels that pods ask for: of those that a flavor has not itself, Kueue does not ask there."""
    out: dict[str, str] = {}
    for pods in (pods for one in case["workloads"] for pods in one["podSets"]):
        affinity = (pods.get("affinity") or {}).get("nodeAffinity", {})
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
        for term in required.get("nodeSelectorTerms", []):
            for one in term.get("matchExpressions", []):
                if one["operator"] in ("In", "Exists"):
                    out[one["key"]] = (one.get("values") or ["yes"])[0]
        out |= pods.get("nodeSelector", {})
    return {key: value for key, value in out.items() if not key.startswith(OWN)}


# Queues.


def _quota(one: Record, *, limits: bool) -> Record:
    quota = {"name": one["name"], "nominalQuota": MUCH if one["nominal"] == "unlimited" else one["nominal"]}
    for key in ("borrowingLimit", "lendingLimit"):
        if limits and one.get(key) not in (None, "unlimited"):
            quota[key] = one[key]
    if "lendingLimit" in quota and parse_quantity(quota["lendingLimit"]) > parse_quantity(quota["nominalQuota"]):
        quota["lendingLimit"] = quota["nominalQuota"]  # to lend more than all says no more; our validation refuses it
    return quota


def _groups(said: Record, *, limits: bool = True) -> list[Record]:
    out = []
    for group in said.get("resourceGroups", []):
        if not group["coveredResources"]:
            continue
        flavors = []
        for flavor in group["flavors"]:
            resources = [_quota(one, limits=limits) for one in flavor["resources"]]
            flavors.append({"name": named(flavor["name"]), "resources": resources})
        out.append({"coveredResources": group["coveredResources"], "flavors": flavors})
    return out


def _tell_queues(scene: Scene) -> None:
    case, world = scene.case, scene.world
    for said in case.get("cohorts", []):
        spec: Record = {"resourceGroups": _groups(said, limits=bool(said.get("parent")))}
        if said.get("parent"):
            spec["parentName"] = named(said["parent"])
        if said.get("weight"):
            spec["fairSharing"] = {"weight": said["weight"]}
        world.object("Cohort", named(said["name"]), spec)
    for said in case["clusterQueues"]:
        world.object("ClusterQueue", named(said["name"]), _queue_spec(said))
    for said in case["localQueues"]:
        namespace, _, name = said["name"].partition("/")
        _tell_door(scene, namespace, name, said["clusterQueue"], said.get("weight"))


def _queue_spec(said: Record) -> Record:
    # A limit means nothing without a cohort; our validation and Kueue's refuse it there.
    spec: Record = {"resourceGroups": _groups(said, limits=bool(said.get("cohort")))}
    for key in ("queueingStrategy", "stopPolicy"):
        if said.get(key):
            spec[key] = said[key]
    spec["namespaceSelector"] = said.get("namespaceSelector", {})
    fungibility = dict(said.get("flavorFungibility") or {})
    if fungibility.get("preference") == "BorrowingOverPreemption":
        del fungibility["preference"]  # the default, which may only be said where both others are TryNextFlavor
    spec["flavorFungibility"] = fungibility
    preemption = dict(said.get("preemption") or {})
    if preemption.get("borrowWithinCohort", {}).get("policy") == "Never":
        del preemption["borrowWithinCohort"]
    spec["preemption"] = preemption
    if said.get("cohort"):
        spec["cohortName"] = named(said["cohort"])
    if said.get("weight"):
        spec["fairSharing"] = {"weight": said["weight"]}
    if said.get("admissionMode"):
        spec["admissionScope"] = {"admissionMode": said["admissionMode"]}
    return spec


def _tell_door(scene: Scene, namespace: str, name: str, queue: str, weight: str | None = None) -> None:
    """Tell of a LocalQueue, with what its status says that it has used lately."""
    key = named(namespace), named(name)
    if key in scene.doors:
        return
    scene.doors[key] = None
    spec: Record = {"clusterQueue": named(queue)}
    if weight:
        spec["fairSharing"] = {"weight": weight}
    scene.world.object("LocalQueue", key[1], spec, key[0])
    consumed = scene.case.get("localQueueConsumed", {}).get(f"{namespace}/{name}")
    if consumed:
        raw = scene.world.objects["LocalQueue", key[0], key[1]]
        told = {"consumedResources": consumed, "lastUpdate": timestamp(NOW)}
        status = {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": told}}
        scene.world.tell(ObjectSeen("LocalQueue", {**raw, "status": status}))


# Workloads and pods.


def _tell_workload(scene: Scene, said: Record) -> None:
    world = scene.world
    namespace, _, name = said["name"].rpartition("/")
    namespace, name = named(namespace or "default"), named(name)
    scene.called[namespace, name] = said["name"]
    world.now = at(said.get("createdAt"))
    door = said.get("localQueue") or ""
    if not door and said.get("queue"):
        door = f"door-to-{said['queue']}"
        _tell_door(scene, namespace, door, said["queue"])
    # A pod set without pods is no pod group: `tutti migrate` leaves it out as well. Nor is one whose pods are all done.
    spec: Record = {"podGroups": [_pod_group(said, pods) for pods in said["podSets"] if count_left(said, pods)]}
    if door:
        spec["queueName"] = named(door)
    world.object("Workload", name, spec, namespace, uid=said.get("uid") or "")
    if said.get("evicted", {}) and said["evicted"].get("status"):
        _tell_conditions(scene, said, namespace, name)
    for pods in said["podSets"]:
        for index, node in enumerate(_nodes_of(scene, said, pods)):
            _tell_pod(scene, said, pods, index, node)


def _tell_conditions(scene: Scene, said: Record, namespace: str, name: str) -> None:
    """Tell of an eviction: under way where the workload still holds its quota."""
    evicted = said["evicted"]
    when = timestamp(at(evicted["at"]))
    conditions = [
        {"type": "Evicted", "status": "True", "reason": evicted["reason"], "message": "", "lastTransitionTime": when},
        {
            "type": "QuotaReserved",
            "status": "True" if said.get("queue") else "False",
            "reason": "QuotaReserved" if said.get("queue") else "Pending",
            "message": "",
            "lastTransitionTime": when,
        },
    ]
    raw = scene.world.objects["Workload", namespace, name]
    scene.world.tell(ObjectSeen("Workload", {**raw, "status": {"conditions": conditions}}))


def _pod_group(said: Record, pods: Record) -> Record:
    out: Record = {"name": named(pods["name"] or "main"), "count": count_left(said, pods)}
    if pods.get("minCount"):
        out["minCount"] = pods["minCount"]
    asked = _topology(pods)
    if asked:
        out["topology"] = asked
    return out


def _topology(pods: Record) -> Record:
    said = pods.get("topology") or {}
    group = group_of(pods)
    mode = next((key for key in MODES if said.get(key)), None)
    slices = [(one["topology"], one["size"]) for one in said.get("podsetSliceRequiredTopologyConstraints", [])]
    if said.get("podSetSliceRequiredTopology"):
        slices = [(said["podSetSliceRequiredTopology"], said.get("podSetSliceSize", 0))]
    if mode is None and not slices and not group:
        return {}
    out: Record = {"mode": MODES[mode or "unconstrained"]}
    if mode not in (None, "unconstrained"):
        out["level"] = said[mode]
    if slices:
        out |= {"sliceLevel": slices[0][0], "sliceSize": slices[0][1]}
        out["innerSlices"] = [{"level": level, "size": size} for level, size in slices[1:]]
    if group:
        out["groupName"] = named(group)
    return out


def _nodes_of(scene: Scene, said: Record, pods: Record) -> list[str]:
    """The node of each pod: "" for those that wait."""
    left = count_left(said, pods)
    if not said.get("queue"):
        return [""] * left
    placed = pods.get("topologyAssignment")
    if placed:
        spots = [one for one in placed["domains"] for _ in range(one["count"])]
        where = [_within(scene, placed["levels"], one["values"]) for one in spots]
        return [_take(scene, names, pods) for names in where[: max(left, pods["count"])]][:left]
    names = _of_flavors(scene, set(pods["flavors"].values()))
    return [_take(scene, names, pods) for _ in range(min(left, _admitted(pods)))]


def _admitted(pods: Record) -> int:
    """With how many pods a workload runs: `usage` decides where the counts say otherwise."""
    for resource, text in pods.get("usage", {}).items():
        per_pod = parse_quantity(pods.get("requests", {}).get(resource, "0"))
        if per_pod and parse_quantity(text) % per_pod == 0:
            return parse_quantity(text) // per_pod
    return int(pods.get("admittedCount", pods["count"]))


def _within(scene: Scene, levels: list[str], values: list[str]) -> list[str]:
    wanted = dict(zip(levels, values, strict=True))
    return [name for name, labels in scene.nodes.items() if all(labels.get(key) == v for key, v in wanted.items())]


def _of_flavors(scene: Scene, names: set[str]) -> list[str]:
    wanted: dict[str, str] = {}
    for flavor in scene.case["flavors"]:
        if flavor["name"] in names:
            wanted |= labels_of(flavor, real="nodes" in scene.case)
    return _within(scene, list(wanted), list(wanted.values()))


def _take(scene: Scene, names: list[str], pods: Record) -> str:
    """The first of some nodes with room for one more pod; the first of all where none has."""
    need = {**parse_amounts(pods.get("requests", {})), "pods": 1}
    fit = (name for name in names if all(scene.free[name].get(r, 0) >= amount for r, amount in need.items()))
    name = next(fit, names[0] if names else "gone")
    for resource, amount in need.items():
        if name in scene.free:
            scene.free[name][resource] = scene.free[name].get(resource, 0) - amount
    return name


def _tell_pod(scene: Scene, said: Record, pods: Record, index: int, node: str) -> None:
    namespace, _, name = said["name"].rpartition("/")
    namespace, name = named(namespace or "default"), named(name)
    group = named(pods["name"] or "main")
    annotations = {}
    if node:
        flavors = {resource: named(flavor) for resource, flavor in pods["flavors"].items()}
        admission = {"clusterQueue": named(said["queue"]), "flavors": flavors}
        annotations["scheduling.tutti.dev/admission"] = json.dumps(admission)
    labels = {"scheduling.tutti.dev/workload": name, "scheduling.tutti.dev/pod-group": group}
    spec = {
        "schedulerName": "tutti",
        "nodeName": node,
        "priority": said.get("priority", 0),
        "nodeSelector": pods.get("nodeSelector", {}),
        "affinity": pods.get("affinity") or None,
        "tolerations": pods.get("tolerations", []),
        "containers": [{"name": "c", "resources": {"requests": pods.get("requests", {})}}],
    }
    status: Record = {"phase": "Running"} if node else {}
    if node and said.get("reservedAt") is not None:
        status["startTime"] = timestamp(at(said["reservedAt"]))
    meta = {"name": f"{name}-{group}-{index}", "namespace": namespace, "labels": labels, "annotations": annotations}
    _tell(scene, meta, {key: value for key, value in spec.items() if value is not None}, status)


def _tell_other_pod(scene: Scene, said: Record) -> None:
    """Tell of a pod that another scheduler has placed, or is to place."""
    spec = {
        "schedulerName": "default-scheduler",
        "nodeName": said.get("node", ""),
        "containers": [{"name": "c", "resources": {"requests": said.get("requests", {})}}],
    }
    meta = {"name": said["name"], "namespace": "default"}
    _tell(scene, meta, spec, {"phase": said.get("phase", "")})


def _tell(scene: Scene, meta: Mapping[str, Any], spec: Record, status: Record) -> None:
    made = datetime.fromtimestamp(scene.world.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    uid = f"uid-{meta['namespace']}-{meta['name']}"
    raw = {"metadata": {**meta, "uid": uid, "creationTimestamp": made}, "spec": spec, "status": status}
    pod = msgspec.convert(raw, Pod)
    scene.world.pods[pod.metadata.namespace, pod.metadata.name] = pod
    scene.world.tell(PodSeen(pod))
