"""The API server behind its faults: does to each request what was decided about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from aiohttp import web

from tutti_sim.faults.admin import PREFIX, Admin
from tutti_sim.faults.book import FaultBook
from tutti_sim.faults.decide import Asked, Verdict
from tutti_sim.faults.feed import FaultyFeed
from tutti_sim.faults.rules import Refusal
from tutti_sim.http import render, request
from tutti_sim.http.server import VERBS, ApiServer
from tutti_sim.http.watches import FEED
from tutti_sim.meta import clock
from tutti_sim.meta.errors import ApiError
from tutti_sim.rest.options import truth
from tutti_sim.store.watching import Feed

REASONS: Mapping[int, str] = {
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    502: "",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class FaultyServer:
    """Stands between the port and the server; costs nothing while there are no rules."""

    def __init__(self, server: ApiServer, book: FaultBook, admin: Admin) -> None:
        self._server = server
        self._book = book
        self._admin = admin

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, or fail to."""
        try:
            return await self._handle(http)
        except ConnectionResetError:
            # The connection was broken, by us or by the client: there is nobody to answer.
            return web.Response()

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        path = http.rel_url.raw_path
        if path.startswith(PREFIX):
            return await self._admin.handle(http)
        if not self._book.faults.rules:
            return await self._server.handle(http)
        verdict = self._book.ask(asked(http))
        if verdict.latency:
            await asyncio.sleep(verdict.latency)
        if verdict.reset == "before":
            return _break(http)
        if verdict.refusal is not None and not verdict.refusal.after:
            return render.failure(refusal(verdict.refusal))
        response = await self._answer(http, verdict)
        if verdict.reset == "after":
            return _break(http)
        return response if verdict.refusal is None else render.failure(refusal(verdict.refusal))

    async def _answer(self, http: web.BaseRequest, verdict: Verdict) -> web.StreamResponse:
        feed = FEED.set(_spoiled(http, verdict))
        try:
            with clock.skewed(verdict.skew):
                return await self._server.handle(http)
        finally:
            FEED.reset(feed)


def asked(http: web.BaseRequest) -> Asked:
    """A request as rules see it; what is not about a resource has only a verb."""
    segments = [part for part in http.rel_url.raw_path.split("/") if part]
    verb, agent = VERBS.get(http.method, ""), http.headers.get("User-Agent", "")
    target = request.target(segments) if segments and segments[0] in ("api", "apis") else None
    if target is None:
        return Asked(verb, agent=agent)
    if target.watch_path or (verb == "get" and not target.name and truth(http.query.get("watch"))):
        verb = "watch"
    elif not target.name and verb in ("get", "delete"):
        verb = "list" if verb == "get" else "deletecollection"
    resource = f"{target.plural}/{target.subresource}" if target.subresource else target.plural
    return Asked(verb, target.group, resource, target.namespace, target.name, agent)


def refusal(error: Refusal) -> ApiError:
    """The answer that a refusal is."""
    message = error.message or f"told to answer {error.code}"
    if error.retry_after_seconds is None:
        return ApiError(error.code, REASONS[error.code], message)
    seconds = error.retry_after_seconds
    return ApiError(
        error.code,
        REASONS[error.code],
        message,
        details={"retryAfterSeconds": seconds},
        headers={"Retry-After": str(seconds)},
    )


def _break(http: web.BaseRequest) -> web.StreamResponse:
    """Break the connection; the response goes nowhere."""
    _cut(http)
    return web.Response()


def _cut(http: web.BaseRequest) -> None:
    if http.transport is not None:
        http.transport.abort()


def _spoiled(http: web.BaseRequest, verdict: Verdict) -> Callable[[Feed], Feed]:
    """What makes a watch's feed as faulty as was decided."""

    def spoil(feed: Feed) -> Feed:
        for dice, fault in verdict.watch:
            feed = FaultyFeed(feed, fault, dice, lambda: _cut(http))
        return feed

    return spoil
