"""`tutti demo`: a play in three acts on a cluster of hollow nodes, which ends by itself with a summary."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import click

from tutti.cli.terminal import Terminal
from tutti.controller import logs
from tutti.kube.errors import WireError
from tutti_demo.performance import LIMIT_SECONDS, NotReady, Options, Performance
from tutti_demo.shows import show_on, summary_table, verdict_line
from tutti_demo.summary import Summary, to_json
from tutti_sim.children import ChildDied

_BROKEN = 1
_FAILED = 2
_INTERRUPTED = 130
_SAMPLES = "-f manifests/samples/two-queues.yaml -f manifests/samples/gang.yaml"
"""A gang with queues and namespaces of its own, from the project's folder."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command("demo")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How the summary is written; with json, all else goes to stderr.",
)
@click.option("--plain", is_flag=True, help="Print lines on a terminal, too.")
@click.option(
    "--keep", is_flag=True, help="Leave the cluster running after the summary, until Ctrl-C, with pages in a browser."
)
@click.option("--seed", default=0, show_default=True, help="Of what is left to chance.")
@click.option(
    "--speed",
    type=click.FloatRange(min=1, max=20),
    default=1.0,
    show_default=True,
    help="How many times faster than written.",
)
@click.option(
    "--kill-operator-at",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Kill -9 the operator so long after the beginning, and start it again.",
)
@click.option(
    "--limit",
    type=click.FloatRange(min=1),
    default=LIMIT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="End the play so long after its beginning, finished or not.",
)
def command(
    *, output: str, plain: bool, keep: bool, seed: int, speed: float, kill_operator_at: float | None, limit: float
) -> None:
    """Show in less than a minute what Tutti is for, on a cluster that exists only in memory.

    Exits 0 only if no gang was left partly bound, no pod was bound twice, and all work finished.
    """
    options = Options(seed=seed, speed=speed, kill_operator_at=kill_operator_at, limit_seconds=limit)
    sys.exit(asyncio.run(_Demo(options, as_json=output == "json", plain=plain, keep=keep).run()))


class _Demo:
    """One call of the command: where it prints, what interrupts it, and how it ends."""

    def __init__(self, options: Options, *, as_json: bool, plain: bool, keep: bool) -> None:
        self._options = options
        self._as_json = as_json
        self._keep = keep
        self._out = Terminal(stderr=as_json, highlight=False)
        self._show = show_on(self._out, plain=plain or as_json)
        self._enough = asyncio.Event()
        self._playing = True

    async def run(self) -> int:
        """Run the demo and return the exit code; the logs are kept where something went wrong."""
        directory = Path(tempfile.mkdtemp(prefix="tutti-demo-"))
        code = _FAILED
        try:
            with (directory / "demo.log").open("w", encoding="utf-8") as log:
                logs.configure("json", stream=log)
                code = await self._perform(directory)
        finally:
            if code in (0, _INTERRUPTED):
                shutil.rmtree(directory)
            else:
                self._show.say(f"The logs are kept in {directory}")
        return code

    async def _perform(self, directory: Path) -> int:
        self._heed_signals()
        _bypass_proxies()
        performance = Performance(self._options, directory=directory, show=self._show)
        try:
            summary = await performance.run(lambda summary: self._conclude(summary, performance))
        except (ChildDied, NotReady, WireError) as error:
            self._out.print(f"tutti demo: {error}", style="red", markup=False, soft_wrap=True)
            return _FAILED
        except asyncio.CancelledError:
            self._show.say("Interrupted; everything is taken down")
            return _INTERRUPTED
        return 0 if summary.ok else _BROKEN

    async def _conclude(self, summary: Summary, performance: Performance) -> None:
        """Write the summary, and leave the cluster running for a look where that was asked for."""
        if self._as_json:
            click.echo(json.dumps(to_json(summary), indent=2))
        else:
            self._out.print()
            self._out.print(summary_table(summary))
            self._out.print()
            self._out.print(verdict_line(summary), soft_wrap=True)
        if self._options.kill_operator_at is not None and not summary.operator_restarts:
            self._show.say("The play was over before the operator could be killed and started again")
        if self._keep:
            self._playing = False
            kubectl = f"kubectl --kubeconfig {performance.kubeconfig}"
            self._show.say(f"The cluster goes on until Ctrl-C: {kubectl} get pods,podgroups -A")
            self._show.say(f"Work of your own: {kubectl} apply {_SAMPLES}; or in namespace vision, with queue main")
            self._show.say(f"Its pages: {performance.pages}")
            await self._enough.wait()
        elif not self._as_json:
            self._show.say(f"Its pages were {performance.pages} while it ran; make demo KEEP=1 keeps both")

    def _heed_signals(self) -> None:
        """Have a signal end the play, or the time that is left for a look."""
        task = asyncio.current_task()
        assert task is not None  # this runs in one

        def interrupted() -> None:
            if self._playing and not self._enough.is_set():  # once: a second cancellation would leave children behind
                task.cancel()
            self._enough.set()

        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, interrupted)


def _bypass_proxies() -> None:
    """Forget the proxies of the environment: this process and its children talk to this machine only."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
