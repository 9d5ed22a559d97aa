"""What all operations work on: the store, the resources served, and the plugins that every write passes."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from tutti_sim.kinds.resource import Registry, Resource
from tutti_sim.meta import Json
from tutti_sim.meta.errors import ApiError, not_found
from tutti_sim.rest.metadata import Call
from tutti_sim.store.collection import Collection, Version
from tutti_sim.store.store import Store


class Write(msgspec.Struct, frozen=True):
    """A write on its way to the store, as admission sees it.

    Attributes:
        operation: CREATE, UPDATE or DELETE.
        old: the object before; None for a creation.
    """

    resource: Resource
    namespace: str
    name: str
    operation: str
    old: Json | None
    call: Call

    def shown_name(self, obj: Json) -> str:
        """What plugins that come before a name is generated call the object."""
        return self.name or obj["metadata"].get("generateName") or "Unknown"


Plugin = Callable[["Backend", Write, Json], None]


class Hooks(Protocol):
    """Calls to admission webhooks."""

    async def mutate(self, write: Write, obj: Json) -> Json:
        """The object as mutating webhooks leave it."""
        ...

    async def validate(self, write: Write, obj: Json | None) -> None:
        """ApiError when a validating webhook refuses."""
        ...

    def concern(self, write: Write) -> bool:
        """Whether any webhook wants to see this write."""
        ...


@dataclass(slots=True)
class Backend:
    """The API server without its wire.

    Attributes:
        admission: plugins that may change or refuse an object, in order, before it is validated.
        checks: plugins that may refuse a change that is valid.
        after: called after each write with the resource, the old and the new version (None: gone).
    """

    store: Store
    registry: Registry
    draw: random.Random
    admission: list[Plugin] = field(default_factory=list)
    checks: list[Plugin] = field(default_factory=list)
    hooks: Hooks | None = None
    after: list[Callable[[Resource, Version | None, Version | None], None]] = field(default_factory=list)
    settle: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    def collection(self, resource: Resource) -> Collection:
        """The objects of a resource."""
        return self.store.collection(resource.storage)

    def get(self, resource: Resource, namespace: str, name: str) -> Version:
        """An object; ApiError 404 where there is none."""
        found = self.store.collection(resource.storage).get(namespace, name)
        if found is None:
            raise not_found(resource.plural, resource.group, name)
        return found

    def find(self, storage: str, namespace: str, name: str) -> Json | None:
        """An object by the name of its collection; None where there is none."""
        found = self.store.collection(storage).get(namespace, name)
        return found.obj if found else None

    def resource(self, group: str, version: str, plural: str) -> Resource:
        """A resource that must be served."""
        found = self.registry.find(group, version, plural)
        if found is None:
            raise ApiError(404, "NotFound", f"no resource {plural} in {group}/{version}")
        return found

    def tell(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Tell the followers of writes."""
        for follower in self.after:
            follower(resource, old, new)
