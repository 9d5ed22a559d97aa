"""All objects of one resource, with the recent history of their changes and the subscriptions to these.

A version of an object is never changed once stored, and serialised at most once. A subscription knows what its watcher
still has to be told.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from heapq import merge
from typing import Any, Protocol

import msgspec

from tutti_sim.meta import Json

Key = tuple[str, str]

_encode = msgspec.json.Encoder().encode


class Version:
    """An object at a resource version. `obj` is shared by all readers: whoever wants to change it copies it first."""

    __slots__ = ("_json", "_views", "key", "obj", "rv")

    def __init__(self, key: Key, obj: Json, rv: int) -> None:
        self.key = key
        self.obj = obj
        self.rv = rv
        self._json: bytes | None = None
        self._views: dict[str, bytes] | None = None

    @property
    def json(self) -> bytes:
        """The object as JSON, serialised on first use."""
        if self._json is None:
            self._json = _encode(self.obj)
        return self._json

    def view(self, name: str, render: Callable[[Json], Json]) -> bytes:
        """Another rendering of the object as JSON (an API version, metadata only), made on first use."""
        if self._views is None:
            self._views = {}
        found = self._views.get(name)
        if found is None:
            found = self._views[name] = _encode(render(self.obj))
        return found

    def supersede(self) -> None:
        """Let go of what can be made again: few will ask for a version that is no longer the present."""
        self._json = self._views = None

    def at(self, rv: int) -> Version:
        """The same content under another resource version."""
        meta = {**self.obj["metadata"], "resourceVersion": str(rv)}
        return Version(self.key, {**self.obj, "metadata": meta}, rv)


Predicate = Callable[[dict[str, Any]], bool]


class Change(StrEnum):
    """What happened to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Event(msgspec.Struct, frozen=True):
    """One entry of a collection's history. For a deletion, `new` is the last state under the deletion's version."""

    rv: int
    change: Change
    old: Version | None
    new: Version


class Notice(msgspec.Struct, frozen=True):
    """An event as one watcher sees it."""

    change: Change
    version: Version


class Feed(Protocol):
    """What a watch is sent from: a subscription, or something between it and the watch."""

    @property
    def after(self) -> int:
        """The version it starts after."""
        ...

    @property
    def seen(self) -> int:
        """The version up to which everything was taken."""
        ...

    @property
    def overflow(self) -> bool:
        """Whether it has fallen too far behind."""
        ...

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        ...

    def take(self) -> list[Notice]:
        """What there is to send."""
        ...

    async def wait(self) -> None:
        """Until there is something to take, or the end."""
        ...


class Subscription:
    """A watcher's queue. `overflow` is set when it grew past its limit: the watcher must then be disconnected.

    `lost` is called at that moment: a watcher whose client reads no more is stuck, and sees no flag.
    """

    def __init__(self, *, namespace: str, predicate: Predicate | None, after: int, limit: int) -> None:
        self.namespace = namespace
        self.predicate = predicate
        self.after = after
        self.limit = limit
        self.seen = after
        self.overflow = False
        self.closed = False
        self.lost: Callable[[], None] = lambda: None
        self._pending: deque[Notice] = deque()
        self._wake = asyncio.Event()

    def offer(self, event: Event) -> None:
        """Take note of an event, where it concerns this watcher."""
        if event.rv <= self.after:
            return
        self.seen = event.rv
        notice = self._seen_as(event)
        if notice is None or self.overflow:
            return
        if len(self._pending) >= self.limit:
            self.overflow = True
            self.lost()
        else:
            self._pending.append(notice)
        self._wake.set()

    def preload(self, versions: Iterable[Version]) -> None:
        """Queue objects that exist already, as ADDED; the limit does not count for them."""
        self._pending.extend(Notice(Change.ADDED, version) for version in versions)
        self._wake.set()

    def take(self) -> list[Notice]:
        """Everything that is pending, in order."""
        taken = list(self._pending)
        self._pending.clear()
        self._wake.clear()
        if self.overflow or self.closed:
            self._wake.set()
        return taken

    def close(self) -> None:
        """End the subscription; a waiting watcher wakes up."""
        self.closed = True
        self._wake.set()

    async def wait(self) -> None:
        """Until there is something to take, or the subscription has ended."""
        await self._wake.wait()

    def _seen_as(self, event: Event) -> Notice | None:
        if self.namespace and event.new.key[0] != self.namespace:
            return None
        if self.predicate is None:
            return Notice(event.change, event.new)
        before = event.old is not None and self.predicate(event.old.obj)
        if event.change is Change.DELETED:
            return Notice(Change.DELETED, event.new) if before else None
        after = self.predicate(event.new.obj)
        if after:
            return Notice(Change.MODIFIED if before else Change.ADDED, event.new)
        if before and event.old is not None:
            return Notice(Change.DELETED, event.old.at(event.rv))
        return None


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
        if not objects:
            return iter(())
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
