"""Streams of other projects' objects (`other_kinds.py`): each from when the server serves its kind.

A CustomResourceDefinition says so, and when it ends; what is built into the server is asked for once, at the start.
One kind that cannot be had, because it is forbidden or its server is away, holds up the start for a while only: the
members of its gangs name an object that is not there, and wait for it. An owner that may not be read names no queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from tutti.api.configuration import Conventions
from tutti.controller.crds import CRDS, Definition
from tutti.controller.discovery import version_of
from tutti.controller.feeds import told_of
from tutti.controller.health import Check
from tutti.controller.other_kinds import OtherKind, other_kinds
from tutti.engine.records.observations import AnyObservation
from tutti.kube.changes import Change, Gone
from tutti.kube.client import Client
from tutti.kube.informer import Informer
from tutti.kube.resources import Resource

log = structlog.get_logger(__name__)

PATIENCE_SECONDS = 30.0
"""How long the first decision waits for kinds that are served and cannot be listed, or may be served."""


@dataclass(slots=True)
class _Running:
    """The stream of one kind, and who waits for its first list."""

    version: str
    informer: Informer[Any]
    tasks: tuple[asyncio.Task[None], asyncio.Task[None]]


class ServedFeeds:
    """The streams of all other kinds that are read by the conventions that are on.

    Attributes:
        synced: Set once everything that was served at the start has been listed in full, or was waited for enough.
    """

    def __init__(
        self,
        client: Client,
        conventions: Conventions,
        *,
        observe: Callable[[AnyObservation], None],
        forget: Callable[[Resource, str, str, str], None],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.synced = asyncio.Event()
        self._client = client
        self._observe = observe
        self._forget = forget
        self._kinds = {one.name: one for one in other_kinds(conventions)}
        self._patience_seconds = patience_seconds
        self._patient = True
        self._asking = {name: "" for name, kind in self._kinds.items() if kind.may_be_built_in}
        self._built_in: dict[str, str] = {}
        self._defined: dict[str, str] = {}
        self._has_definition: set[str] = set()  # now or before: it says more than discovery did at the start
        self._changed = asyncio.Event()
        self._running: dict[str, _Running] = {}
        self._definitions = Informer(client, CRDS, view=Definition, deliver=self._take)

    async def run(self) -> None:
        """Follow what is served until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._definitions.run(), name="watch CRDs of others")
            for name in list(self._asking):
                group.create_task(self._discover(name, self._kinds[name]), name=f"discover {name}")
            await self._definitions.synced.wait()
            group.create_task(self._lose_patience(), name="patience with other kinds")
            while True:
                self._changed.clear()
                await self._follow(group)
                self._begin()
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

    async def _discover(self, name: str, kind: OtherKind) -> None:
        """Find out whether the server has a kind built in, however long it takes to answer."""

        def tell(problem: str) -> None:
            if self._asking[name] != problem:
                log.warning("kind_not_discovered", resource=name, problem=problem)
            self._asking[name] = problem
            self._changed.set()

        version = await version_of(self._client, kind, tell=tell)
        del self._asking[name]
        if version:
            self._built_in[name] = version
        self._changed.set()

    async def _lose_patience(self) -> None:
        """Let decisions begin without what has failed to be listed: gangs that need it wait, and nobody else."""
        await asyncio.sleep(self._patience_seconds)
        self._patient = False
        self._changed.set()

    def _begin(self) -> None:
        """Let decisions begin once all is listed, or nothing is missing but what has failed for long enough.

        A list that is long and has not failed is waited for.
        """
        missing = self._missing()
        if self.synced.is_set() or (missing and (self._patient or not all(missing.values()))):
            return
        for name, problem in missing.items():
            log.warning("kind_not_listed", resource=name, problem=problem, hint="gangs of this kind wait for it")
        self.synced.set()

    def _missing(self) -> dict[str, str]:
        """Return the kinds that may matter and are not known in full, with what has failed about them, if anything."""
        missing = {name: why for name, why in self._asking.items() if name not in self._has_definition}
        for name, running in self._running.items():
            waited_for = self._kinds[name].awaited or not running.informer.tried.is_set()
            if waited_for and not running.informer.synced.is_set():
                missing[name] = running.informer.problem or ""
        return missing

    def check(self) -> Check:
        """Say whether all kinds are listed, or are not waited for any more; and which are not listed."""
        missing = "; ".join(f"{name}: {why or 'not listed yet'}" for name, why in self._missing().items())
        if not self.synced.is_set():
            return Check(ok=False, detail=missing or "not listed yet")
        unread = "; ".join(
            f"{name}: {one.informer.problem}" for name, one in self._running.items() if not self._is_followed(name)
        )
        held_up = [
            f"{name}: {why}"
            for name, running in self._running.items()
            if self._is_followed(name) and (why := told_of(running.informer))
        ]
        said = [f"gangs of some kinds wait: {missing}"] if missing else held_up
        said += [f"queues that owners name are not known: {unread}"] if unread else []
        return Check(ok=True, detail="; ".join(said) or "ok")

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
                self._tell_following(name, followed=False)
                log.info("kind_no_longer_served", resource=name, version=running.version)
        for name, version in wanted.items():
            if name not in self._running:
                self._running[name] = self._start(group, self._kinds[name], version)
                self._tell_following(name, followed=True)
                log.info("kind_served", resource=name, version=version)

    def _start(self, group: asyncio.TaskGroup, kind: OtherKind, version: str) -> _Running:
        resource = Resource(kind.group, version, kind.plural)
        informer: Informer[Any] = Informer(
            self._client,
            resource,
            view=kind.view,
            deliver=lambda changes: self._deliver(kind, resource, changes),
        )
        stream = group.create_task(informer.run(), name=f"informer {resource.label}")
        listed = group.create_task(self._note_listed(kind.name, informer), name=f"list {resource.label}")
        return _Running(version, informer, (stream, listed))

    async def _note_listed(self, name: str, informer: Informer[Any]) -> None:
        """Have the streams looked at again once one has failed or been listed; a kind may be gone before that."""
        await informer.tried.wait()
        if informer.refused:
            log.warning("kind_not_readable", resource=name, problem=informer.problem)
            self._tell_following(name, followed=False)
        self._changed.set()
        await informer.synced.wait()
        self._tell_following(name, followed=True)
        self._changed.set()

    def _tell_following(self, name: str, *, followed: bool) -> None:
        """Tell whether the objects of a kind are seen from now on."""
        following = self._kinds[name].following
        if following is not None:
            self._observe(following(followed))

    def _is_followed(self, name: str) -> bool:
        """Whether the objects of a kind that is served are seen, or will be."""
        informer = self._running[name].informer
        return self._kinds[name].awaited or informer.synced.is_set() or not informer.refused

    def _deliver(self, kind: OtherKind, resource: Resource, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            if isinstance(change, Gone):
                self._observe(kind.gone(resource, change))
                if kind.told:
                    self._forget(resource, change.key.namespace, change.key.name, change.uid)
            else:
                self._observe(kind.seen(resource, change.obj))
