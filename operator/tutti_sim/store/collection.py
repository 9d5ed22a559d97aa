"""All objects of one resource, with the recent history of their changes.

The history is what watches resume from and what old snapshots are rebuilt from: a snapshot is the present with the
later events undone. Where the history does not reach back far enough, `Compacted` says so.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator
from heapq import merge

from tutti_sim.store.version import Key, Version
from tutti_sim.store.watching import Event, Predicate, Subscription

FIRST: Key = ("", "")


class Compacted(Exception):  # noqa: N818 - the name the field uses
    """The history does not reach back to the version asked for."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.asked = asked
        self.oldest = oldest


class Collection:
    """The objects of one resource by (namespace, name). Only the store changes it.

    Attributes:
        oldest: the earliest version that watches can resume from and snapshots be taken of.
        revision: the version of the last change.
    """

    def __init__(self, name: str, *, born: int, history: int) -> None:
        self.name = name
        self.oldest = born
        self.revision = born
        self._objects: dict[Key, Version] = {}
        self._keys: list[Key] = []
        self._events: deque[Event] = deque()
        self._history = history
        self._subscriptions: list[Subscription] = []

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> Version | None:
        """The object of that name, as it is now."""
        return self._objects.get((namespace, name))

    def scan(self, namespace: str = "") -> Iterator[Version]:
        """All objects, in the order of their keys; of one namespace, if one is given."""
        objects = self._objects
        return (objects[key] for key in self._range(namespace, FIRST))

    def snapshot(self, rv: int, namespace: str = "", *, after: Key = FIRST) -> list[Version]:
        """All objects as they were at a version, in the order of their keys; Compacted when that is forgotten.

        `after` leaves out the objects up to a key.
        """
        if rv < self.oldest:
            raise Compacted(rv, self.oldest)
        objects, keys = self._objects, self._range(namespace, after)
        if rv >= self.revision:
            return [objects[key] for key in keys]
        then: dict[Key, Version | None] = {}
        for event in reversed(self._events):
            if event.rv <= rv:
                break
            then[event.new.key] = event.old
        gone = sorted(key for key in then if key not in objects and key > after and namespace in ("", key[0]))
        found = (then[key] if key in then else objects[key] for key in merge(keys, gone))
        return [version for version in found if version is not None]

    def apply(self, event: Event) -> None:
        """Make an event part of the history and tell the watchers."""
        key = event.new.key
        if event.change == "DELETED":
            del self._objects[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            if key not in self._objects:
                insort(self._keys, key)
            self._objects[key] = event.new
        self.revision = event.rv
        if event.old is not None:
            event.old.supersede()
        self._events.append(event)
        if len(self._events) > self._history:
            self.oldest = self._events.popleft().rv
        for subscription in self._subscriptions:
            subscription.offer(event)

    def load(self, version: Version) -> None:
        """Take an object over from before this history begins."""
        if version.key not in self._objects:
            insort(self._keys, version.key)
        self._objects[version.key] = version

    def subscribe(self, *, namespace: str, predicate: Predicate | None, after: int, limit: int) -> Subscription:
        """Watch from just after a version, with what has happened since; Compacted when that is forgotten.

        `limit` says how many changes may wait to be taken, beside those that have happened already.
        """
        if after < self.oldest:
            raise Compacted(after, self.oldest)
        missed = self._since(after)
        subscription = Subscription(namespace=namespace, predicate=predicate, after=after, limit=limit + len(missed))
        for event in missed:
            subscription.offer(event)
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Stop telling a watcher."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def forget(self, revision: int) -> None:
        """Lose the history up to a version of the store; watches end."""
        self._events.clear()
        self.oldest = revision
        self.close()

    def close(self) -> None:
        """End all watches, because the resource is no longer served or the server stops."""
        for subscription in self._subscriptions:
            subscription.close()

    def _range(self, namespace: str, after: Key) -> list[Key]:
        """The keys of a namespace (or all) that are greater than a key."""
        keys = self._keys
        start = bisect_right(keys, after) if after != FIRST else 0
        if not namespace:
            return keys[start:]
        start = max(start, bisect_left(keys, (namespace, "")))
        return keys[start : bisect_left(keys, (namespace + "\0", ""), lo=start)]

    def _since(self, rv: int) -> list[Event]:
        found: list[Event] = []
        for event in reversed(self._events):
            if event.rv <= rv:
                break
            found.append(event)
        found.reverse()
        return found
