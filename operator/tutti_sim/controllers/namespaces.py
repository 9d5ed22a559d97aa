"""The namespace controller: gives each namespace its default service account, and empties it when it is deleted."""

from __future__ import annotations

import asyncio

from tutti_sim.kinds.resource import Resource
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.version import Version


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
