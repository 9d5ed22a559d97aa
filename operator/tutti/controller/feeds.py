"""What the operator watches, and how each change reaches the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog

from tutti.controller.catalogue import Catalogue
from tutti.controller.crds import RESOURCES
from tutti.controller.health import Check, Probe
from tutti.controller.specs import ObjectKey
from tutti.controller.streams import STREAMS, Stream
from tutti.engine.records.observations import AnyObservation, ObjectUnread
from tutti.kube.changes import Change, Gone
from tutti.kube.client import Client
from tutti.kube.fencing import LeadershipLost
from tutti.kube.informer import Informer
from tutti.kube.resources import NODES, PODS, Resource

log = structlog.get_logger(__name__)

LONGEST_INTERRUPTION_SECONDS = 60.0
"""For how long a stream may be interrupted until the process says that it is not ready: longer than an API server takes
to start anew, for who is not ready gets no reviews of webhooks either, and those fail closed."""


class Feeds:
    """All informers of the operator: they tell the engine everything, and the catalogue what is ours.

    `forget` is given the resource, namespace, name and uid of each pod and object of ours that is gone.
    """

    def __init__(
        self,
        client: Client,
        *,
        observe: Callable[[AnyObservation], None],
        forget: Callable[[Resource, str, str, str], None],
        catalogue: Catalogue,
    ) -> None:
        self._observe = observe
        self._forget = forget
        self._catalogue = catalogue
        self.synced = asyncio.Event()
        self._informers = [self._informer(client, stream) for stream in STREAMS]

    @property
    def probes(self) -> dict[str, Probe]:
        """Return what tells of each stream whether it is ready."""
        return {f"informer/{one.resource.plural}": partial(check, one) for one in self._informers}

    def _informer(self, client: Client, stream: Stream) -> Informer[Any]:
        return Informer(
            client,
            stream.resource,
            view=stream.view,
            trim=stream.trim,
            deliver=lambda changes: self._deliver(stream, changes),
            unread=lambda found: self._observe(ObjectUnread(stream.kind, *found.key, found.problem)),
        )

    def _deliver(self, stream: Stream, changes: Sequence[Change[Any]]) -> None:
        ours = stream.kind in RESOURCES
        for change in changes:
            if isinstance(change, Gone):
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

    def _ours(self) -> frozenset[ObjectKey]:
        """Return the objects of ours that exist."""
        known = zip(STREAMS, self._informers, strict=True)
        return frozenset(
            (stream.kind, *key) for stream, informer in known if stream.kind in RESOURCES for key in informer.keys
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


def told_of(informer: Informer[Any]) -> str:
    """Say what a stream that has been listed is interrupted by, and for how long; "" where it flows."""
    if informer.problem is None:
        return ""
    return f"interrupted for {informer.interrupted_seconds:.0f} s: {informer.problem}"


def check(informer: Informer[Any]) -> Check:
    """Say whether a stream was listed and flows, or has been interrupted for no longer than a restart takes."""
    if not informer.synced.is_set():
        return Check(ok=False, detail=informer.problem or "not listed yet")
    return Check(ok=informer.interrupted_seconds <= LONGEST_INTERRUPTION_SECONDS, detail=told_of(informer) or "ok")
