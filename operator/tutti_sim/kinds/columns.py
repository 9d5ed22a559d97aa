"""The columns that `kubectl get` shows for built-in kinds (pkg/printers/internalversion)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tutti_sim.kinds.resource import Column
from tutti_sim.meta import Json, clock, selectors

NONE = "<none>"


def _ready(obj: Json) -> str:
    statuses = obj.get("status", {}).get("containerStatuses", ())
    ready = sum(1 for one in statuses if one.get("ready") and "running" in one.get("state", {}))
    return f"{ready}/{len(obj['spec'].get('containers', ()))}"


def _pod_status(obj: Json) -> str:
    status = obj.get("status", {})
    reason = status.get("reason") or status.get("phase", "")
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    running = False
    for container in reversed(status.get("containerStatuses", ())):
        state = container.get("state", {})
        if state.get("waiting", {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            ended = state["terminated"]
            reason = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
        elif container.get("ready") and "running" in state:
            running = True
    if reason == "Completed" and running:
        reason = "Running"
    if obj["metadata"].get("deletionTimestamp"):
        finished = status.get("phase") in ("Succeeded", "Failed")
        return reason if finished else "Terminating"
    return str(reason)


def _restarts(obj: Json) -> str:
    return str(sum(one.get("restartCount", 0) for one in obj.get("status", {}).get("containerStatuses", ())))


def _gates(obj: Json) -> str:
    gates = obj["spec"].get("readinessGates", ())
    if not gates:
        return NONE
    conditions = {one.get("type"): one.get("status") for one in obj.get("status", {}).get("conditions", ())}
    passed = sum(1 for gate in gates if conditions.get(gate.get("conditionType")) == "True")
    return f"{passed}/{len(gates)}"


POD_COLUMNS = (
    Column("Name", lambda obj: obj["metadata"].get("name", ""), format="name"),
    Column("Ready", _ready),
    Column("Status", _pod_status),
    Column("Restarts", _restarts),
    Column("Age", lambda obj: clock.age(obj["metadata"].get("creationTimestamp"))),
    Column("IP", lambda obj: obj.get("status", {}).get("podIP") or NONE, priority=1),
    Column("Node", lambda obj: obj["spec"].get("nodeName") or NONE, priority=1),
    Column("Nominated Node", lambda obj: obj.get("status", {}).get("nominatedNodeName") or NONE, priority=1),
    Column("Readiness Gates", _gates, priority=1),
)


def name(obj: Json) -> str:
    """The object's name."""
    return str(obj["metadata"].get("name", ""))


def age_cell(obj: Json) -> str:
    """Since when it has existed."""
    return clock.age(obj["metadata"].get("creationTimestamp"))


NAME = Column("Name", name, format="name")
AGE = Column("Age", age_cell)
DEFAULT = (NAME, Column("Created At", lambda obj: obj["metadata"].get("creationTimestamp"), type="date"))


def _node_status(obj: Json) -> str:
    conditions = {one.get("type"): one.get("status") for one in obj.get("status", {}).get("conditions", ())}
    ready = "Unknown" if "Ready" not in conditions else "Ready" if conditions["Ready"] == "True" else "NotReady"
    return ready + (",SchedulingDisabled" if obj.get("spec", {}).get("unschedulable") else "")


def _roles(obj: Json) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = sorted(key.removeprefix(prefix) for key in obj["metadata"].get("labels", {}) if key.startswith(prefix))
    return ",".join(roles) or NONE


def _address(kind: str) -> Column:
    def cell(obj: Json) -> str:
        for address in obj.get("status", {}).get("addresses", ()):
            if address.get("type") == kind:
                return str(address.get("address"))
        return NONE

    return Column(f"{kind[:8]}-IP", cell, priority=1)


def _info(title: str, field: str) -> Column:
    return Column(title, lambda obj: obj.get("status", {}).get("nodeInfo", {}).get(field) or "<unknown>", priority=1)


