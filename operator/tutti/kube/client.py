"""A thin client: bytes in, bytes out.

No models and no hidden retries: what is safe to repeat, and what an error means, only the caller knows. The exceptions
are a 401, after which the credentials are read again and the request is sent once more, for it was refused unseen, and
an idempotent method (GET, PUT, DELETE; never POST or PATCH) that dies on a kept connection.

Whole answers come over connections of our own (`connections.py`). Streams, and everything that has to go through a
proxy, use aiohttp.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import Concatenate, Final, ParamSpec, Self, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import structlog
from yarl import URL

from tutti import __version__
from tutti.kube.connections import CannotConnect, Connections, Request
from tutti.kube.counter import Series
from tutti.kube.credentials import Access, Credentials, CredentialsError
from tutti.kube.errors import ApiError, NotSent, UnknownOutcome
from tutti.kube.fencing import Confirm, Fence, LeadershipDoubted, granted
from tutti.kube.flow_control import ConcurrencyLimiter, PriorityLevel, PriorityLevels
from tutti.kube.http1 import REFUSED, CutOff, probe
from tutti.kube.metrics import WireMetrics
from tutti.kube.retry import Recovery

log = structlog.get_logger(__name__)
P = ParamSpec("P")
R = TypeVar("R")

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

_READ_BUFFER_BYTES: Final = 1 << 18
_IDLE_CONNECTION_SECONDS: Final = 60
_CONNECT_SECONDS: Final = 10

_NOT_OPEN: Final = "the client is not open: use it within `async with`"

Query: TypeAlias = Mapping[str, str]


class Client:
    """Talks to one API server; to be made and used, as an async context manager, in one loop.

    At most `concurrency` writes are under way at once, and fewer where the server shows that it is busy.

    Attributes:
        recovery: Where those who use it tell each other that the server is back.
        concurrency: Writes that may be under way at most.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        metrics: WireMetrics | None = None,
        timeout_seconds: float = 30.0,
        concurrency: int = 64,
        user_agent: str = f"tutti/{__version__}",
    ) -> None:
        self.credentials = credentials
        self.metrics = metrics or WireMetrics()
        self.recovery = Recovery()
        self.concurrency = concurrency
        self._clock = asyncio.get_running_loop().time
        self._levels = PriorityLevels(ConcurrencyLimiter(concurrency))
        self.metrics.follow(self._levels)
        self._timeout_seconds = timeout_seconds
        # Compression would cost more CPU than it saves within a cluster's network.
        self._headers = {"User-Agent": user_agent, "Accept": JSON, "Accept-Encoding": "identity"}
        self._connections = Connections(headers=self._headers)
        self._opened: aiohttp.ClientSession | None = None
        self._counters: dict[tuple[str, str | int], Series] = {}
        self._refused = False  # whether credentials were refused, and nothing has been answered since

    async def __aenter__(self) -> Self:
        # Priority levels bound what is written at once, so no pool of connections does.
        self._opened = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_CONNECTION_SECONDS),
            headers=self._headers,
            read_bufsize=_READ_BUFFER_BYTES,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        self._connections.close()
        self._opened = None

    def counting_waiting(self, level: PriorityLevel, more: Callable[[], int]) -> AbstractContextManager[None]:
        """Count as waiting, meanwhile, what stands in a line of somebody who asks for turns one after another."""
        return self._levels.counting_waiting(level, more)

    def keep_ready(self, connections: int) -> None:
        """Keep so many connections open from now on, for what is written after a quiet time."""
        self._connections.keep_ready(connections)

    @property
    def _session(self) -> aiohttp.ClientSession:
        """The open session."""
        if self._opened is None:
            raise RuntimeError(_NOT_OPEN)
        return self._opened

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout_seconds: float | None = None,
        bounded: bool = False,
    ) -> bytes:
        """Send one request and return the body of its answer.

        The server of a `bounded` one is told to give up when nobody waits for it any longer.

        Raises:
            ApiError: The server refused or failed.
            NotSent: There was no connection.
            UnknownOutcome: The connection broke or the time ran out after sending.
        """
        target = f"{path}?{urlencode(query, quote_via=quote)}" if query else path
        seconds = timeout_seconds or self._timeout_seconds
        return await self._authorized(self._ask, Request(method, target, body, content_type, seconds, bounded=bounded))

    async def write(
        self,
        level: PriorityLevel,
        method: str,
        path: str,
        *,
        body: bytes,
        fence: Fence,
        confirm: Confirm | None = None,
        content_type: str = JSON,
    ) -> bytes:
        """Send a write when it is its turn and the fence still allows it, and return the body of the answer.

        The server is told to give up when the fence says that somebody else may act (kube-apiserver 1.36,
        endpoints/filters/request_deadline.go: `timeout` is the most that it works on a request). The fence is asked
        when the credentials are there, for a plugin may take its time; before that the server is, where there is
        something to `confirm`.

        Raises:
            LeadershipLost: The fence does not allow it; nothing was sent.
            ApiError: The server refused or failed.
            NotSent: There was no connection.
            UnknownOutcome: The connection broke or the time ran out after sending.
        """
        levels, renewed = self._levels, False
        await levels.enter(level)
        try:
            access = self.credentials.held or await self.credentials.access()
            while True:
                if confirm is not None:
                    await confirm()
                try:
                    seconds = fence()
                except LeadershipDoubted:
                    seconds = await granted(fence)
                request = Request(method, path, body, content_type, min(self._timeout_seconds, seconds), bounded=True)
                sent = self._clock()
                try:
                    answer = await self._ask(access, request)
                except (ApiError, NotSent) as error:
                    if isinstance(error, ApiError):
                        levels.refused(error)
                    if renewed:
                        raise
                    access, renewed = await self._renewed(access, error), True
                else:
                    if self._refused:
                        self._accept(access)
                    levels.answered(self._clock() - sent)
                    return answer
        finally:
            levels.leave(level)

    @asynccontextmanager
    async def stream(self, path: str, *, query: Query, idle_seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a GET that goes on, and give its body in chunks as they arrive.

        Raises:
            ApiError: The server refused.
            NotSent: There was no connection.
            UnknownOutcome: The connection broke, or nothing came for `idle_seconds`.
        """
        request = Request("GET", f"{path}?{urlencode(query, quote_via=quote)}")
        limits = aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=idle_seconds)
        response = await self._authorized(self._open, request, limits)
        async with response:
            if response.connection is not None and response.connection.transport is not None:
                probe(response.connection.transport)
            yield self._chunks(request, response)

    async def _chunks(self, request: Request, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Give what has arrived, as it arrives."""
        while True:
            with self._translating(request):
                chunk = await response.content.readany()
            if not chunk:
                return
            yield chunk

    async def _authorized(
        self, send: Callable[Concatenate[Access, P], Awaitable[R]], *args: P.args, **options: P.kwargs
    ) -> R:
        """Return what `send` returns, called with the access and these; one 401 is met with credentials read anew."""
        access = self.credentials.held or await self.credentials.access()
        try:
            answer = await send(access, *args, **options)
        except (ApiError, NotSent) as error:
            access = await self._renewed(access, error)
            answer = await send(access, *args, **options)
        if self._refused:
            self._accept(access)
        return answer

    def _accept(self, access: Access) -> None:
        """Note that credentials are taken again, where these are not what another request was refused with."""
        if self.credentials.hands_out(access):
            self._refused = False
            log.info("credentials_accepted", source=self.credentials.source)

    async def _renewed(self, access: Access, refusal: ApiError | NotSent) -> Access:
        """Return freshly read credentials, or raise the refusal where there are none or it is not for want of them."""
        if isinstance(refusal, ApiError):
            wanting = refusal.status == HTTPStatus.UNAUTHORIZED
        else:
            # A client certificate that ran out, or a rotated authority, shows as a failed handshake.
            wanting = isinstance(refusal.__cause__, (aiohttp.ClientSSLError, ssl.SSLError))
        if not wanting:
            raise refusal
        is_first = not self._refused and self.credentials.hands_out(access)  # else it is known, or was renewed since
        self._refused = self._refused or is_first
        source = self.credentials.source
        if is_first:
            log.info("credentials_refused", source=source, error=str(refusal))
        self._connections.close()  # a connection speaks for the certificate it was opened with
        try:
            return await self.credentials.refresh()
        except CredentialsError as error:
            if is_first:
                log.warning("credentials_not_reread", source=source, error=str(error))
            raise refusal from error

    async def _ask(self, access: Access, request: Request) -> bytes:
        """Send a request and return the body of a successful answer."""
        if self._opened is None:
            raise RuntimeError(_NOT_OPEN)
        if access.proxy is not None:
            return await self._ask_through_proxy(access, request)
        try:
            answer = await self._connections.send(access, request)
        except CannotConnect as error:
            self._count(request.method, "not_sent")
            raise NotSent(f"{_said(request)}: cannot connect: {error}") from error.__cause__
        except CutOff as error:
            self._count(request.method, "unknown")
            raise UnknownOutcome(f"{_said(request)}: no answer: {error}") from error
        self._count(request.method, answer.status)
        if answer.status >= REFUSED:
            raise ApiError.parse(answer.status, answer.body, retry_after=answer.retry_after)
        return answer.body

    async def _ask_through_proxy(self, access: Access, request: Request) -> bytes:
        """Send a request by aiohttp."""
        limits = aiohttp.ClientTimeout(total=request.within_seconds, sock_connect=_CONNECT_SECONDS)
        response = await self._open(access, request, limits)
        async with response:
            with self._translating(request):
                return await response.read()

    async def _open(self, access: Access, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """Send a request by aiohttp and return its successful answer, still open."""
        headers = dict(access.headers)
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        with self._translating(request):
            response = await self._session.request(
                request.method,
                URL(access.server + request.target_with(request.within_seconds), encoded=True),
                data=request.body,
                headers=headers,
                timeout=limits,
                ssl=access.ssl,
                server_hostname=access.server_hostname,
                proxy=access.proxy,
                allow_redirects=False,
            )
            self._count(request.method, response.status)
            if response.status < REFUSED:
                return response
            async with response:
                wait = response.headers.get("Retry-After")
                raise ApiError.parse(response.status, await _read_refusal(response), retry_after=wait)

    def _count(self, method: str, code: str | int) -> None:
        """Count a request; looking labels up each time would cost more than the counting."""
        counter = self._counters.get((method, code))
        if counter is None:
            counter = self._counters[method, code] = self.metrics.requests.labels(method, str(code))
        counter.inc()

    @contextmanager
    def _translating(self, request: Request) -> Iterator[None]:
        """Turn aiohttp's failures into ours."""
        try:
            yield
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            self._count(request.method, "not_sent")
            raise NotSent(f"{_said(request)}: cannot connect: {_reason(error)}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._count(request.method, "unknown")
            what = str(error) or type(error).__name__
            raise UnknownOutcome(f"{_said(request)}: no answer: {what}") from error


def _said(request: Request) -> str:
    """Return the request as people are told of it: without its query."""
    return f"{request.method} {request.target.partition('?')[0]}"


def _reason(error: aiohttp.ClientError) -> str:
    """Return why there was no connection; aiohttp's own text shows the address of an SSL context in memory."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"{error.host}:{error.port}: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.host}:{error.port}: {error.os_error}"
    return str(error)


async def _read_refusal(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of a refusal; the status alone is definite, so a body cut short does not make it unknown."""
    try:
        return await response.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return f"no message: {error!r}".encode()
