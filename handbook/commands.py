"""The page of the command line: every subcommand, its arguments and options, as its own help tells them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from tutti.cli.main import cli

INTRODUCTION = """# Command line

`tutti`, and as `kubectl tutti` where its `kubectl-tutti` is on the `PATH`. Each command tells the same with `--help`.
"""


def page() -> str:
    """The whole page, in Markdown."""
    root = click.Context(cli, info_name="tutti", max_content_width=100, terminal_width=100)
    return INTRODUCTION + "".join(_section(context) for context in _contexts(root))


def _contexts(context: click.Context) -> Iterator[click.Context]:
    """Every command below one, depth first, groups before what is in them."""
    if not isinstance(context.command, click.Group):
        return
    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, parent=context, info_name=name, max_content_width=100, terminal_width=100)
        yield inner
        yield from _contexts(inner)


def _section(context: click.Context) -> str:
    text = context.command.get_help(context).strip()
    return f"\n## {context.command_path}\n\n```text\n{text}\n```\n"
