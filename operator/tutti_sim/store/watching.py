"""Subscriptions to a collection: what one watcher still has to be told.

A subscription filters by namespace and predicate. An object that begins to match is ADDED for it, one that stops
matching is DELETED and carries its last matching state under the new resource version.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from tutti_sim.store.version import Version

Predicate = Callable[[dict[str, Any]], bool]


class Change(StrEnum):
    """What happened to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a collection's history. For a deletion, `new` is the last state under the deletion's version."""

    rv: int
    change: Change
    old: Version | None
    new: Version


@dataclass(frozen=True, slots=True)
class Notice:
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
