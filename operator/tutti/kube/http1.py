"""One kept connection of HTTP/1.1: a request is written, its whole answer is read, and the next may follow.

A general client pays for what an API server's client never uses: cookies, redirects, compression, multipart bodies,
streams of either side. What is left is a few microseconds around a parser in C. A timer for each request would cost as
much as the request's own head, and nearly none of them ever goes off: of waits that begin one after the other and may
last about as long the first ends first, so that its timer serves for all of them.
"""

from __future__ import annotations

import asyncio
import socket
from http import HTTPStatus
from typing import Final, Protocol, cast

import httptools
import msgspec


class HasDeadline(Protocol):
    """What may wait no longer than until some time."""

    def too_late(self) -> None:
        """The time is over; called once, unless `Deadlines.drop` was."""


class Deadlines:
    """Tells those that wait when their time is over, at that time; for one loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._until: dict[HasDeadline, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next = float("inf")

    def set(self, waiting: HasDeadline, until: float) -> None:
        """Tell it at that time of the loop, instead of any time set before."""
        self._until[waiting] = until
        if until < self._next:
            self._arm(until)

    def drop(self, waiting: HasDeadline) -> None:
        """Tell it nothing any more; the timer is left, for the next that waits mostly needs it."""
        self._until.pop(waiting, None)

    def rest(self) -> None:
        """Leave no timer behind where nobody waits."""
        if not self._until:
            self._disarm()

    def _arm(self, until: float) -> None:
        self._disarm()
        self._next = until
        self._timer = self._loop.call_at(until, self._look)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._next = None, float("inf")

    def _look(self) -> None:
        """Tell those whose time is over, in the order of asking, and look again when the next may be."""
        self._disarm()
        now = self._loop.time()
        for waiting in [one for one, until in self._until.items() if until <= now]:
            if self._until.pop(waiting, None) is not None:  # one that was told may have dropped others
                waiting.too_late()
        if self._until:
            self._arm(min(self._until.values()))


# A peer that vanished without a word is noticed within about a minute, long before a watch would be missed.
_PROBES: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
# As numbers: to compare with a member of an enum takes several times as long.
_OK: Final = int(HTTPStatus.OK)
REFUSED: Final = int(HTTPStatus.MULTIPLE_CHOICES)
"""The least code of an answer that grants nothing: redirects are not followed."""
_LENGTHS: Final = frozenset({b"content-length", b"transfer-encoding"})


class Response(msgspec.Struct, frozen=True):
    """What the server said: the code, the body, and of a refusal the header Retry-After, where there was one."""

    status: int
    body: bytes
    retry_after: str | None = None


class CutOff(Exception):  # noqa: N818 - it says what has happened to the request
    """The connection ended, or the time ran out, before the whole answer was there.

    Attributes:
        silent: Not a byte of an answer had come, as when the server had closed the kept connection before it read on.
    """

    def __init__(self, why: str, *, silent: bool) -> None:
        super().__init__(why)
        self.silent = silent


class Connection(asyncio.Protocol):
    """A connection with at most one request under way.

    Args:
        deadlines: Those of all connections of one loop.

    Attributes:
        used: Whether an answer has come on it.
        on_header: Called by the parser with a header's name, as it is spelt, and its value.
        on_body: Called by the parser with a part of the body.
    """

    def __init__(self, deadlines: Deadlines) -> None:
        self.used = False
        self._loop = asyncio.get_running_loop()
        self._deadlines = deadlines
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Response] | None = None
        self._within = 0.0
        self._headers: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []
        # Straight into where they are kept: a server sends seven headers or more, of which one is rarely read.
        self.on_header = self._headers.__setitem__
        self.on_body = self._parts.append
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._heard = False
        self._headed = False

    @property
    def usable(self) -> bool:
        """Whether a request may be written: it is open, and none is under way."""
        return self._transport is not None and not self._transport.is_closing() and self._waiter is None

    def exchange(self, message: bytes, *, within_seconds: float) -> asyncio.Future[Response]:
        """Write a request and return the future of its answer, which fails with CutOff; to be called while usable.

        Whoever stops waiting must `close`: the answer may still come.
        """
        transport = self._transport
        if transport is None or self._waiter is not None or transport.is_closing():
            raise RuntimeError("the connection is closed, or has a request under way")
        waiter = self._waiter = self._loop.create_future()
        self._within = within_seconds
        self._deadlines.set(self, self._loop.time() + within_seconds)
        transport.write(message)
        return waiter

    def too_late(self) -> None:
        """Close the connection, for nobody waits any longer."""
        self._end(f"nothing within {self._within:.3g} s")

    def close(self) -> None:
        """Close the connection at once."""
        self._end("closed here")

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of the transport."""
        self._transport = cast("asyncio.Transport", transport)  # by its methods; uvloop's for TLS has another base
        probe(transport)

    def data_received(self, data: bytes) -> None:
        """Read on in the answer."""
        if self._parser is None:
            return
        self._heard = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._end(f"the answer is no HTTP: {error}")
        except httptools.HttpParserUpgrade:
            self._end("the server goes on in another protocol, which nobody has asked for")

    def eof_received(self) -> None:
        """The server will say no more; where nothing else tells the length of an answer, that is its end."""
        parser = self._parser
        if parser is not None and self._headed and not any(name.lower() in _LENGTHS for name in self._headers):
            self._finish(parser, keep=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is under way."""
        self._end(str(exc) or type(exc).__name__ if exc else "the server closed the connection")

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Close the connection where nobody has asked, such as at a 408 before the server hangs up."""
        if self._waiter is None:
            self._end("the server spoke without having been asked")

    def on_headers_complete(self) -> None:
        """From here on the code is known."""
        self._headed = True

    def on_message_complete(self) -> None:
        """Hand the answer over, unless it only announces the real one (1xx)."""
        parser = self._parser
        if parser is None:
            return
        if parser.get_status_code() < _OK:
            self._begin()
            self._heard = True
        else:
            self._finish(parser, keep=parser.should_keep_alive())

    def _begin(self) -> None:
        """Forget the last answer."""
        self._parts.clear()
        self._headers.clear()
        self._heard = False
        self._headed = False

    def _finish(self, parser: httptools.HttpResponseParser, *, keep: bool) -> None:
        """Give the answer to whoever waits for it."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(self._answer(parser))
        self.used = True
        self._begin()
        if keep:
            self._deadlines.drop(self)
        else:
            self.close()

    def _answer(self, parser: httptools.HttpResponseParser) -> Response:
        status, parts = parser.get_status_code(), self._parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return Response(status, body, None if status < REFUSED else self._retry_after())

    def _retry_after(self) -> str | None:
        """Return the header of that name; of several the last."""
        said = [value for name, value in self._headers.items() if name.lower() == b"retry-after"]
        return said[-1].decode("latin-1") if said else None

    def _end(self, why: str) -> None:
        """Close the connection, and fail what is under way; a refusal is definite as soon as its code is known."""
        self._deadlines.drop(self)
        waiter, self._waiter = self._waiter, None
        parser, self._parser = self._parser, None  # which refers to this connection
        if waiter is not None and not waiter.done():
            if self._headed and parser is not None and parser.get_status_code() >= REFUSED:
                waiter.set_result(self._answer(parser))
            else:
                waiter.set_exception(CutOff(why, silent=not self._heard))
        if self._transport is not None:
            self._transport.abort()


def probe(transport: asyncio.BaseTransport) -> None:
    """Have the kernel ask an idle peer whether it is still there."""
    connected = transport.get_extra_info("socket")
    if connected is None:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in _PROBES:
        if hasattr(socket, option):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
