"""The hollow kubelet: one task that plays the kubelet of every hollow node.

A pod bound to a hollow node starts at once, unless it does not fit; it ends when its annotation says so, or when it is
deleted. Nodes that were not made here are left alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import structlog

from tutti.sim.hollow.room import Amounts, lacking, requests
from tutti.sim.kinds.resource import Resource
from tutti.sim.meta import clock
from tutti.sim.rest.backend import Backend
from tutti.sim.rest.local import Local
from tutti.sim.store.version import Key, Version

log = structlog.get_logger()

Json = dict[str, Any]

RUN_SECONDS = "sim.tutti.dev/run-seconds"
EXIT_CODE = "sim.tutti.dev/exit-code"
HOLLOW = "sim.tutti.dev/hollow"
STOPPING = 0.05


class Kubelet:
    """Follows pods and nodes, and acts on what is bound to hollow nodes."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._local = Local(backend, "kubelet")
        self._pods = backend.resource("", "v1", "pods")
        self._changed: deque[Key] = deque()
        self._wake = asyncio.Event()
        self._held: dict[str, dict[Key, Amounts]] = {}
        self._where: dict[Key, tuple[str, str]] = {}
        self._timers: dict[tuple[Key, str], asyncio.TimerHandle] = {}
        self._address = 0

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note that a pod has changed, if it concerns a node."""
        if resource.storage != "pods":
            return
        version = new or old
        if version is not None and version.obj["spec"].get("nodeName"):
            self._changed.append(version.key)
            self._wake.set()

    async def run(self) -> None:
        """Act until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            for _ in range(len(self._changed)):
                self._sync(self._changed.popleft())
            await asyncio.sleep(0)

    def _sync(self, key: Key) -> None:
        """Bring one pod to where it belongs."""
        current = self._backend.collection(self._pods).get(*key)
        known = self._where.get(key)
        if current is None or (known is not None and known[1] != current.obj["metadata"]["uid"]):
            self._forget(key)
        if current is None or not self._mine(current.obj["spec"].get("nodeName", "")):
            return
        pod = current.obj
        phase = pod.get("status", {}).get("phase")
        if phase in ("Succeeded", "Failed"):
            self._release(key)
        if pod["metadata"].get("deletionTimestamp"):
            self._after(key, "stop", STOPPING)
        elif phase == "Pending" and key not in self._where:
            self._admit(current)
        elif phase == "Running" and key not in self._where:
            self._hold(current)
            self._plan_end(current)

    def _mine(self, node: str) -> bool:
        found = self._backend.find("nodes", "", node)
        return found is not None and HOLLOW in found["metadata"].get("labels", {})

    def _admit(self, current: Version) -> None:
        """Start a pod, or refuse it as a kubelet without room does."""
        node = current.obj["spec"]["nodeName"]
        asked = requests(current.obj["spec"])
        held = self._held.setdefault(node, {})
        used: Amounts = {}
        for amounts in held.values():
            for name, value in amounts.items():
                used[name] = used.get(name, value - value) + value
        offered = (self._backend.find("nodes", "", node) or {}).get("status", {}).get("allocatable", {})
        lack = lacking(asked, used, offered, len(held))
        if lack is not None:
            self._where[current.key] = (node, current.obj["metadata"]["uid"])
            log.info("pod_rejected", pod="/".join(current.key), node=node, resource=lack[0])
            status = {**current.obj["status"], "phase": "Failed", "reason": f"OutOf{lack[0]}", "message": lack[1]}
            self._local.set_status(self._pods, current, status)
            return
        self._hold(current)
        started = self._local.set_status(self._pods, current, self._running(current.obj))
        self._plan_end(started)

    def _hold(self, current: Version) -> None:
        node = current.obj["spec"]["nodeName"]
        self._where[current.key] = (node, current.obj["metadata"]["uid"])
        self._held.setdefault(node, {})[current.key] = requests(current.obj["spec"])

    def _release(self, key: Key) -> None:
        place = self._where.get(key)
        if place is not None:
            self._held.get(place[0], {}).pop(key, None)

    def _forget(self, key: Key) -> None:
        self._release(key)
        self._where.pop(key, None)
        for what in ("stop", "end"):
            timer = self._timers.pop((key, what), None)
            if timer is not None:
                timer.cancel()

    def _running(self, pod: Json) -> Json:
        """The status of a pod whose containers have all started."""
        now = clock.now()
        self._address += 1
        address = f"10.{64 + (self._address >> 16) % 64}.{self._address >> 8 & 255}.{self._address & 255}"
        kept = [one for one in pod.get("status", {}).get("conditions", ()) if one.get("type") == "PodScheduled"]
        ready = [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
            for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
        ]
        return {
            **pod.get("status", {}),
            "phase": "Running",
            "conditions": [*ready, *kept],
            "hostIP": "127.0.0.1",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": now,
            "containerStatuses": [
                {
                    "name": one["name"],
                    "image": one["image"],
                    "imageID": "",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "lastState": {},
                    "state": {"running": {"startedAt": now}},
                }
                for one in pod["spec"]["containers"]
            ],
        }

    def _plan_end(self, current: Version) -> None:
        text = current.obj["metadata"].get("annotations", {}).get(RUN_SECONDS)
        if text is None:
            return
        try:
            seconds = float(text)
        except ValueError:
            log.warning("run_seconds_is_no_number", pod="/".join(current.key), value=text)
            return
        self._after(current.key, "end", seconds)

    def _after(self, key: Key, what: str, seconds: float) -> None:
        if (key, what) not in self._timers:
            act = self._stop if what == "stop" else self._end
            self._timers[key, what] = asyncio.get_running_loop().call_later(seconds, act, key)

    def _stop(self, key: Key) -> None:
        """Remove a deleted pod: its containers have ended."""
        self._timers.pop((key, "stop"), None)
        current = self._backend.collection(self._pods).get(*key)
        if current is None or not current.obj["metadata"].get("deletionTimestamp"):
            return
        if current.obj["metadata"].get("deletionGracePeriodSeconds") == 0:
            return
        if current.obj.get("status", {}).get("phase") == "Running":
            current = self._local.set_status(self._pods, current, _ended(current.obj, 0))
        self._local.remove(self._pods, current, grace=0, policy="")

    def _end(self, key: Key) -> None:
        """End a pod that has run for as long as it was to."""
        self._timers.pop((key, "end"), None)
        current = self._backend.collection(self._pods).get(*key)
        if current is None or current.obj.get("status", {}).get("phase") != "Running":
            return
        code = int(current.obj["metadata"].get("annotations", {}).get(EXIT_CODE, "0"))
        self._local.set_status(self._pods, current, _ended(current.obj, code))


def _ended(pod: Json, code: int) -> Json:
    """The status of a pod whose containers have ended with a code."""
    now = clock.now()
    status = pod["status"]
    ended = {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": status.get("startTime", now),
        "finishedAt": now,
    }
    containers = [
        {**one, "ready": False, "started": False, "state": {"terminated": ended}}
        for one in status.get("containerStatuses", ())
    ]
    conditions = [
        {**one, "status": "False", "reason": "PodCompleted", "lastTransitionTime": now}
        if one["type"] in ("Ready", "ContainersReady")
        else one
        for one in status.get("conditions", ())
    ]
    phase = "Failed" if code else "Succeeded"
    return {**status, "phase": phase, "containerStatuses": containers, "conditions": conditions}
