"""`tutti ui`: what the terminal views tell, as pages in a browser."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
from pathlib import Path

import click

from tutti.cli.run import GC_THRESHOLDS
from tutti.cli.terminal import echo
from tutti.cli.views.command_line import USAGE, fail, read_configuration
from tutti.controller import logs
from tutti.controller.supervision import leaves
from tutti.kube.credentials import CredentialsError
from tutti.kube.errors import WireError
from tutti.web.home import HomeOptions, serve_at_home

_PATH = click.Path(path_type=Path, dir_okay=False)


@click.command("ui")
@click.option("--kubeconfig", type=_PATH, help="File that says how to reach the cluster.")
@click.option("--context", help="Context of the kubeconfig; its current one if not given.")
@click.option("--config", type=_PATH, help="The operator's TuttiConfiguration; that of its Deployment if not given.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="Port; 0 takes a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
def command(*, kubeconfig: Path | None, context: str | None, config: Path | None, port: int, no_browser: bool) -> None:
    """Serve pages that follow the cluster: queues, lines, why a workload waits, nodes, gangs and decisions.

    The first line on stdout is their address. They are served on this machine only, to who has that address, and show
    what the kubeconfig may list; nothing is written. It ends with Ctrl-C.
    """
    logs.configure("console", level="error")
    gc.set_threshold(*GC_THRESHOLDS)
    options = HomeOptions(kubeconfig, context, port, None if config is None else read_configuration(config))
    try:
        asyncio.run(_serve(options, opens=not no_browser))
    except CredentialsError as error:
        fail(str(error))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        fail(f"port {port} cannot be listened on: {os.strerror(error.errno).lower()}; give another with --port", USAGE)
    except ExceptionGroup as errors:
        wrong = next((one for one in leaves(errors) if isinstance(one, WireError)), None)
        if wrong is None:
            raise
        fail(str(wrong))


async def _serve(options: HomeOptions, *, opens: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve_at_home(options, stop=stop, tell=echo, opens=opens)
