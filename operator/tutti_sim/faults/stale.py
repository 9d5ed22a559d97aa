"""An API server that reads late: what it is asked for it answers from a replica, what it is told it passes on."""

from __future__ import annotations

from aiohttp import web

from tutti_sim.faults.replica import Replica
from tutti_sim.http.server import ApiServer
from tutti_sim.rest.backend import Backend

READS = ("GET", "HEAD")


class StaleServer:
    """Stands beside a server, with the same token and the same resources.

    Args:
        server: the one that writes go to.
        replica: what reads are answered from.
    """

    def __init__(self, server: ApiServer, replica: Replica, backend: Backend, *, token: str) -> None:
        self._server = server
        self._late = ApiServer(Backend(replica.store, backend.registry, backend.draw), token=token)

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        server = self._late if http.method in READS else self._server
        return await server.handle(http)
