"""The pages beside the operator: a process of its own, which `controller/web_view.py` starts and keeps up.

It reads what it is to do from stdin, as JSON: how to reach the cluster, and the operator's configuration. It shares
nothing else with the operator: neither its processor time, which belongs to decisions, nor its faults.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec
import structlog

from tutti.api.configuration import TuttiConfiguration, UiSettings
from tutti.cli.run import GC_THRESHOLDS
from tutti.cli.views.configuration import KnownConfiguration
from tutti.controller import logs
from tutti.controller.connections import Guests
from tutti.controller.plugins import load_plugins
from tutti.controller.serving import serving
from tutti.controller.supervision import first_of
from tutti.controller.web_view import WebViewTask
from tutti.kube.certificate import Certificate
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti.web.access import ClusterRights
from tutti.web.application import GUESTS, WebSettings, web_application
from tutti.web.home import serving_pages
from tutti.web.mirror import ClusterMirror

log = structlog.get_logger(__name__)

_COOKIE: Final = "__Host-tutti"
_LASTS: Final = timedelta(days=3650)
_NICE: Final = 10
"""Decisions go first where both want the same processor."""


@asynccontextmanager
async def pages_beside(task: WebViewTask) -> AsyncIterator[tuple[int, asyncio.Task[None]]]:
    """Serve pages until the block ends; yields their port, and the task that must not end.

    Raises:
        CredentialsError: There is no usable way to a cluster.
        OSError: The address cannot be listened on, or the certificate not be read.
    """
    configuration = TuttiConfiguration.model_validate(task.configuration)
    settings = configuration.ui or UiSettings()
    known = KnownConfiguration(configuration, load_plugins(configuration))
    credentials = await Credentials.load(task.kubeconfig or None, task.context or None)
    access = await credentials.access()
    host, _, port = settings.bind_address.rpartition(":")
    host = host.strip("[]")
    async with Client(credentials, user_agent="tutti-ui") as client:
        mirror = ClusterMirror(client, namespace=access.namespace, configuration=known)
        async with serving_pages(mirror) as (hub, work):
            hosts = [one.lower() for one in settings.hosts]
            app = web_application(hub, ClusterRights(client), WebSettings(hosts, _COOKIE, secure=True))
            context = _context(settings, host)
            async with serving(
                app, host=host, port=int(port), context=context, cancels=True, guests=Guests(GUESTS)
            ) as served:
                yield served, work


def _context(settings: UiSettings, host: str) -> ssl.SSLContext:
    if not settings.cert_dir:
        return Certificate.make([host or "localhost"], lasts=_LASTS).context()
    folder = Path(settings.cert_dir)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


async def _run(task: WebViewTask) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    parent = asyncio.create_task(_until_alone(stop), name="until alone")
    try:
        async with pages_beside(task) as (port, work):
            log.info("serving_pages", port=port)
            await first_of(stop, work)
            if work.done():
                work.result()
    finally:
        parent.cancel()


async def _until_alone(stop: asyncio.Event) -> None:
    """Stop when the operator is gone: its end of our stdin is closed then, however it has ended."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    stop.set()


def serve_task() -> None:
    """Read the task, a line of JSON, and do it."""
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=WebViewTask)
    os.nice(_NICE)
    gc.set_threshold(*GC_THRESHOLDS)
    logs.configure(task.log_format, level=task.log_level)
    asyncio.run(_run(task))


if __name__ == "__main__":
    serve_task()
