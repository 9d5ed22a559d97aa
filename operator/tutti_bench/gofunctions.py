"""The functions of templates: arithmetic as scheduler_perf defines it, and a few of Go's own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

_LARGEST_PLAIN: Final = 1e21
_VERBS: Final = re.compile(r"%(%|[-+ 0#]*[0-9]*(?:\.[0-9]+)?[dsvfq])")


def number_of(value: Any) -> float:
    """Return a number, also of a text that is one.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is no number")  # noqa: TRY004 - told like a text that is none
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{value!r} is no number") from None


def text_of(value: Any) -> str:
    """Return how a value is written: whole floats without a fraction, booleans in small letters, nothing for none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_PLAIN:
        return str(int(value))
    return str(value)


def truth_of(value: Any) -> bool:
    """Whether an `if` holds: for anything but false, zero and what is empty (Go, text/template)."""
    return bool(value)


def _quotient(dividend: Any, divisor: Any) -> float:
    by = number_of(divisor)
    if by == 0:
        raise ValueError("division by zero")
    return number_of(dividend) / by


def _remainder(dividend: Any, divisor: Any) -> int:
    """The remainder with the sign of the dividend, as Go has it."""
    by = int(number_of(divisor))
    if by == 0:
        raise ValueError("division by zero")
    return int(math.fmod(int(number_of(dividend)), by))


def _printed(form: Any, *values: Any) -> str:
    """Go's `printf` with the verbs d, s, v, f and q."""
    left = list(values)

    def one(match: re.Match[str]) -> str:
        verb = match[1]
        if verb == "%":
            return "%"
        if not left:
            raise ValueError(f"printf {form!r} needs more values than {len(values)}")
        value, flags = left.pop(0), verb[:-1]
        match verb[-1]:
            case "d":
                return f"%{flags}d" % int(number_of(value))
            case "f":
                return f"%{flags}f" % number_of(value)
            case "q":
                return '"' + text_of(value).replace('"', '\\"') + '"'
            case _:
                return f"%{flags}s" % text_of(value)

    made = _VERBS.sub(one, str(form))
    if left:
        raise ValueError(f"printf {form!r} takes fewer values than {len(values)}")
    return made


def _equal(first: Any, *others: Any) -> bool:
    """Whether the first is equal to any of the others."""
    return any(first == other for other in others)


FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "AddInt": lambda *numbers: int(sum(map(number_of, numbers))),
        "AddFloat": lambda *numbers: sum(map(number_of, numbers)),
        "SubtractInt": lambda a, b: int(number_of(a) - number_of(b)),
        "SubtractFloat": lambda a, b: number_of(a) - number_of(b),
        "MultiplyInt": lambda *numbers: int(math.prod(map(number_of, numbers))),
        "MultiplyFloat": lambda *numbers: math.prod(map(number_of, numbers)),
        "DivideInt": lambda a, b: int(_quotient(a, b)),
        "DivideFloat": _quotient,
        "Mod": _remainder,
        "printf": _printed,
        "eq": _equal,
        "ne": lambda a, b: a != b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
        "and": lambda *values: next((value for value in values[:-1] if not value), values[-1]),
        "or": lambda *values: next((value for value in values[:-1] if value), values[-1]),
        "not": lambda value: not value,
    }
)
"""By the names that templates call them."""
