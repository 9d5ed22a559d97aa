"""Small API servers over real HTTP, which can be told to misbehave as real ones do."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.protobuf import PROTOBUF
from tutti_sim.http.protobuf import decode_protobuf

DOCUMENT = web.RequestKey("document", object)
"""What the body of a request says, however it is encoded."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def status(code: int, reason: str, message: str = "", **details: Any) -> web.Response:
    body = {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
    return web.json_response(body, status=code)


def hang_up(request: web.Request) -> web.Response:
    """Break the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@dataclass
class Call:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Server:
    """A server, which can go away as one does that was killed, and come back at the same address."""

    url: str
    client: Client
    runner: web.AppRunner
    calls: list[Call] = field(default_factory=list)
    kept: socket.socket | None = None

    async def go_away(self) -> None:
        """Refuse connections; the port stays its own, for a connection that goes out may be given any that is free."""
        await self.runner.cleanup()
        self.kept = bound_socket(int(self.url.rpartition(":")[2]))

    async def come_back(self, handler: Handler) -> None:
        assert self.kept is not None
        self.runner, self.kept = await _started(handler, self.calls, self.kept), None

    def sent(self, method: str, ending: str = "") -> list[Call]:
        return [call for call in self.calls if call.method == method and call.path.endswith(ending)]


def _document(content_type: str, raw: bytes) -> Any:
    """What a body says, however it is encoded; None where there is none."""
    if content_type == PROTOBUF:
        return decode_protobuf(raw)
    return json.loads(raw) if raw else None


def bound_socket(port: int = 0) -> socket.socket:
    """A socket with a port of this machine, on which nobody listens yet; any port that is free for 0."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


async def _started(handler: Handler, calls: list[Call], listening: socket.socket) -> web.AppRunner:
    async def entry(request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = request[DOCUMENT] = _document(request.content_type, raw)
        calls.append(Call(request.method, request.path, dict(request.query), dict(request.headers), body))
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", entry)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    return runner


@asynccontextmanager
async def serving(handler: Handler, **client_options: Any) -> AsyncIterator[Server]:
    calls: list[Call] = []
    runner = await _started(handler, calls, bound_socket())
    host, port = runner.addresses[0][:2]
    url = f"http://{host}:{port}"
    async with Client(Credentials.fixed(Access(url)), **client_options) as client:
        server = Server(url, client, runner, calls)
        try:
            yield server
        finally:
            await server.runner.cleanup()
            if server.kept is not None:
                server.kept.close()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[Server]]]:
    async with AsyncExitStack() as stack:

        async def start(handler: Handler, **client_options: Any) -> Server:
            return await stack.enter_async_context(serving(handler, **client_options))

        yield start


@pytest.fixture
def refusing() -> Iterator[str]:
    """A host and port on which nobody listens, nor will."""
    with bound_socket() as kept:
        yield f"127.0.0.1:{kept.getsockname()[1]}"


