"""A passage to a port of this machine, which a story shuts and opens: who serves there lives, and cannot be reached."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Self

from e2e.harness.aside import Aside
from e2e.harness.processes import free_ports

_LOCAL = "127.0.0.1"
_PART = 2**16


class Passage:
    """Hands on what comes to a port, byte for byte; when it is shut nobody gets in, and who is within is cut off.

    It is a context, and open when that begins.

    Attributes:
        port: What is reached through it is asked here.
        beyond: Where it leads: the port that somebody serves.
        seconds: How much later comes what is said there.
    """

    def __init__(self) -> None:
        self.port, self.beyond = free_ports(2)
        self.seconds = 0.0
        self._within: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._aside = Aside("passage")

    def __enter__(self) -> Self:
        self._aside.begin()
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.shut()
        finally:
            self._aside.end()

    def open(self) -> None:
        """Let everybody in from now on."""
        self._server = self._aside.run(asyncio.start_server(self._pass, _LOCAL, self.port))

    def shut(self) -> None:
        """Let nobody in from now on, and cut off who is within."""
        self._aside.run(self._shut())

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        cut = list(self._within)
        for one in cut:
            one.cancel()
        await asyncio.gather(*cut, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect somebody with whom it leads to, for as long as both want it."""
        task = asyncio.current_task()
        assert task is not None
        self._within.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                beyond, there = await asyncio.open_connection(_LOCAL, self.beyond)
                try:
                    await _both(_hand_on(reader, there), self._hand_on_late(beyond, writer))
                finally:
                    there.transport.abort()
        finally:
            self._within.discard(task)
            writer.transport.abort()

    async def _hand_on_late(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand on what comes, so much later as it is to be, until it ends."""
        while part := await reader.read(_PART):
            await asyncio.sleep(self.seconds)
            writer.write(part)
            await writer.drain()


async def _both(*ways: Coroutine[Any, Any, None]) -> None:
    """Go both ways until one of them ends."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes until it ends."""
    while part := await reader.read(_PART):
        writer.write(part)
        await writer.drain()
