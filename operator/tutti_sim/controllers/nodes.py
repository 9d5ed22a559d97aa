"""The node lifecycle and taint eviction controllers (pkg/controller/nodelifecycle, tainteviction; 1.36).

A node that is silent too long is Unknown; taints follow conditions; and pods are deleted from nodes whose NoExecute
taints they do not tolerate (any longer). Hollow nodes do not write heartbeats, which would be most of the traffic of a
large cluster: a node is silent while it is marked as powered off (`tutti_sim.hollow.nodes`), and the time of grace runs
from that mark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
import structlog

from tutti.api.selectors import NO_EXECUTE, NO_SCHEDULE, Taint, Toleration
from tutti_sim.controllers.worker import Place, Tended, Worker
from tutti_sim.hollow.nodes import is_off
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json, clock
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.collection import Key, Version

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
# Condition -> status -> taint; a condition that is absent calls for nothing.
BY_CONDITION = {
    "Ready": {"False": NOT_READY, "Unknown": UNREACHABLE},
    "MemoryPressure": {"True": "node.kubernetes.io/memory-pressure"},
    "DiskPressure": {"True": "node.kubernetes.io/disk-pressure"},
    "PIDPressure": {"True": "node.kubernetes.io/pid-pressure"},
    "NetworkUnavailable": {"True": "node.kubernetes.io/network-unavailable"},
}
EVICTING = frozenset((NOT_READY, UNREACHABLE))
OURS = frozenset(key for found in BY_CONDITION.values() for key in found.values()) | {UNSCHEDULABLE}


def called_for(node: Json) -> list[tuple[str, str]]:
    """The (key, effect) of the taints that a node's conditions and its cordon call for."""
    found: list[tuple[str, str]] = []
    for condition in node.get("status", {}).get("conditions") or ():
        key = BY_CONDITION.get(condition.get("type"), {}).get(condition.get("status"))
        if key is None:
            continue
        found.append((key, NO_SCHEDULE))
        if key in EVICTING:
            found.append((key, NO_EXECUTE))
    if node.get("spec", {}).get("unschedulable"):
        found.append((UNSCHEDULABLE, NO_SCHEDULE))
    return found


def settled(node: Json, now: str) -> list[Json]:
    """A node's taints as they should be: those of others as they are, ours as they are called for."""
    wanted = called_for(node)
    kept = []
    for taint in node.get("spec", {}).get("taints") or ():
        place = (taint["key"], taint["effect"])
        if taint["key"] not in OURS:
            kept.append(taint)
        elif place in wanted:
            kept.append(taint)
            wanted.remove(place)
    return [*kept, *({"key": key, "effect": effect, "timeAdded": now} for key, effect in wanted)]


def stays(taints: Iterable[Json], tolerations: Iterable[Json]) -> float | None:
    """Seconds that a pod may stay under a node's NoExecute taints; None for ever, 0 not at all.

    A pod stays as long as the shortest time that its tolerations of those taints give.
    """
    held = msgspec.convert([one for one in taints if one.get("effect") == NO_EXECUTE], list[Taint])
    given = msgspec.convert(list(tolerations), list[Toleration])
    seconds: list[int] = []
    for taint in held:
        used = [one for one in given if one.tolerates(taint)]
        if not used:
            return 0.0
        seconds.extend(one.toleration_seconds for one in used if one.toleration_seconds is not None)
    return float(max(min(seconds), 0)) if seconds else None


log = structlog.get_logger()


MONITOR_GRACE_SECONDS = 50.0
"""How long a node may be silent (kube-controller-manager 1.36, default of --node-monitor-grace-period)."""

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
        for kind in (one for one in LOST if one == "Ready" or clock.find(current.obj, one)):
            lost = clock.put_condition(lost, kind, "Unknown", **SILENT)
        current = self._local.set_status(self._nodes.resource, current, {**status, "conditions": lost})
        for version in self._pods.scan():
            pod = version.obj
            if pod["spec"].get("nodeName") == current.key[1] and clock.holds(pod, "Ready"):
                unready = clock.put_condition(pod["status"]["conditions"], "Ready", "False")
                self._local.set_status(self._pods.resource, version, {**pod["status"], "conditions": unready})
        return current


def _is_unknown(node: Json) -> bool:
    found = clock.find(node, "Ready")
    return found is not None and found.get("status") == "Unknown"


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
        marked = clock.put_condition(
            status.get("conditions", ()), "DisruptionTarget", "True", lastProbeTime=None, **DISRUPTED
        )
        current = self._local.set_status(self._pods.resource, current, {**status, "conditions": marked})
        self._local.remove(self._pods.resource, current)


def _tolerations(version: Version) -> list[dict[str, Any]]:
    return version.obj["spec"].get("tolerations") or []
