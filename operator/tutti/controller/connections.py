"""Connections of people whom nobody knows yet: who holds one open, or sends without an end, costs others nothing.

aiohttp waits for a first request for ever and for the next for an hour, reads two megabytes of headers of a request
that never ends, writes to those who do not read for as long as they like, and logs and repeats whatever is no request,
tokens included. Here a connection has a time to ask for something, a length for it, and only so many wait at once: one
more costs the one that has waited longest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import structlog
from aiohttp import web
from aiohttp.abc import AbstractAccessLogger
from aiohttp.http_exceptions import LineTooLong
from aiohttp.typedefs import Handler

log = structlog.get_logger(__name__)

_LONGEST_LINE: Final = 8_190
"""Of the address that is asked for, bytes: aiohttp's own."""
_MOST_HEADERS: Final = 64


@dataclass(frozen=True, slots=True)
class GuestLimits:
    """What a connection may take that is asking for nothing at the moment.

    Attributes:
        seconds: How long it may take to ask, first and then again, and to read its answers.
        most: So many of them may be open.
        most_bytes: So much may come before a request is complete, and one read of the system's more.
        longest_header: Bytes of one header.
        headers: What is on the answer to what is no request.
    """

    seconds: float = 20.0
    most: int = 128
    most_bytes: int = 256 * 1024
    longest_header: int = 8_190
    headers: Mapping[str, str] = field(default_factory=dict)


class Guests:
    """The connections of a server that anybody may reach."""

    def __init__(self, limits: GuestLimits) -> None:
        self._limits = limits
        self._waiting: dict[_Guest, asyncio.TimerHandle] = {}  # in the order in which they began to wait

    @property
    def handshake_seconds(self) -> float:
        """How long TLS may take: it is over before a connection that says nothing is left."""
        return self._limits.seconds / 2

    def met(self, server: web.Server) -> asyncio.BaseProtocol:
        """Return what speaks on a new connection."""
        guest = _Guest(server, self, self._limits)
        self._waits(guest)
        return guest

    @web.middleware
    async def heard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note that somebody has asked for something, and waits again once it is answered."""
        guest = request.protocol
        assert isinstance(guest, _Guest)
        self.forget(guest)
        guest.unheard = 0
        try:
            return await handler(request)
        finally:
            if guest.transport is not None:
                self._waits(guest)

    def forget(self, guest: _Guest) -> None:
        """Wait for a connection no longer."""
        timer = self._waiting.pop(guest, None)
        if timer is not None:
            timer.cancel()

    def _waits(self, guest: _Guest) -> None:
        self.forget(guest)
        self._waiting[guest] = asyncio.get_running_loop().call_later(self._limits.seconds, self._leave, guest)
        if len(self._waiting) > self._limits.most:
            self._leave(next(iter(self._waiting)))

    def _leave(self, guest: _Guest) -> None:
        self.forget(guest)
        guest.leave()


class _Nothing(AbstractAccessLogger):
    """Addresses may have tokens: what is asked for is not logged."""

    enabled = False

    def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
        """Write nothing."""


class _Guest(web.RequestHandler):
    """One connection."""

    __slots__ = ("_guests", "_headers", "_left", "_most", "unheard")

    def __init__(self, server: web.Server, guests: Guests, limits: GuestLimits) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log_class=_Nothing,
            keepalive_timeout=limits.seconds,
            max_line_size=_LONGEST_LINE,
            max_field_size=limits.longest_header,
            max_headers=_MOST_HEADERS,
        )
        self._guests = guests
        self._most = limits.most_bytes
        self._left = False
        self._headers = limits.headers
        self.unheard = 0

    def leave(self) -> None:
        """End it at once, also where it is not open yet."""
        self._left = True
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Speak on a connection, unless it was left while it was made."""
        super().connection_made(transport)
        if self._left:
            self.leave()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget a connection that has ended."""
        self._guests.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what comes, unless that does not end."""
        if self.unheard > self._most:
            self.leave()
            return
        self.unheard += len(data)
        super().data_received(data)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no request without repeating it, neither to anybody nor in the log: it may have a token."""
        if status != HTTPStatus.BAD_REQUEST:
            return super().handle_error(request, status, exc, message)
        log.debug("no_request", problem=type(exc).__name__)
        text = "this is no request"
        if isinstance(exc, LineTooLong):
            text = f"an address may have {self.max_line_size} bytes, and a header {self.max_field_size}"
        answer = web.Response(status=status, text=f"{text}\n", headers=self._headers)
        answer.force_close()
        return answer
