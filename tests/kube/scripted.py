"""Servers that answer byte by byte as they are told."""

from __future__ import annotations

import asyncio
import contextlib

from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


CUT = "cut"


class Scripted:
    """A server that gives each connection the next script: a list of answers, one per request, each in parts.

    After the last of a script the connection stays open; the part `CUT` breaks it.
    """

    def __init__(self, *scripts):
        self.scripts = list(scripts)
        self.requests = []
        self.opened = 0
        self.came = asyncio.Semaphore(0)  # released by each connection
        self.asked = asyncio.Semaphore(0)  # released by each request
        self.closed = asyncio.Event()
        self.url = ""
        self.listening = None

    async def serve(self, reader, writer):
        self.opened += 1
        self.came.release()
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            for answer in self.scripts.pop(0):
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0
                )
                self.requests.append(head + await reader.readexactly(length))
                self.asked.release()
                for part in answer:
                    if part is CUT:
                        writer.close()
                        return
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)
            await reader.read()
        self.closed.set()
        writer.close()


@contextlib.asynccontextmanager
async def scripted(*scripts, tls=None):
    server = Scripted(*scripts)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.listening = listening
    port = listening.sockets[0].getsockname()[1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        listening.close()


@contextlib.asynccontextmanager
async def talking(*scripts):
    async with scripted(*scripts) as server, Client(Credentials.fixed(Access(server.url))) as client:
        yield server, client


class Nowhere(asyncio.Transport):
    def write(self, data):
        pass

    def is_closing(self):
        return False

    def abort(self):
        pass
