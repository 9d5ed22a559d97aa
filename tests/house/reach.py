"""Which modules a command can reach: what nobody reaches is code for tests alone, and is deleted.

A module is reached where one that is reached imports it, at its top or in a function, or names it in a string, as
a command that is loaded when it is called, and an attribute of a module (`module:name`). Importing a module runs the packages it is in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.house.source import Module, Tree, imported


def entries(project: Mapping[str, Any]) -> set[str]:
    """The modules that a project's commands begin in, by its pyproject.toml."""
    commands = {**project["project"].get("scripts", {}), **project["project"].get("gui-scripts", {})}
    return {target.partition(":")[0] for target in commands.values()}


def reached(tree: Tree, begin: Iterable[str]) -> set[str]:
    """The modules of a tree that are loaded, or may be, by whoever loads these.

    Raises:
        KeyError: one of these is no module of the tree.
    """
    ahead = list(begin)
    found: set[str] = set()
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += _loaded_by(tree[name], tree)
    return found


def unreached(tree: Tree, begin: Iterable[str]) -> list[str]:
    """Paths of the files that nobody loads; an empty `__init__.py` of a package counts with what is in it."""
    found = reached(tree, begin)
    return sorted(module.path for name, module in tree.items() if name not in found)


def _loaded_by(module: Module, tree: Tree) -> Iterator[str]:
    yield from (above for above in _packages(module.name) if above in tree)
    yield from imported(module, tree)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]
            if name in tree and "." in name:
                yield name


def _packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))
