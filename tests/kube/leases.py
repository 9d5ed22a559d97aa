"""A Lease that a server keeps, and candidates for it, by a clock that tests move."""

import copy
import re

from aiohttp import web

from tutti.kube.lease import Elector

MICRO_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Leases:
    """One Lease with compare-and-swap; `faults` name what to do to the next write, `lost` after applying it."""

    def __init__(self, kube) -> None:
        self.kube = kube
        self.document = None
        self.version = 0
        self.faults = []
        self.before_write = []
        self.down = False

    def store(self, document):
        self.version += 1
        document["metadata"] |= {"resourceVersion": str(self.version), "uid": "uid-lease"}
        self.document = document
        return web.json_response(document)

    async def handle(self, request):
        if self.down:
            return self.kube.status(503, "ServiceUnavailable")
        if request.method == "GET":
            return web.json_response(self.document) if self.document else self.kube.status(404, "NotFound")
        if self.before_write:
            assert await self.before_write.pop()()
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "refused":
            return self.kube.status(500, "InternalError")
        if fault == "deleted":
            self.document = None
        answer = self.write(request.method, await request.json())
        return self.kube.hang_up(request) if fault == "lost" else answer

    def write(self, method, document):
        spec = document["spec"]
        assert all(MICRO_TIME.match(spec[field]) for field in ("acquireTime", "renewTime"))
        if method == "POST":
            return self.kube.status(409, "AlreadyExists") if self.document else self.store(document)
        if self.document is None:
            return self.kube.status(404, "NotFound")
        if document["metadata"]["resourceVersion"] != str(self.version):
            return self.kube.status(409, "Conflict")
        return self.store(document)

    def back_up(self):
        """Return what there is, as it would be restored."""
        return self.version, copy.deepcopy(self.document)

    def restore(self, backup):
        self.version, self.document = backup

    @property
    def spec(self):
        return self.document["spec"]


async def kept_lease(serve, kube):
    """Return a Lease, the clock of whoever wants it, and what makes a candidate of that name."""
    leases, clock = Leases(kube), Clock()
    server = await serve(leases.handle)

    def elector(identity, clock=clock):
        return Elector(server.client, namespace="tutti-system", name="tutti", identity=identity, clock=clock)

    return leases, clock, elector
