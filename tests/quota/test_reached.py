"""Every rule of quota and of queues is one that a command comes to: none is there for its tests alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tutti

ROOT = Path(tutti.__file__).parent
ROOMS = ("quota", "queueing")


def name_of(path: Path) -> str:
    return ".".join(("tutti", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {name_of(path): path for path in ROOT.rglob("*.py")}


def imported(module: str) -> Iterator[str]:
    """What a module imports, wherever in it that stands."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def reached(starts: list[str]) -> set[str]:
    seen: set[str] = set()
    left = list(starts)
    while left:
        module = left.pop()
        if module in MODULES and module not in seen:
            seen.add(module)
            left += imported(module)
    return seen


def test_every_module_of_quota_and_queueing_is_reached_from_a_command():
    commands = [name for name in MODULES if name.startswith("tutti.cli")]
    rules = {name for name in MODULES if name.startswith(tuple(f"tutti.{room}." for room in ROOMS))}
    assert commands
    assert rules
    assert rules - reached(commands) == set()
