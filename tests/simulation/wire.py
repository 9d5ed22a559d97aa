"""The wire between a process and the API server: the operator's client without sockets, and with everything that can go wrong.

A request travels to the server, is handled there, and its answer travels back; each way takes time, and on each it can
be lost. What the server does is done by the server: it goes on when the client has died or sleeps.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from tests.simulation.loop import OWNER
from tests.simulation.server import HttpRequest, Server
from tutti.kube.client import JSON
from tutti.kube.errors import ApiError, NotSent, UnknownOutcome, WireError
from tutti.kube.fencing import Fence, granted
from tutti.kube.flow_control import ConcurrencyLimiter, PriorityLevel, PriorityLevels
from tutti.kube.metrics import WireMetrics
from tutti.kube.retry import Recovery
from tutti_sim.faults.rules import Refusal
from tutti_sim.faults.shell import refusal
from tutti_sim.http import lists, rendering, request
from tutti_sim.http.rendering import PLAIN
from tutti_sim.http.watches import INITIAL_END, Writer, error_line
from tutti_sim.meta.errors import expired
from tutti_sim.store.collection import Compacted

BACKLOG = 10_000
LONGEST_WAY_SECONDS = 2.0
"""Less than a leader's term leaves of its lease for the way (`LeaseTimes.way_seconds`).

