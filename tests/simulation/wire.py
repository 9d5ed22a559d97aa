"""The wire between a process and the API server: the operator's client without sockets, and with everything that can go wrong.

A request travels to the server, is handled there, and its answer travels back; each way takes time, and on each it can
be lost. What the server does is done by the server: it goes on when the client has died or sleeps.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from http import HTTPStatus
from typing import Any

from tests.simulation.loop import OWNER
from tests.simulation.network import WATCH, Network, Sent, Trouble, Watch
from tests.simulation.server import HttpRequest
from tests.simulation.watches import pump
from tutti.kube.client import JSON
from tutti.kube.errors import ApiError, NotSent, UnknownOutcome, WireError
from tutti.kube.fencing import Confirm, Fence, granted
from tutti.kube.flow_control import ConcurrencyLimiter, PriorityLevel, PriorityLevels
from tutti.kube.metrics import WireMetrics
from tutti.kube.retry import Recovery
from tutti_sim.faults.rules import Refusal
from tutti_sim.faults.shell import refusal
from tutti_sim.http import rendering
from tutti_sim.meta.errors import unauthorized

TIMEOUT = "timeout"
"""The parameter of a request that says how many seconds the server may work on it."""


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
        self,
        lane: PriorityLevel,
        method: str,
        path: str,
        *,
        body: bytes,
        fence: Fence,
        confirm: Confirm | None = None,
        content_type: str = JSON,
    ) -> bytes:
        await self._lanes.enter(lane)
        try:
            if confirm is not None:
                await confirm()
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
        how, breaks = trouble.how if trouble else "", network.breaks
        await asyncio.sleep(network.latency(sent.what))
        if answer.cancelled() and sent.owner not in network.dead:
            return  # whoever waited has given up and closed the connection; one that is dead or sleeps cannot do that
        if how in ("lose", "late"):
            _fail(answer, UnknownOutcome(f"{sent.method} {sent.path}: the connection broke"))
        if trouble is not None and how in ("hold", "late"):
            most = float(sent.query.get(TIMEOUT, self._seconds))
            await asyncio.sleep(min(most, trouble.seconds))
            if trouble.seconds >= most:
                how, trouble.code = "refuse", HTTPStatus.GATEWAY_TIMEOUT
        if how == "lose" or network.breaks != breaks:
            _fail(answer, UnknownOutcome(f"{sent.method} {sent.path}: the connection broke"))
            return
        status, body, wait = 0, b"", None
        if how != "refuse":
            status, body, wait = await self._handle(sent)
            for hook in network.handled:
                hook(sent, status)
        await asyncio.sleep(network.latency())
        if how == "swallow" or network.breaks != breaks:
            _fail(answer, UnknownOutcome(f"{sent.method} {sent.path}: the connection broke"))
        elif how in ("refuse", "spoil"):
            assert trouble is not None
            _fail(answer, _refused(trouble))
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
        sent = Sent(self._owner, WATCH, path, query, b"", JSON)
        now = asyncio.get_running_loop().time()
        self._check_connected(now, sent)
        await asyncio.sleep(self._network.latency())
        await self._check_opened(sent)
        self._check_connected(asyncio.get_running_loop().time(), sent)
        watch = Watch(self._owner, sent.what)
        self._network.watches.append(watch)
        pumping = _as_server(pump(self._network, sent, watch))
        try:
            yield self._read(watch, idle_seconds)
        finally:
            self._network.watches.remove(watch)
            pumping.cancel()

    async def _check_opened(self, sent: Sent) -> None:
        """Fail as something is wrong with a watch that is being opened, if anything is."""
        trouble = self._network.trouble_for(sent)
        if trouble is None:
            return
        if trouble.how == "hold":
            await asyncio.sleep(trouble.seconds)
        elif trouble.how in ("refuse", "spoil"):
            raise _refused(trouble)
        else:
            raise UnknownOutcome(f"watch of {sent.what}: the connection broke")

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


def _refused(trouble: Trouble) -> ApiError:
    """What the server answers that refuses something."""
    wait = trouble.retry_after
    error = unauthorized() if trouble.code == 401 else refusal(Refusal(code=trouble.code, retry_after_seconds=wait))
    said = None if wait is None else str(wait)
    return ApiError.parse(trouble.code, rendering.encode(error.body()), retry_after=said)


def _fail(answer: asyncio.Future[bytes], error: WireError) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # whoever waited may be gone


def _as_server(work: Any) -> asyncio.Task[None]:
    """Run something as the server, whoever asked for it."""
    context = contextvars.copy_context()
    context.run(OWNER.set, "")
    return asyncio.get_running_loop().create_task(work, context=context)
