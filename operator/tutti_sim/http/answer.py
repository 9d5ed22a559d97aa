"""Requests and answers as they go over the wire.

aiohttp composes a response from a map of headers, which costs more than most of what this server does for a request.
An `Answer` is the same response with its head put together from few parts, and sent in one write.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from aiohttp import HttpVersion10, web
from aiohttp.abc import AbstractStreamWriter

BODY_LIMIT = 3 * 1024 * 1024
"""Bytes that a request's body may have (kube-apiserver's MaxRequestBodyBytes)."""

JOIN_BELOW = 1 << 16


def make_request(message: Any, payload: Any, protocol: Any, writer: AbstractStreamWriter, task: Any) -> web.BaseRequest:
    """What `web.Server` calls for each request: the usual, with this server's limit."""
    return web.BaseRequest(message, payload, protocol, writer, task, task.get_loop(), client_max_size=BODY_LIMIT)


class Answer(web.Response):
    """A response whose body and headers are complete. Nothing of the base class but its place in aiohttp is used."""

    def __init__(self, body: bytes, *, status: int, content_type: str, headers: Iterable[tuple[str, str]] = ()) -> None:
        self._content = body
        self._code = status
        self._kind = content_type
        self._extra = headers
        self._request: web.BaseRequest | None = None

    @property
    def status(self) -> int:
        """The status code."""
        return self._code

    @property
    def keep_alive(self) -> bool | None:
        """Whether the connection stays."""
        return self._request is not None and self._request.keep_alive

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Note what is answered; nothing is sent yet."""
        self._request = request
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Send all of it."""
        del data
        request = self._request
        assert request is not None
        body = self._content
        head = self._head(request)
        if request.method == "HEAD":
            body = b""
        if len(body) < JOIN_BELOW:
            await request.writer.write(head + body)
        else:
            await request.writer.write(head)
            await request.writer.write(body)
        await request.writer.write_eof()

    def _head(self, request: web.BaseRequest) -> bytes:
        lines = "".join(f"{name}: {_one_line(value)}\r\n" for name, value in self._extra)
        if not request.keep_alive:
            lines += "Connection: close\r\n"
        elif request.version == HttpVersion10:
            lines += "Connection: keep-alive\r\n"
        start = _start(self._code, self._kind, int(time.time()))
        return f"{start}{lines}Content-Length: {len(self._content)}\r\n\r\n".encode()


@lru_cache(maxsize=64)
def _start(status: int, content_type: str, moment: int) -> str:
    reason = HTTPStatus(status).phrase
    return (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nCache-Control: no-cache, private\r\n"
        f"Date: {formatdate(moment, usegmt=True)}\r\n"
    )


def _one_line(text: str) -> str:
    """A header's value cannot end its line."""
    return text.replace("\r", " ").replace("\n", " ")
