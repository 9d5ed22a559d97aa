"""Writes from inside: what the cluster's own controllers and kubelets do, without HTTP and without webhooks."""

from __future__ import annotations

from typing import Any

from tutti_sim.kinds.resource import Resource
from tutti_sim.rest import delete, write
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.delete import DeleteOptions
from tutti_sim.rest.options import Call, User
from tutti_sim.store.version import Version

Json = dict[str, Any]


class Local:
    """A client of the backend under a name of its own."""

    def __init__(self, backend: Backend, name: str) -> None:
        self.backend = backend
        self._name = name
        self._user = User(name, ("system:masters", "system:authenticated"))

    def _call(self) -> Call:
        return Call(user=self._user, manager=self._name, field_validation="Ignore", trusted=True)

    async def create(self, resource: Resource, namespace: str, body: Json) -> Version:
        """Create an object."""
        return await write.create(self.backend, resource, namespace, body, self._call())

    def write(self, resource: Resource, current: Version, changed: Json) -> Version:
        """Store a new state of an object; what it no longer waits for happens. The metadata must be a fresh copy."""
        return write.commit(self.backend, resource, current, changed, self._call())

    def set_status(self, resource: Resource, current: Version, status: Json) -> Version:
        """Store a new status of an object."""
        return self.write(
            resource, current, {**current.obj, "metadata": dict(current.obj["metadata"]), "status": status}
        )

    def remove(
        self, resource: Resource, current: Version, *, grace: int | None = None, policy: str = "Background"
    ) -> None:
        """Delete an object."""
        options = DeleteOptions(call=self._call(), grace=grace, policy=policy)
        delete.remove(self.backend, resource, current, options)

    def without_finalizer(self, resource: Resource, current: Version, finalizer: str) -> Version:
        """Take a finalizer off an object."""
        meta = dict(current.obj["metadata"])
        kept = [one for one in meta.get("finalizers", ()) if one != finalizer]
        if kept:
            meta["finalizers"] = kept
        else:
            meta.pop("finalizers", None)
        return self.write(resource, current, {**current.obj, "metadata": meta})
