"""The taint eviction controller: deletes pods from nodes whose NoExecute taints they do not tolerate (any longer)."""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from tutti.api.taints import NO_EXECUTE
from tutti_sim.controllers.nodetaints import stays
from tutti_sim.controllers.worker import Place, Tended, Worker
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import conditions
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.version import Key, Version

log = structlog.get_logger()

DISRUPTED = {
    "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
}


class TaintEvictions:
    """Follows the taints of nodes and the pods on them."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._local = Local(backend, "taint-eviction-controller")
        self._nodes = Tended(backend, "", "v1", "nodes")
        self._pods = Tended(backend, "", "v1", "pods")
        self._on: dict[str, set[Key]] = {}
        self._since: dict[Key, float] = {}
        self._evicting: set[str] = set()
        self._worker = Worker("taint-eviction", self._sync)

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note pods that came to a node, and all pods of a node whose taints changed."""
        if resource.storage == self._pods.storage:
            self._follow_pod(old, new)
        elif resource.storage == self._nodes.storage and new is not None:
            taints = new.obj.get("spec", {}).get("taints") or ()
            if any(one["effect"] == NO_EXECUTE for one in taints):
                self._evicting.add(new.key[1])
            else:
                self._evicting.discard(new.key[1])
            if old is None or (old.obj.get("spec", {}).get("taints") or ()) != taints:
                for key in self._on.get(new.key[1], ()):
                    self._worker.note((self._pods.storage, key))

    def _follow_pod(self, old: Version | None, new: Version | None) -> None:
        version = new or old
        if version is None:
            return
        node = version.obj["spec"].get("nodeName")
        place = (self._pods.storage, version.key)
        if new is None:
            self._since.pop(version.key, None)
            self._worker.forget(place)
            if node:
                self._on.get(node, set()).discard(version.key)
        elif node and (old is None or not old.obj["spec"].get("nodeName")):
            self._on.setdefault(node, set()).add(new.key)
            if node in self._evicting:
                self._worker.note(place)
        elif node in self._evicting and old is not None and _tolerations(old) != _tolerations(new):
            self._worker.note(place)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    async def _sync(self, place: Place) -> None:
        current = self._pods.get(place[1])
        if current is None or current.obj["metadata"].get("deletionTimestamp"):
            return
        node = self._backend.find("nodes", "", current.obj["spec"]["nodeName"]) or {}
        taints = node.get("spec", {}).get("taints") or ()
        seconds = stays(taints, _tolerations(current))
        if seconds is None:
            self._since.pop(place[1], None)
            self._worker.forget(place)
            return
        now = asyncio.get_running_loop().time()
        left = self._since.setdefault(place[1], now) + seconds - now
        if left > 0:
            self._worker.later(left, place)
        else:
            self._evict(current)

    def _evict(self, current: Version) -> None:
        log.info("pod_evicted_by_taint", pod="/".join(current.key), node=current.obj["spec"]["nodeName"])
        status = current.obj.get("status", {})
        marked = conditions.put(
            status.get("conditions", ()), "DisruptionTarget", "True", lastProbeTime=None, **DISRUPTED
        )
        current = self._local.set_status(self._pods.resource, current, {**status, "conditions": marked})
        self._local.remove(self._pods.resource, current)


def _tolerations(version: Version) -> list[dict[str, Any]]:
    return version.obj["spec"].get("tolerations") or []
