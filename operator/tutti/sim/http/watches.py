"""Watches: an endless list of events, one JSON document to a line."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tutti.sim.http.lists import Scope, check_options
from tutti.sim.http.negotiate import Rendering
from tutti.sim.http.render import encode, partial, stored, table
from tutti.sim.kinds.resource import Resource
from tutti.sim.meta.errors import ApiError, expired
from tutti.sim.rest.backend import Backend
from tutti.sim.rest.options import integer, truth
from tutti.sim.store.collection import Collection, Compacted
from tutti.sim.store.version import Version
from tutti.sim.store.watching import Feed, Notice, Subscription

Json = dict[str, Any]

LONGEST = 3600
SHORTEST = 1800
BOOKMARK_EVERY = 60.0
BOOKMARK_BEFORE_END = 2.0
BACKLOG = 10_000
TOGETHER = 1 << 18
INITIAL_END = {"k8s.io/initial-events-end": "true"}


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
