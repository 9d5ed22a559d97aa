"""A doorway to the API server, which stays open for so many binds: an operator is caught in the midst of binding.

To see that binding has begun and then to stop the operator is a race, which a busy machine loses. Behind a doorway it
is none: the binds after the first few are kept there, for as long as the story needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from http import HTTPMethod
from pathlib import Path
from typing import Self

import aiohttp
import yaml
from aiohttp import web
from kubernetes import client, config
from yarl import URL

from e2e.harness.aside import Aside

_LOCAL = "127.0.0.1"
# What each of the two connections says of itself, and what this says anew.
_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
# Seconds for who is on its way when it is closed; with 0, aiohttp would wait for the end of every watch.
_LEAVE = 0.1


class Doorway:
    """A proxy that passes on every request, and keeps binds after the first `lets` until it is opened.

    Watches through it may be hushed: nothing more is told on them, though nobody closes them.

    Who comes through it comes as whom a kubeconfig names. It is a context, and leads somewhere within it.
    """

    def __init__(self, kubeconfig: Path, folder: Path, lets: int) -> None:
        self.kubeconfig = folder / "doorway.yaml"
        self._beyond = config.new_client_from_config(str(kubeconfig)).configuration
        self._lets = lets
        self._begun = 0
        self._kept = 0
        self._over = 0
        self._watches: dict[int, str] = {}
        self._hushed: set[int] = set()
        self._held = contextlib.AsyncExitStack()
        self._open = asyncio.Event()
        self._aside = Aside("doorway")

    def __enter__(self) -> Self:
        self._aside.begin()
        with contextlib.ExitStack() as undo:
            undo.callback(self._close)
            self._write(self._aside.run(self._begin()))
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _write(self, port: int) -> None:
        """Write the kubeconfig of who comes through it."""
        cluster = {"name": "doorway", "cluster": {"server": f"http://{_LOCAL}:{port}"}}
        context = {"name": "doorway", "context": {"cluster": "doorway", "user": "doorway"}}
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "doorway",
            "clusters": [cluster], "contexts": [context], "users": [{"name": "doorway", "user": {}}],
        }  # fmt: skip
        self.kubeconfig.write_text(yaml.safe_dump(document))

    def _close(self) -> None:
        """Listen no longer, if it has begun to, and end its thread."""
        try:
            self._aside.run(self._held.aclose())
        finally:
            self._aside.end()

    @property
    def kept(self) -> int:
        """How many binds have been kept so far; none before those that it lets through are over."""
        return self._kept if self._over >= self._lets else 0

    def open(self) -> None:
        """Let those through that are kept, unless who asked for them is gone, and all after them."""
        self._aside.tell(self._open.set)

    def hush(self, plural: str) -> None:
        """Pass on nothing more of what is told on the watches of a kind that are open now."""
        self._aside.tell(lambda: self._hushed.update(one for one, kind in self._watches.items() if kind == plural))

    async def _begin(self) -> int:
        """Listen; returns the port."""
        session = aiohttp.ClientSession(
            auto_decompress=False,
            connector=aiohttp.TCPConnector(limit=0, ssl=_trusting(self._beyond)),
            headers={one["key"]: one["value"] for one in self._beyond.auth_settings().values()},
            timeout=aiohttp.ClientTimeout(total=None),
        )
        self._session = await self._held.enter_async_context(session)
        application = web.Application(client_max_size=2**26)
        application.router.add_route("*", "/{path:.*}", self._pass)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=_LEAVE)
        self._held.push_async_callback(runner.cleanup)
        await runner.setup()
        await web.TCPSite(runner, _LOCAL, 0).start()
        return int(runner.addresses[0][1])

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on, and its answer back as it comes."""
        if request.method == HTTPMethod.POST and request.path.endswith("/binding"):
            return await self._pass_bind(request)
        return await self._forward(request)

    async def _pass_bind(self, request: web.Request) -> web.StreamResponse:
        """Pass a bind on when it may pass."""
        self._begun += 1
        if self._begun > self._lets:
            self._kept += 1
            await self._open.wait()
        try:
            return await self._forward(request)
        finally:  # one that is lost is over, too
            self._over += 1

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        """Ask beyond the doorway what is asked here, and answer so."""
        sent = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        where = URL(self._beyond.host + request.raw_path, encoded=True)
        body = await request.read() or None
        try:
            return await self._answer(request, where, sent, body)
        except aiohttp.ClientError as lost:  # as its own connection would have been
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError from lost

    async def _answer(
        self, request: web.Request, where: URL, sent: dict[str, str], body: bytes | None
    ) -> web.StreamResponse:
        """Ask beyond the doorway, and give the answer as it comes."""
        name = self._beyond.tls_server_name or None
        async with self._session.request(
            request.method, where, headers=sent, data=body, server_hostname=name
        ) as answer:
            said = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=said)
            response.content_length = answer.content_length
            await response.prepare(request)
            if "watch" in request.query:
                await self._pass_watch(request, answer, response)
            else:
                async for part in answer.content.iter_any():
                    await response.write(part)
            await response.write_eof()
            return response

    async def _pass_watch(
        self, request: web.Request, answer: aiohttp.ClientResponse, response: web.StreamResponse
    ) -> None:
        """Pass on what is told on a watch; one that is hushed stays open for as long as whoever asked for it stays."""
        one = id(request)
        self._watches[one] = request.path.rpartition("/")[2]
        try:
            async for part in answer.content.iter_any():
                if one not in self._hushed:
                    await response.write(part)
            if one in self._hushed:
                await asyncio.Event().wait()
        finally:
            del self._watches[one]
            self._hushed.discard(one)


def _trusting(beyond: client.Configuration) -> ssl.SSLContext | bool:
    """Whom a connection beyond the doorway trusts, and as whom it comes."""
    if not beyond.host.startswith("https"):
        return True
    trusts = ssl.create_default_context(cafile=beyond.ssl_ca_cert)
    if not beyond.verify_ssl:
        trusts.check_hostname, trusts.verify_mode = False, ssl.CERT_NONE
    if beyond.cert_file:
        trusts.load_cert_chain(beyond.cert_file, beyond.key_file)
    return trusts
