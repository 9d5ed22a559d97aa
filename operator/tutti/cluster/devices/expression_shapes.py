"""Expressions that differ only in what they compare with: what tells that, so that they are compiled once for all.

Tenants ask for a model or a zone of their own each, and to compile what they write takes longer than to evaluate it.
A text that something is compared with changes neither types nor what is compiled; what it costs, only by its length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from tutti.cluster.devices.expression_texts import tokens_of

_PREFIX: Final = "compared_with_"
VARIABLES: Final = tuple(f"{_PREFIX}{at}" for at in range(8))
"""The names by which texts are handed over that something is compared with; all else stays as it is written."""
_BEHIND: Final = frozenset(("", ")", "&", "|"))
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class ExpressionShape(NamedTuple):
    """An expression without the texts that something is compared with.

    Attributes:
        text: The expression with VARIABLES in place of these; itself where there are none.
        lengths: How long each of these is, in bytes.
        values: What each of the variables stands for.
    """

    text: str
    lengths: tuple[int, ...] = ()
    values: Mapping[str, str] = _NOTHING


def expression_shape(expression: str) -> ExpressionShape:
    """Return the shape of an expression: what is compiled of it, and what that costs, is so for all of the same."""
    if _PREFIX in expression or "bind" in expression:  # bindings are written out, as far as there is room
        return ExpressionShape(expression)
    found = tokens_of(expression)
    words = (*found.words, "")
    places = [at for at, kind in enumerate(found.kinds) if kind == "string" and _is_compared(words, at)]
    values = {name: words[at][1:-1] for name, at in zip(VARIABLES, places, strict=False)}
    if not values:
        return ExpressionShape(expression)
    parts = [text for _, text in found.every]
    for name, at in zip(VARIABLES, places, strict=False):
        parts[found.solid[at]] = name
    return ExpressionShape("".join(parts), tuple([len(one.encode()) for one in values.values()]), values)


def _is_compared(words: Sequence[str], at: int) -> bool:
    """Whether a string stands right of `==` or `!=`, and means what is written between its quotes."""
    word = words[at]
    if "".join(words[max(0, at - 2) : at]) not in ("==", "!=") or words[at + 1] not in _BEHIND:
        return False
    return word[0] in "\"'" and word[:3] not in ('"""', "'''") and "\\" not in word and word.isprintable()
