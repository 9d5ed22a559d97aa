"""Kept connections to one API server: the one used last is used next, and those that idle too long are closed.

To open one takes both sides as much processor time as a few bindings. So where many requests come at once, a few
connections are opened at a time, and who waits takes whichever is free first, a new one or one that has answered.
And for who comes after a quiet time some are kept open ahead, where that was asked for.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final
from urllib.parse import urlsplit

import msgspec

from tutti.kube.credentials import Access
from tutti.kube.http1 import Connection, CutOff, Deadlines, Response

_IDLE_SECONDS: Final = 60.0  # kube-apiserver closes them after 90
_CONNECT_SECONDS: Final = 10.0
_OPENED_AT_ONCE: Final = 2
_REPEATABLE: Final = frozenset({"GET", "PUT", "DELETE"})
_TARGET: Final = re.compile(r"/[!-~]*")
_FIELD: Final = re.compile(r"[ -~]*")


class CannotConnect(Exception):  # noqa: N818 - it says what has happened
    """There is no connection: the server has seen nothing of the request. The cause is what stood against it."""


class Request(msgspec.Struct, frozen=True):
    """A request as often as it is sent; `target` is its path with the query, both encoded.

    The server of a `bounded` one is told to give up when its seconds are over; they begin when it is to be sent, not
    when there is a connection.
    """

    method: str
    target: str
    body: bytes | None = None
    content_type: str = ""
    within_seconds: float = 30.0
    bounded: bool = False

    def __post_init__(self) -> None:
        """Refuse what would end a line of the request, and what nobody could wait for.

        Raises:
            ValueError: The target has other characters than an encoded path and query, or the time has no end.
        """
        if not self.within_seconds < inf:
            raise ValueError(f"a request of {self.within_seconds} s has no end")
        if not _TARGET.fullmatch(self.target):
            raise ValueError(f"{self.target!r} is no encoded path")

    def target_with(self, seconds: float) -> str:
        """Return the target as it is sent when so many seconds are left; zero would leave the time to the server."""
        if not self.bounded:
            return self.target
        return f"{self.target}{'&' if '?' in self.target else '?'}timeout={max(1, round(1000 * seconds))}ms"


@dataclass(frozen=True, slots=True)
class _Peer:
    """Whom connections lead to, and as whom: what another connection must have in common to be used instead."""

    server: str
    server_hostname: str | None
    ca_path: str | None
    certificate_path: str | None
    private_key_path: str | None


@dataclass(frozen=True, slots=True)
class _Route:
    """What of an access every request needs."""

    access: Access
    peer: _Peer
    host: str
    port: int
    prefix: str
    tls: ssl.SSLContext | None
    fields: str

    def message(self, request: Request, seconds: float) -> bytes:
        """Return the request as it is written when so many seconds are left for it."""
        head = f"{request.method} {self.prefix}{request.target_with(seconds)} HTTP/1.1\r\n{self.fields}"
        body = request.body
        if body is None:
            return f"{head}\r\n".encode("ascii")
        kind = f"Content-Type: {request.content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        return f"{head}{kind}".encode("ascii") + body


class Connections:
    """Sends requests, each on a connection of its own for as long as it is under way; for one loop."""

    def __init__(self, *, headers: Mapping[str, str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines()
        self._headers = headers
        self._idle: deque[tuple[Connection, float]] = deque()
        self._wanted: deque[asyncio.Future[Connection]] = deque()  # of requests that none is free for, oldest first
        self._opening: set[asyncio.Task[None]] = set()
        self._ready = 0  # of how many that idle fewer are not kept
        self._filling: asyncio.Task[None] | None = None  # opens those that nobody waits for
        self._route: _Route | None = None
        self._sweep: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Close what is idle; connections in use are closed by whoever uses them, and who waits for one has none."""
        self._route = None
        if self._filling is not None:
            self._filling.cancel()
            self._filling = None
        while (wanted := self._oldest_wanted()) is not None:
            wanted.set_exception(CannotConnect("connections were closed before there was one"))
        self._deadlines.rest()
        while self._idle:
            self._idle.pop()[0].close()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def keep_ready(self, count: int) -> None:
        """Keep so many connections open from now on, also while nothing is sent.

        What comes after a quiet time, as the binds of a gang do, would else wait until connections are opened one after
        the other. They are opened as soon as it is known where to, and anew when they have idled for too long.
        """
        self._ready = count
        if self._route is not None:
            self._open_ahead(self._route)

    async def send(self, access: Access, request: Request) -> Response:
        """Send a request and return its whole answer.

        One that may be repeated (GET, PUT, DELETE; never POST or PATCH) and dies unheard on a kept connection is sent
        once more on a new one: the server had closed that connection at the same moment.

        Raises:
            CannotConnect: There was no connection.
            CutOff: The connection broke, or the time ran out, after sending.
            ValueError: The access has no address, or headers that are none.
        """
        route = self._route
        if route is None or route.access is not access:
            route = self._route_to(access)
        now, seconds = self._loop.time(), request.within_seconds
        until = now + seconds
        connection = self._kept(now)
        while connection is None or not connection.usable:  # one may be closed in the moment in which it is given away
            connection = await self._next(route, until)
            route = self._route or route  # a request goes out with what is known by then
            seconds = until - self._loop.time()
        while True:
            try:
                answer = await connection.exchange(route.message(request, seconds), within_seconds=seconds)
            except CutOff as cut:
                connection.close()
                repeatable = cut.silent and connection.used and request.method in _REPEATABLE
                if not repeatable or self._loop.time() >= until:
                    raise
                connection = await self._instead(route, until, cut)
                seconds = until - self._loop.time()
            except BaseException:
                connection.close()  # the request was given up: its answer may still come
                raise
            else:
                self._put_back(connection, route)
                return answer

    async def _next(self, route: _Route, until: float) -> Connection:
        """Return the connection that is free first, one that has answered or a new one.

        Raises:
            CannotConnect: There was none in time, or the one opened for this request could not be.
        """
        wanted: asyncio.Future[Connection] = self._loop.create_future()
        self._wanted.append(wanted)
        self._open_more(route)
        late = self._loop.call_at(min(until, self._loop.time() + _CONNECT_SECONDS), _give_up, wanted, route)
        try:
            return await wanted
        except asyncio.CancelledError:
            if not wanted.cancelled() and wanted.exception() is None:
                self._put_back(wanted.result(), route)  # it came together with the cancellation
            raise
        finally:
            late.cancel()

    def _open_more(self, route: _Route) -> None:
        """Open connections for those who wait, a few at a time."""
        while len(self._opening) < min(_OPENED_AT_ONCE, len(self._wanted)):
            opening = self._loop.create_task(self._open(route), name="opening a connection")
            self._opening.add(opening)
            opening.add_done_callback(self._opened)

    def _open_ahead(self, route: _Route) -> None:
        """Open what there is too little of, and look again when what there is has idled for long."""
        missing = self._ready - sum(connection.usable for connection, _ in self._idle)
        if missing > 0 and self._filling is None:
            self._filling = self._loop.create_task(self._fill(route, missing), name="opening connections ahead")
            self._filling.add_done_callback(self._filled)
        if self._ready and self._sweep is None:
            self._sweep = self._loop.call_later(_IDLE_SECONDS, self._close_old)

    async def _fill(self, route: _Route, missing: int) -> None:
        """Open so many, one after the other, in nobody's way; whoever waits by then takes them."""
        for _ in range(missing):
            try:
                connection = await self._connect(route, self._loop.time() + _CONNECT_SECONDS)
            except Exception:  # noqa: BLE001 - whoever needs one is told why there is none; it is tried again later
                return
            self._put_back(connection, route)

    def _filled(self, filling: asyncio.Task[None]) -> None:
        if self._filling is filling:
            self._filling = None

    def _opened(self, opening: asyncio.Task[None]) -> None:
        """Go on with the next where more are waited for."""
        self._opening.discard(opening)
        if self._route is not None and not opening.cancelled():
            self._open_more(self._route)

    async def _open(self, route: _Route) -> None:
        """Open a connection for whoever waits for the longest time."""
        try:
            connection = await self._connect(route, self._loop.time() + _CONNECT_SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits is told, and nobody tries for ever
            wanted = self._oldest_wanted()
            if wanted is not None:
                wanted.set_exception(error)
        else:
            self._put_back(connection, route)

    def _oldest_wanted(self) -> asyncio.Future[Connection] | None:
        """Take whoever waits for the longest time, if anybody does."""
        while self._wanted:
            wanted = self._wanted.popleft()
            if not wanted.done():
                return wanted
        return None

    def _put_back(self, connection: Connection, route: _Route) -> None:
        """Give a connection to whoever waits, or keep it, where it can be used again."""
        current = self._route
        if not connection.usable or current is None or (current is not route and current.peer != route.peer):
            connection.close()
            return
        wanted = self._oldest_wanted()
        if wanted is not None:
            wanted.set_result(connection)
            return
        self._idle.append((connection, self._loop.time()))
        if self._sweep is None:
            self._sweep = self._loop.call_later(_IDLE_SECONDS, self._close_old)

    def _route_to(self, access: Access) -> _Route:
        """Return the way to the server; connections of another peer are closed."""
        following = _route(access, self._headers)
        if self._route is not None and self._route.peer != following.peer:
            self.close()
        is_new = self._route is None
        self._route = following
        if is_new and self._ready:
            self._open_ahead(following)
        return following

    def _kept(self, now: float) -> Connection | None:
        """Take the connection used last, if it can still be used."""
        oldest, closed = now - _IDLE_SECONDS, False
        kept = None
        while kept is None and self._idle:
            connection, since = self._idle.pop()
            if connection.usable and since > oldest:
                kept = connection
            else:
                connection.close()
                closed = True
        if closed and self._route is not None:
            self._open_ahead(self._route)  # the server has closed them, and maybe all
        return kept

    def _close_old(self) -> None:
        """Close what nobody has used for long, and look again when the next may be."""
        self._sweep = None
        loop = self._loop
        while self._idle and self._idle[0][1] + _IDLE_SECONDS <= loop.time():
            self._idle.popleft()[0].close()
        if self._idle:
            self._sweep = loop.call_at(self._idle[0][1] + _IDLE_SECONDS, self._close_old)
        if self._ready and self._route is not None:
            self._open_ahead(self._route)

    async def _connect(self, route: _Route, until: float) -> Connection:
        """Open a connection before that time of the loop.

        Raises:
            CannotConnect: It could not be opened.
        """
        hostname = (route.access.server_hostname or route.host) if route.tls else None
        loop = self._loop
        try:
            async with asyncio.timeout_at(min(until, loop.time() + _CONNECT_SECONDS)):
                _, connection = await loop.create_connection(
                    self._new, route.host, route.port, ssl=route.tls, server_hostname=hostname
                )
        except TimeoutError as error:
            raise CannotConnect(f"{route.host}:{route.port}: no connection in time") from error
        except OSError as error:
            raise CannotConnect(f"{route.host}:{route.port}: {error}") from error
        if not connection.usable or loop.time() >= until:
            connection.close()
            raise CannotConnect(f"{route.host}:{route.port}: there was a connection, but not for long enough")
        return connection

    def _new(self) -> Connection:
        return Connection(self._deadlines)

    async def _instead(self, route: _Route, until: float, cut: CutOff) -> Connection:
        """Open a connection instead of one that was cut off.

        Raises:
            CutOff: It could not be opened; the first may have been heard.
        """
        try:
            return await self._connect(route, until)
        except CannotConnect as error:
            raise CutOff(f"{cut}; then: {error}", silent=True) from error


def _give_up(wanted: asyncio.Future[Connection], route: _Route) -> None:
    """Have a request end for which there was no connection in time."""
    if not wanted.done():
        wanted.set_exception(CannotConnect(f"{route.host}:{route.port}: no connection in time"))


def _route(access: Access, headers: Mapping[str, str]) -> _Route:
    """Work out what requests by this access have in common.

    Raises:
        ValueError: The server's address or a header is not one.
    """
    url = urlsplit(access.server)
    if not url.hostname or url.scheme not in ("http", "https"):
        raise ValueError(f"{access.server!r} is no address of a server: it must be http(s)://host[:port][/path]")
    secure = url.scheme == "https"
    peer = _Peer(
        access.server, access.server_hostname, access.ca_path, access.certificate_path, access.private_key_path
    )
    fields = {"Host": url.netloc.rpartition("@")[2], **headers, **access.headers}
    for name, value in fields.items():
        if not _FIELD.fullmatch(f"{name}{value}"):
            raise ValueError(f"the header {name} has characters that no header can have")
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return _Route(
        access,
        peer,
        url.hostname,
        url.port or (443 if secure else 80),
        url.path.rstrip("/"),
        _tls(access) if secure else None,
        lines,
    )


def _tls(access: Access) -> ssl.SSLContext:
    """Return how the server's certificate is checked."""
    if isinstance(access.ssl, ssl.SSLContext):
        return access.ssl
    context = ssl.create_default_context()
    if not access.ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
