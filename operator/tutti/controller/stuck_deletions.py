"""Deletions that kopf does not end: of objects whose definition is being deleted as well.

The API server says of such a kind that it cannot be patched (kube-apiserver 1.36, apiextensions, discovery), though it
can, and kopf looks after it no more. The definition would wait for objects that are held, and these for kopf, for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
import structlog

from tutti.controller.discovery import OUR_RESOURCES
from tutti.controller.kopf_handlers import FINALIZER, DeletionGuard
from tutti.controller.object_cache import ObjectCache
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.errors import WireError
from tutti.kube.fencing import Fence
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import APIResource

log = structlog.get_logger(__name__)

PATIENCE_SECONDS: Final = 10.0
"""How long kopf has to let go what may go, and how long after a failure it is tried again."""


class StuckDeletions:
    """Lets go what the guard would release, and is there still after a while."""

    def __init__(
        self,
        client: Client,
        guard: DeletionGuard,
        catalogue: ObjectCache,
        *,
        fence: Fence,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._client = client
        self._guard = guard
        self._catalogue = catalogue
        self._fence = fence
        self._patience_seconds = patience_seconds

    async def run(self) -> None:
        """Look after them until cancelled.

        Raises:
            LeadershipLost: Nothing may be written any more.
        """
        clock, tried = asyncio.get_running_loop().time, dict[tuple[str, str], float]()
        while True:
            version = self._catalogue.version
            tried = {one: tried.get(one, clock()) for one in self._guard.free()}
            for one, since in tried.items():
                if since + self._patience_seconds <= clock():
                    await self._let_go(*one)
                    tried[one] = clock()
            due = min(tried.values(), default=None)
            try:
                async with asyncio.timeout_at(None if due is None else due + self._patience_seconds):
                    await self._catalogue.changed(version)
            except TimeoutError:
                continue

    async def _let_go(self, kind: str, name: str) -> None:
        """Take our finalizer off an object, where it is still there and has it."""
        resource = OUR_RESOURCES[kind]
        try:
            named = {"fieldSelector": f"metadata.name={name}"}  # there is no right to get one alone
            found = msgspec.json.decode(await self._client.request("GET", resource.path(None), query=named))
            for metadata in [one["metadata"] for one in found["items"]]:
                if FINALIZER in metadata.get("finalizers", ()) and metadata.get("deletionTimestamp"):
                    await self._write(resource, name, metadata)
                    log.warning("deletion_released_late", kind=kind, name=name)
        except WireError as error:
            log.warning("deletion_not_released", kind=kind, name=name, error=str(error))

    async def _write(self, resource: APIResource, name: str, metadata: dict[str, Any]) -> None:
        left = [one for one in metadata["finalizers"] if one != FINALIZER]
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": left}}
        await self._client.write(
            PriorityLevel.STATUS,
            "PATCH",
            resource.path(None, name),
            body=msgspec.json.encode(body),
            fence=self._fence,
            content_type=MERGE_PATCH,
        )
