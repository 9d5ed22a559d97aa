"""The informers of the operator, one for each kind of the watch list, and how each change reaches the engine.

Other projects' kinds are watched from when the server serves them: a CustomResourceDefinition says so, and when it
ends; what is built into the server is asked for once, at the start. One kind that cannot be had, because it is
forbidden or its server is away, holds up the start for a while only: the members of its gangs name an object that is
not there, and wait for it. An owner that may not be read names no queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from tutti.api.configuration import TuttiConfiguration
from tutti.controller.discovery import CRDS, OUR_RESOURCES, Definition, version_of
from tutti.controller.health import Check, Probe
from tutti.controller.object_cache import ObjectCache
from tutti.controller.references import KindKey
from tutti.controller.watch_list import WATCH_LIST, OptionalKind, WatchedKind, optional_kinds
from tutti.engine.records.observations import AnyObservation, ObjectUnread
from tutti.kube.client import Client
from tutti.kube.fencing import LeadershipLost
from tutti.kube.informer import Informer
from tutti.kube.resources import NODES, PODS, APIResource
from tutti.kube.store import Change, Deletion, ObjectKey

log = structlog.get_logger(__name__)

LONGEST_INTERRUPTION_SECONDS = 60.0
"""For how long a stream may be interrupted until the process says that it is not ready: longer than an API server takes
to start anew, for who is not ready gets no reviews of webhooks either, and those fail closed."""


class Informers:
    """All informers of the operator: they tell the engine everything, and the catalogue what is ours.

    `forget` is given the resource, namespace, name and uid of each pod and object of ours that is gone.
    """

    def __init__(
        self,
        client: Client,
        *,
        observe: Callable[[AnyObservation], None],
        forget: Callable[[APIResource, str, str, str], None],
        catalogue: ObjectCache,
    ) -> None:
        self._observe = observe
        self._forget = forget
        self._catalogue = catalogue
        self.synced = asyncio.Event()
        self._informers = [self._informer(client, stream) for stream in WATCH_LIST]

    @property
    def probes(self) -> dict[str, Probe]:
        """Return what tells of each stream whether it is ready."""
        return {f"informer/{one.resource.plural}": partial(informer_check, one) for one in self._informers}

    def _informer(self, client: Client, stream: WatchedKind) -> Informer[Any]:
        return Informer(
            client,
            stream.resource,
            view=stream.view,
            trim=stream.trim,
            deliver=lambda changes: self._deliver(stream, changes),
            unread=lambda found: self._observe(ObjectUnread(stream.kind, *found.key, found.problem)),
        )

    def _deliver(self, stream: WatchedKind, changes: Sequence[Change[Any]]) -> None:
        ours = stream.kind in OUR_RESOURCES
        for change in changes:
            if isinstance(change, Deletion):
                self._observe(stream.gone(change))
                if ours:
                    self._catalogue.gone(stream.kind, *change.key)
                if ours or stream.kind == "Pod":
                    self._forget(stream.resource, *change.key, change.uid)
            else:
                self._observe(stream.seen(change.obj))
                if ours:
                    self._catalogue.seen(stream.kind, change.obj)

    async def run(self) -> None:
        """List and watch everything until cancelled; `synced` is set once each kind was listed in full."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run(), name=f"informer {informer.resource.label}")
            for informer in self._informers:
                await informer.synced.wait()
            self._catalogue.keep(self._ours())
            self.synced.set()

    def _ours(self) -> frozenset[KindKey]:
        """Return the objects of ours that exist."""
        known = zip(WATCH_LIST, self._informers, strict=True)
        return frozenset(
            (stream.kind, *key) for stream, informer in known if stream.kind in OUR_RESOURCES for key in informer.keys
        )

    async def list_anew(self, *, patience_seconds: float) -> None:
        """Return once what the former leader has bound is known: by lists that began after it can bind no more.

        Of nodes and pods only: nothing but these pictures keeps a node from being given away twice. Whatever else is
        written by an old picture is refused by its resourceVersion, its uid, or the generation of the lease.

        Args:
            patience_seconds: For how long lists may fail. One that is long and has not failed is waited for.

        Raises:
            LeadershipLost: They still failed after that: another replica may have more luck.
        """
        concerned = [informer for informer in self._informers if informer.resource in (NODES, PODS)]
        log.info("listing_anew", resources=[informer.resource.label for informer in concerned])
        async with asyncio.TaskGroup() as group:
            missing = {group.create_task(informer.list_anew()): informer for informer in concerned}
            while missing:
                listed, _ = await asyncio.wait(missing, timeout=patience_seconds)
                for task in listed:
                    del missing[task]
                awaited = [informer for informer in concerned if informer in missing.values()]
                failing = [f"{one.resource.label}: {one.problem}" for one in awaited if one.problem is not None]
                if not listed and failing:
                    why = f"the lease is given up, for what others have bound could not be listed: {'; '.join(failing)}"
                    raise LeadershipLost(why)


