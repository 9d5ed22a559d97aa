"""A copy of the store that lags behind: what a server answers from whose watch cache is late.

Reads of the copy are consistent, only old. Every event of the store comes to it in order, with its version, once it is
old enough and enough later ones have happened.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from tutti_sim.faults.rules import Lag
from tutti_sim.store.store import Store
from tutti_sim.store.watching import Event


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