NODE = (
    NAME,
    Column("Status", _node_status),
    Column("Roles", _roles),
    AGE,
    Column("Version", lambda obj: obj.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", "")),
    _address("InternalIP"),
    _address("ExternalIP"),
    _info("OS-Image", "osImage"),
    _info("Kernel-Version", "kernelVersion"),
    _info("Container-Runtime", "containerRuntimeVersion"),
)


def _event_object(obj: Json) -> str:
    subject = obj.get("involvedObject", {})
    return f"{subject.get('kind', '').lower()}/{subject.get('name', '')}"


def _last_seen(obj: Json) -> str:
    seen = obj.get("lastTimestamp") or obj.get("eventTime") or obj.get("firstTimestamp")
    return clock.age(seen)


EVENT = (
    Column("Last Seen", _last_seen),
    Column("Type", lambda obj: obj.get("type", "")),
    Column("Reason", lambda obj: obj.get("reason", "")),
    Column("Object", _event_object),
    Column("Subobject", lambda obj: obj.get("involvedObject", {}).get("fieldPath", ""), priority=1),
    Column(
        "Source", lambda obj: obj.get("source", {}).get("component") or obj.get("reportingComponent", ""), priority=1
    ),
    Column("Message", lambda obj: obj.get("message", "").strip()),
    Column("First Seen", lambda obj: clock.age(obj.get("firstTimestamp") or obj.get("eventTime")), priority=1),
    Column("Count", lambda obj: str(obj.get("count", 1)), priority=1),
    Column("Name", name, priority=1),
)


def _status(obj: Json, field: str, absent: Any = 0) -> Any:
    return obj.get("status", {}).get(field, absent)


def _job_completions(obj: Json) -> str:
    wanted = obj["spec"].get("completions")
    if wanted is None:
        parallelism = obj["spec"].get("parallelism", 0)
        wanted = f"1 of {parallelism}" if parallelism > 1 else "1"
    return f"{_status(obj, 'succeeded')}/{wanted}"


def _job_status(obj: Json) -> str:
    for condition in _status(obj, "conditions", ()):
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed", "Suspended"):
            return str(condition["type"])
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else "Running"


def _job_duration(obj: Json) -> str:
    start, end = _status(obj, "startTime", None), _status(obj, "completionTime", None)
    if not start:
        return ""
    return clock.span((clock.parse_time(end) - clock.parse_time(start)).total_seconds()) if end else clock.age(start)


JOB = (
    NAME,
    Column("Status", _job_status),
    Column("Completions", _job_completions),
    Column("Duration", _job_duration),
    AGE,
)


def _ready_of(obj: Json) -> str:
    return f"{_status(obj, 'readyReplicas')}/{obj['spec'].get('replicas', 0)}"


DEPLOYMENT = (
    NAME,
    Column("Ready", _ready_of),
    Column("Up-to-date", lambda obj: _status(obj, "updatedReplicas"), type="integer"),
    Column("Available", lambda obj: _status(obj, "availableReplicas"), type="integer"),
    AGE,
)
REPLICAS = (
    NAME,
    Column("Desired", lambda obj: obj["spec"].get("replicas", 0), type="integer"),
    Column("Current", lambda obj: _status(obj, "replicas"), type="integer"),
    Column("Ready", lambda obj: _status(obj, "readyReplicas"), type="integer"),
    AGE,
)


def _ports(obj: Json) -> str:
    return ",".join(f"{one.get('port')}/{one.get('protocol', 'TCP')}" for one in obj["spec"].get("ports", ())) or NONE


SERVICE = (
    NAME,
    Column("Type", lambda obj: obj["spec"].get("type", "")),
    Column("Cluster-IP", lambda obj: obj["spec"].get("clusterIP") or NONE),
    Column("External-IP", lambda _: NONE),
    Column("Port(s)", _ports),
    AGE,
    Column(
        "Selector",
        lambda obj: selectors.selector_text({"matchLabels": obj["spec"].get("selector", {})}) or NONE,
        priority=1,
    ),
)


def _established(obj: Json) -> str:
    return str(obj["metadata"].get("creationTimestamp"))


COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "Pod": POD_COLUMNS,
    "Node": NODE,
    "Event": EVENT,
    "Job": JOB,
    "Deployment": DEPLOYMENT,
    "ReplicaSet": REPLICAS,
    "ReplicationController": REPLICAS,
    "StatefulSet": (NAME, Column("Ready", _ready_of), AGE),
    "Service": SERVICE,
    "Namespace": (NAME, Column("Status", lambda obj: _status(obj, "phase", "")), AGE),
    "ConfigMap": (
        NAME,
        Column("Data", lambda obj: str(len(obj.get("data", {})) + len(obj.get("binaryData", {})))),
        AGE,
    ),
    "Secret": (
        NAME,
        Column("Type", lambda obj: obj.get("type", "")),
        Column("Data", lambda obj: str(len(obj.get("data", {})))),
        AGE,
    ),
    "ServiceAccount": (NAME, Column("Secrets", lambda obj: str(len(obj.get("secrets", ())))), AGE),
    "PriorityClass": (
        NAME,
        Column("Value", lambda obj: str(obj.get("value", 0))),
        Column("Global-Default", lambda obj: "true" if obj.get("globalDefault") else "false"),
        AGE,
        Column("PreemptionPolicy", lambda obj: obj.get("preemptionPolicy", "")),
    ),
    "PodDisruptionBudget": (
        NAME,
        Column("Min Available", lambda obj: str(obj["spec"].get("minAvailable", "N/A"))),
        Column("Max Unavailable", lambda obj: str(obj["spec"].get("maxUnavailable", "N/A"))),
        Column("Allowed Disruptions", lambda obj: str(_status(obj, "disruptionsAllowed"))),
        AGE,
    ),
    "Lease": (NAME, Column("Holder", lambda obj: obj.get("spec", {}).get("holderIdentity", "")), AGE),
    "StorageClass": (
        NAME,
        Column("Provisioner", lambda obj: obj.get("provisioner", "")),
        Column("ReclaimPolicy", lambda obj: obj.get("reclaimPolicy", "")),
        Column("VolumeBindingMode", lambda obj: obj.get("volumeBindingMode", "")),
        Column("AllowVolumeExpansion", lambda obj: "true" if obj.get("allowVolumeExpansion") else "false"),
        AGE,
    ),
    "PersistentVolumeClaim": (
        NAME,
        Column("Status", lambda obj: _status(obj, "phase", "")),
        Column("Volume", lambda obj: obj["spec"].get("volumeName", "")),
        Column("Capacity", lambda obj: _status(obj, "capacity", {}).get("storage", "")),
        Column("Access Modes", lambda obj: ",".join(obj["spec"].get("accessModes", ()))),
        Column("StorageClass", lambda obj: obj["spec"].get("storageClassName", "")),
        AGE,
    ),
    "PersistentVolume": (
        NAME,
        Column("Capacity", lambda obj: obj["spec"].get("capacity", {}).get("storage", "")),
        Column("Access Modes", lambda obj: ",".join(obj["spec"].get("accessModes", ()))),
        Column("Reclaim Policy", lambda obj: obj["spec"].get("persistentVolumeReclaimPolicy", "")),
        Column("Status", lambda obj: _status(obj, "phase", "")),
        Column("StorageClass", lambda obj: obj["spec"].get("storageClassName", "")),
        AGE,
    ),
    "CustomResourceDefinition": (NAME, Column("Created At", _established, type="date")),
}
