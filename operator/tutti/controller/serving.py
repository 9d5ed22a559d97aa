"""Probes and metrics: /healthz, /readyz and /metrics over plain HTTP, or /metrics over HTTPS to those who may read it.

A server of our own and not kopf's, whose one endpoint caches its answer and knows no readiness. It is served in a loop
of its own (`own_loop.py`), so that probes are answered while the engine is busy; metrics are read in the loop that
changes what they tell.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from tutti.controller.health import Check, Health, asked, report
from tutti.controller.own_loop import Elsewhere
from tutti.controller.scraping import PATH, Readers


def _answer(checks: dict[str, Check], *, passed: bool) -> web.Response:
    return web.Response(text=report(checks) + ("ok\n" if passed else "failed\n"), status=200 if passed else 503)


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
    health: Health, registry: CollectorRegistry | None, *, measured_in: Elsewhere | None = None
) -> web.Application:
    """Return what probes ask; every answer is computed from what `health` and `registry` hold at that moment.

    Args:
        health: What probes are answered by; from the thread of the server.
        registry: What is measured, for everybody; None: that is not served here.
        measured_in: The loop in which that is read; None: the server's own.
    """

    async def healthz(_: web.Request) -> web.Response:
        """Whether the process should go on."""
        checks = asked(health.alive)
        return _answer(checks, passed=all(check.ok for check in checks.values()))

    async def readyz(_: web.Request) -> web.Response:
        """Whether it does its work."""
        checks = asked(health.ready)
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


def guarded(registry: CollectorRegistry, readers: Readers, *, measured_in: Elsewhere | None = None) -> web.Application:
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


async def _metrics(registry: CollectorRegistry, measured_in: Elsewhere | None) -> web.Response:
    """Everything measured, in Prometheus' text format."""
    if measured_in is None:
        body = await rendered(registry)
    else:
        body = await measured_in.run(rendered(registry))
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


@asynccontextmanager
async def serving(
    app: web.Application, *, host: str, port: int, context: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve `app` until the block ends and yield the port it listens on.

    Args:
        app: what is served.
        host: the address to listen on; empty for all, IPv6 included where the system has it.
        port: 0 takes a free one.
        context: by which HTTPS is served; None for plain HTTP.

    Raises:
        OSError: the port cannot be listened on.
    """
    runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        listener = _listen(host, port)
        await web.SockSite(runner, listener, ssl_context=context).start()
        yield int(listener.getsockname()[1])
    finally:
        await runner.cleanup()


def _listen(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