def interruption(informer: Informer[Any]) -> str:
    """Say what a stream that has been listed is interrupted by, and for how long; "" where it flows."""
    if informer.problem is None:
        return ""
    return f"interrupted for {informer.interrupted_seconds:.0f} s: {informer.problem}"


def informer_check(informer: Informer[Any]) -> Check:
    """Say whether a stream was listed and flows, or has been interrupted for no longer than a restart takes."""
    if not informer.synced.is_set():
        return Check(ok=False, detail=informer.problem or "not listed yet")
    return Check(ok=informer.interrupted_seconds <= LONGEST_INTERRUPTION_SECONDS, detail=interruption(informer) or "ok")


PATIENCE_SECONDS = 30.0
"""How long the first decision waits for kinds that are served and cannot be listed, or may be served."""


@dataclass(slots=True)
class _Running:
    """The stream of one kind, and who waits for its first list."""

    version: str
    informer: Informer[Any]
    tasks: tuple[asyncio.Task[None], asyncio.Task[None]]


class OptionalInformers:
    """The streams of all other kinds that are read by the conventions that are on.

    Attributes:
        synced: Set once everything that was served at the start has been listed in full, or was waited for enough.
    """

    def __init__(
        self,
        client: Client,
        configuration: TuttiConfiguration,
        *,
        observe: Callable[[AnyObservation], None],
        forget: Callable[[APIResource, str, str, str], None],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.synced = asyncio.Event()
        self._client = client
        self._observe = observe
        self._forget = forget
        self._kinds = {one.name: one for one in optional_kinds(configuration)}
        self._patience_seconds = patience_seconds
        self._patient = True
        self._asking = {name: "" for name, kind in self._kinds.items() if kind.may_be_built_in}
        self._built_in: dict[str, str] = {}
        self._defined: dict[str, str] = {}
        self._has_definition: set[str] = set()  # now or before: it says more than discovery did at the start
        self._changed = asyncio.Event()
        self._running: dict[str, _Running] = {}
        self._told: dict[tuple[str, ObjectKey], AnyObservation] = {}  # of kinds that own pods
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
            served = () if isinstance(change, Deletion) else [one for one in kind.versions if change.obj.serves(one)]
            if served:
                self._defined[change.key.name] = served[0]
            else:
                self._defined.pop(change.key.name, None)
            self._changed.set()

    async def _discover(self, name: str, kind: OptionalKind) -> None:
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
        unread: dict[str, str] = {}
        for name, one in self._running.items():
            if not self._is_followed(name):
                lost, problem = self._kinds[name].lost, f"{name}: {one.informer.problem}"
                unread[lost] = f"{unread[lost]}; {problem}" if lost in unread else problem
        held_up = [
            f"{name}: {why}"
            for name, running in self._running.items()
            if self._is_followed(name) and (why := interruption(running.informer))
        ]
        said = [f"gangs of some kinds wait: {missing}"] if missing else held_up
        said += [f"{lost}: {problems}" for lost, problems in unread.items()]
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
                gone = [Deletion(key, "") for key in sorted(running.informer.keys)]
                self._deliver(self._kinds[name], running.informer.resource, gone)
                self._tell_following(name, followed=False)
                log.info("kind_no_longer_served", resource=name, version=running.version)
        for name, version in wanted.items():
            if name not in self._running:
                self._running[name] = self._start(group, self._kinds[name], version)
                self._tell_following(name, followed=True)
                log.info("kind_served", resource=name, version=version)

    def _start(self, group: asyncio.TaskGroup, kind: OptionalKind, version: str) -> _Running:
        resource = APIResource(kind.group, version, kind.plural, namespaced=kind.namespaced)
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

    def _deliver(self, kind: OptionalKind, resource: APIResource, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            if isinstance(change, Deletion):
                self._told.pop((kind.name, change.key), None)
                self._observe(kind.gone(resource, change))
                if kind.told:
                    self._forget(resource, change.key.namespace, change.key.name, change.uid)
            elif self._told.get((kind.name, change.key)) != (seen := kind.seen(resource, change.obj)):
                if not kind.told:  # status of an owner changes with each of its pods, and what is kept of it does not
                    self._told[kind.name, change.key] = seen
                self._observe(seen)
