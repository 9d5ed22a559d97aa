"""The `tutti` command: one click group whose subcommands are imported only when they are called."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import click

from tutti import __version__
from tutti.cli.grouping import CommandGroup

# Subcommand -> module that defines it as `command`. Imported late, so that `tutti replay` need not load kopf. Those of
# tutti_bench, tutti_demo, tutti_sim and tutti_simulate are of another distribution, tutti-dev, which the operator
# does without.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "bench": "tutti_bench.command",
        "check": "tutti.cli.check",
        "cluster": "tutti_sim.command",
        "completion": "tutti.cli.completion",
        "demo": "tutti_demo.command",
        "doctor": "tutti.cli.doctor.command",
        "drain-check": "tutti.cli.views.drain.command",
        "explain": "tutti.cli.views.explain.command",
        "gangs": "tutti.cli.views.gangs",
        "migrate": "tutti.cli.migrate.command",
        "queue": "tutti.cli.views.queues",
        "replay": "tutti.cli.replay",
        "run": "tutti.cli.run",
        "simulate": "tutti_simulate.command",
        "top": "tutti.cli.views.top",
        "ui": "tutti.web.command",
        "what-if": "tutti.cli.views.forecast.command",
    }
)


@click.command(
    cls=CommandGroup, late=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, message="tutti %(version)s")
def cli() -> None:
    """A secondary scheduler for Kubernetes: quota and placement for a whole gang, decided at once."""


def main() -> None:
    """Run the command line; called `kubectl-tutti`, it answers as `kubectl tutti`."""
    name = Path(sys.argv[0]).name
    cli(prog_name="kubectl tutti" if name.startswith("kubectl-") else "tutti")
