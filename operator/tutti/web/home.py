"""The pages on one's own machine: served on loopback only, with one's own kubeconfig, to who has the address."""

from __future__ import annotations

import asyncio
import html
import os
import secrets
import sys
import tempfile
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tutti.cli.views.configuration import KnownConfiguration
from tutti.controller.connections import Guests
from tutti.controller.serving import serving
from tutti.controller.supervision import first_of
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti.web.access import AddressToken
from tutti.web.application import GUESTS, WebSettings, web_application
from tutti.web.hub import PageHub
from tutti.web.mirror import ClusterMirror

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class HomeOptions:
    """How the pages are served at home.

    Attributes:
        port: Where; 0 takes a free one.
        configuration: The operator's; None: as its Deployment has it.
    """

    kubeconfig: Path | None
    context: str | None = None
    port: int = 0
    configuration: KnownConfiguration | None = None
    token: str = ""


@asynccontextmanager
async def pages_at_home(options: HomeOptions) -> AsyncIterator[tuple[str, asyncio.Task[None]]]:
    """Serve pages until the block ends; yields the address that lets in, and the task that must not end.

    Raises:
        CredentialsError: There is no usable way to a cluster.
        OSError: The port cannot be listened on.
    """
    token = options.token or secrets.token_urlsafe(32)
    credentials = await Credentials.load(options.kubeconfig, options.context)
    access = await credentials.access()
    async with Client(credentials) as client:
        mirror = ClusterMirror(client, namespace=access.namespace, configuration=options.configuration)
        async with serving_pages(mirror) as (hub, work):
            hosts: list[str] = []
            app = web_application(hub, AddressToken(token), WebSettings(hosts, f"tutti-{options.port}", secure=False))
            async with serving(app, host=_LOOPBACK, port=options.port, cancels=True, guests=Guests(GUESTS)) as port:
                hosts += [f"{name}:{port}" for name in (_LOOPBACK, "localhost")]
                yield f"http://{_LOOPBACK}:{port}/?token={token}", work


@asynccontextmanager
async def serving_pages(mirror: ClusterMirror) -> AsyncIterator[tuple[PageHub, asyncio.Task[None]]]:
    """Follow a cluster and make pages of it until the block ends; yields who makes them, and the task that does."""
    hub = PageHub(mirror)

    async def work() -> None:
        """Follow the cluster, and make pages."""
        async with asyncio.TaskGroup() as group:
            group.create_task(mirror.run(), name="mirror")
            group.create_task(hub.run(), name="pages")

    task = asyncio.create_task(work(), name="web view")
    try:
        yield hub, task
    finally:
        task.cancel()
        await asyncio.wait({task})
        hub.close()


async def serve_at_home(options: HomeOptions, *, stop: asyncio.Event, tell: Callable[[str], None], opens: bool) -> None:
    """Serve pages until `stop` is set; `tell` is given the address, which is opened in a browser where one may be.

    Raises:
        CredentialsError: There is no usable way to a cluster.
        WireError: The cluster does not answer, or knows nobody by these credentials.
        OSError: The port cannot be listened on.
    """
    async with pages_at_home(options) as (address, work):
        tell(address)
        with _redirection(address) if opens and _has_screen() else _nothing() as file:
            if file:
                await asyncio.to_thread(webbrowser.open, file)
            await first_of(stop, work)
        if work.done():
            work.result()


def _has_screen() -> bool:
    """Whether a browser would have a window of its own, and not take this terminal."""
    return sys.platform in ("win32", "darwin") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@contextmanager
def _redirection(address: str) -> Iterator[str]:
    """Yield the address of a file that leads to the pages: what a browser is started with, all users can read."""
    with tempfile.TemporaryDirectory(prefix="tutti-ui-") as folder:
        file = Path(folder) / "open.html"
        said = html.escape(address)
        text = f'<!doctype html><meta http-equiv="refresh" content="0; url={said}"><a href="{said}">Tutti</a>'
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
        yield file.as_uri()


@contextmanager
def _nothing() -> Iterator[str]:
    yield ""
