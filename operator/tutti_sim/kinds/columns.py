"""The columns that `kubectl get` shows for built-in kinds (pkg/printers/internalversion)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tutti_sim.kinds.resource import Column
from tutti_sim.meta import Json, clock, selectors

NONE = "<none>"
UNSET = "<unset>"


def _ready(obj: Json) -> str:
    """Of its containers, those that start first and stay among them, the ready ones."""
    status, spec = obj.get("status", {}), obj["spec"]
    staying = {one["name"] for one in spec.get("initContainers", ()) if one.get("restartPolicy") == "Always"}
    ready = sum(
        1 for one in status.get("containerStatuses", ()) if one.get("ready") and "running" in one.get("state", {})
    )
    ready += sum(
        1
        for one in status.get("initContainerStatuses", ())
        if one.get("name") in staying and one.get("started") and one.get("ready")
    )
    return f"{ready}/{len(spec.get('containers', ())) + len(staying)}"


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
    series = obj.get("series") or {}
    seen = series.get("lastObservedTime") or obj.get("lastTimestamp") or obj.get("firstTimestamp")
    return clock.age(seen or obj.get("eventTime"))


def _event_source(obj: Json) -> str:
    source = obj.get("source") or {}
    parts = (source.get("component"), source.get("host"))
    if not parts[0]:
        parts = (obj.get("reportingComponent"), obj.get("reportingInstance"))
    return ", ".join([parts[0] or "", parts[1]] if parts[1] else [parts[0] or ""])


def _event_count(obj: Json) -> int:
    series = obj.get("series")
    return int(series.get("count", 0) if series else obj.get("count") or 1)


EVENT = (
    Column("Last Seen", _last_seen),
    Column("Type", lambda obj: obj.get("type", "")),
    Column("Reason", lambda obj: obj.get("reason", "")),
    Column("Object", _event_object),
    Column("Subobject", lambda obj: obj.get("involvedObject", {}).get("fieldPath", ""), priority=1),
    Column("Source", _event_source, priority=1),
    Column("Message", lambda obj: obj.get("message", "").strip()),
    Column("First Seen", lambda obj: clock.age(obj.get("firstTimestamp") or obj.get("eventTime")), priority=1),
    Column("Count", _event_count, priority=1),
    Column("Name", name, format="name", priority=1),
)


def status(obj: Json, field: str, absent: Any = 0) -> Any:
    """A field of the status."""
    return obj.get("status", {}).get(field, absent)


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
    "Service": SERVICE,
    "Namespace": (NAME, Column("Status", lambda obj: status(obj, "phase", "")), AGE),
    "ConfigMap": (
        NAME,
        Column("Data", lambda obj: len(obj.get("data", {})) + len(obj.get("binaryData", {}))),
        AGE,
    ),
    "Secret": (
        NAME,
        Column("Type", lambda obj: obj.get("type", "")),
        Column("Data", lambda obj: len(obj.get("data", {}))),
        AGE,
    ),
    "ServiceAccount": (NAME, AGE),
    "PriorityClass": (
        NAME,
        Column("Value", lambda obj: obj.get("value", 0), type="integer"),
        Column("Global-Default", lambda obj: bool(obj.get("globalDefault")), type="boolean"),
        AGE,
        Column("PreemptionPolicy", lambda obj: obj.get("preemptionPolicy", "")),
    ),
    "PodDisruptionBudget": (
        NAME,
        Column("Min Available", lambda obj: str(obj["spec"].get("minAvailable", "N/A"))),
        Column("Max Unavailable", lambda obj: str(obj["spec"].get("maxUnavailable", "N/A"))),
        Column("Allowed Disruptions", lambda obj: status(obj, "disruptionsAllowed"), type="integer"),
        AGE,
    ),
    "Lease": (NAME, Column("Holder", lambda obj: obj.get("spec", {}).get("holderIdentity", "")), AGE),
    "StorageClass": (
        NAME,
        Column("Provisioner", lambda obj: obj.get("provisioner", "")),
        Column("ReclaimPolicy", lambda obj: obj.get("reclaimPolicy", "")),
        Column("VolumeBindingMode", lambda obj: obj.get("volumeBindingMode", "")),
        Column("AllowVolumeExpansion", lambda obj: bool(obj.get("allowVolumeExpansion"))),
        AGE,
    ),
    "CustomResourceDefinition": (NAME, Column("Created At", _established, type="date")),
}