class Collection:
    """One collection with list and watch; `faults` are served, one by one, instead of what was asked for.

    A fault is (where, what): where `list`, `continue` or `watch` says which request it waits for.

    Attributes:
        streams_lists: Whether a watch may begin with all that exists; a server that cannot do that answers 422.
    """

    def __init__(self, *, streams_lists: bool = True) -> None:
        self.streams_lists = streams_lists
        self.version = 100
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.log: list[tuple[int, str, dict[str, Any]]] = []
        self.faults: deque[tuple[str, str]] = deque()
        self.compacted = 0
        self.watch_from: list[int] = []
        self._snapshots: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        self._changed = asyncio.Event()
        self._end_watches = asyncio.Event()

    def put(self, name: str, *, uid: str | None = None, namespace: str = "default", **fields: Any) -> None:
        before = self.objects.get((namespace, name))
        if before is not None and uid is not None and before["metadata"]["uid"] != uid:
            self.delete(name, namespace=namespace)
            before = None
        self.version += 1
        kept = before["metadata"]["uid"] if before else f"uid-{name}-{self.version}"
        meta = {"name": name, "namespace": namespace, "uid": uid or kept, "resourceVersion": str(self.version)}
        self.objects[namespace, name] = {"metadata": meta, **fields}
        self._emit("MODIFIED" if before else "ADDED", self.objects[namespace, name])

    def delete(self, name: str, *, namespace: str = "default") -> None:
        gone = self.objects.pop((namespace, name))
        self.version += 1
        self._emit("DELETED", {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}})

    def bookmark(self) -> None:
        self.version += 1
        self._emit("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    def compact(self) -> None:
        """Forget the history, so that a watch from before gets 410."""
        self.compacted = self.version
        self._snapshots.clear()

    def end_watches(self) -> None:
        """End open watches as a server does when their time is over."""
        self._end_watches.set()
        self._end_watches = asyncio.Event()

    def _emit(self, kind: str, obj: dict[str, Any]) -> None:
        self.log.append((self.version, kind, obj))
        self._changed.set()
        self._changed = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        initial = "sendInitialEvents" in query
        if initial and not self.streams_lists:
            return status(422, "Invalid", "sendInitialEvents is forbidden for watch unless WatchList is enabled")
        where = "continue" if "continue" in query else "watch" if "watch" in query and not initial else "list"
        if self.faults and self.faults[0][0] == where:
            return await self._misbehave(request, self.faults.popleft()[1])
        return await self._watch(request) if "watch" in query else self._list(query)

    def _list(self, query: Any) -> web.Response:
        limit = int(query.get("limit", "0"))
        if "continue" in query:
            token, _, start_text = query["continue"].partition("/")
            if token not in self._snapshots:
                return status(410, "Expired", "the provided continue parameter is too old")
            (version, items), start = self._snapshots[token], int(start_text)
        else:
            version, items, start = self.version, list(self.objects.values()), 0
            token = str(version)
            self._snapshots[token] = (version, items)
        end = start + limit if limit else len(items)
        meta = {"resourceVersion": str(version)}
        if end < len(items):
            meta["continue"] = f"{token}/{end}"
        return web.json_response({"metadata": meta, "items": items[start:end] or None})

    async def _open(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        return response

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        end = self._end_watches  # also where it is over before all that there is has been told
        response = await self._open(request)
        if "sendInitialEvents" in request.query:
            version, found = self.version, list(self.objects.values())
            for obj in found:
                await response.write(json.dumps({"type": "ADDED", "object": obj}).encode() + b"\n")
            mark = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
            await response.write(json.dumps({"type": "BOOKMARK", "object": {"metadata": mark}}).encode() + b"\n")
        else:
            version = int(request.query["resourceVersion"])
            self.watch_from.append(version)
        if version < self.compacted:
            error = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            await response.write(json.dumps({"type": "ERROR", "object": error}).encode() + b"\n")
            return response
        seconds = float(request.query["timeoutSeconds"])
        ended = asyncio.ensure_future(asyncio.wait([asyncio.ensure_future(end.wait())], timeout=seconds))
        position = 0
        while not (end.is_set() or ended.done()):
            changed = asyncio.ensure_future(self._changed.wait())
            for at, kind, obj in self.log[position:]:
                if at > version:
                    await response.write(json.dumps({"type": kind, "object": obj}).encode() + b"\n")
            position = len(self.log)
            await asyncio.wait({changed, ended}, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
        return response

    async def _misbehave(self, request: web.Request, what: str) -> web.StreamResponse:
        if what.isdigit():
            return status(int(what), "Fault", f"told to answer {what}")
        if what == "hang_up":
            return hang_up(request)
        response = await self._open(request)
        if what == "stall":
            await asyncio.Event().wait()
        elif what == "cut":
            await response.write(b'{"type":"ADDED","object":{"metadata":{"name":"ha')
            return hang_up(request)
        elif what == "unmarked":  # a streaming list that ends, well, before its end
            for obj in list(self.objects.values())[:1]:
                await response.write(json.dumps({"type": "ADDED", "object": obj}).encode() + b"\n")
        elif what.startswith("error"):
            error = {"kind": "Status", "code": int(what[5:]), "reason": "Fault", "message": "told to fail"}
            await response.write(json.dumps({"type": "ERROR", "object": error}).encode() + b"\n")
        else:
            await response.write(what.encode() + b"\n")
        return response


@pytest.fixture(params=[True, False], ids=["streamed", "paged"])
def collection(request: pytest.FixtureRequest) -> Collection:
    """A collection of a server that has streaming lists, and one of a server that has not."""
    return Collection(streams_lists=request.param)


@pytest.fixture
def kube() -> Any:
    """The helpers above, for tests that need them by name."""

    class Kube:
        status = staticmethod(status)
        hang_up = staticmethod(hang_up)
        serving = staticmethod(serving)
        Collection = Collection

    return Kube
