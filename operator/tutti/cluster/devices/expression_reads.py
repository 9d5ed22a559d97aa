"""What an expression looks at of a device, told by the names that stand in it.

An expression is evaluated once for each distinct device, as far as it looks at them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from tutti.cluster.devices.expression_texts import BY_DOMAIN, tokens_of

# With these alone an expression looks at nothing of a device but what it names.
_PLAIN_CALLS: Final = frozenset(
    [
        "has",
        "quantity",
        "semver",
        "compareTo",
        "isGreaterThan",
        "isLessThan",
        "major",
        "minor",
        "patch",
        "asInteger",
        "isInteger",
        "sign",
        "orValue",
        "hasValue",
        "value",
        "startsWith",
        "endsWith",
        "contains",
        "matches",
        "lowerAscii",
        "upperAscii",
    ]
)


@lru_cache(maxsize=512)  # those of classes are asked for with each claim's own
def names_read(expression: str) -> frozenset[str] | None:
    """Return the names of attributes and capacities that an expression may look at; None where that cannot be told.

    It can be told where each of the maps of a device is only asked for entries by names that are written out.
    """
    found = tokens_of(expression)
    tokens = list(zip(found.kinds, found.words, strict=True))
    names: set[str] = set()
    for at, (kind, text) in enumerate(tokens):
        follows = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if text in "+{" or (kind == "name" and follows == "(" and text not in _PLAIN_CALLS):
            return None
        if kind == "string":
            names.add(text.strip("\"'"))
            if "\\" in text or text[0] not in "\"'":
                return None
        elif kind == "name":
            names.add(text)
            if text in BY_DOMAIN and not _is_taken_apart(tokens, at):
                return None
    return frozenset(names)


def _is_taken_apart(tokens: Sequence[tuple[str, str]], at: int) -> bool:
    """Whether of what stands behind `attributes` only entries are asked for, by name, or whether there are any."""
    after = [text for _, text in tokens[at + 1 : at + 6]] + [""] * 5
    if after[0] == "[" and tokens[at + 2][0] == "string" and after[2] == "]":
        end = at + 4
    elif after[0] == "." and after[1] != "?":
        end = at + 3
    else:
        return False
    follows = tokens[end][1] if end < len(tokens) else ""
    begin = at - 2  # device.
    return follows in (".", "[") or (begin >= 1 and tokens[begin - 1][1] == "in" and tokens[begin - 2][0] == "string")
