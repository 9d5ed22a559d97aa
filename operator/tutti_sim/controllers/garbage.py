"""The garbage collector: dependants follow their owners, or let go of them, as the deletion asked for."""

from __future__ import annotations

import asyncio
from typing import Any

from tutti_sim.kinds.resource import Resource
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.version import Key, Version

Json = dict[str, Any]
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
