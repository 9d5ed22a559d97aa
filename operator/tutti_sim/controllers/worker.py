"""How a controller works: keys that changed, and one task that brings each of them up to date.

A key is handled once however often it was noted meanwhile. What fails with an API error is tried again; any other
error ends the task, and with it the cluster, because it is a mistake of ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from tutti_sim.kinds.resource import Resource
from tutti_sim.meta.errors import ApiError
from tutti_sim.rest.backend import Backend
from tutti_sim.store.version import Key, Version

log = structlog.get_logger()

Place = tuple[str, Key]
"""The name of a collection and the key of an object in it."""

RETRY_SECONDS = 1.0


class Worker:
    """A queue of places in order of their first note, and the task that empties it.

    Args:
        name: what the log calls it.
        sync: brings one place up to date; ApiError means that it is worth another try.
    """

    def __init__(self, name: str, sync: Callable[[Place], Awaitable[None]]) -> None:
        self._name = name
        self._sync = sync
        self._noted: dict[Place, None] = {}
        self._wake = asyncio.Event()
        self._timers: dict[Place, tuple[float, asyncio.Handle]] = {}

    def note(self, place: Place) -> None:
        """Have a place looked at soon."""
        self._noted[place] = None
        self._wake.set()

    def later(self, seconds: float, place: Place) -> None:
        """Have a place looked at after some time; only the earliest of several times is kept."""
        loop = asyncio.get_running_loop()
        due = loop.time() + max(seconds, 0.0)
        pending = self._timers.get(place)
        if pending is not None:
            if pending[0] <= due:
                return
            pending[1].cancel()
        self._timers[place] = due, loop.call_at(due, self._due, place)

    def forget(self, place: Place) -> None:
        """Drop the time that was set for a place."""
        pending = self._timers.pop(place, None)
        if pending is not None:
            pending[1].cancel()

    def _due(self, place: Place) -> None:
        self._timers.pop(place, None)
        self.note(place)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                noted, self._noted = list(self._noted), {}
                for place in noted:
                    await self._try(place)
                    await asyncio.sleep(0)
        finally:
            for _, timer in self._timers.values():
                timer.cancel()

    async def _try(self, place: Place) -> None:
        try:
            await self._sync(place)
        except ApiError as error:
            log.warning("sync_failed", controller=self._name, object="/".join(place[1]), error=str(error))
            self.later(RETRY_SECONDS, place)


class Tended:
    """A kind that a controller looks after: its resource, and its objects as they are now."""

    def __init__(self, backend: Backend, group: str, version: str, plural: str) -> None:
        self.resource: Resource = backend.resource(group, version, plural)
        self.storage = self.resource.storage
        self._backend = backend

    def get(self, key: Key) -> Version | None:
        """The object of that key, as it is now."""
        return self._backend.collection(self.resource).get(*key)

    def scan(self, namespace: str = "") -> list[Version]:
        """All objects; of one namespace, if one is given."""
        return list(self._backend.collection(self.resource).scan(namespace))
