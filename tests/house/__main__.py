"""`make house`: prints how the code is doing against what it is to come to.

python -m tests.house [-o table|json] [--names]
python -m tests.house --map ROOM   # prints the modules of a room, such as engine/lifecycle, and what each is for
python -m tests.house --prune      # takes names out of homonyms.txt that only one module defines by now
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

import tutti
from tests.house.counting import homonyms, within
from tests.house.figures import Figure, distributions, figures
from tests.house.names import LIST, listed, pruned
from tests.house.source import Tree, loaded
from tests.house.walk import queued_pod

SOURCE = Path(tutti.__file__).parents[1]


def main(arguments: list[str] | None = None) -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--names", action="store_true", help="print the names that several modules define, too")
    parser.add_argument("--prune", nargs="?", type=Path, const=LIST, metavar="FILE", help="shorten homonyms.txt")
    parser.add_argument("--map", metavar="ROOM", help="print the modules of a room, and what each is for")
    options = parser.parse_args(arguments)
    tree = loaded(SOURCE)
    if options.map is not None:
        sys.stdout.write(purposes(within(tree, f"tutti/{options.map}".strip("/").replace("/", "."))))
        return
    if options.prune is not None:
        prune(options.prune, tree)
        return
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


def prune(path: Path, tree: Tree) -> None:
    """Take the names out of a list that only one module of a tree defines by now, and print them."""
    text = path.read_text(encoding="utf-8")
    own, _ = distributions(tree)
    left = pruned(text, homonyms(own))
    for name in listed(text).keys() - listed(left).keys():
        sys.stdout.write(f"{name}\n")
    path.write_text(left, encoding="utf-8")


def purposes(tree: Tree) -> str:
    """The modules of a tree with what their docstrings say first, a line each."""
    said = {module.path: (ast.get_docstring(module.tree) or "").split("\n\n")[0] for module in tree.values()}
    wide = max(map(len, said), default=0)
    return "".join(f"{path:{wide}}  {' '.join(first.split())}\n" for path, first in said.items())


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
