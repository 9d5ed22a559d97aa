"""Late and faulty reads: subscriptions, a copy of the store that lags behind, and a server that reads from it.

A subscription is delivered as a faulty connection does it: events twice, events late, no events any more, or none at
all. Reads of the copy are consistent, only old. What the late server is told it passes on.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from tutti_sim.faults.rules import Lag, WatchFault
from tutti_sim.hollow.fate import duration
from tutti_sim.http.rendering import HttpRequest
from tutti_sim.http.server import ApiServer
from tutti_sim.rest.backend import Backend
from tutti_sim.store.collection import Event, Feed, Notice
from tutti_sim.store.store import Store


class FaultyFeed:
    """A feed with faults. The first thing taken from it, the state to begin with, is whole.

    Args:
        dice: seed of what is left to chance.
        cut: breaks the connection.
    """

    def __init__(self, feed: Feed, fault: WatchFault, dice: str, cut: Callable[[], None]) -> None:
        self._feed = feed
        self._fault = fault
        self._draw = random.Random(dice)  # noqa: S311 - meant to be told beforehand
        self._cut = cut
        self._held: deque[tuple[float, Notice]] = deque()
        self._opened = False
        self._dropped = False
        self._sent = 0
        self._told = feed.after
        loop = asyncio.get_running_loop()
        seconds = fault.drop_after_seconds
        self._end = loop.time() + seconds if seconds is not None else None

    @property
    def after(self) -> int:
        """The version it starts after."""
        return self._feed.after

    @property
    def seen(self) -> int:
        """The version up to which everything was sent: a bookmark must not run ahead of what is held back."""
        return self._told if self._held or self._stalled else max(self._feed.seen, self._told)

    @property
    def overflow(self) -> bool:
        """Whether it has fallen too far behind."""
        return self._feed.overflow

    @property
    def closed(self) -> bool:
        """Whether it has ended by itself."""
        return self._feed.closed

    @property
    def _stalled(self) -> bool:
        limit = self._fault.stall_after_events
        return limit is not None and self._sent >= limit

    def take(self) -> list[Notice]:
        """What there is to send."""
        notices, opened, self._opened = self._feed.take(), self._opened, True
        if not opened:
            return self._tell(notices)
        now = asyncio.get_running_loop().time()
        for notice in notices:
            due = now + duration(self._fault.delay, self._draw)
            due = max(due, self._held[-1][0]) if self._held else due
            copies = 2 if self._draw.random() < self._fault.duplicate else 1
            self._held.extend([(due, notice)] * copies)
        ready: list[Notice] = []
        while self._held and self._held[0][0] <= now and self._goes_on(len(ready)):
            ready.append(self._held.popleft()[1])
        self._sent += len(ready)
        limit = self._fault.drop_after_events
        if (limit is not None and self._sent >= limit) or (self._end is not None and now >= self._end):
            self._dropped = True
        return self._tell(ready)

    def _tell(self, notices: list[Notice]) -> list[Notice]:
        if notices:
            self._told = notices[-1].version.rv
        return notices

    def _goes_on(self, more: int) -> bool:
        """Whether another event may be sent after so many that are being sent now."""
        limits = (self._fault.stall_after_events, self._fault.drop_after_events)
        return all(limit is None or self._sent + more < limit for limit in limits)

    async def wait(self) -> None:
        """Until there is something to send, or the end; a stalled feed waits for its end only.

        Raises:
            ConnectionResetError: The connection has been broken, as it was to be.
        """
        if self._dropped:
            self._cut()
            raise ConnectionResetError("told to drop the watch")
        while not self.closed:
            due = self._held[0][0] if self._held and not self._stalled else None
            times = [one for one in (due, self._end) if one is not None]
            try:
                async with asyncio.timeout_at(min(times, default=None)):
                    await self._feed.wait()
            except TimeoutError:
                return
            if not self._stalled or self._feed.overflow:
                return
            self._feed.take()


@dataclass(frozen=True, slots=True)
class Late:
    """An event of a collection that the copy does not know yet; without an event, the collection was dropped."""

    collection: str
    event: Event | None
    since: float


class Replica:
    """Follows a store at a distance. `store` is the copy, which only this class changes."""

    def __init__(self, followed: Store) -> None:
        self.store = Store()
        self._late: deque[Late] = deque()
        self._lag = Lag()
        self._timer: asyncio.TimerHandle | None = None
        followed.followers.append(self.record)

    def record(self, collection: str, event: Event | None) -> None:
        """Take note of an event."""
        self._late.append(Late(collection, event, asyncio.get_running_loop().time()))
        self._advance()

    def set_lag(self, lag: Lag) -> None:
        """Be that far behind from now on; what that makes visible is visible at once."""
        self._lag = lag
        self._advance()

    def _advance(self) -> None:
        """Take over what is old enough, and come back when the next is."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while len(self._late) > self._lag.events:
            due = self._late[0].since + self._lag.seconds
            if self._lag.seconds and due > loop.time():
                self._timer = loop.call_at(due, self._advance)
                return
            self._apply(self._late.popleft())

    def _apply(self, late: Late) -> None:
        if late.event is None:
            self.store.drop(late.collection)
            return
        collection = self.store.collection(late.collection)
        self.store.revision = late.event.rv
        collection.apply(late.event)

    def close(self) -> None:
        """Follow no more."""
        if self._timer is not None:
            self._timer.cancel()
        self.store.close()


READS = ("GET", "HEAD")


class StaleServer:
    """Stands beside a server, with the same token and the same resources.

    Args:
        server: the one that writes go to.
        replica: what reads are answered from.
    """

    def __init__(self, server: ApiServer, replica: Replica, backend: Backend, *, token: str) -> None:
        self._server = server
        self._late = ApiServer(Backend(replica.store, backend.registry, backend.draw), token=token)

    async def handle(self, http: HttpRequest) -> web.StreamResponse:
        """Answer one request."""
        server = self._late if http.method in READS else self._server
        return await server.handle(http)
