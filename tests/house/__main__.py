"""`make house`: prints how the code is doing against what it is to come to.

python -m tests.house [-o table|json] [--names]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

import tutti
from tests.house.counting import homonyms
from tests.house.figures import Figure, distributions, figures
from tests.house.source import Tree, loaded
from tests.house.walk import queued_pod

SOURCE = Path(tutti.__file__).parents[1]


def main(arguments: list[str] | None = None) -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--names", action="store_true", help="print the names that several modules define, too")
    options = parser.parse_args(arguments)
    tree = loaded(SOURCE)
    found = figures(tree, queued_pod())
    if options.output == "json":
        sys.stdout.write(f"{json.dumps(as_json(found, tree if options.names else {}), indent=2)}\n")
        return
    if sys.stdout.isatty():
        Console().print(table(found))
    else:
        sys.stdout.write(text(found))
    for own in distributions(tree) if options.names else ():
        for name, paths in homonyms(own).items():
            sys.stdout.write(f"{name}: {', '.join(paths)}\n")


def as_json(found: list[Figure], tree: Tree) -> dict[str, object]:
    """The figures for programs, and the names that several modules of a tree define."""
    out: dict[str, object] = {"figures": [{**asdict(one), "reached": one.reached} for one in found]}
    own, beside = distributions(tree)
    return out | ({"names": homonyms(own), "names_beside": homonyms(beside)} if tree else {})


def table(found: list[Figure]) -> Table:
    """The figures for a terminal."""
    drawn = Table(box=None)
    drawn.add_column("")
    for head in ("now", "aim"):
        drawn.add_column(head, justify="right")
    for one in found:
        colour = {True: "green", False: "red", None: "default"}[one.reached]
        drawn.add_row(one.title, f"[{colour}]{one.now:,}[/]", aim_of(one))
    return drawn


def text(found: list[Figure]) -> str:
    """The figures as lines of text."""
    wide = max(len(one.title) for one in found)
    rows = [("", "now", "aim"), *((one.title, f"{one.now:,}", aim_of(one)) for one in found)]
    return "".join(f"{title:{wide}}  {now:>6}  {aim:>9}\n" for title, now, aim in rows)


def aim_of(one: Figure) -> str:
    """What a figure is to come to, in words."""
    if one.aim is None:
        return ""
    if one.least:
        return f"{one.least:,}-{one.aim:,}"
    return f"<= {one.aim:,}" if one.aim else "0"


if __name__ == "__main__":
    main()
