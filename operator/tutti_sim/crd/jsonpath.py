"""The JSON paths of printer columns: `.spec.parts[0].name`, `.status.conditions[?(@.type=="Ready")].status`, `[*]`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

STEP = re.compile(
    r"""\.(?P<name>(?:[^.\[\]\\]|\\.)+)
      | \[['"](?P<quoted>[^'"]+)['"]\]
      | \[(?P<index>-?\d+)\]
      | (?P<all>\[\*\])
      | \[\?\(@\.(?P<key>[\w.-]+)\s*==\s*['"]?(?P<value>[^'")]*)['"]?\)\]""",
    re.VERBOSE,
)

Reader = Callable[[Any], list[Any]]


def reader(text: str) -> Reader:
    """A function from a document to the values at a path; ValueError when the path is malformed."""
    source = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[re.Match[str]] = []
    position = 0
    while position < len(source):
        match = STEP.match(source, position)
        if not match:
            raise ValueError(f"JSON path {text!r} is malformed at {source[position:]!r}")
        steps.append(match)
        position = match.end()

    def read(document: Any) -> list[Any]:
        nodes = [document]
        for step in steps:
            nodes = [found for node in nodes for found in _follow(node, step)]
        return [node for node in nodes if node is not None]

    return read


def _follow(node: Any, step: re.Match[str]) -> list[Any]:
    name = step["name"].replace("\\", "") if step["name"] else step["quoted"]
    if name is not None:
        return [node[name]] if isinstance(node, dict) and name in node else []
    if not isinstance(node, list):
        return list(node.values()) if step["all"] and isinstance(node, dict) else []
    if step["all"]:
        return node
    if step["index"] is not None:
        index = int(step["index"])
        return [node[index]] if -len(node) <= index < len(node) else []
    return [item for item in node if isinstance(item, dict) and str(item.get(step["key"])) == step["value"]]
