"""A thin client: bytes in, bytes out, on one HTTP session.

No models and no hidden retries: what is safe to repeat, and what an error means, only the caller knows. The exceptions
are a 401, after which the credentials are read again and the request is sent once more, for it was refused unseen, and
an idempotent method (GET, PUT, DELETE; never POST or PATCH) that dies on a kept connection, which aiohttp sends again.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Self, TypeAlias

import aiohttp
import structlog
from prometheus_client import Counter
from yarl import URL

from tutti import __version__
from tutti.kube.credentials import Access, Credentials, CredentialsError
from tutti.kube.errors import ApiError, NotSent, UnknownOutcome
from tutti.kube.fencing import Fence
from tutti.kube.lanes import Lane, Lanes
from tutti.kube.metrics import WireMetrics
from tutti.kube.pace import Pace

log = structlog.get_logger(__name__)

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

_READ_BUFFER_BYTES: Final = 1 << 18
_IDLE_CONNECTION_SECONDS: Final = 60
_CONNECT_SECONDS: Final = 10
# A peer that vanished without a word is noticed within about a minute, long before a watch would be missed.
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))

Query: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Call:
    """One request, as often as it is sent."""

    method: str
    path: str
    query: Query | None
    body: bytes | None
    content_type: str
    total_seconds: float | None
    idle_seconds: float | None

    @property
    def timeout(self) -> aiohttp.ClientTimeout:
        """How long it may take, and how long it may say nothing."""
        return aiohttp.ClientTimeout(
            total=self.total_seconds, sock_connect=_CONNECT_SECONDS, sock_read=self.idle_seconds
        )


class Client:
    """Talks to one API server; to be used as an async context manager, in one loop.

    At most `concurrency` writes are under way at once, and fewer where the server shows that it is busy.
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
        self._lanes = Lanes(Pace(concurrency))
        self.metrics.follow(self._lanes)
        self._timeout_seconds = timeout_seconds
        self._user_agent = user_agent
        self._opened: aiohttp.ClientSession | None = None
        self._counters: dict[tuple[str, str], Counter] = {}

    async def __aenter__(self) -> Self:
        # Lanes bound what is written at once, so the pool does not; compression would cost more CPU than it saves
        # within a cluster's network.
        self._opened = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_CONNECTION_SECONDS),
            headers={"User-Agent": self._user_agent, "Accept": JSON, "Accept-Encoding": "identity"},
            read_bufsize=_READ_BUFFER_BYTES,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        self._opened = None

    @property
    def _session(self) -> aiohttp.ClientSession:
        """The open session."""
        if self._opened is None:
            raise RuntimeError("the client is not open: use it within `async with`")
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
    ) -> bytes:
        """Send one request and return the body of its answer.

        Raises:
            ApiError: The server refused or failed.
            NotSent: There was no connection.
            UnknownOutcome: The connection broke or the time ran out after sending.
        """
        total = timeout_seconds or self._timeout_seconds
        call = _Call(method, path, query, body, content_type, total_seconds=total, idle_seconds=None)
        response = await self._answer(call)
        async with response:
            with self._translating(call):
                return await response.read()

    async def write(
        self, lane: Lane, method: str, path: str, *, body: bytes, fence: Fence, content_type: str = JSON
    ) -> bytes:
        """Send a write when it is its turn and the fence still allows it, and return the body of the answer.

        The server is told to give up when the fence says that somebody else may act (kube-apiserver 1.36,
        endpoints/filters/request_deadline.go: `timeout` is the most that it works on a request).

        Raises:
            LeadershipLost: The fence does not allow it; nothing was sent.
            ApiError: The server refused or failed.
            NotSent: There was no connection.
            UnknownOutcome: The connection broke or the time ran out after sending.
        """

        async def send() -> bytes:
            seconds = min(self._timeout_seconds, fence())
            query = {"timeout": f"{1000 * seconds:.0f}ms"}
            return await self.request(
                method, path, query=query, body=body, content_type=content_type, timeout_seconds=seconds
            )

        return await self._lanes.take(lane, send)

    @asynccontextmanager
    async def stream(self, path: str, *, query: Query, idle_seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a GET that goes on, and give its body in chunks as they arrive.

        Raises:
            ApiError: The server refused.
            NotSent: There was no connection.
            UnknownOutcome: The connection broke, or nothing came for `idle_seconds`.
        """
        call = _Call("GET", path, query, None, JSON, total_seconds=None, idle_seconds=idle_seconds)
        response = await self._answer(call)
        async with response:
            _keep_alive(response)
            yield self._chunks(call, response)

    async def _chunks(self, call: _Call, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Give what has arrived, as it arrives."""
        while True:
            with self._translating(call):
                chunk = await response.content.readany()
            if not chunk:
                return
            yield chunk

    async def _answer(self, call: _Call) -> aiohttp.ClientResponse:
        """Return a successful answer; one 401 is met with credentials read anew."""
        access = await self.credentials.access()
        try:
            return await self._send(access, call)
        except ApiError as error:
            if error.status != HTTPStatus.UNAUTHORIZED:
                raise
            access = await self._renewed(error)
        except NotSent as error:
            # A client certificate that ran out, or a rotated authority, shows as a failed handshake.
            if not isinstance(error.__cause__, aiohttp.ClientSSLError):
                raise
            access = await self._renewed(error)
        return await self._send(access, call)

    async def _renewed(self, refusal: ApiError | NotSent) -> Access:
        """Return freshly read credentials, or raise the refusal where there are none."""
        log.info("credentials_refused", source=self.credentials.source, error=str(refusal))
        try:
            return await self.credentials.refresh()
        except CredentialsError as error:
            log.warning("credentials_not_reread", source=self.credentials.source, error=str(error))
            raise refusal from error

    async def _send(self, access: Access, call: _Call) -> aiohttp.ClientResponse:
        """Send a request once and return its answer, still open."""
        headers = dict(access.headers)
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        url = URL(access.server + call.path, encoded=True)
        if call.query:
            url = url.with_query(call.query)
        with self._translating(call):
            response = await self._session.request(
                call.method,
                url,
                data=call.body,
                headers=headers,
                timeout=call.timeout,
                ssl=access.ssl,
                server_hostname=access.server_hostname,
                proxy=access.proxy,
                allow_redirects=False,
            )
            self._count(call.method, str(response.status))
            if response.status < HTTPStatus.MULTIPLE_CHOICES:
                return response
            async with response:
                wait = response.headers.get("Retry-After")
                raise ApiError.parse(response.status, await _read_refusal(response), retry_after=wait)

    def _count(self, method: str, code: str) -> None:
        """Count a request; looking labels up each time would cost more than the counting."""
        counter = self._counters.get((method, code))
        if counter is None:
            counter = self._counters[method, code] = self.metrics.requests.labels(method, code)
        counter.inc()

    @contextmanager
    def _translating(self, call: _Call) -> Iterator[None]:
        """Turn the transport's failures into ours."""
        try:
            yield
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            self._count(call.method, "not_sent")
            raise NotSent(f"{call.method} {call.path}: cannot connect: {_reason(error)}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._count(call.method, "unknown")
            what = str(error) or type(error).__name__
            raise UnknownOutcome(f"{call.method} {call.path}: no answer: {what}") from error


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


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    """Have the kernel probe an idle connection."""
    transport = response.connection.transport if response.connection else None
    connected = transport.get_extra_info("socket") if transport else None
    if connected is None:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in _KEEPALIVE:
        if hasattr(socket, option):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
