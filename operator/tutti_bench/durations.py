"""Durations as Go writes them: `500ms`, `1m30s`."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator

_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h)")


def seconds_of(value: Any) -> float:
    """Return the seconds of a duration (Go, time.ParseDuration); "0" needs no unit, and none can be negative.

    Raises:
        ValueError: It is no such duration.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value == 0:
            return 0.0
        raise ValueError(f"{value} has no unit; write for example {value}s")
    text = str(value).strip()
    parts = _PART.findall(text)
    if text == "0":
        return 0.0
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration; write for example 500ms, 10s or 1m30s")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


Duration = Annotated[float, BeforeValidator(seconds_of)]
"""A duration, kept in seconds."""
