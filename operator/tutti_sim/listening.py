"""A port of this machine on which an API server answers, which can be shut as politely or as rudely as one wants."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web

from tutti_sim.http.answer import make_request

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Listener:
    """Answers HTTP on an address; opened, shut and opened again on the same port.

    Args:
        port: 0 takes a free one, which is kept from then on.
    """

    def __init__(self, handler: Handler, *, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
        self._handler = handler
        self._context = context
        self._server: web.Server | None = None
        self._runner: web.ServerRunner | None = None
        self.host = host
        self.port = port

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"{'https' if self._context else 'http'}://{self.host}:{self.port}"

    async def open(self) -> None:
        """Begin to answer."""
        self._server = web.Server(self._handler, request_factory=make_request, access_log=None)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port, ssl_context=self._context, backlog=1024)
        await site.start()
        self.port = self._runner.addresses[0][1]

    def cut(self) -> None:
        """Break all connections, as a server does that is killed."""
        for connection in self._server.connections if self._server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()

    async def shut(self) -> None:
        """Answer no more."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = self._server = None
