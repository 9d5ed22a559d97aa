"""Probes and metrics: /healthz, /readyz and /metrics over plain HTTP, or /metrics over HTTPS to those who may read it.

A server of our own and not kopf's, whose one endpoint caches its answer and knows no readiness. It is served in a loop
of its own (`event_loops.py`), so that probes are answered while the engine is busy; metrics are read in the loop that
changes what they tell.

Who may read metrics is asked as controller-runtime's filter asks it (0.22, pkg/metrics/filters,
WithAuthenticationAndAuthorization): a TokenReview, then a SubjectAccessReview of a path that is no resource. What the
API server says is kept for a short time, under a digest of the token; how many are asked about at once is bounded, so
that nobody floods the API server through this.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final, cast

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from tutti.controller.connections import Guests
from tutti.controller.event_loops import OtherLoop
from tutti.controller.health import Check, Health, probe_report, run_probes
from tutti.kube.client import Client
from tutti.kube.errors import WireError
from tutti.kube.reviews import is_allowed, user_of_token

log = structlog.get_logger(__name__)

PATH: Final = "/metrics"
_KEPT_SECONDS: Final = {HTTPStatus.OK: 60.0, HTTPStatus.FORBIDDEN: 10.0, HTTPStatus.UNAUTHORIZED: 10.0}
_MOST_KEPT: Final = 256
_MOST_AT_ONCE: Final = 8
_LONGEST_TOKEN: Final = 16 * 1024


class MetricsReaders:
    """Tells who may read metrics, and remembers it for a while."""

    def __init__(self, client: Client, *, clock: Callable[[], float] | None = None) -> None:
        self._client = client
        self._clock = clock or asyncio.get_running_loop().time
        self._kept: dict[bytes, tuple[float, HTTPStatus]] = {}
        self._asking = 0

    async def verdict(self, authorization: str) -> HTTPStatus:
        """Return with which status to answer whoever sends this header: 200, or why not.

        401 without a token that is known, 403 for those who may not, 429 while too many are asked about, and 503 where
        the API server does not say.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not 0 < len(token) <= _LONGEST_TOKEN:
            return HTTPStatus.UNAUTHORIZED
        digest = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        until, kept = self._kept.get(digest, (0.0, HTTPStatus.OK))
        if self._clock() < until:
            return kept
        if self._asking >= _MOST_AT_ONCE:
            return HTTPStatus.TOO_MANY_REQUESTS
        self._asking += 1
        try:
            found = await self._asked(token)
        except (WireError, msgspec.MsgspecError) as error:
            log.warning("metrics_not_authorized", error=str(error))
            return HTTPStatus.SERVICE_UNAVAILABLE
        finally:
            self._asking -= 1
        self._keep(digest, found)
        return found

    async def _asked(self, token: str) -> HTTPStatus:
        """Ask the API server whose a token is, and whether he may."""
        user = await user_of_token(self._client, token)
        if user is None:
            return HTTPStatus.UNAUTHORIZED
        asked = {"path": PATH, "verb": "get"}
        allowed = await is_allowed(self._client, user, "nonResourceAttributes", asked)
        return HTTPStatus.OK if allowed else HTTPStatus.FORBIDDEN

    def _keep(self, digest: bytes, found: HTTPStatus) -> None:
        """Remember a verdict, and no more than so many."""
        self._kept.pop(digest, None)
        while len(self._kept) >= _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[digest] = (self._clock() + _KEPT_SECONDS[found], found)


def _answer(checks: dict[str, Check], *, passed: bool) -> web.Response:
    return web.Response(text=probe_report(checks) + ("ok\n" if passed else "failed\n"), status=200 if passed else 503)


@dataclass(frozen=True, slots=True)
class _One:
    """A registry of one family, to render it by itself."""

    family: Metric

    def collect(self) -> list[Metric]:
        return [self.family]