A status of ours may be on its way for longer than a lease lasts where the server checks schemas, which refuse what a former
leader has written. Nothing refuses a late binding of a pod that still waits; there the lease must leave time enough.
"""
_MOMENT = 1e-6
TIMEOUT = "timeout"
"""The parameter of a request that says how many seconds the server may work on it."""


@dataclass(frozen=True)
class Sent:
    """A request of a process."""

    owner: str
    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    content_type: str

    @property
    def what(self) -> str:
        """The plural and subresource that it is about: `pods/binding`, `leases`; empty where it is about no resource."""
        parts = self.path.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        if len(rest) > 2 and rest[0] == "namespaces":
            rest = rest[2:]
        return "/".join([*rest[:1], *rest[2:3]])

    @property
    def is_write(self) -> bool:
        return self.method != "GET"


@dataclass
class Trouble:
    """What is to happen to the next requests that match, so many of them.

    `how` is `refuse` (the server answers `code` and does nothing), `spoil` (it answers `code` and has done it), `lose`
    (the request is lost on its way), `swallow` (its answer is) or `hold` (the server takes `seconds` longer, but gives up
    when it was told to). `name` is that of an object, and `owner` that of a process; empty for all.
    """

    what: str
    method: str
    how: str
    code: int = 500
    seconds: float = 0.0
    times: int = 1
    name: str = ""
    owner: str = ""

    def concerns(self, sent: Sent) -> bool:
        about = self.what in ("", sent.what) and self.method in ("", sent.method) and self.owner in ("", sent.owner)
        return self.times > 0 and about and (not self.name or f"/{self.name}/" in f"{sent.path}/")


@dataclass
class Watch:
    """An open watch: what has been sent and not read yet. An error in the queue ends it, None ends it well."""

    owner: str
    what: str
    lines: deque[bytes | WireError | None] = field(default_factory=deque)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    last: float = 0.0

    def deliver(self, *lines: bytes | WireError | None) -> None:
        self.lines.extend(lines)
        self.arrived.set()


class Network:
    """Everything between processes and the server.

    Attributes:
        latency: Draws how many seconds a message travels.
        lags: Extra seconds that changes of a kind take to reach a process, by process and plural; "" means all.
        doubled: Plurals whose changes arrive twice.
        down_until: Before this time no connection can be made.
        sending: Called when a process sends a request, before anything is done.
        handled: Called when the server has handled a request, with the code of its answer.
    """

    def __init__(self, server: Server, draw: random.Random) -> None:
        self.server = server
        self._draw = draw
        self.troubles: list[Trouble] = []
        self.lags: dict[tuple[str, str], float] = {}
        self.doubled: set[str] = set()
        self.down_until = 0.0
        self.dead: set[str] = set()
        self.slowness = 1.0
        self.sending: list[Callable[[Sent], None]] = []
        self.handled: list[Callable[[Sent, int], None]] = []
        self.watches: list[Watch] = []

    def latency(self, what: str = "") -> float:
        """Mostly milliseconds, now and then a second; so long that a lease runs out only for what is refused then."""
        base = 0.001 + 0.01 * self._draw.random()
        seconds = self.slowness * (base if self._draw.random() < 0.9 else 100 * base)
        refused = self.server.strict and what.endswith("/status") and what != "pods/status"
        return seconds if refused else min(LONGEST_WAY_SECONDS, seconds)

    def trouble_for(self, sent: Sent) -> Trouble | None:
        for one in self.troubles:
            if one.concerns(sent):
                one.times -= 1
                return one
        return None

    def is_down(self, now: float) -> bool:
        return now < self.down_until

    def drop(self, owner: str, what: str) -> None:
        """Break watches, and lose what was on its way to their readers."""
        for watch in self.watches:
            if owner in ("", watch.owner) and what in ("", watch.what):
                watch.lines.clear()
                watch.deliver(UnknownOutcome("the connection broke"))

    def lag(self, owner: str, what: str) -> float:
        pairs = ((owner, what), (owner, ""), ("", what), ("", ""))
        return max(self.lags.get(pair, 0.0) for pair in pairs)


class Wire:
    """What the operator takes for its client."""

    def __init__(self, network: Network, owner: str, metrics: WireMetrics) -> None:
        self.metrics = metrics
        self.recovery = Recovery()
        self._network = network
        self._owner = owner
        self._seconds = 30.0
        self.concurrency = 64
        self._lanes = PriorityLevels(ConcurrencyLimiter(self.concurrency))

    def counting_waiting(self, level: PriorityLevel, more: Callable[[], int]) -> AbstractContextManager[None]:
        return self._lanes.counting_waiting(level, more)

    def keep_ready(self, connections: int) -> None:
        """Nothing: nobody waits for a connection here."""

    async def write(
        self, lane: PriorityLevel, method: str, path: str, *, body: bytes, fence: Fence, content_type: str = JSON
    ) -> bytes:
        await self._lanes.enter(lane)
        try:
            return await self._ask_fenced(fence, method, path, body, content_type)
        finally:
            self._lanes.leave(lane)

    async def _ask_fenced(self, fence: Fence, method: str, path: str, body: bytes, content_type: str) -> bytes:
        seconds = min(self._seconds, await granted(fence))
        sent, clock = {TIMEOUT: str(seconds)}, asyncio.get_running_loop().time
        began = clock()
        try:
            answer = await self.request(
                method, path, query=sent, body=body, content_type=content_type, timeout_seconds=seconds
            )
        except ApiError as error:
            self._lanes.refused(error)
            raise
        self._lanes.answered(clock() - began)
        return answer

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout_seconds: float | None = None,
        bounded: bool = False,
    ) -> bytes:
        limit = {TIMEOUT: str(timeout_seconds or self._seconds)} if bounded else {}
        sent = Sent(self._owner, method, path, {**(query or {}), **limit}, body or b"", content_type)
        loop = asyncio.get_running_loop()
        self._check_connected(loop.time(), sent)
        for hook in self._network.sending:
            hook(sent)
        self._check_connected(loop.time(), sent)
        answer: asyncio.Future[bytes] = loop.create_future()
        _as_server(self._serve(sent, answer))
        try:
            async with asyncio.timeout(timeout_seconds or self._seconds):
                return await answer
        except TimeoutError:
            raise UnknownOutcome(f"{method} {path}: no answer in time") from None

    def _check_connected(self, now: float, sent: Sent) -> None:
        if self._owner in self._network.dead or self._network.is_down(now):
            raise NotSent(f"{sent.method} {sent.path}: cannot connect")

    async def _serve(self, sent: Sent, answer: asyncio.Future[bytes]) -> None:
        network = self._network
        trouble = network.trouble_for(sent)
        how = trouble.how if trouble else ""
        await asyncio.sleep(network.latency(sent.what))
        if answer.cancelled() and sent.owner not in network.dead:
            return  # whoever waited has given up and closed the connection; one that is dead or sleeps cannot do that
        if trouble is not None and how == "hold":
            most = float(sent.query.get(TIMEOUT, self._seconds))
            await asyncio.sleep(min(most, trouble.seconds))
            if trouble.seconds >= most:
                how, trouble.code = "refuse", HTTPStatus.GATEWAY_TIMEOUT
        if how == "lose":
            _fail(answer, UnknownOutcome(f"{sent.method} {sent.path}: the connection broke"))
            return
        status, body, wait = 0, b"", None
        if how != "refuse":
            status, body, wait = await self._handle(sent)
            for hook in network.handled:
                hook(sent, status)
        await asyncio.sleep(network.latency())
        if how == "swallow":
            _fail(answer, UnknownOutcome(f"{sent.method} {sent.path}: the connection broke"))
        elif how in ("refuse", "spoil"):
            assert trouble is not None
            error = refusal(Refusal(code=trouble.code))
            _fail(answer, ApiError.parse(trouble.code, rendering.encode(error.body())))
        elif status >= 300:
            _fail(answer, ApiError.parse(status, body, retry_after=wait))
        elif not answer.done():
            answer.set_result(body)

    async def _handle(self, sent: Sent) -> tuple[int, bytes, str | None]:
        http = HttpRequest(sent.method, sent.path, sent.query, sent.body, sent.content_type)
        response: Any = await self._network.server.api.handle(http)
        if isinstance(response, rendering.Answer):
            headers = dict(response._extra)
            return response.status, response._content, headers.get("Retry-After")
        return response.status, bytes(response.body or b""), response.headers.get("Retry-After")

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], idle_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        sent = Sent(self._owner, "GET", path, query, b"", JSON)
        now = asyncio.get_running_loop().time()
        self._check_connected(now, sent)
        await asyncio.sleep(self._network.latency())
        self._check_connected(asyncio.get_running_loop().time(), sent)
        watch = Watch(self._owner, sent.what)
        self._network.watches.append(watch)
        pump = _as_server(self._pump(sent, watch))
        try:
            yield self._read(watch, idle_seconds)
        finally:
            self._network.watches.remove(watch)
            pump.cancel()

    async def _read(self, watch: Watch, idle_seconds: float) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(idle_seconds):
                    await watch.arrived.wait()
            except TimeoutError:
                raise UnknownOutcome(f"watch of {watch.what}: nothing came") from None
            watch.arrived.clear()
            while watch.lines:
                line = watch.lines.popleft()
                if line is None:
                    return
                if isinstance(line, WireError):
                    raise line
                yield line

    async def _pump(self, sent: Sent, watch: Watch) -> None:
        """Send changes as the server does, each after its time on the way; their order stays."""
        network, loop = self._network, asyncio.get_running_loop()
        backend = network.server.backend
        target = request.target(sent.path.strip("/").split("/"))
        assert target is not None
        resource = backend.resource(target.group, target.version, target.plural)
        where = lists.scope(resource, target.namespace, "", sent.query)
        collection = backend.collection(resource)
        initial = "sendInitialEvents" in sent.query
        if initial and not network.server.streams_lists:
            self._later(watch, ApiError.parse(422, b""))
            return
        after = backend.store.revision if initial else int(sent.query.get("resourceVersion") or 0)
        try:
            feed = collection.subscribe(
                namespace=where.namespace, predicate=where.predicate, after=after, limit=BACKLOG
            )
        except Compacted as error:
            self._later(watch, error_line(expired(str(error))), None)
            return
        writer = Writer(resource, PLAIN, "Metadata")
        end = loop.time() + float(sent.query["timeoutSeconds"])
        if initial:
            found = [
                one for one in collection.scan(where.namespace) if where.predicate is None or where.predicate(one.obj)
            ]
            self._later(watch, *(writer.line("ADDED", one) for one in found), writer.bookmark(after, INITIAL_END))
        try:
            while not feed.closed and loop.time() < end:
                try:
                    async with asyncio.timeout_at(end):
                        await feed.wait()
                except TimeoutError:
                    self._later(watch, writer.bookmark(feed.seen))
                notices = feed.take()
                for notice in notices:
                    line = writer.line(str(notice.change), notice.version)
                    self._later(watch, *([line] * (2 if watch.what in network.doubled else 1)))
            self._later(watch, None)
        finally:
            collection.unsubscribe(feed)

    def _later(self, watch: Watch, *lines: bytes | WireError | None) -> None:
        """Have lines arrive after their time on the way, and after those before them."""
        loop, network = asyncio.get_running_loop(), self._network
        arrives = loop.time() + network.latency() + network.lag(watch.owner, watch.what)
        watch.last = max(watch.last + _MOMENT, arrives)
        loop.call_at(watch.last, watch.deliver, *lines)


def _fail(answer: asyncio.Future[bytes], error: WireError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # whoever waited may be gone


def _as_server(work: Any) -> asyncio.Task[None]:
    """Run something as the server, whoever asked for it."""
    context = contextvars.copy_context()
    context.run(OWNER.set, "")
    return asyncio.get_running_loop().create_task(work, context=context)
