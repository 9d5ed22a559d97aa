"""The `tutti` command: one click group whose subcommands are imported only when they are called."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import click

from tutti import __version__

# Subcommand -> module that defines it as `command`. Imported late, so that `tutti replay` need not load kopf.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "bench": "tutti.cli.bench.command",
        "cluster": "tutti.cli.cluster",
        "demo": "tutti.cli.demo.command",
        "migrate": "tutti.cli.migrate.command",
        "replay": "tutti.cli.replay",
        "run": "tutti.cli.run",
    }
)


class LazyGroup(click.Group):
    """A group that knows its subcommands by name and loads each on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all subcommands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import and return the subcommand, or None where there is no such name."""
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = importlib.import_module(module).command
        return command


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="tutti %(version)s")
def cli() -> None:
    """A secondary scheduler for Kubernetes: quota and placement for a whole gang, decided at once."""


def main() -> None:
    """Run the command line; called `kubectl-tutti`, it answers as `kubectl tutti`."""
    name = Path(sys.argv[0]).name
    cli(prog_name="kubectl tutti" if name.startswith("kubectl-") else "tutti")
