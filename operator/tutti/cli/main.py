"""The `tutti` command: one click group whose subcommands are imported only when they are called."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
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
        "drain-check": "tutti.cli.views.drain.command",
        "explain": "tutti.cli.views.explain.command",
        "gangs": "tutti.cli.views.gangs.command",
        "migrate": "tutti.cli.migrate.command",
        "queue": "tutti.cli.views.queues.command",
        "replay": "tutti.cli.replay",
        "run": "tutti.cli.run",
        "top": "tutti.cli.views.nodes.command",
    }
)

_WHOLE = 1000
"""Longer than any summary."""
_NAMES = 20
"""How wide the column of names may be."""


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every command there is into one table, those below others too, and what each does in full."""
        rows = [
            (name, " ".join(command.get_short_help_str(_WHOLE).split()))
            for top in self.list_commands(ctx)
            for name, command in _commands(top, self.get_command(ctx, top), ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows, col_max=_NAMES)


def _commands(name: str, command: click.Command | None, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield what can be called by a name: the command, or what is below it."""
    if not isinstance(command, click.Group):
        assert command is not None  # it is in the list
        yield name, command
        return
    for below in command.list_commands(ctx):
        yield from _commands(f"{name} {below}", command.get_command(ctx, below), ctx)


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="tutti %(version)s")
def cli() -> None:
    """A secondary scheduler for Kubernetes: quota and placement for a whole gang, decided at once."""


def main() -> None:
    """Run the command line; called `kubectl-tutti`, it answers as `kubectl tutti`."""
    name = Path(sys.argv[0]).name
    cli(prog_name="kubectl tutti" if name.startswith("kubectl-") else "tutti")