async def rendered(registry: CollectorRegistry) -> bytes:
    """Return everything measured in Prometheus' text format.

    The loop is left to others after each family: those of a thousand queues together would hold up binds.
    """
    parts: list[bytes] = []
    for family in registry.collect():
        parts.append(generate_latest(cast("Collector", _One(family))))
        await asyncio.sleep(0)
    return b"".join(parts)


def application(
    health: Health, registry: CollectorRegistry | None, *, measured_in: OtherLoop | None = None
) -> web.Application:
    """Return what probes ask; every answer is computed from what `health` and `registry` hold at that moment.

    Args:
        health: What probes are answered by; from the thread of the server.
        registry: What is measured, for everybody; None: that is not served here.
        measured_in: The loop in which that is read; None: the server's own.
    """

    async def healthz(_: web.Request) -> web.Response:
        """Whether the process should go on."""
        checks = run_probes(health.alive)
        return _answer(checks, passed=all(check.ok for check in checks.values()))

    async def readyz(_: web.Request) -> web.Response:
        """Whether it does its work."""
        checks = run_probes(health.ready)
        # Nothing announced yet is the first moment of a start, not readiness.
        return _answer(checks, passed=bool(checks) and all(check.ok for check in checks.values()))

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/livez", healthz)
    app.router.add_get("/readyz", readyz)
    if registry is not None:

        async def metrics(_: web.Request) -> web.Response:
            """Everything measured."""
            return await _metrics(registry, measured_in)

        app.router.add_get(PATH, metrics)
    return app


def guarded(
    registry: CollectorRegistry, readers: MetricsReaders, *, measured_in: OtherLoop | None = None
) -> web.Application:
    """Return metrics for those alone who may read them; `measured_in` as above."""

    async def metrics(request: web.Request) -> web.Response:
        """Everything measured, or why not."""
        verdict = await readers.verdict(request.headers.get("Authorization", ""))
        if verdict is HTTPStatus.OK:
            return await _metrics(registry, measured_in)
        asks = {"WWW-Authenticate": "Bearer"} if verdict is HTTPStatus.UNAUTHORIZED else {}
        return web.Response(status=verdict, text=f"{verdict.phrase}\n", headers=asks)

    app = web.Application()
    app.router.add_get(PATH, metrics)
    return app


async def _metrics(registry: CollectorRegistry, measured_in: OtherLoop | None) -> web.Response:
    """Everything measured, in Prometheus' text format."""
    if measured_in is None:
        body = await rendered(registry)
    else:
        body = await measured_in.run(rendered(registry))
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


@asynccontextmanager
async def serving(
    app: web.Application,
    *,
    host: str,
    port: int,
    context: ssl.SSLContext | None = None,
    cancels: bool = False,
    guests: Guests | None = None,
) -> AsyncIterator[int]:
    """Serve `app` until the block ends and yield the port it listens on.

    Args:
        app: what is served.
        host: the address to listen on; empty for all, IPv6 included where the system has it.
        port: 0 takes a free one.
        context: by which HTTPS is served; None for plain HTTP.
        cancels: whether an answer is cancelled when nobody waits for it any longer.
        guests: what connections of anybody may take; None: as much as they like.

    Raises:
        OSError: the port cannot be listened on.
    """
    if guests is not None:
        app.middlewares.append(guests.heard)
    runner = web.AppRunner(
        app, handle_signals=False, access_log=None, shutdown_timeout=1.0, handler_cancellation=cancels
    )
    await runner.setup()
    assert runner.server is not None  # it was set up
    listening = None
    try:
        listener = _listen(host, port)
        listening = await asyncio.get_running_loop().create_server(
            runner.server if guests is None else partial(guests.met, runner.server),
            sock=listener,
            ssl=context,
            ssl_handshake_timeout=guests.handshake_seconds if guests is not None and context is not None else None,
            backlog=128,
        )
        yield int(listener.getsockname()[1])
    finally:
        if listening is not None:
            listening.close()
        await runner.cleanup()


def _listen(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
