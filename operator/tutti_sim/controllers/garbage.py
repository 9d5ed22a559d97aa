"""What has to go, goes: dependants, pods without a node, namespaces and what is in them, old events.

Dependants follow their owners, or are let go of, as the deletion asked for (pkg/controller/garbagecollector, 1.36);
pods on nodes that no longer exist are failed and removed (pkg/controller/podgc); a namespace has its default service
account, and is emptied when it is deleted; events live for an hour after their last write (kube-apiserver, --event-
ttl).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import structlog

from tutti_sim.controllers.worker import Place, Tended, Worker
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json, clock
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.collection import Key, Version

Node = tuple[Resource, Key]

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class GarbageCollector:
    """Keeps an index of who owns what, by the owners' uids."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._local = Local(backend, "generic-garbage-collector")
        self._owned: dict[str, dict[tuple[str, Key], Resource]] = {}
        self._present: set[str] = set()
        self._waiting: dict[str, Node] = {}

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """React to a write."""
        self._index(resource, old, new)
        loop = asyncio.get_running_loop()
        if new is None and old is not None:
            uid = old.obj["metadata"]["uid"]
            self._present.discard(uid)
            self._waiting.pop(uid, None)
            if self._owned.get(uid):
                loop.call_soon(self._collect, uid)
            for owner in _owners(old):
                if owner["uid"] in self._waiting:
                    loop.call_soon(self._settle, owner["uid"])
        elif new is not None:
            self._present.add(new.obj["metadata"]["uid"])
            self._new_state(resource, new, fresh=old is None)

    def _new_state(self, resource: Resource, new: Version, *, fresh: bool) -> None:
        meta = new.obj["metadata"]
        loop = asyncio.get_running_loop()
        if fresh and meta.get("ownerReferences"):
            loop.call_soon(self._check_owners, resource, new.key)
        if meta.get("deletionTimestamp") and meta.get("finalizers"):
            if ORPHAN in meta["finalizers"]:
                loop.call_soon(self._orphan, resource, new.key)
            elif FOREGROUND in meta["finalizers"] and meta["uid"] not in self._waiting:
                self._waiting[meta["uid"]] = (resource, new.key)
                loop.call_soon(self._collect, meta["uid"])
                loop.call_soon(self._settle, meta["uid"])

    def _index(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        if not (old and _owners(old)) and not (new and _owners(new)):
            return
        before = {owner["uid"] for owner in _owners(old)} if old else set()
        after = {owner["uid"] for owner in _owners(new)} if new else set()
        version = new or old
        if version is None:
            return
        for uid in before - after:
            held = self._owned.get(uid, {})
            held.pop((resource.storage, version.key), None)
            if not held:
                self._owned.pop(uid, None)
        for uid in after - before:
            self._owned.setdefault(uid, {})[resource.storage, version.key] = resource

    def _dependants(self, uid: str) -> list[tuple[Resource, Version]]:
        found = []
        for (_, key), resource in list(self._owned.get(uid, {}).items()):
            version = self._backend.collection(resource).get(*key)
            if version is not None:
                found.append((resource, version))
        return found

    def _collect(self, uid: str) -> None:
        """Delete the dependants of an owner that is gone or going, unless another owner still holds them."""
        for resource, version in self._dependants(uid):
            others = [one for one in _owners(version) if one["uid"] != uid and one["uid"] in self._present]
            if others:
                self._let_go(resource, version, uid)
            elif not version.obj["metadata"].get("deletionTimestamp"):
                policy = "Foreground" if uid in self._waiting else "Background"
                self._local.remove(resource, version, policy=policy)

    def _check_owners(self, resource: Resource, key: Key) -> None:
        """Collect an object that was made after its last owner had gone."""
        version = self._backend.collection(resource).get(*key)
        if version is None or version.obj["metadata"].get("deletionTimestamp"):
            return
        if _owners(version) and not any(one["uid"] in self._present for one in _owners(version)):
            self._local.remove(resource, version)

    def _orphan(self, resource: Resource, key: Key) -> None:
        """Free the dependants, then the owner."""
        current = self._backend.collection(resource).get(*key)
        if current is None or ORPHAN not in current.obj["metadata"].get("finalizers", ()):
            return
        for one, version in self._dependants(current.obj["metadata"]["uid"]):
            self._let_go(one, version, current.obj["metadata"]["uid"])
        self._local.without_finalizer(resource, current, ORPHAN)

    def _settle(self, uid: str) -> None:
        """Let an owner go that waits in the foreground, once no dependant blocks it."""
        place = self._waiting.get(uid)
        if place is None:
            return
        blocking = [
            version
            for _, version in self._dependants(uid)
            if any(one["uid"] == uid and one.get("blockOwnerDeletion") for one in _owners(version))
        ]
        current = self._backend.collection(place[0]).get(*place[1])
        if current is not None and not blocking:
            self._local.without_finalizer(place[0], current, FOREGROUND)

    def _let_go(self, resource: Resource, version: Version, uid: str) -> None:
        meta = dict(version.obj["metadata"])
        kept = [one for one in _owners(version) if one["uid"] != uid]
        if kept:
            meta["ownerReferences"] = kept
        else:
            meta.pop("ownerReferences", None)
        self._local.write(resource, version, {**version.obj, "metadata": meta})


def _owners(version: Version) -> list[Json]:
    found: list[Json] = version.obj["metadata"].get("ownerReferences") or []
    return found


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
            marked = clock.put_condition(
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


class NamespaceController:
    """Follows all writes; acts on namespaces that are terminating."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._local = Local(backend, "namespace-controller")
        self._namespaces = backend.resource("", "v1", "namespaces")
        self._accounts = backend.resource("", "v1", "serviceaccounts")
        self._leaving: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """React to a write."""
        loop = asyncio.get_running_loop()
        if resource.storage == "namespaces":
            if old is None and new is not None:
                task = loop.create_task(self._equip(new.key[1]))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            elif new is None and old is not None:
                self._leaving.discard(old.key[1])
            elif new is not None and new.obj["metadata"].get("deletionTimestamp") and new.key[1] not in self._leaving:
                self._leaving.add(new.key[1])
                loop.call_soon(self._empty, new.key[1])
        elif new is None and old is not None and old.key[0] in self._leaving:
            loop.call_soon(self._finish, old.key[0])

    async def _equip(self, name: str) -> None:
        current = self._backend.collection(self._namespaces).get("", name)
        if current is not None and not current.obj["metadata"].get("deletionTimestamp"):
            await self._local.create(self._accounts, name, {"metadata": {"name": "default"}})

    def _resources(self) -> list[Resource]:
        """One resource for each kind of object that lives in namespaces."""
        found = {one.storage: one for one in self._backend.registry if one.namespaced and "list" in one.verbs}
        return list(found.values())

    def _empty(self, name: str) -> None:
        for resource in self._resources():
            for version in list(self._backend.collection(resource).scan(name)):
                if self._backend.collection(resource).get(*version.key) is version:
                    self._local.remove(resource, version)
        self._finish(name)

    def _finish(self, name: str) -> None:
        """Take the finalizer off once nothing is left."""
        current = self._backend.collection(self._namespaces).get("", name)
        if current is None or not current.obj["metadata"].get("deletionTimestamp"):
            return
        if any(next(self._backend.collection(one).scan(name), None) for one in self._resources()):
            return
        obj = current.obj
        kept = [one for one in obj.get("spec", {}).get("finalizers", ()) if one != "kubernetes"]
        spec = {"finalizers": kept} if kept else {}
        self._local.write(self._namespaces, current, {**obj, "metadata": dict(obj["metadata"]), "spec": spec})


TTL_SECONDS = 3600.0


class EventTtl:
    """Removes events in the order they were last written, with one timer for all: every event lives equally long."""

    def __init__(self, backend: Backend, ttl_seconds: float = TTL_SECONDS) -> None:
        self._local = Local(backend, "event-ttl")
        self._events = Tended(backend, "", "v1", "events")
        self._ttl = ttl_seconds
        self._due: OrderedDict[Key, float] = OrderedDict()
        self._wake = asyncio.Event()

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note when an event was written."""
        version = new or old
        if version is None or resource.storage != self._events.storage:
            return
        if new is None:
            self._due.pop(version.key, None)
            return
        self._due[new.key] = asyncio.get_running_loop().time() + self._ttl
        self._due.move_to_end(new.key)
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            while self._due:
                key, due = next(iter(self._due.items()))
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                    continue
                del self._due[key]
                current = self._events.get(key)
                if current is not None:
                    self._local.remove(self._events.resource, current)
            self._wake.clear()
            await self._wake.wait()
