"""The source of the operator as figures are counted on it: modules by name, each with its text parsed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True)
class Module:
    """One file.

    Attributes:
        name: As it is imported; of a package's `__init__.py` the name of the package.
        path: Under the source folder, with slashes.
        lines: How many, empty ones and comments too.
    """

    name: str
    path: str
    lines: int
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        """Whether it is the `__init__.py` of one."""
        return self.path.endswith("__init__.py")


Tree = Mapping[str, Module]
"""Modules by name."""


def parsed(texts: Mapping[str, str]) -> Tree:
    """The modules of a source tree, given as its paths under the source folder, each with its text."""
    modules = [Module(_name(path), path, len(text.splitlines()), ast.parse(text)) for path, text in texts.items()]
    return {one.name: one for one in modules}


@cache
def loaded(folder: Path) -> Tree:
    """The modules of a source tree on disk, in the order of their paths; of each tree they are read once."""
    paths = sorted(folder.rglob("*.py"))
    return parsed({path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths})


def imported(module: Module, tree: Tree) -> Iterator[str]:
    """Yield which modules of a tree a module imports: at its top, in functions, and for type checkers.

    `from a import b` imports `a.b` where that is a module, else `a`. A name may come more than once.
    """
    for node in ast.walk(module.tree):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names if alias.name in tree)
            case ast.ImportFrom():
                base = _base(module, node)
                for alias in node.names:
                    full = f"{base}.{alias.name}"
                    if full in tree:
                        yield full
                    elif base in tree:
                        yield base


def _base(module: Module, node: ast.ImportFrom) -> str:
    """The module that names are imported from; a relative one is counted from the package of the importer."""
    if not node.level:
        return node.module or ""
    package = module.name.split(".") if module.is_package else module.name.split(".")[:-1]
    above = package[: len(package) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])


def _name(path: str) -> str:
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
