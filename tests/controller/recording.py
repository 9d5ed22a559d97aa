"""A proxy in front of an API server that remembers what was asked of it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web


@dataclass
class Recorded:
    url: str = ""
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


_PASSED_ON = ("Authorization", "Content-Type", "Accept", "User-Agent")


@asynccontextmanager
async def recorded(url: str):
    """Pass every request on to `url`, streams included, and record its method, path and query."""
    found = Recorded()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:

        async def entry(request: web.Request) -> web.StreamResponse:
            found.requests.append((request.method, request.path, dict(request.query)))
            headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
            async with session.request(
                request.method, url + request.raw_path, headers=headers, data=await request.read()
            ) as answer:
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
