"""Runs pages on an embedded cluster: `python -m handbook.tutorial PAGE...` writes into them what is printed now.

A page that links to where commands begin goes on from the tutorial's first chapters, on a cluster of its own. All
others begin with nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from e2e.harness.processes import free_port
from handbook.walkthrough import Step, rewritten, shell, steps

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
COMMANDS = Path(sys.executable).parent
"""Where the commands of this environment are."""
GOES_ON = "index.md#where-the-commands-begin"
"""What a page links to, before its first block, that goes on from the tutorial's beginning."""
LAST_OF_THE_BEGINNING = "train() {"
"""What the last block has in it that other pages go on from."""
PORT = "8080"
"""The port that pages name; a free one is taken in its place."""
PATIENCE = {"--timeout=60s": "--timeout=600s", "--retry 60": "--retry 600"}
"""For how long readers wait for what a command has begun, and what a busy machine is given in its place."""


def beginning() -> list[Step]:
    """The blocks of the tutorial that every other page goes on from."""
    found = steps(TUTORIAL.read_text(encoding="utf-8"))
    last = next(number for number, step in enumerate(found) if LAST_OF_THE_BEGINNING in step.command)
    return found[: last + 1]


def outputs(page: Path, *, commands: Path = COMMANDS) -> list[str]:
    """What each block of a page prints when all are run in order, from the root of the repository.

    `tutti` is the one that is found in the folder `commands`.
    """
    text = page.read_text(encoding="utf-8")
    before = beginning() if GOES_ON in text.partition("```sh\n")[0] else []
    mine = steps(text)
    return asyncio.run(_run([*before, *mine], commands))[len(before) :]


async def _run(blocks: list[Step], commands: Path) -> list[str]:
    port = str(free_port())
    path = f"{commands}:{COMMANDS}:{os.environ['PATH']}"
    async with shell(ROOT, {"PATH": path}) as running:
        return [(await running.run(_as_run(step.command, port))).replace(port, PORT) for step in blocks]


def _as_run(command: str, port: str) -> str:
    """A command as it is run here."""
    for shown, taken in {PORT: port, **PATIENCE}.items():
        command = command.replace(shown, taken)
    return command


def main() -> None:
    """Run the pages that are named, and write what their commands print into them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=Path, nargs="+")
    for page in parser.parse_args().pages:
        said = outputs(page)
        page.write_text(rewritten(page.read_text(encoding="utf-8"), said), encoding="utf-8")


if __name__ == "__main__":
    main()
