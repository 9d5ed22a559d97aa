"""The API server behind its faults: does to each request what was decided about it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from tutti.api.problems import ConfigurationError
from tutti_sim.faults.replica import FaultyFeed
from tutti_sim.faults.rules import Asked, FaultBook, Faults, FaultVerdict, Refusal, Restart, Rule
from tutti_sim.http import rendering, request
from tutti_sim.http.discovery import HIDDEN
from tutti_sim.http.rendering import HttpRequest, for_aiohttp
from tutti_sim.http.server import VERBS, ApiServer
from tutti_sim.http.watches import FEED
from tutti_sim.meta import clock, yamlfile
from tutti_sim.meta.errors import ApiError, method_not_allowed, not_found, unauthorized
from tutti_sim.rest.metadata import truth
from tutti_sim.store.collection import Feed

PREFIX = "/_tutti/"


class Admin:
    """Answers requests about faults."""

    def __init__(self, book: FaultBook, restart: Callable[[Restart], None], token: str) -> None:
        self._book = book
        self._restart = restart
        self._token = token

    async def handle(self, http: HttpRequest) -> web.StreamResponse:
        """Answer one request."""
        try:
            self._authorize(http)
            parts = http.rel_url.raw_path.removeprefix(PREFIX).strip("/").split("/")
            return await self._route(http, parts)
        except ApiError as error:
            return rendering.failure(error)
        except ConfigurationError as error:
            return rendering.failure(ApiError(422, "Invalid", str(error)))

    def _authorize(self, http: HttpRequest) -> None:
        kind, _, token = http.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer" or not secrets.compare_digest(token.strip().encode(), self._token.encode()):
            raise unauthorized()

    async def _route(self, http: HttpRequest, parts: list[str]) -> web.StreamResponse:
        match (http.method, parts):
            case ("GET", ["faults"]):
                pass
            case ("PUT", ["faults"]):
                self._book.put(yamlfile.read_yaml(await http.text(), Faults, "faults"))
            case ("DELETE", ["faults"]):
                self._book.put(Faults())
            case ("GET", ["faults", "counts"]):
                counts = {name: {"seen": one.seen, "struck": one.struck} for name, one in self._book.tallies.items()}
                return _json(counts)
            case (method, ["faults", "rules", name]):
                return await self._rule(http, method, name)
            case ("POST", ["restart"]):
                return await self._restarts(http)
            case (_, ["faults"] | ["faults", "counts"] | ["restart"]):
                raise method_not_allowed()
            case _:
                raise not_found("path", "", "/".join(parts))
        return _json(_shown(self._book.faults))

    async def _rule(self, http: HttpRequest, method: str, name: str) -> web.StreamResponse:
        if method == "PUT":
            document = await http.text()
            rule = yamlfile.read_yaml(document, Rule, f"rule {name}")
            if rule.name != name:
                raise ApiError(422, "Invalid", f"the rule is called {rule.name!r}, but the path says {name!r}")
            self._book.put_rule(rule)
            return _json(_shown(rule))
        found = next((one for one in self._book.faults.rules if one.name == name), None)
        if found is None:
            raise not_found("rules", "", name)
        if method == "DELETE":
            self._book.drop_rule(name)
        elif method != "GET":
            raise method_not_allowed()
        return _json(_shown(found))

    async def _restarts(self, http: HttpRequest) -> web.StreamResponse:
        wanted = yamlfile.read_yaml(await http.text(), Restart, "restart")
        response = _json(_shown(wanted), status=202)
        # The answer is on its way before the connection that it goes over is broken.
        await response.prepare(for_aiohttp(http))
        await response.write_eof()
        self._restart(wanted)
        return response


def _shown(model: Faults | Rule | Restart) -> Any:
    return model.model_dump(by_alias=True, exclude_defaults=True, mode="json")


def _json(document: Any, *, status: int = 200) -> web.Response:
    return web.Response(body=rendering.encode(document), status=status, content_type="application/json")


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

    async def handle(self, http: HttpRequest) -> web.StreamResponse:
        """Answer one request, or fail to."""
        try:
            return await self._handle(http)
        except ConnectionResetError:
            # The connection was broken, by us or by the client: there is nobody to answer.
            return web.Response()

    async def _handle(self, http: HttpRequest) -> web.StreamResponse:
        path = http.rel_url.raw_path
        if path.startswith(PREFIX):
            return await self._admin.handle(http)
        if self._book.faults.undiscovered:
            HIDDEN.set(frozenset(self._book.faults.undiscovered))  # each request has a context of its own
        if not self._book.faults.rules:
            return await self._server.handle(http)
        verdict = self._book.ask(request_asked(http))
        if verdict.latency:
            await asyncio.sleep(verdict.latency)
        if verdict.reset == "before":
            return _break(http)
        if verdict.refusal is not None and not verdict.refusal.after:
            return rendering.failure(refusal(verdict.refusal))
        response = await self._answer(http, verdict)
        if verdict.reset == "after":
            return _break(http)
        return response if verdict.refusal is None else rendering.failure(refusal(verdict.refusal))

    async def _answer(self, http: HttpRequest, verdict: FaultVerdict) -> web.StreamResponse:
        feed = FEED.set(_spoiled(http, verdict))
        try:
            with clock.skewed(verdict.skew):
                return await self._server.handle(http)
        finally:
            FEED.reset(feed)


def request_asked(http: HttpRequest) -> Asked:
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


def _break(http: HttpRequest) -> web.StreamResponse:
    """Break the connection; the response goes nowhere."""
    _cut(http)
    return web.Response()


def _cut(http: HttpRequest) -> None:
    if http.transport is not None:
        http.transport.abort()


def _spoiled(http: HttpRequest, verdict: FaultVerdict) -> Callable[[Feed], Feed]:
    """What makes a watch's feed as faulty as was decided."""

    def spoil(feed: Feed) -> Feed:
        for dice, fault in verdict.watch:
            feed = FaultyFeed(feed, fault, dice, lambda: _cut(http))
        return feed

    return spoil
