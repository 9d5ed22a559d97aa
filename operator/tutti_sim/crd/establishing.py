"""Takes definitions into service and out of it: names accepted, established, and emptied before they go."""

from __future__ import annotations

import asyncio
from typing import Any

from tutti_sim.crd.definitions import CLEANUP
from tutti_sim.crd.serving import Definitions
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import clock
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.version import Version

Json = dict[str, Any]

STORAGE = "customresourcedefinitions.apiextensions.k8s.io"


class Establisher:
    """Follows writes of definitions, and of their objects while a definition is on its way out."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._definitions = Definitions(backend.registry)
        self._local = Local(backend, "apiextensions-apiserver")
        self._leaving: dict[str, str] = {}

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """React to a write."""
        if resource.storage == STORAGE:
            self._definition(resource, old, new)
        elif new is None and resource.storage in self._leaving:
            asyncio.get_running_loop().call_soon(self._release, self._leaving[resource.storage])

    def _definition(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        if new is None:
            if old is not None:
                self._withdraw(old)
            return
        if old is None or old.obj["spec"] != new.obj["spec"]:
            made = self._definitions.serve(new.obj)
            for one in made:
                self._backend.store.collection(one.storage)
        if new.obj["metadata"].get("deletionTimestamp"):
            asyncio.get_running_loop().call_soon(self._empty, new.key[1])
        elif old is None and CLEANUP not in new.obj["metadata"].get("finalizers", ()):
            self._establish(resource, new)

    def _establish(self, resource: Resource, version: Version) -> None:
        """Accept the names and say that the resource is served."""
        obj = version.obj
        meta = dict(obj["metadata"])
        meta["finalizers"] = [*meta.get("finalizers", ()), CLEANUP]
        status = {
            **obj.get("status", {}),
            "acceptedNames": obj["spec"]["names"],
            "conditions": [
                _condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                _condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ],
        }
        self._local.write(resource, version, {**obj, "metadata": meta, "status": status})

    def _empty(self, name: str) -> None:
        """Delete the objects of a definition that is going away."""
        served = self._definitions.served(name)
        if not served:
            self._release(name)
            return
        self._leaving[served[0].storage] = name
        for version in list(self._backend.collection(served[0]).scan()):
            self._local.remove(served[0], version)
        self._release(name)

    def _release(self, name: str) -> None:
        """Let a definition go once its last object is gone."""
        served = self._definitions.served(name)
        if served and len(self._backend.collection(served[0])):
            return
        resource = self._backend.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        current = self._backend.collection(resource).get("", name)
        if current is not None and CLEANUP in current.obj["metadata"].get("finalizers", ()):
            self._local.without_finalizer(resource, current, CLEANUP)

    def _withdraw(self, version: Version) -> None:
        for resource in self._definitions.served(version.key[1]):
            self._leaving.pop(resource.storage, None)
            self._backend.store.drop(resource.storage)
        self._definitions.withdraw(version.key[1])


def _condition(kind: str, reason: str, message: str) -> Json:
    return {"type": kind, "status": "True", "lastTransitionTime": clock.now(), "reason": reason, "message": message}
