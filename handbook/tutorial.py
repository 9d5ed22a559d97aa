"""Runs pages on an embedded cluster: `python -m handbook.tutorial PAGE...` writes into them what is printed now.

The tutorial and the README begin with nothing. Every other page goes on from the tutorial's first chapters, on a
cluster of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from pathlib import Path

from handbook.walkthrough import Step, rewritten, shell, steps

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
FROM_NOTHING = (TUTORIAL, ROOT / "README.md")
"""Pages that start a cluster of their own."""
LAST_OF_THE_BEGINNING = "train() {"
"""What the last block has in it that other pages go on from."""
PORT = "8080"
"""The port that pages name; a free one is taken in its place."""


def beginning() -> list[Step]:
    """The blocks of the tutorial that every other page goes on from."""
    found = steps(TUTORIAL.read_text(encoding="utf-8"))
    last = next(number for number, step in enumerate(found) if LAST_OF_THE_BEGINNING in step.command)
    return found[: last + 1]


def outputs(page: Path) -> list[str]:
    """What each block of a page prints when all are run in order, from the root of the repository."""
    before = [] if page.resolve() in FROM_NOTHING else beginning()
    mine = steps(page.read_text(encoding="utf-8"))
    return asyncio.run(_run([*before, *mine]))[len(before) :]


async def _run(blocks: list[Step]) -> list[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    async with shell(ROOT, {"PATH": path}) as running:
        return [(await running.run(step.command.replace(PORT, port))).replace(port, PORT) for step in blocks]


def main() -> None:
    """Run the pages that are named, and write what their commands print into them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=Path, nargs="+")
    for page in parser.parse_args().pages:
        said = outputs(page)
        page.write_text(rewritten(page.read_text(encoding="utf-8"), said), encoding="utf-8")


if __name__ == "__main__":
    main()
