"""Patterns in expressions, and what it takes to make them ready.

RE2 takes time linear in the text, but what it makes of a pattern may be far larger than that: a class of letters two
hundred times over takes longer than anything else that fits into a line. A pattern that is written out is known before
an expression is evaluated. One that is put together only then is looked at here before it is made ready.
"""

from __future__ import annotations

import re
from typing import Final

import re2
from cel_expr_python import cel

from tutti.cluster.devices.expression_values import BOOL, INT, TEXT, Function, Overload, SelectorError

MOST_OF_PATTERN: Final = 2_000
"""So much a pattern may cost that is put together while an expression runs, in steps (`expression_costs.py`)."""

MADE: Final = {"matches": "matchesMade", "find": "findMade", "findAll": "findAllMade"}
"""What functions are called before they are compiled whose pattern is not written out."""

_REPEATS: Final = re.compile(r"\{(\d{1,4})?,?(\d{1,4})?\}", re.ASCII)
_OF_ANY_CASE: Final = 4
"""So much longer it takes where letters stand for those of the other case as well."""


def cost_of_pattern(pattern: str) -> int:
    """Return what it costs to make a pattern ready, in steps (RE2, measured)."""
    repeats = 1
    for said in _REPEATS.findall(pattern):
        repeats *= max(1, *(int(one) for one in said if one))
    broad = pattern.count(".") + pattern.count("[^")
    classes = pattern.count("\\p") + pattern.count("\\P")
    optional = pattern.count("?") + pattern.count("*")  # how many states may be left out of one another grows by pairs
    repeats *= _OF_ANY_CASE if "(?" in pattern and "i" in pattern else 1
    return 100 + (3 * len(pattern) + 30 * broad + 70_000 * classes + optional * optional // 20) * repeats


def _find(text: str, pattern: str) -> str:
    found = re2.search(pattern, text)
    return found.group() if found is not None else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found = [one.group() for one in re2.finditer(pattern, text)]
    return found if most < 0 else found[:most]


def _made(pattern: str) -> str:
    cost = cost_of_pattern(pattern)
    if cost > MOST_OF_PATTERN:
        raise SelectorError(
            f"too complex, exceeds cost limit: a pattern that is put together may take {cost} steps, "
            f"and {MOST_OF_PATTERN} is the most; one that is written out may take more"
        )
    try:
        re2.compile(pattern)
    except re2.error as error:
        raise SelectorError(f"error parsing regexp: {error}") from error
    return pattern


def _matches_made(text: str, pattern: str) -> bool:
    return re2.search(_made(pattern), text) is not None


def _find_made(text: str, pattern: str) -> str:
    return _find(text, _made(pattern))


def _find_all_made(text: str, pattern: str, most: int = -1) -> list[str]:
    return _find_all(text, _made(pattern), most)


_TEXTS: Final = cel.Type.List(TEXT)

PATTERN_FUNCTIONS: Final = [
    Function("find", [Overload([TEXT, TEXT], TEXT, _find)]),
    Function("findAll", [Overload([TEXT, TEXT], _TEXTS, _find_all), Overload([TEXT, TEXT, INT], _TEXTS, _find_all)]),
]
"""Functions that expressions may call."""

MADE_FUNCTIONS: Final = [
    Function(
        MADE["matches"],
        [Overload([TEXT, TEXT], BOOL, _matches_made), Overload([TEXT, TEXT], BOOL, _matches_made, member=False)],
    ),
    Function(MADE["find"], [Overload([TEXT, TEXT], TEXT, _find_made)]),
    Function(
        MADE["findAll"],
        [Overload([TEXT, TEXT], _TEXTS, _find_all_made), Overload([TEXT, TEXT, INT], _TEXTS, _find_all_made)],
    ),
]
"""Functions that stand only in what expressions are made to before they are evaluated."""
