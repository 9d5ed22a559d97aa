"""A click group that loads its commands when they are called, and tells in full what each does.

Some commands come with another distribution than the operator: the embedded cluster, the demo and the bench, which no
cluster needs. Where their package is not installed they are not listed, and who calls one is told what to install.
"""

from __future__ import annotations

import difflib
import gc
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

_WHOLE = 1000
"""Longer than any summary."""
_NAMES = 20
"""How wide the column of names may be."""
_DISTRIBUTION = "tutti-dev"
"""What brings the commands that are not of this package (operator/pyproject.toml)."""


class CommandGroup(click.Group):
    """A group that knows some of its subcommands by name only, and loads each on demand.

    Args:
        late: Subcommand -> module that defines it as `command`; it is there only if the package of the module is.
        advice: Returns what to say of words the first of which is no subcommand, given how this group was called.
    """

    def __init__(
        self,
        *args: Any,
        late: Mapping[str, str] = MappingProxyType({}),
        advice: Callable[[str, Sequence[str]], str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._late = late
        self._advice = advice

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all subcommands that are installed."""
        late = (name for name, module in self._late.items() if _is_installed(module))
        return sorted({*super().list_commands(ctx), *late})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the subcommand, or None where there is no such name, or it is not installed."""
        module = self._late.get(cmd_name)
        if module is None or not _is_installed(module):
            return super().get_command(ctx, cmd_name)
        return _loaded(module)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand that is meant; where there is none, say what may have been."""
        if ctx.resilient_parsing or self.get_command(ctx, args[0]) is not None:
            return super().resolve_command(ctx, args)
        raise click.UsageError(self._missing(ctx, args), ctx)

    def _missing(self, ctx: click.Context, words: Sequence[str]) -> str:
        """Say of words that name no subcommand what may be meant by them, or what brings it."""
        if words[0] in self._late:
            called = f"{ctx.command_path} {words[0]}"
            return f"`{called}` comes with {_DISTRIBUTION}, which is not installed here: see `make setup` in a clone"
        if self._advice is not None:
            return self._advice(ctx.command_path, words)
        paths = [path for top in self.list_commands(ctx) for path, _ in _commands(top, self.get_command(ctx, top), ctx)]
        by_word = {word: path for path in paths for word in reversed(path.split())}
        near = difflib.get_close_matches(words[0].lower(), by_word, n=1)
        meant = f"; did you mean `{ctx.command_path} {by_word[near[0]]}`?" if near else ""
        return f"there is no command {words[0]}{meant}"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every command there is into one table, those below others too, and what each does in full."""
        rows = [
            (name, " ".join(command.get_short_help_str(_WHOLE).split()))
            for top in self.list_commands(ctx)
            for name, command in _commands(top, self.get_command(ctx, top), ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows, col_max=_NAMES)


def _is_installed(module: str) -> bool:
    """Return whether the package that a module is in can be imported."""
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def _loaded(module: str) -> click.Command:
    """Import a command, and look for no garbage meanwhile: what is imported stays, and looking took a fifth of it."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        command: click.Command = importlib.import_module(module).command
    finally:
        if collecting:
            gc.enable()
    return command


def _commands(name: str, command: click.Command | None, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield what can be called by a name: the command, or what is below it."""
    if not isinstance(command, click.Group):
        assert command is not None  # it is in the list
        yield name, command
        return
    for below in command.list_commands(ctx):
        yield from _commands(f"{name} {below}", command.get_command(ctx, below), ctx)
