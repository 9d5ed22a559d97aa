"""All objects of one resource, with the recent history of their changes.

The history is what watches resume from and what old snapshots are rebuilt from: a snapshot is the present with the
later events undone. Where the history does not reach back far enough, `Compacted` says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from tutti.sim.store.version import Key, Version
from tutti.sim.store.watching import Event, Predicate, Subscription


class Compacted(Exception):  # noqa: N818 - the name the field uses
    """The history does not reach back to the version asked for."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")
        self.asked = asked
        self.oldest = oldest


class Collection:
    """The objects of one resource by (namespace, name). Only the store changes it."""

    def __init__(self, *, born: int, history: int) -> None:
        self.oldest = born
        self.revision = born
        self._objects: dict[Key, Version] = {}
        self._sorted: list[Key] | None = []
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
        for key in self._keys():
            if not namespace or key[0] == namespace:
                yield objects[key]

    def snapshot(self, rv: int, namespace: str = "") -> list[Version]:
        """All objects as they were at a version, in the order of their keys; Compacted when that is forgotten."""
        if rv < self.oldest:
            raise Compacted(rv, self.oldest)
        if rv >= self.revision:
            return list(self.scan(namespace))
        state = dict(self._objects)
        for event in reversed(self._events):
            if event.rv <= rv:
                break
            if event.old is None:
                state.pop(event.new.key, None)
            else:
                state[event.new.key] = event.old
        return [state[key] for key in sorted(state) if not namespace or key[0] == namespace]

    def apply(self, event: Event) -> None:
        """Make an event part of the history and tell the watchers."""
        key = event.new.key
        if event.change == "DELETED":
            del self._objects[key]
            self._sorted = None
        else:
            if key not in self._objects:
                self._sorted = None
            self._objects[key] = event.new
        self.revision = event.rv
        self._events.append(event)
        if len(self._events) > self._history:
            self.oldest = self._events.popleft().rv
        for subscription in self._subscriptions:
            subscription.offer(event)

    def subscribe(self, *, namespace: str, predicate: Predicate | None, after: int, limit: int) -> Subscription:
        """Watch from just after a version, with what has happened since; Compacted when that is forgotten."""
        if after < self.oldest:
            raise Compacted(after, self.oldest)
        subscription = Subscription(
            namespace=namespace, predicate=predicate, after=after, limit=limit + len(self._events)
        )
        for event in self._since(after):
            subscription.offer(event)
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Stop telling a watcher."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def close(self) -> None:
        """End all watches, because the resource is no longer served or the server stops."""
        for subscription in self._subscriptions:
            subscription.close()

    def _keys(self) -> list[Key]:
        if self._sorted is None:
            self._sorted = sorted(self._objects)
        return self._sorted

    def _since(self, rv: int) -> list[Event]:
        found: list[Event] = []
        for event in reversed(self._events):
            if event.rv <= rv:
                break
            found.append(event)
        found.reverse()
        return found
