"""Events live for an hour after their last write (kube-apiserver, --event-ttl)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from tutti_sim.controllers.worker import Tended
from tutti_sim.kinds.resource import Resource
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.version import Key, Version

TTL_SECONDS = 3600.0


class EventTtl:
    """Removes events in the order they were last written, with one timer for all: every event lives equally long."""

    def __init__(self, backend: Backend, ttl_seconds: float = TTL_SECONDS) -> None:
        self._local = Local(backend, "event-ttl")
        self._events = Tended(backend, "", "v1", "events")
        self._ttl = ttl_seconds
        self._due: OrderedDict[Key, float] = OrderedDict()
        self._wake = asyncio.Event()

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note when an event was written."""
        version = new or old
        if version is None or resource.storage != self._events.storage:
            return
        if new is None:
            self._due.pop(version.key, None)
            return
        self._due[new.key] = asyncio.get_running_loop().time() + self._ttl
        self._due.move_to_end(new.key)
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            while self._due:
                key, due = next(iter(self._due.items()))
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                    continue
                del self._due[key]
                current = self._events.get(key)
                if current is not None:
                    self._local.remove(self._events.resource, current)
            self._wake.clear()
            await self._wake.wait()
