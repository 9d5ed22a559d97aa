"""Holds up the deletion of what is still in use, until nothing uses it any more.

The wait is an event of the catalogue, not a retry: kopf's handler simply has not returned yet. The condition that says
what is waited for is the one that every object has (`references.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from tutti.api.model import API_VERSION
from tutti.controller.catalogue import Catalogue
from tutti.controller.references import listed, users
from tutti.engine.records.decisions import EmitEvent

log = structlog.get_logger(__name__)

HELD = ("ClusterQueue", "ResourceFlavor", "Topology")
"""Kinds whose deletion waits for their users: workloads, queues and cohorts, flavors."""


class Holder:
    """Decides when an object that is being deleted may go.

    A replica that does not lead holds on: it would act on what only the leader may end. Nor is anything released before
    our own stream, which is the engine's, has shown the deletion: only then does the engine admit nothing more.
    """

    def __init__(self, catalogue: Catalogue, *, deciding: asyncio.Event, record: Callable[[EmitEvent], None]) -> None:
        self._catalogue = catalogue
        self._deciding = deciding
        self._record = record

    async def released(self, kind: str, name: str, uid: str) -> None:
        """Return once nothing uses the object, or it is gone by itself."""
        said: list[str] = []
        while (kind, "", name) in self._catalogue.stored:
            version = self._catalogue.version
            if self._deciding.is_set() and self._catalogue.specs.is_leaving(kind, name):
                self._catalogue.count_users()
                used_by = users(kind, name, self._catalogue.specs)
                if not used_by:
                    log.info("deletion_released", kind=kind, name=name)
                    return
                if not said:
                    self._say(kind, name, uid, used_by)
                said = used_by
            await self._catalogue.changed(version)

    def _say(self, kind: str, name: str, uid: str, used_by: list[str]) -> None:
        log.info("deletion_held", kind=kind, name=name, users=len(used_by), first=used_by[0])
        note = f"It stays until nothing uses it; still used by {listed(used_by)}"
        self._record(EmitEvent(API_VERSION, kind, "", name, uid, "Warning", "StillInUse", "Deleting", note))
