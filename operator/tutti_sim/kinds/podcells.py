"""How a pod is summed up in a Table: readiness, status, restarts (pkg/printers/internalversion, printPod)."""

from __future__ import annotations

from typing import Any

from tutti_sim.kinds.resource import Column
from tutti_sim.meta import clock

Json = dict[str, Any]

NONE = "<none>"


def _ready(obj: Json) -> str:
    statuses = obj.get("status", {}).get("containerStatuses", ())
    ready = sum(1 for one in statuses if one.get("ready") and "running" in one.get("state", {}))
    return f"{ready}/{len(obj['spec'].get('containers', ()))}"


def _status(obj: Json) -> str:
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
    Column("Status", _status),
    Column("Restarts", _restarts),
    Column("Age", lambda obj: clock.age(obj["metadata"].get("creationTimestamp"))),
    Column("IP", lambda obj: obj.get("status", {}).get("podIP") or NONE, priority=1),
    Column("Node", lambda obj: obj["spec"].get("nodeName") or NONE, priority=1),
    Column("Nominated Node", lambda obj: obj.get("status", {}).get("nominatedNodeName") or NONE, priority=1),
    Column("Readiness Gates", _gates, priority=1),
)
