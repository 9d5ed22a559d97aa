"""One kept connection of HTTP/1.1: a request is written, its whole answer is read, and the next may follow.

A general client pays for what an API server's client never uses: cookies, redirects, compression, multipart bodies,
streams of either side. What is left is a few microseconds around a parser in C.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, cast

import httptools

# A peer that vanished without a word is noticed within about a minute, long before a watch would be missed.
_PROBES: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said: the code, the body, and the header Retry-After where there was one."""

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

    Attributes:
        used: Whether an answer has come on it.
    """

    def __init__(self) -> None:
        self.used = False
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Answer] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._parts: list[bytes] = []
        self._retry_after: str | None = None
        self._heard = False
        self._headed = False
        self._measured = False

    @property
    def usable(self) -> bool:
        """Whether a request may be written: it is open, and none is under way."""
        return self._transport is not None and not self._transport.is_closing() and self._waiter is None

    def exchange(self, message: bytes, *, within_seconds: float) -> asyncio.Future[Answer]:
        """Write a request and return the future of its answer, which fails with CutOff; to be called while usable.

        Whoever stops waiting must `close`: the answer may still come.
        """
        if not self.usable or self._transport is None:
            raise RuntimeError("the connection is closed, or has a request under way")
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        self._timer = loop.call_later(within_seconds, self._end, f"nothing within {within_seconds:.3g} s")
        self._transport.write(message)
        return self._waiter

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
        if self._headed and not self._measured:
            self._finish(keep=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is under way."""
        self._end(str(exc) or type(exc).__name__ if exc else "the server closed the connection")

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Close the connection where nobody has asked, such as at a 408 before the server hangs up."""
        if self._waiter is None:
            self._end("the server spoke without having been asked")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the one header that matters, and note whether the body's length is told."""
        name = name.lower()
        if name == b"retry-after":
            self._retry_after = value.decode("latin-1")
        elif name in (b"content-length", b"transfer-encoding"):
            self._measured = True

    def on_headers_complete(self) -> None:
        """From here on the code is known."""
        self._headed = True

    def on_body(self, part: bytes) -> None:
        """Keep a part of the body."""
        self._parts.append(part)

    def on_message_complete(self) -> None:
        """Hand the answer over, unless it only announces the real one (1xx)."""
        if self._parser is None:
            return
        if self._parser.get_status_code() < HTTPStatus.OK:
            self._begin()
            self._heard = True
        else:
            self._finish(keep=self._parser.should_keep_alive())

    def _begin(self) -> None:
        """Forget the last answer."""
        self._parts = []
        self._retry_after = None
        self._heard = False
        self._headed = False
        self._measured = False

    def _finish(self, *, keep: bool) -> None:
        """Give the answer to whoever waits for it."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done() and self._parser is not None:
            waiter.set_result(self._answer(self._parser))
        self.used = True
        self._begin()
        if keep:
            self._disarm()
        else:
            self.close()

    def _answer(self, parser: httptools.HttpResponseParser) -> Answer:
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        return Answer(parser.get_status_code(), body, self._retry_after)

    def _end(self, why: str) -> None:
        """Close the connection, and fail what is under way; a refusal is definite as soon as its code is known."""
        self._disarm()
        waiter, self._waiter = self._waiter, None
        parser, self._parser = self._parser, None  # which refers to this connection
        if waiter is not None and not waiter.done():
            if self._headed and parser is not None and parser.get_status_code() >= HTTPStatus.MULTIPLE_CHOICES:
                waiter.set_result(self._answer(parser))
            else:
                waiter.set_exception(CutOff(why, silent=not self._heard))
        if self._transport is not None:
            self._transport.abort()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def probe(transport: asyncio.BaseTransport) -> None:
    """Have the kernel ask an idle peer whether it is still there."""
    connected = transport.get_extra_info("socket")
    if connected is None:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in _PROBES:
        if hasattr(socket, option):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
