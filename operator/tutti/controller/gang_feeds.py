"""Streams of other projects' objects that say how large gangs are: each from when the server serves its kind.

A CustomResourceDefinition says so, and when it ends; what is built into the server is asked for once, at the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec
import structlog

from tutti.api.configuration import Conventions
from tutti.api.conventions.gang_objects import GANG_KINDS, GangKind
from tutti.controller.crds import CRDS, Definition
from tutti.engine.observations import AnyObservation, GangObjectGone, GangObjectSeen
from tutti.kube.changes import Change, Gone
from tutti.kube.client import Client
from tutti.kube.errors import ApiError
from tutti.kube.informer import Informer
from tutti.kube.resources import Resource
from tutti.kube.retry import retrying

log = structlog.get_logger(__name__)

_TRIES = 1_000
"""A server that cannot be asked at the start is asked again for as long as anybody may wait for it."""


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Resources(msgspec.Struct, frozen=True):
    """What a group and version has (meta/v1 APIResourceList)."""

    resources: list[_Named] = []


@dataclass(slots=True)
class _Running:
    """The stream of one kind, and who waits for its first list."""

    version: str
    informer: Informer[dict[str, Any]]
    tasks: tuple[asyncio.Task[None], asyncio.Task[None]]


class GangFeeds:
    """The streams of all kinds whose conventions are on.

    Attributes:
        synced: Set once everything that was served at the start has been listed in full.
    """

    def __init__(
        self,
        client: Client,
        conventions: Conventions,
        *,
        observe: Callable[[AnyObservation], None],
        forget: Callable[[Resource, str, str, str], None],
    ) -> None:
        self.synced = asyncio.Event()
        self._client = client
        self._observe = observe
        self._forget = forget
        self._kinds = {f"{one.plural}.{one.group}": one for one in GANG_KINDS if getattr(conventions, one.convention)}
        self._built_in: Mapping[str, str] = {}
        self._defined: dict[str, str] = {}
        self._has_definition: set[str] = set()  # now or before: it says more than discovery did at the start
        self._changed = asyncio.Event()
        self._running: dict[str, _Running] = {}
        self._definitions = Informer(client, CRDS, decode=msgspec.json.Decoder(Definition).decode, deliver=self._take)

    async def run(self) -> None:
        """Follow what is served until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._definitions.run(), name="watch CRDs of gangs")
            self._built_in = {
                name: version for name, kind in self._kinds.items() if (version := await self._version_of(kind))
            }
            await self._definitions.synced.wait()
            while True:
                self._changed.clear()
                await self._follow(group)
                if all(running.informer.synced.is_set() for running in self._running.values()):
                    self.synced.set()
                await self._changed.wait()

    def _take(self, changes: Sequence[Change[Definition]]) -> None:
        """Note which version of each kind its definition serves."""
        for change in changes:
            kind = self._kinds.get(change.key.name)
            if kind is None:
                continue
            self._has_definition.add(change.key.name)
            served = () if isinstance(change, Gone) else [one for one in kind.versions if change.obj.serves(one)]
            if served:
                self._defined[change.key.name] = served[0]
            else:
                self._defined.pop(change.key.name, None)
            self._changed.set()

    async def _version_of(self, kind: GangKind) -> str:
        """Return the newest version in which the server has a kind built in; "" where it has none."""
        for version in kind.versions:
            path = f"/apis/{kind.group}/{version}"
            try:
                answer = await retrying(partial(self._client.request, "GET", path), tries=_TRIES)
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                continue
            found = msgspec.json.decode(answer, type=_Resources)
            if any(one.name == kind.plural for one in found.resources):
                return version
        return ""

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        """Start the streams of what has come to be served, and end those of what no longer is."""
        built_in = {name: one for name, one in self._built_in.items() if name not in self._has_definition}
        wanted = {**built_in, **self._defined}
        for name, running in list(self._running.items()):
            if wanted.get(name) != running.version:
                del self._running[name]
                for task in running.tasks:
                    task.cancel()
                await asyncio.wait(running.tasks)
                gone = [Gone(key, "") for key in sorted(running.informer.keys)]
                self._deliver(self._kinds[name], running.informer.resource, gone)
                log.info("gang_objects_no_longer_served", resource=name, version=running.version)
        for name, version in wanted.items():
            if name not in self._running:
                self._running[name] = self._start(group, self._kinds[name], version)
                log.info("gang_objects_served", resource=name, version=version)

    def _start(self, group: asyncio.TaskGroup, kind: GangKind, version: str) -> _Running:
        resource = Resource(kind.group, version, kind.plural)
        informer: Informer[dict[str, Any]] = Informer(
            self._client,
            resource,
            decode=msgspec.json.Decoder(dict[str, Any]).decode,
            deliver=lambda changes: self._deliver(kind, resource, changes),
        )
        stream = group.create_task(informer.run(), name=f"informer {resource.label}")
        listed = group.create_task(self._note_listed(informer), name=f"list {resource.label}")
        return _Running(version, informer, (stream, listed))

    async def _note_listed(self, informer: Informer[dict[str, Any]]) -> None:
        """Have the streams looked at again once one has been listed; a kind may be gone before that."""
        await informer.synced.wait()
        self._changed.set()

    def _deliver(self, kind: GangKind, resource: Resource, changes: Sequence[Change[dict[str, Any]]]) -> None:
        for change in changes:
            if isinstance(change, Gone):
                self._observe(GangObjectGone(resource.api_version, kind.kind, change.key.namespace, change.key.name))
                self._forget(resource, change.key.namespace, change.key.name, change.uid)
            else:
                self._observe(GangObjectSeen(resource.api_version, kind.kind, change.obj))
