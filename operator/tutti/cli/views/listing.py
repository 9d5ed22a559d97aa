"""Everything of a cluster that scheduling goes by, listed once with the caller's own credentials.

The same kinds as the operator watches, read as it reads them; nothing is watched and nothing written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tutti.api.configuration import TuttiConfiguration
from tutti.controller.discovery import OUR_RESOURCES, served_version
from tutti.controller.measuring import read_figures
from tutti.controller.watch_list import WATCH_LIST, OptionalKind, WatchedKind, optional_kinds
from tutti.engine.records.observations import AnyObservation
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti.kube.decoding import object_decoder, read_meta
from tutti.kube.errors import ApiError, NotSent, UnknownOutcome, WireError
from tutti.kube.fetching import ListScope, fetch_all
from tutti.kube.node_metrics import MeasuringError
from tutti.kube.resources import APIResource

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Listed:
    """A cluster as it was seen, all within about a second.

    Attributes:
        seen: What there is, kinds that others refer to first.
        namespace: The one that was asked for, or that of the caller's context.
        refused: Why a kind could not be listed in all namespaces, by the kind's name in the API; what of it is in
            that one is there, where at least that is allowed.
        missing: The kinds of ours that the server does not have.
        unreadable: What could not be read, and why; it is left out, as the operator leaves it out.
    """

    seen: Sequence[AnyObservation]
    namespace: str = "default"
    refused: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[str] = ()
    unreadable: Sequence[str] = ()


async def list_cluster(
    kubeconfig: Path | None, context: str | None, configuration: TuttiConfiguration, namespace: str | None = None
) -> Listed:
    """List a cluster; what may not be listed in all namespaces, in this one, or that of the context.

    Raises:
        CredentialsError: There is no usable way to a cluster.
        WireError: It does not answer, or knows nobody by these credentials.
    """
    credentials = await Credentials.load(kubeconfig, context)
    access = await credentials.access()
    async with Client(credentials) as client:
        return await _Lister(client, configuration, namespace or access.namespace).run()


class _Lister:
    """Lists everything; what is not allowed is noted, and the rest goes on."""

    def __init__(self, client: Client, configuration: TuttiConfiguration, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._kinds = optional_kinds(configuration)
        self._measurements = configuration.measured
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._refused: dict[str, str] = {}
        self._missing: list[str] = []
        self._unreadable: list[str] = []

    async def run(self) -> Listed:
        failed: WireError | None = None
        try:
            async with asyncio.TaskGroup() as group:
                others = group.create_task(self._others())
                tasks = [group.create_task(self._objects(stream)) for stream in WATCH_LIST]
        except* WireError as errors:
            failed = _first(errors)  # raised here, Python before 3.11.4 would wrap it in a group
        if failed is not None:
            raise failed
        # Before the pods, which come last: what they refer to is to be there first.
        found = [task.result() for task in (*tasks[:-1], others, *tasks[-1:])]
        seen = [*(one for part in found for one in part), *await self._measured()]
        return Listed(seen, self._namespace, self._refused, self._missing, self._unreadable)

    async def _measured(self) -> list[AnyObservation]:
        """Read what nodes use, where a profile goes by it; where that cannot be read it is noted."""
        if self._measurements is None:
            return []
        try:
            async with aiohttp.ClientSession() as session:
                return [await read_figures(self._client, session, self._measurements, time.time())]
        except (WireError, MeasuringError) as error:
            self._unreadable.append(f"what nodes use: {error}")
            return []

    async def _objects(self, stream: WatchedKind) -> list[AnyObservation]:
        raws = await self._raws(stream.resource)
        if raws is None:
            if stream.kind in OUR_RESOURCES and stream.resource.label not in self._refused:
                self._missing.append(stream.resource.label)
            return []
        return self._read(stream.resource, raws, stream.view, stream.seen)

    def _read(
        self, resource: APIResource, raws: Sequence[msgspec.Raw], view: Any, seen: Callable[[Any], AnyObservation]
    ) -> list[AnyObservation]:
        """Return what is observed of the objects of a kind; what cannot be read is noted and left out."""
        decode = object_decoder(view)
        found: list[AnyObservation] = []
        for raw in raws:
            try:
                found.append(seen(decode(raw)))
            except msgspec.MsgspecError as error:
                meta = read_meta(raw)
                name = f"{meta.namespace}/{meta.name}".lstrip("/") if meta is not None else "without a name"
                self._unreadable.append(f"{resource.label} {name}: {error}")
        return found

    async def _others(self) -> list[AnyObservation]:
        """List what says how large gangs are in other projects, and what owns pods, where the server has it."""
        return [one for part in await asyncio.gather(*map(self._other, self._kinds)) for one in part]

    async def _other(self, kind: OptionalKind) -> list[AnyObservation]:
        resource = await self._served(kind)
        raws = None if resource is None else await self._raws(resource)
        if resource is None or raws is None:
            return []
        followed = [] if kind.following is None else [kind.following(True)]
        return followed + self._read(resource, raws, kind.view, partial(kind.seen, resource))

    async def _served(self, kind: OptionalKind) -> APIResource | None:
        async with self._turn:
            version = await served_version(self._client, kind, absent=(HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN))
        return APIResource(kind.group, version, kind.plural, namespaced=kind.namespaced) if version else None

    async def _raws(self, resource: APIResource) -> list[msgspec.Raw] | None:
        """Return all objects of a kind, or None where it is not there or may not be listed."""
        for namespace in (None, self._namespace) if resource.namespaced else (None,):
            try:
                async with self._turn:
                    return await fetch_all(self._client, ListScope(resource.path(namespace)))
            except ApiError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    return None
                if error.status != HTTPStatus.FORBIDDEN:
                    raise
                self._refused.setdefault(resource.label, error.message)
        return None


def _first(errors: ExceptionGroup[WireError]) -> WireError:
    """Return the most telling of several errors: an answer rather than none."""
    found = [one for one in errors.exceptions if isinstance(one, ApiError | NotSent | UnknownOutcome)]
    return min(found, key=lambda one: not isinstance(one, ApiError))
