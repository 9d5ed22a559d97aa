"""What the operator watches, and how each change reaches the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from tutti.controller.catalogue import Catalogue
from tutti.controller.crds import RESOURCES
from tutti.controller.health import Check, Health
from tutti.controller.streams import STREAMS, Stream
from tutti.engine.observations import AnyObservation
from tutti.kube.changes import Change, Gone
from tutti.kube.client import Client
from tutti.kube.informer import Informer
from tutti.kube.resources import NODES, PODS, Resource

log = structlog.get_logger(__name__)


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
        health: Health,
    ) -> None:
        self._observe = observe
        self._forget = forget
        self._catalogue = catalogue
        self.synced = asyncio.Event()
        self._informers = [self._informer(client, stream, health) for stream in STREAMS]

    def _informer(self, client: Client, stream: Stream, health: Health) -> Informer[Any]:
        informer: Informer[Any] = Informer(
            client,
            stream.resource,
            view=stream.view,
            deliver=lambda changes: self._deliver(stream, changes),
        )
        health.ready[f"informer/{stream.resource.plural}"] = lambda: _check(informer)
        return informer

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
            self.synced.set()

    async def in_touch(self) -> None:
        """Return once nodes and pods are followed without interruption: what others have bound meanwhile is known.

        Who takes the lease may have lost its watches together with whoever held it, when the API server went away; it
        would put its pods where the other one's are.
        """
        for informer in self._informers:
            if informer.resource in (PODS, NODES) and not informer.in_touch.is_set():
                log.info("waiting_for_watch", resource=informer.resource.label, problem=informer.problem)
                await informer.in_touch.wait()


def _check(informer: Informer[Any]) -> Check:
    if informer.synced.is_set():
        return Check(ok=True, detail=f"interrupted: {informer.problem}" if informer.problem else "ok")
    return Check(ok=False, detail=informer.problem or "not listed yet")
