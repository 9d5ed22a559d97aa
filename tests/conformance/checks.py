"""The operators by which expectations compare a value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.conformance.paths import ABSENT, at
from tutti_sim.meta.amounts import amount

TYPES = {"string": str, "list": list, "object": dict, "boolean": bool, "integer": int}


class Mismatch(AssertionError):  # noqa: N818 - a fact about the answer
    """The server answered something else than was recorded."""


def shown(value: Any) -> str:
    """A value for a message, shortened."""
    text = repr(value) if value is ABSENT else json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)
    return text if len(text) <= 300 else text[:300] + "..."


def same(want: Any, got: Any) -> bool:
    if want is None:
        return got is None or got is ABSENT
    return got == want and isinstance(got, bool) == isinstance(want, bool)


def within(want: Any, got: Any) -> bool:
    """Whether `got` holds all of `want`; lists item by item."""
    if isinstance(want, dict):
        return isinstance(got, dict) and all(key in got and within(one, got[key]) for key, one in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(within, want, got))
    return bool(want == got)


def number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def holds(want: Any, got: Any) -> bool:
    wanted = want if isinstance(want, list) else [want]
    return isinstance(got, list | dict | str) and all(one in got for one in wanted)


def lacks(want: Any, got: Any) -> bool:
    wanted = want if isinstance(want, list) else [want]
    return isinstance(got, list | dict | str) and not any(one in got for one in wanted)


def matches(want: str, got: Any) -> bool:
    return got is not ABSENT and re.search(want, got if isinstance(got, str) else json.dumps(got)) is not None


def typed(want: str, got: Any) -> bool:
    return isinstance(got, TYPES[want]) and (want != "integer" or not isinstance(got, bool))


def size(got: Any) -> int:
    return len(got) if hasattr(got, "__len__") else -1


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "equals": same,
    "exists": lambda want, got: (got is not ABSENT and got is not None) == bool(want),
    "absent": lambda want, got: (got is ABSENT) == bool(want),
    "differs": lambda want, got: got is not ABSENT and got != want,
    "regex": matches,
    "length": lambda want, got: size(got) == want,
    "min_length": lambda want, got: size(got) >= want,
    "contains": holds,
    "excludes": lacks,
    "same_set": lambda want, got: isinstance(got, list) and sorted(map(str, got)) == sorted(map(str, want)),
    "one_of": lambda want, got: got in want,
    "gt": lambda want, got: number(got) > number(want),
    "lt": lambda want, got: number(got) < number(want),
    "subset": within,
    "type": typed,
    "quantity": lambda want, got: isinstance(got, str) and amount(got) == amount(want),
}


def check(place: str, want: Any, got: Any) -> None:
    """Mismatch unless the value found at a place is as wanted: a plain value, or operators with their arguments."""
    operators = want if isinstance(want, dict) and want and want.keys() <= OPERATORS.keys() else {"equals": want}
    for name, argument in operators.items():
        if not OPERATORS[name](argument, got):
            raise Mismatch(f"{place}: expected {name} {shown(argument)}, got {shown(got)}")


def check_all(wanted: Any, document: Any, prefix: str = "") -> None:
    """Check every path of an expectation; a list form names path and operators in one object each."""
    if isinstance(wanted, list):
        pairs = [(one["path"], {key: value for key, value in one.items() if key != "path"}) for one in wanted]
    else:
        pairs = list((wanted or {}).items())
    for path, want in pairs:
        check(prefix + path, want, at(document, path))
