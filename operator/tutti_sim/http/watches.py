"""Watches: an endless list of events, one JSON document to a line."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from aiohttp import web

from tutti_sim.http.lists import Scope, number
from tutti_sim.http.rendering import STREAMS, HttpRequest, Rendering, encode, for_aiohttp, partial, stored, table
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json
from tutti_sim.meta.errors import ApiError, expired, no_such_form
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.metadata import integer, truth
from tutti_sim.store.collection import Collection, Compacted, Feed, Notice, Subscription, Version

LONGEST = 3600
SHORTEST = 1800
BOOKMARK_EVERY = 60.0
BOOKMARK_BEFORE_END = 2.0
BACKLOG = 10_000
TOGETHER = 1 << 18
DRAIN_SECONDS = 10.0
INITIAL_END = {"k8s.io/initial-events-end": "true"}


def _as_it_is(feed: Feed) -> Feed:
    return feed


FEED: ContextVar[Callable[[Feed], Feed]] = ContextVar("feed", default=_as_it_is)
"""What a watch in this context is sent from, given the subscription that it would be sent from."""


@dataclass(slots=True)
class Plan:
    """How a watch runs: for how long, and which bookmarks it sends."""

    seconds: float
    bookmarks: bool
    initial_end: bool


class Writer:
    """Events as lines of a rendering."""

    def __init__(self, resource: Resource, rendering: Rendering, include: str) -> None:
        self._resource = resource
        self._rendering = rendering
        self._include = include
        self._heading = True

    def line(self, change: str, version: Version) -> bytes:
        """One event."""
        match self._rendering.form:
            case "table":
                body = encode(table(self._resource, [version], {}, include=self._include, heading=self._heading))
                self._heading = False
            case "partial" | "partials":
                body = version.view("partial", partial)
            case _:
                body = stored(self._resource, version)
        return b"".join((b'{"type":"', change.encode(), b'","object":', body, b"}\n"))

    def bookmark(self, rv: int, annotations: Mapping[str, str] | None = None) -> bytes:
        """An event that only tells how far the watch has come."""
        meta: Json = {"resourceVersion": str(rv), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = dict(annotations)
        resource = self._resource
        if self._rendering.form == "table":
            body: Json = self._empty_row(meta)
        elif self._rendering.form in ("partial", "partials"):
            body = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
        else:
            body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        return b'{"type":"BOOKMARK","object":' + encode(body) + b"}\n"

    def _empty_row(self, meta: Json) -> Json:
        """A bookmark as a table has it: a row of an object with nothing in it."""
        told = {key: value for key, value in meta.items() if value is not None}
        empty: Json = {"metadata": told, "spec": {}, "status": {}}
        cells = [column.cell(empty) for column in self._resource.columns]
        shown = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": told}
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": meta["resourceVersion"]},
            "columnDefinitions": None,
            "rows": [{"cells": cells, "object": None if self._include == "None" else shown}],
        }


def error_line(error: ApiError) -> bytes:
    """An event that ends a watch with an error."""
    return b'{"type":"ERROR","object":' + encode(error.body()) + b"}\n"


async def stream(
    http: HttpRequest,
    backend: Backend,
    resource: Resource,
    where: Scope,
    query: Mapping[str, str],
    rendering: Rendering,
) -> web.StreamResponse:
    """Answer a watch until it times out, the client goes, or falls too far behind."""
    if rendering.media != "json":
        raise no_such_form(STREAMS.removeprefix(", "))
    try:
        version = number(query.get("resourceVersion", ""))
    except ValueError as error:  # kube-apiserver does not classify it where it is watched from
        raise ApiError(500, "", str(error)) from None
    plan = _plan(query)
    collection = backend.collection(resource)
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    writer = Writer(resource, rendering, query.get("includeObject", "Metadata"))
    try:
        subscription = _subscribe(backend, collection, where, version, query)
    except Compacted as error:
        await response.prepare(for_aiohttp(http))
        await response.write(error_line(expired(str(error))))
        await response.write_eof()
        return response
    cut = _Cut(http)
    subscription.lost = cut.soon
    try:
        await response.prepare(for_aiohttp(http))
        feed = FEED.get()(subscription)
        await _run(_Sender(response, writer, backend), feed, writer, plan)
        await response.write_eof()
    except (ConnectionResetError, asyncio.CancelledError):
        if not subscription.closed and asyncio.current_task() and asyncio.current_task().cancelling():  # type: ignore[union-attr]  # checked just before
            raise
    finally:
        cut.cancel()
        collection.unsubscribe(subscription)
    return response


class _Cut:
    """Breaks the connection of a client that was too slow and does not take even what was meant for it."""

    def __init__(self, http: HttpRequest) -> None:
        self._transport = http.transport
        self._timer: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        """Break it, unless the watch ends before."""
        if self._transport is not None:
            self._timer = asyncio.get_running_loop().call_later(DRAIN_SECONDS, self._transport.abort)

    def cancel(self) -> None:
        """Leave it alone: the watch has ended."""
        if self._timer is not None:
            self._timer.cancel()


def _plan(query: Mapping[str, str]) -> Plan:
    seconds = integer(query, "timeoutSeconds") or random.randint(SHORTEST, LONGEST)  # noqa: S311 - spreads reconnects
    initial = truth(query.get("sendInitialEvents"))
    bookmarks = truth(query.get("allowWatchBookmarks"))
    return Plan(float(seconds), bookmarks, initial and bookmarks)


def _subscribe(
    backend: Backend, collection: Collection, where: Scope, version: int, query: Mapping[str, str]
) -> Subscription:
    initial = query.get("sendInitialEvents")
    now = backend.store.revision
    fresh = truth(initial) if initial is not None else version == 0
    after = now if fresh or (version == 0) else version
    subscription = collection.subscribe(
        namespace=where.namespace, predicate=where.predicate, after=after, limit=BACKLOG
    )
    if fresh:
        subscription.preload(
            one for one in collection.scan(where.namespace) if where.predicate is None or where.predicate(one.obj)
        )
    return subscription


async def _run(sender: _Sender, subscription: Feed, writer: Writer, plan: Plan) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    end = start + plan.seconds
    told = subscription.after
    await sender.send(subscription.take())
    if plan.initial_end:
        told = max(told, subscription.after)
        await sender.write(writer.bookmark(told, INITIAL_END))
    next_mark = _next_mark(start, end)
    while not subscription.closed:
        due = min(end, next_mark) if plan.bookmarks else end
        try:
            async with asyncio.timeout_at(due):
                await subscription.wait()
        except TimeoutError:
            pass
        notices = subscription.take()
        if notices:
            await sender.send(notices)
            told = max(told, notices[-1].version.rv)
        if subscription.overflow:
            return
        now = loop.time()
        if plan.bookmarks and now >= next_mark:
            if subscription.seen > told:
                told = subscription.seen
                await sender.write(writer.bookmark(told))
            next_mark = _next_mark(now, end)
        if now >= end:
            return


def _next_mark(now: float, end: float) -> float:
    """Bookmarks come now and then, and shortly before the end."""
    last = end - BOOKMARK_BEFORE_END
    return min(now + BOOKMARK_EVERY, last) if now < last else end + 1


class _Sender:
    """Sends events to one client, once everything that they tell of is durable."""

    def __init__(self, response: web.StreamResponse, writer: Writer, backend: Backend) -> None:
        self._response = response
        self._writer = writer
        self._backend = backend

    async def write(self, data: bytes) -> None:
        """Send some bytes."""
        for settled in self._backend.settle:
            await settled()
        await self._response.write(data)

    async def send(self, notices: list[Notice]) -> None:
        """Send events, many at a time."""
        chunk: list[bytes] = []
        size = 0
        for notice in notices:
            line = self._writer.line(str(notice.change), notice.version)
            chunk.append(line)
            size += len(line)
            if size > TOGETHER:
                await self.write(b"".join(chunk))
                chunk, size = [], 0
        if chunk:
            await self.write(b"".join(chunk))
