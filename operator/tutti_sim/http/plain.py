"""A connection on which plain requests are answered at once; what is not plain goes to aiohttp, with the connection.

Nearly every request to an API server has a path, a few headers and a body whose length it tells, and gets one answer.
That is read and written here, in a tenth of the time that a general server takes for it. A request that is anything
else, a watch, a body in chunks, HTTP/1.0, a header given twice, is not looked at any further: its bytes, from the first
on, are handed to aiohttp, who has the connection from then on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, lru_cache
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

import structlog
from aiohttp import web

from tutti_sim.http.rendering import BODY_LIMIT, Answer, HttpRequest

log = structlog.get_logger()

Handler = Callable[[HttpRequest], Awaitable[web.StreamResponse]]

_HEAD_LIMIT: Final = 8190
# Whoever sends one of these wants something other than one answer to one body.
_SPECIAL: Final = frozenset(
    ("transfer-encoding", "expect", "upgrade", "connection", "content-encoding", "te", "trailer")
)
_FIRST: Final = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (/[!-~]*) HTTP/1\.1\r\n")
_LINES: Final = re.compile(r"[ -~\t]+(?:\r\n[ -~\t]+)*")
_BARE_END: Final = re.compile(rb"(?<!\r)\n")
_OTHERS: Final = "/_tutti/"
_FAILED: Final = Answer(b"500 Internal Server Error", status=500, content_type="text/plain; charset=utf-8")


class RawUrl(NamedTuple):
    """A path and a query as they were written."""

    raw_path: str
    raw_query_string: str


class Headers(dict[str, str]):
    """Headers by their names in small letters; asked for in any."""

    def get(self, key: str, default: str) -> str:  # type: ignore[override]  # as they are asked for
        """Return the value of a header."""
        return dict.get(self, key.lower(), default)


class PlainRequest:
    """A whole request.

    Attributes:
        method: Such as `GET`.
        rel_url: Its path and query.
        headers: Each once.
        transport: The connection.
    """

    __slots__ = ("__dict__", "_body", "headers", "method", "rel_url", "transport")

    def __init__(
        self, method: str, rel_url: RawUrl, headers: Headers, body: bytes, transport: asyncio.Transport
    ) -> None:
        self.method = method
        self.rel_url = rel_url
        self.headers = headers
        self.transport = transport
        self._body = body

    @cached_property
    def query(self) -> Mapping[str, str]:
        """The query; of what is given twice the first."""
        pairs = parse_qsl(self.rel_url.raw_query_string, keep_blank_values=True)
        return dict(reversed(pairs))

    async def read(self) -> bytes:
        """Return the body."""
        return self._body

    async def text(self) -> str:
        """Return the body as text."""
        return self._body.decode()


class _Head(NamedTuple):
    """The first lines of a request, and how long it is with its body."""

    method: str
    url: RawUrl
    headers: Headers
    begins: int
    ends: int


def _read_head(data: bytearray) -> _Head | None:
    """Read the lines before the body; returns None where there are not enough of them.

    Raises:
        ValueError: It is not a plain request.
    """
    end = data.find(b"\r\n\r\n", 0, _HEAD_LIMIT)
    if end < 0:
        if len(data) >= _HEAD_LIMIT or _BARE_END.search(data):
            raise ValueError("a long head, or lines that end in another way")
        return None
    first = _FIRST.match(data)
    if first is None:
        raise ValueError("no path, or characters that no head has")
    method, target = first[1].decode(), first[2].decode()
    path, _, query = target.partition("?")
    watches = method == "GET" and "watch" in (unquote(target) if "%" in target else target)
    if watches or "#" in target:
        raise ValueError("not one answer")
    if path.startswith(_OTHERS):
        raise ValueError("about faults")
    headers, length = _read_headers(bytes(data[first.end() : end]))
    begins = end + 4
    return _Head(method, RawUrl(path, query), headers, begins, begins + length)


@lru_cache(maxsize=256)
def _read_headers(lines: bytes) -> tuple[Headers, int]:
    """Read the lines after the first, and how long the body is; a client says the same again with every request.

    Raises:
        ValueError: It is not a plain request.
    """
    text = lines.decode("ascii")
    if not _LINES.fullmatch(text):
        raise ValueError("characters that no head has")
    headers = Headers()
    for line in text.split("\r\n"):
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or name in _SPECIAL or name in headers or " " in name or "\t" in name:
            raise ValueError("not plain")
        headers[name] = value.strip(" \t")
    length = headers.get("content-length", "0")
    if "host" not in headers or not length.isdecimal() or int(length) > BODY_LIMIT:
        raise ValueError("too much, or no length")
    return headers, int(length)


class PlainConnection(asyncio.Protocol):
    """Answers plain requests, one after the other.

    Args:
        handler: Answers a request.
        others: Makes who has a connection whose request is not plain.
        open_: Where it is as long as it is open, and nobody else has it.

    Attributes:
        answering: What works on an answer; None where nobody waits for one.
    """

    def __init__(self, handler: Handler, others: Callable[[], asyncio.Protocol], open_: set[PlainConnection]) -> None:
        self._handler = handler
        self._others = others
        self._open = open_
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._data = bytearray()
        self._head: _Head | None = None
        self.answering: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._paused = False
        self._ended = False  # nothing more is asked, or answered, after what there is

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of the transport."""
        self._transport = transport  # type: ignore[assignment]  # uvloop's has no base of asyncio's
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection; who works on an answer goes on."""
        del exc
        self._transport = None
        self._writable.set()
        self._open.discard(self)

    def pause_writing(self) -> None:
        """Answer nothing more until the client has read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The client has read."""
        self._writable.set()

    def eof_received(self) -> bool:
        """Keep the connection until what was asked is answered."""
        self._ended = True
        return self.answering is not None

    def data_received(self, data: bytes) -> None:
        """Read on; what comes while an answer is worked on waits."""
        self._data += data
        if self.answering is None:
            self._go_on()
        elif len(self._data) > BODY_LIMIT and self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()  # it sends and sends, and waits for no answer

    def close(self) -> None:
        """Close the connection, as soon as what is asked for is answered."""
        self._ended = True
        if self.answering is None and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Break the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _go_on(self) -> None:
        """Begin with the next request, if it is there in full."""
        transport, head = self._transport, self._head
        if transport is None:
            return
        if self._paused:
            self._paused = False
            transport.resume_reading()
        if head is None:
            try:
                head = self._head = _read_head(self._data)
            except ValueError:
                self._hand_over(transport)
                return
            if head is None:
                return
        if len(self._data) < head.ends:
            return
        body = bytes(self._data[head.begins : head.ends])
        del self._data[: head.ends]
        self._head = None
        request = PlainRequest(head.method, head.url, head.headers, body, transport)
        self.answering = self._loop.create_task(self._answer(request))

    def _hand_over(self, transport: asyncio.Transport) -> None:
        """Give the connection to aiohttp, with all that was read of the request."""
        other = self._others()
        self._open.discard(self)
        transport.set_protocol(other)
        other.connection_made(transport)
        other.data_received(bytes(self._data))
        if self._ended:
            other.eof_received()

    async def _answer(self, request: PlainRequest) -> None:
        """Answer a request, then see to the next."""
        try:
            answer = as_answer(await self._handler(request))
        except Exception:
            log.exception("request_failed", method=request.method, path=request.rel_url.raw_path)
            answer, self._ended = _FAILED, True
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.write(answer.message(keep_alive=not self._ended))
        if not self._writable.is_set():
            await self._writable.wait()
        self.answering = None
        if self._ended and not transport.is_closing():
            transport.close()
        else:
            self._go_on()


def as_answer(response: web.StreamResponse) -> Answer:
    """Return an answer with its bytes; of a response that aiohttp would write, the same.

    Raises:
        TypeError: Its body is none, or not in memory.
    """
    if isinstance(response, Answer):
        return response
    if not isinstance(response, web.Response) or not isinstance(response.body, bytes | bytearray | None):
        raise TypeError(f"an answer to a plain request must be whole, and is {response!r}")
    headers = [(name, value) for name, value in response.headers.items() if name.lower() != "content-type"]
    kind = response.headers.get("Content-Type", "application/octet-stream")
    return Answer(bytes(response.body or b""), status=response.status, content_type=kind, headers=headers)
