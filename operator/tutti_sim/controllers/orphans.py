"""Pod garbage: pods on nodes that no longer exist are failed and removed (pkg/controller/podgc, 1.36)."""

from __future__ import annotations

import structlog

from tutti_sim.controllers.worker import Place, Tended, Worker
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import conditions
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.version import Version

log = structlog.get_logger()

QUARANTINE_SECONDS = 40.0
"""How long a node must be gone before its pods follow it."""


class PodGarbage:
    """Follows the deletion of nodes."""

    def __init__(self, backend: Backend, quarantine_seconds: float = QUARANTINE_SECONDS) -> None:
        self._local = Local(backend, "pod-garbage-collector")
        self._nodes = Tended(backend, "", "v1", "nodes")
        self._pods = Tended(backend, "", "v1", "pods")
        self._quarantine = quarantine_seconds
        self._worker = Worker("pod-garbage", self._sync)

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Set the time for a node that is gone, and drop it for one that is back."""
        version = new or old
        if version is None or resource.storage != self._nodes.storage:
            return
        place = (resource.storage, version.key)
        if new is None:
            self._worker.later(self._quarantine, place)
        else:
            self._worker.forget(place)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    async def _sync(self, place: Place) -> None:
        if self._nodes.get(place[1]) is not None:
            return
        for version in self._pods.scan():
            if version.obj["spec"].get("nodeName") == place[1][1]:
                self._collect(version)

    def _collect(self, current: Version) -> None:
        log.info("orphaned_pod_removed", pod="/".join(current.key), node=current.obj["spec"]["nodeName"])
        status = current.obj.get("status", {})
        if status.get("phase") not in ("Succeeded", "Failed"):
            marked = conditions.put(
                status.get("conditions", ()),
                "DisruptionTarget",
                "True",
                lastProbeTime=None,
                reason="DeletionByPodGC",
                message="PodGC: node no longer exists",
            )
            changed = {**status, "phase": "Failed", "conditions": marked}
            current = self._local.set_status(self._pods.resource, current, changed)
        self._local.remove(self._pods.resource, current, grace=0)
