"""Substitution of saved values, and values at dotted paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

NAME = re.compile(r"\$\$|\$([a-z][A-Za-z0-9_]*)")
STEP = re.compile(
    r"""\.?(?P<key>[^.\[\]]+) | \[(?P<all>\*)\] | \[(?P<index>-?\d+)\] | \['(?P<quoted>[^']*)'\]
      | \[(?P<field>[^=\]]+)=(?P<value>[^\]]*)\]""",
    re.VERBOSE,
)


class Absent:
    """The value at a path that leads nowhere."""

    def __repr__(self) -> str:
        return "<absent>"


ABSENT = Absent()


def fill(value: Any, saved: dict[str, Any]) -> Any:
    """The value with every `$name` replaced; a text that is one name only takes over the saved value's type."""
    if isinstance(value, dict):
        return {fill(key, saved): fill(inner, saved) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill(inner, saved) for inner in value]
    if not isinstance(value, str):
        return value
    whole = NAME.fullmatch(value)
    if whole and whole[1] in saved:
        return saved[whole[1]]
    return NAME.sub(lambda hit: "$" if hit[0] == "$$" else str(saved.get(hit[1], hit[0])), value)


def steps(path: str) -> list[re.Match[str]]:
    """A path taken apart; ValueError when it is malformed."""
    text, found, position = path.strip(), list[re.Match[str]](), 0
    if text in ("", "$", "."):
        return []
    while position < len(text):
        match = STEP.match(text, position)
        if match is None:
            raise ValueError(f"path {path!r} is malformed at {text[position:]!r}")
        found.append(match)
        position = match.end()
    return found


def at(document: Any, path: str) -> Any:
    """The value at a path, or ABSENT; `[*]` gives a list."""
    return _walk(document, steps(path))


def _walk(node: Any, rest: list[re.Match[str]]) -> Any:
    for number, step in enumerate(rest):
        if step["all"]:
            return [_walk(item, rest[number + 1 :]) for item in node] if isinstance(node, list) else ABSENT
        node = _child(node, step)
        if node is ABSENT:
            return ABSENT
    return node


def _child(node: Any, step: re.Match[str]) -> Any:
    name = step["key"] if step["key"] is not None else step["quoted"]
    if name is not None:
        return node[name] if isinstance(node, dict) and name in node else ABSENT
    if not isinstance(node, list):
        return ABSENT
    if step["index"] is not None:
        index = int(step["index"])
        return node[index] if -len(node) <= index < len(node) else ABSENT
    hits = (item for item in node if isinstance(item, dict) and str(item.get(step["field"], ABSENT)) == step["value"])
    return next(hits, ABSENT)


def flat(nested: list[Any]) -> Iterator[Any]:
    """Steps, where an anchor may have put a list in place of one."""
    for one in nested:
        if isinstance(one, list):
            yield from flat(one)
        else:
            yield one
