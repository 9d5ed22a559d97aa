"""The store: collections that share one revision counter, as etcd gives resource versions to all objects.

Everything here is synchronous, so that a read followed by a write in the same step cannot be interleaved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tutti_sim.store.collection import Collection
from tutti_sim.store.version import Version
from tutti_sim.store.watching import Change, Event

Json = dict[str, Any]


class Exists(Exception):  # noqa: N818 - a fact about the key
    """The key is taken."""


class Store:
    """All collections by storage name (`pods`, `leases.coordination.k8s.io`).

    Args:
        history: events that each collection remembers.

    Attributes:
        followers: told of each event with the name of its collection; of None when the collection is dropped.
    """

    def __init__(self, *, history: int = 20_000) -> None:
        self.revision = 1
        self.followers: list[Callable[[str, Event | None], None]] = []
        self.history = history
        self._collections: dict[str, Collection] = {}

    def collection(self, name: str) -> Collection:
        """The collection of that name; it is made on first use and forgets nothing from before that moment."""
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(name, born=self.revision, history=self.history)
        return found

    def open(self, name: str) -> Collection:
        """The collection of a kind that has always been there: its history begins with the store's."""
        found = self.collection(name)
        found.oldest = min(found.oldest, 0)
        return found

    def drop(self, name: str) -> None:
        """Forget a collection whose resource is no longer served; its watches end."""
        found = self._collections.pop(name, None)
        if found is not None:
            found.close()
            for follower in self.followers:
                follower(name, None)

    def forget(self) -> None:
        """Lose all history, as a server does that starts anew: watches end, and older versions are expired."""
        for collection in self._collections.values():
            collection.forget(self.revision)

    def _happen(self, collection: Collection, event: Event) -> None:
        collection.apply(event)
        for follower in self.followers:
            follower(collection.name, event)

    def create(self, collection: Collection, obj: Json) -> Version:
        """Store a new object. The store owns `obj` from here on; Exists when the key is taken."""
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        if collection.get(*key) is not None:
            raise Exists(key)
        version = self._stamp(key, obj)
        self._happen(collection, Event(version.rv, Change.ADDED, None, version))
        return version

    def replace(self, collection: Collection, current: Version, obj: Json) -> Version:
        """Store a new version of an object. The store owns `obj` and its metadata from here on."""
        version = self._stamp(current.key, obj)
        self._happen(collection, Event(version.rv, Change.MODIFIED, current, version))
        return version

    def remove(self, collection: Collection, current: Version) -> Version:
        """Remove an object; the result is its last state under the version of the removal."""
        self.revision += 1
        last = current.at(self.revision)
        self._happen(collection, Event(last.rv, Change.DELETED, current, last))
        return last

    def close(self) -> None:
        """End all watches."""
        for collection in self._collections.values():
            collection.close()

    def _stamp(self, key: tuple[str, str], obj: Json) -> Version:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        return Version(key, obj, self.revision)
