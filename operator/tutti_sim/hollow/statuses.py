"""The status that a kubelet writes for a pod at each step of its life."""

from __future__ import annotations

from typing import Any

from tutti_sim.meta import clock

Json = dict[str, Any]

STARTED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
UNREADY = ("Ready", "ContainersReady")
KILLED = 137
TERMINATED = 143
LOST = 255


def _condition(kind: str, status: str, now: str, **fields: str) -> Json:
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": now, **fields}


def _others(pod: Json) -> list[Json]:
    """The conditions that are not the kubelet's."""
    return [one for one in pod.get("status", {}).get("conditions") or () if one.get("type") not in STARTED]


def starting(pod: Json) -> Json:
    """Admitted, its containers being made."""
    now = clock.now()
    names = ", ".join(one["name"] for one in pod["spec"]["containers"])
    unready = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{names}]"}
    own = [
        _condition("PodReadyToStartContainers", "False", now),
        _condition("Initialized", "True", now),
        _condition("Ready", "False", now, **unready),
        _condition("ContainersReady", "False", now, **unready),
    ]
    containers = [
        {
            "name": one["name"],
            "image": one.get("image", ""),
            "imageID": "",
            "ready": False,
            "started": False,
            "restartCount": 0,
            "lastState": {},
            "state": {"waiting": {"reason": "ContainerCreating"}},
        }
        for one in pod["spec"]["containers"]
    ]
    conditions = [*own, *_others(pod)]
    return {
        **pod.get("status", {}),
        "phase": "Pending",
        "conditions": conditions,
        "hostIP": "127.0.0.1",
        "startTime": now,
        "containerStatuses": containers,
    }


def running(pod: Json, address: str, restarts: int = 0) -> Json:
    """All containers started and ready; the pod is ready, too, where its readiness gates are open by then."""
    now = clock.now()
    before = pod.get("status", {})
    last = {one["name"]: one.get("state", {}) for one in before.get("containerStatuses", ())}
    containers = [
        {
            "name": one["name"],
            "image": one.get("image", ""),
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": restarts,
            "lastState": last.get(one["name"], {}) if restarts else {},
            "state": {"running": {"startedAt": now}},
        }
        for one in pod["spec"]["containers"]
    ]
    shut = {"Ready": _gated(pod)}
    return {
        **before,
        "phase": "Running",
        "conditions": [*(_condition(kind, "True", now) | shut.get(kind, {}) for kind in STARTED), *_others(pod)],
        "hostIP": "127.0.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": before.get("startTime", now),
        "containerStatuses": containers,
    }


def _gated(pod: Json) -> dict[str, str]:
    """What condition Ready says otherwise while a readiness gate is shut (pkg/kubelet/status/generate.go)."""
    said = {one["type"]: one["status"] for one in _others(pod)}
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    missing = next((gate for gate in gates if gate not in said), None)
    shut = next((gate for gate in gates if said.get(gate, "True") != "True"), None)
    if missing is not None:
        text = f'corresponding condition of pod readiness gate "{missing}" does not exist.'
    elif shut is not None:
        text = f'the status of pod readiness gate "{shut}" is not "True", but {said[shut]}'
    else:
        return {}
    return {"status": "False", "reason": "ReadinessGatesNotReady", "message": text}


def _terminated(pod: Json, code: int, now: str) -> list[Json]:
    """The containers' statuses after they have all ended with a code."""
    reason = {0: "Completed", LOST: "Unknown"}.get(code, "Error")
    status = pod["status"]
    result = []
    for one in status.get("containerStatuses", ()):
        started = one.get("state", {}).get("running", {}).get("startedAt") or status.get("startTime", now)
        ended = {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now}
        result.append({**one, "ready": False, "started": False, "state": {"terminated": ended}})
    return result


def _unready(pod: Json, reason: str, now: str) -> list[Json]:
    return [
        {**one, "status": "False", "reason": reason, "lastTransitionTime": now} if one["type"] in UNREADY else one
        for one in pod["status"].get("conditions") or ()
    ]


def ended(pod: Json, code: int) -> Json:
    """All containers ended with a code, for good."""
    now = clock.now()
    return {
        **pod["status"],
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": _terminated(pod, code, now),
        "conditions": _unready(pod, "PodFailed" if code else "PodCompleted", now),
    }


def between(pod: Json, code: int) -> Json:
    """All containers ended with a code, and about to be started again."""
    now = clock.now()
    return {
        **pod["status"],
        "phase": "Running",
        "containerStatuses": _terminated(pod, code, now),
        "conditions": _unready(pod, "ContainersNotReady", now),
    }


def rejected(pod: Json, resource: str, message: str) -> Json:
    """Refused by the kubelet, for want of a resource (pkg/kubelet/lifecycle/predicate.go)."""
    return {**pod.get("status", {}), "phase": "Failed", "reason": f"OutOf{resource}", "message": message}
