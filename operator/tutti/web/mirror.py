"""The cluster as it is now, for the pages: the kinds that the views list, followed by watches.

What may not be listed in all namespaces is followed in that of the caller's context, as the views list it; what may be
listed and not watched is listed again and again. Nothing is written, and nothing decided here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import aiohttp
import msgspec
import structlog

from tutti.api.kinds import LocalQueue
from tutti.api.model import GROUP, VERSION
from tutti.cli.views.configuration import KnownConfiguration, configuration_in
from tutti.cli.views.listing import Listed
from tutti.controller.discovery import OUR_RESOURCES, served_version
from tutti.controller.measuring import read_figures
from tutti.controller.watch_list import WATCH_LIST, optional_kinds
from tutti.engine.records.observations import AnyObservation
from tutti.kube.client import Client
from tutti.kube.errors import ApiError, WireError
from tutti.kube.informer import Informer
from tutti.kube.node_metrics import MeasuringError
from tutti.kube.resources import APIResource
from tutti.kube.store import Change, Deletion, ObjectKey, Unreadable
from tutti.web.told import REPORTED_BY_US, TOLD_EVENTS, EventView, ToldEvents

log = structlog.get_logger(__name__)

LOOK_AGAIN_SECONDS: Final = 60.0
"""How often it is asked which kinds are served, what nodes use, and whether what was refused may be read now."""
_PATIENCE_SECONDS: Final = 30.0
"""How long the first picture waits for a kind that neither comes nor is refused."""


def _whole(found: Any) -> Any:
    return found


@dataclass(slots=True)
class _Followed:
    """One kind that is followed.

    Attributes:
        seen: What is observed of one of its objects; None for events, which `take` has.
        gone: The same of one that is gone.
        following: Observed while its objects can be seen; None: nothing.
        settled: Set once it was listed in full, or could not be.
    """

    resource: APIResource
    view: Any
    seen: Callable[[Any], AnyObservation] | None
    gone: Callable[[Deletion], AnyObservation] | None = None
    trim: Callable[[Any], Any] = _whole
    take: Callable[[Sequence[Change[Any]]], None] | None = None
    field_selector: str = ""
    following: AnyObservation | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    known: dict[ObjectKey, AnyObservation] = field(default_factory=dict)
    unread: dict[ObjectKey, str] = field(default_factory=dict)
    refused: str = ""
    problem: str = ""
    informer: Informer[Any] | None = None


class ClusterMirror:
    """Follows a cluster while `run` runs.

    Attributes:
        events: What the operator has told of late.
        changed: Set with every change; whoever takes a picture clears it before.
        ready: Set once everything has come for the first time, or could not.

    Args:
        client: Of whose rights all is seen.
        namespace: Where to look for what may not be seen everywhere.
        configuration: The operator's; None: it is looked for.
        clock: The time of day, in Unix seconds.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        configuration: KnownConfiguration | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._configuration = configuration
        self._clock = clock
        self._missing: Sequence[str] = ()
        self._measured: Sequence[AnyObservation] = ()
        self._changes: list[AnyObservation] | None = None
        self._unmeasured = ""
        self.events = ToldEvents(clock)
        self.changed = asyncio.Event()
        self.ready = asyncio.Event()
        self._ours = [_Followed(one.resource, one.view, one.seen, one.gone, one.trim) for one in WATCH_LIST]
        self._events = _Followed(
            TOLD_EVENTS, EventView, seen=None, take=self.events.take, field_selector=REPORTED_BY_US
        )
        self._others: dict[str, tuple[_Followed, asyncio.Task[None]]] = {}

    @property
    def configuration(self) -> KnownConfiguration:
        """By which configuration is answered; once `ready` is set."""
        assert self._configuration is not None
        return self._configuration

    async def run(self) -> None:
        """Follow the cluster until cancelled.

        Raises:
            WireError: At the start, where the server does not answer, or knows nobody by these credentials.
        """
        if self._configuration is None:
            self._configuration = await configuration_in(self._client)
        async with asyncio.TaskGroup() as group:
            for one in (*self._ours, self._events):
                group.create_task(self._follow(one), name=f"follow {one.resource.label}")
            await self._look(group)
            waiting = asyncio.gather(*(one.settled.wait() for one in self._all()))
            await asyncio.wait({waiting}, timeout=_PATIENCE_SECONDS)
            waiting.cancel()
            self.ready.set()
            self.changed.set()
            while True:
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
                try:
                    await self._look(group)
                except WireError as error:
                    log.warning("kinds_not_looked_for", problem=str(error))

    def changes(self) -> Sequence[AnyObservation] | None:
        """Return what has changed since this was asked last, in order; None: anything may have."""
        found, self._changes = self._changes, []
        return found

    def listed(self) -> Listed:
        """Return everything as it is now, as the views list it."""
        others = [one for one, _ in self._others.values()]
        # What owns pods, and what gangs are, before the pods, which are last in the list of ours.
        parts = [*self._ours[:-1], *others, self._ours[-1]]
        told = [one.following for one in others if one.following is not None and one.informer is not None]
        seen = [*told, *(item for one in parts for item in list(one.known.values())), *self._measured]
        unread = [
            f"{one.resource.label} {key.namespace}/{key.name}".replace(" /", " ") + f": {why}"
            for one in parts
            for key, why in one.unread.items()
        ]
        return Listed(
            seen,
            self._namespace,
            {one.resource.label: one.refused for one in (*parts, self._events) if one.refused},
            [label for label in self._missing if not self._is_there(label)],
            [*unread, *([self._unmeasured] if self._unmeasured else [])],
        )

    def queue_namespaces(self) -> frozenset[str]:
        """Return the namespaces that have a LocalQueue now."""
        queues = next(one for one in self._ours if one.resource == OUR_RESOURCES[LocalQueue.KIND])
        return frozenset(key.namespace for key in queues.known)

    def _is_there(self, label: str) -> bool:
        """Whether a kind that was missing when it was looked for has come since."""
        mine = next(one for one in self._ours if one.resource.label == label)
        return mine.informer is not None and mine.informer.synced.is_set()

    def interruptions(self) -> list[str]:
        """Return which streams do not flow at the moment, and why: what is shown of these may be old."""
        return [
            f"{one.resource.label}: {one.informer.problem}"
            for one in self._all()
            if one.informer is not None and one.informer.problem
        ]

    def _all(self) -> Iterator[_Followed]:
        yield from self._ours
        yield from (one for one, _ in self._others.values())
        yield self._events

    async def _follow(self, one: _Followed) -> None:
        """List and watch a kind: everywhere, or where it may be; what is refused is asked for again by and by."""
        while True:
            for namespace in (None, self._namespace) if one.resource.namespaced else (None,):
                await self._follow_in(one, namespace)
            one.settled.set()
            self.changed.set()
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def _follow_in(self, one: _Followed, namespace: str | None) -> None:
        """Follow a kind until cancelled; return where it may not be read."""
        informer: Informer[Any] = Informer(
            self._client,
            one.resource,
            view=one.view,
            trim=one.trim,
            deliver=partial(self._deliver, one),
            unread=partial(self._unread, one),
            namespace=namespace,
            field_selector=one.field_selector,
        )
        running = asyncio.create_task(informer.run(), name=f"informer {one.resource.label}")
        try:
            await informer.tried.wait()
            if informer.refused and not informer.synced.is_set():
                one.refused = one.refused or informer.problem or "forbidden"
                return
            if namespace is None:
                one.refused = ""
            one.informer = informer
            self._changes = None
            one.settled.set()
            self.changed.set()
            await running
        finally:
            running.cancel()
            await asyncio.wait({running})

    def _deliver(self, one: _Followed, changes: Sequence[Change[Any]]) -> None:
        if one.take is not None:
            one.take(changes)
        for change in changes:
            one.unread.pop(change.key, None)
            if isinstance(change, Deletion):
                one.known.pop(change.key, None)
                self._note(one, change)
            elif one.seen is not None:
                one.known[change.key] = observed = one.seen(change.obj)
                if self._changes is not None:
                    self._changes.append(observed)
        self.changed.set()

    def _note(self, one: _Followed, gone: Deletion) -> None:
        if self._changes is not None and one.gone is not None:
            self._changes.append(one.gone(gone))

    def _unread(self, one: _Followed, found: Unreadable) -> None:
        one.known.pop(found.key, None)
        one.unread[found.key] = found.problem
        self._note(one, Deletion(found.key, found.uid))
        self.changed.set()

    async def _look(self, group: asyncio.TaskGroup) -> None:
        """Find out which kinds are served, and what nodes use."""
        self._missing = await self._not_served()
        for kind in optional_kinds(self.configuration.configuration):
            version = await served_version(self._client, kind, absent=(HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN))
            known = self._others.get(kind.name)
            if known is not None and known[0].resource.version != version:
                known[1].cancel()
                self._changes = None
                del self._others[kind.name]
                known = None
            if version and known is None:
                resource = APIResource(kind.group, version, kind.plural, namespaced=kind.namespaced)
                following = None if kind.following is None else kind.following(True)
                one = _Followed(
                    resource,
                    kind.view,
                    partial(kind.seen, resource),
                    partial(kind.gone, resource),
                    following=following,
                )
                task = group.create_task(self._follow(one), name=f"follow {resource.label}")
                self._others[kind.name] = one, task
        await self._measure()
        self.changed.set()

    async def _not_served(self) -> list[str]:
        """Return the kinds of ours that the server does not have."""
        try:
            answer = await self._client.request("GET", f"/apis/{GROUP}/{VERSION}")
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return [one.label for one in OUR_RESOURCES.values()]
        there = {one.get("name") for one in msgspec.json.decode(answer).get("resources") or ()}
        return [one.label for one in OUR_RESOURCES.values() if one.plural not in there]

    async def _measure(self) -> None:
        """Read what nodes use, where a profile goes by it."""
        settings = self.configuration.configuration.measured
        if settings is None:
            return
        try:
            async with aiohttp.ClientSession() as session:
                self._measured = [await read_figures(self._client, session, settings, self._clock())]
                if self._changes is not None:
                    self._changes += self._measured
            self._unmeasured = ""
        except (WireError, MeasuringError) as error:
            self._unmeasured = f"what nodes use: {error}"
