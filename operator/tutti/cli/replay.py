"""`tutti replay`: run a journal again and verify that every decision comes out the same."""

from __future__ import annotations

import fileinput
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from tutti.api.messages import counted
from tutti.api.problems import ConfigurationError
from tutti.cli.terminal import Terminal
from tutti.controller.plugins import load_plugins
from tutti.engine.journal import Difference, JournalError, Replay, replay

SHOWN = 5


@click.command()
@click.argument("journal", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(journal: tuple[Path, ...], output: str) -> None:
    """Run JOURNAL, written by `tutti run --journal`, through a fresh engine and compare its decisions.

    Of a journal in several parts give all of them, in order: FILE.20261122T183000Z.* and then FILE.
    Exits 0 where all are the same, 1 where any differs, 2 where the journal cannot be read.
    The plugins that its configuration enables must be installed as they were.
    """
    try:
        with fileinput.input(journal, mode="rb") as lines:
            found = replay(lines, load_plugins)
    except (JournalError, ConfigurationError) as error:
        said = f"{', '.join(map(str, journal))}: {error}"
        Terminal(stderr=True, highlight=False, soft_wrap=True).print(said, style="red", markup=False)
        sys.exit(2)
    if output == "json":
        click.echo(json.dumps(_as_json(found), indent=2))
    else:
        _print(found)
    sys.exit(1 if found.differences else 0)


def _print(found: Replay) -> None:
    out = Terminal(highlight=False, soft_wrap=True)
    for difference in found.differences[:SHOWN]:
        _print_difference(out, difference)
    if len(found.differences) > SHOWN:
        out.print(f"... and {len(found.differences) - SHOWN} more")
    verdict = "[red]differs[/]" if found.differences else "[green]identical[/]"
    out.print(
        f"{verdict}: {counted(found.observations, 'observation')}, {counted(found.calls, 'call')} of decide, "
        f"{counted(found.decisions, 'decision')}, {counted(len(found.differences), 'difference')}",
        markup=True,
    )


def _print_difference(out: Terminal, difference: Difference) -> None:
    at = datetime.fromtimestamp(difference.at, UTC).isoformat()
    out.print(f"line {difference.line}, {at}:", markup=False)
    for sign, decisions in (("-", difference.recorded), ("+", difference.replayed)):
        for decision in decisions:
            out.print(f"  {sign} {msgspec.json.encode(decision).decode()}", markup=False)


def _as_json(found: Replay) -> dict[str, object]:
    return {
        "identical": not found.differences,
        "observations": found.observations,
        "calls": found.calls,
        "decisions": found.decisions,
        "differences": [
            {
                "line": one.line,
                "at": one.at,
                "recorded": msgspec.to_builtins(one.recorded),
                "replayed": msgspec.to_builtins(one.replayed),
            }
            for one in found.differences
        ],
    }
