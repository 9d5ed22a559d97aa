"""`tutti run`: the operator itself, in the foreground, until a signal.

What it runs is imported late: loading it takes a second, in which the first process of a container would ignore the
signal to stop, because it has no handler yet.
"""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from typing import Any

import click

# Modules, views and records live long and hold few cycles: the default thresholds would walk them over and over, while
# the process is loaded as well as later. What is young is walked in one go, which stalls the loop: 20,000
# objects take four milliseconds.
GC_THRESHOLDS = (20_000, 200, 1000)


@click.command("run")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="File that says how to reach the cluster.")
@click.option("--context", help="Context of the kubeconfig; its current one if not given.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="File with a TuttiConfiguration.")
@click.option("--journal", type=click.Path(path_type=Path), help="Record what is seen and decided, for `tutti replay`.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Port of /metrics and probes; 0 takes a free one.")
@click.option("--shard", default="default", help="Which of the configuration's shards to schedule.", show_default=True)
@click.option("--log-format", type=click.Choice(["json", "console"]), help="How log lines look.")
def command(**options: Any) -> None:
    """Run the scheduler: queue, admit, place and bind pods with `schedulerName: tutti`."""
    signal.signal(signal.SIGTERM, _leave)
    gc.set_threshold(*GC_THRESHOLDS)
    from tutti.cli.start import RunOptions, start  # noqa: PLC0415 - see above

    start(RunOptions(**options))


def _leave(*_: object) -> None:
    """End at once: nothing has been begun yet. The operator puts its own handler in place of this one."""
    os._exit(0)
