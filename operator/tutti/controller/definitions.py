"""The definitions of our kinds: waited for visibly, and followed for kopf, which learns of kinds by discovery alone.

An operator installed before its CRDs must not crash-loop. And kopf looks at what the server offers once for each event
of a definition: on a busy server that list comes after the event, and kopf, which does not look again, serves the kind
no more. So what kopf does is begun anew as soon as the list has a definition that was made meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Final

import structlog

from tutti.api.model import GROUP, VERSION
from tutti.controller.discovery import CRDS, OUR_RESOURCES, Definition, offered_verbs
from tutti.controller.health import Check, Health
from tutti.controller.supervision import until_stopped
from tutti.kube.client import Client
from tutti.kube.errors import WireError
from tutti.kube.informer import Informer
from tutti.kube.retry import Backoff
from tutti.kube.store import Change, Deletion

log = structlog.get_logger(__name__)

_PLURALS: Final = {resource.label: resource.plural for resource in OUR_RESOURCES.values()}
_NEEDED: Final = frozenset({"list", "watch", "patch"})
"""Verbs without which kopf looks after no kind; of one whose definition is being deleted the server offers no patch."""


class Definitions:
    """Which of our kinds are served, as the stream of their definitions has it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._informer = Informer(client, CRDS, view=Definition, deliver=self._take)
        self._begun = count()
        self._missing = set(_PLURALS)
        # Of those that are not being deleted: name -> a number of its own for each time at which it came to be served.
        self._served: dict[str, int] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Follow them until cancelled."""
        await self._informer.run()

    def _take(self, changes: Sequence[Change[Definition]]) -> None:
        before = dict(self._served), set(self._missing)
        for change in changes:
            name = change.key.name
            if name not in _PLURALS:
                continue
            found = None if isinstance(change, Deletion) or not change.obj.serves(VERSION) else change.obj
            if found is None:
                self._missing.add(name)
            else:
                self._missing.discard(name)
            if found is None or found.is_leaving:
                self._served.pop(name, None)
            elif name not in self._served:
                self._served[name] = next(self._begun)
        if (self._served, self._missing) != before:
            self._changed.set()
            self._changed = asyncio.Event()

    def missing(self) -> list[str]:
        """Return the names of those that are not served; one that is being deleted is, for as long as it is held."""
        return sorted(self._missing)

    async def installed(self, health: Health) -> None:
        """Return once the server serves all our kinds; until then the check `crds` and the log say which are missing.

        To be asked while `run` is under way.
        """
        health.ready["crds"] = self._check
        await self._informer.synced.wait()
        if self.missing():
            log.warning("crds_not_installed", missing=self.missing(), hint="kubectl apply -k crds")
        while self.missing():
            await self._changed.wait()
        health.passed("crds")

    def _check(self) -> Check:
        if self._informer.problem or not self._informer.synced.is_set():
            return Check(ok=False, detail=self._informer.problem or "not listed yet")
        missing = self.missing()
        return Check(ok=not missing, detail="not installed: " + ", ".join(missing))

    async def begin_anew(self, work: Callable[[], Awaitable[None]]) -> None:
        """Have something work until it ends; it is begun once all that is served is offered, and again with each kind.

        A definition that goes ends nothing, and while the server does not yet offer one that was made, what has begun
        goes on.
        """
        known = await self._offered()
        while True:
            look = asyncio.create_task(self._offered_since(known))
            await until_stopped(asyncio.Event(), work(), look)
            if look.cancelled():
                return
            known = look.result()
            log.info("kinds_made_anew")

    async def _offered_since(self, known: Mapping[str, int]) -> Mapping[str, int]:
        """Return what is served once something is that was not known, and the server offers all of it."""
        while self._served.items() <= known.items():
            await self._changed.wait()
        return await self._offered()

    async def _offered(self) -> Mapping[str, int]:
        """Return what is served as soon as the server offers all of that."""
        backoff = Backoff(longest=5.0)
        while True:
            await self._informer.synced.wait()
            served = dict(self._served)
            behind = await self._behind(served)
            if not behind and served == self._served:
                return served
            log.debug("kinds_not_offered_yet", resources=behind)
            await self._pause(backoff.next())

    async def _behind(self, served: Mapping[str, int]) -> list[str]:
        """Return what is served and not offered; all of it where the server does not answer."""
        try:
            verbs = await offered_verbs(self._client, GROUP, VERSION)
        except WireError as error:
            log.warning("discovery_failed", group=GROUP, error=str(error))
            return sorted(served)
        return sorted(name for name in served if not _NEEDED.issubset(verbs.get(_PLURALS[name], ())))

    async def _pause(self, seconds: float) -> None:
        """Wait so long, or until something has changed."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return


async def installed(client: Client) -> None:
    """Return once the server serves all our kinds, for those who do not follow them."""
    definitions = Definitions(client)
    await until_stopped(asyncio.Event(), definitions.run(), definitions.installed(Health()))
