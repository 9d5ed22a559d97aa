"""The node lifecycle controller: a node that is silent too long is Unknown, and taints follow conditions.

Hollow nodes do not write heartbeats, which would be most of the traffic of a large cluster. A node is silent while it
is marked as powered off (`tutti_sim.hollow.power`), and the time of grace runs from that mark.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from tutti_sim.controllers.nodetaints import settled
from tutti_sim.controllers.worker import Place, Tended, Worker
from tutti_sim.hollow.power import is_off
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import clock, conditions
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.version import Key, Version

log = structlog.get_logger()

Json = dict[str, Any]

MONITOR_GRACE_SECONDS = 40.0
"""How long a node may be silent (kube-controller-manager, --node-monitor-grace-period)."""

LOST = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
SILENT = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}


class NodeLifecycle:
    """Follows nodes; writes their conditions when they are lost, their taints, and the readiness of their pods."""

    def __init__(self, backend: Backend, grace_seconds: float = MONITOR_GRACE_SECONDS) -> None:
        self._local = Local(backend, "node-lifecycle-controller")
        self._nodes = Tended(backend, "", "v1", "nodes")
        self._pods = Tended(backend, "", "v1", "pods")
        self._grace = grace_seconds
        self._silent_since: dict[Key, float] = {}
        self._worker = Worker("node-lifecycle", self._sync)

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note nodes that were written."""
        version = new or old
        if version is None or resource.storage != self._nodes.storage:
            return
        place = (resource.storage, version.key)
        if new is None or not is_off(new.obj):
            self._silent_since.pop(version.key, None)
            self._worker.forget(place)
        elif version.key not in self._silent_since:
            self._silent_since[version.key] = asyncio.get_running_loop().time()
        if new is not None:
            self._worker.note(place)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    async def _sync(self, place: Place) -> None:
        current = self._nodes.get(place[1])
        if current is None:
            return
        since = self._silent_since.get(place[1])
        if since is not None and not _is_unknown(current.obj):
            left = since + self._grace - asyncio.get_running_loop().time()
            if left > 0:
                self._worker.later(left, place)
            else:
                current = self._lose(current)
        taints = settled(current.obj, clock.now())
        spec = {key: value for key, value in current.obj.get("spec", {}).items() if key != "taints"}
        if taints:
            spec["taints"] = taints
        if spec != current.obj.get("spec", {}):
            meta = dict(current.obj["metadata"])
            self._local.write(self._nodes.resource, current, {**current.obj, "metadata": meta, "spec": spec})

    def _lose(self, current: Version) -> Version:
        """Say that nothing is known of a node any more, and that its pods are not ready."""
        log.info("node_lost", node=current.key[1])
        status = current.obj["status"]
        lost = list(status.get("conditions", ()))
        for kind in (one for one in LOST if one == "Ready" or conditions.find(current.obj, one)):
            lost = conditions.put(lost, kind, "Unknown", **SILENT)
        current = self._local.set_status(self._nodes.resource, current, {**status, "conditions": lost})
        for version in self._pods.scan():
            pod = version.obj
            if pod["spec"].get("nodeName") == current.key[1] and conditions.holds(pod, "Ready"):
                unready = conditions.put(pod["status"]["conditions"], "Ready", "False")
                self._local.set_status(self._pods.resource, version, {**pod["status"], "conditions": unready})
        return current


def _is_unknown(node: Json) -> bool:
    found = conditions.find(node, "Ready")
    return found is not None and found.get("status") == "Unknown"
