"""A proxy in front of an API server that remembers what was asked of it, and meddles where it is told to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

LOST = 0
"""The request is passed on, and its answer never arrives."""

Meddling = Callable[[str, str, dict[str, str]], int | None]


@dataclass
class Recorded:
    url: str = ""
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


_PASSED_ON = ("Authorization", "Content-Type", "Accept", "User-Agent")
_REASONS = {403: "Forbidden", 409: "Conflict", 422: "Invalid"}


def _status(code: int, path: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": f"{path}: answered by the proxy",
        "reason": _REASONS[code],
        "code": code,
    }


@asynccontextmanager
async def recorded(url: str, meddle: Meddling = lambda *_: None):
    """Pass every request on to `url`, streams included, and record its method, path and query.

    `meddle` is asked about each: it gives None to have it passed on, LOST, or the status to answer with instead.
    """
    found = Recorded()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:

        async def entry(request: web.Request) -> web.StreamResponse:
            asked = (request.method, request.path, dict(request.query))
            found.requests.append(asked)
            instead = meddle(*asked)
            if instead:
                return web.json_response(_status(instead, request.path), status=instead)
            headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
            async with session.request(
                request.method, url + request.raw_path, headers=headers, data=await request.read()
            ) as answer:
                if instead == LOST:
                    await answer.read()
                    request.transport.abort()
                response = web.StreamResponse(
                    status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]}
                )
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                return response

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", entry)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            found.url = f"http://{host}:{port}"
            yield found
        finally:
            await runner.cleanup()
