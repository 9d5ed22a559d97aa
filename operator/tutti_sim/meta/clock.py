"""Times as the API writes them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from tutti_sim.meta import Json

RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")


YEAR = 365 * 86400
# Below this many seconds: the unit, its seconds, and the smaller unit that is told with it (HumanDuration).
SPANS = (
    (120, "s", 1, "", 0),
    (600, "m", 60, "s", 1),
    (10800, "m", 60, "", 0),
    (28800, "h", 3600, "m", 60),
    (172800, "h", 3600, "", 0),
    (691200, "d", 86400, "h", 3600),
    (2 * YEAR, "d", 86400, "", 0),
)


_skew: ContextVar[float] = ContextVar("skew", default=0.0)
"""Seconds that the clock of whoever runs in this context is ahead."""


@contextmanager
def skewed(seconds: float) -> Iterator[None]:
    """Have the clock that many seconds ahead in here, as on a server whose clock is wrong."""
    token = _skew.set(seconds)
    try:
        yield
    finally:
        _skew.reset(token)


def moment() -> float:
    """The current time in seconds since 1970."""
    return time.time() + _skew.get()


def now() -> str:
    """The current time to the second, as metav1.Time is written."""
    return _second(int(moment()))


@lru_cache(maxsize=16)
def _second(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def later(seconds: int) -> str:
    """The time that many seconds from now."""
    return _second(int(moment()) + seconds)


def parse_time(text: str) -> datetime:
    """The moment that an API time names."""
    return datetime.fromisoformat(text)


def canonical(text: str) -> str:
    """An API time in UTC and whole seconds, as metav1.Time keeps it; ValueError when it is no RFC 3339 time."""
    if len(text) == len("2006-01-02T15:04:05Z") and text[-1] == "Z" and RFC3339.fullmatch(text):
        return text
    if not RFC3339.fullmatch(text):
        raise ValueError(text)
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def canonical_micro(text: str) -> str:
    """An API time with its microseconds, in UTC, as metav1.MicroTime keeps it; ValueError when it is none."""
    if not MICRO.fullmatch(text):
        raise ValueError(text)
    if text[-1] == "Z":
        datetime.fromisoformat(text)
        return text
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def age(created: str | None) -> str:
    """How long ago a time was, in kubectl's short form: `5s`, `3m20s`, `2d4h`."""
    if not created:
        return "<unknown>"
    return span(moment() - parse_time(created).timestamp())


def span(seconds: float) -> str:
    """A duration in kubectl's short form (apimachinery/pkg/util/duration, HumanDuration)."""
    whole = int(seconds)
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    for limit, unit, size, smaller, step in SPANS:
        if whole < limit:
            rest = whole % size // step if step else 0
            return f"{whole // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{whole // YEAR}y"


def find(obj: Json, kind: str) -> Json | None:
    """The condition of that type in an object's status."""
    conditions: list[Json] = obj.get("status", {}).get("conditions") or []
    return next((one for one in conditions if one.get("type") == kind), None)


def holds(obj: Json, kind: str) -> bool:
    """Whether a condition is True."""
    found = find(obj, kind)
    return found is not None and found.get("status") == "True"


def put_condition(conditions: Iterable[Json], kind: str, status: str, **fields: Any) -> list[Json]:
    """Conditions with one of them set, in its place; its transition time changes only when its status does."""
    kept = list(conditions)
    for index, one in enumerate(kept):
        if one.get("type") == kind:
            moved = {} if one.get("status") == status else {"lastTransitionTime": now()}
            kept[index] = {**one, "status": status, **fields, **moved}
            return kept
    return [*kept, {"type": kind, "status": status, "lastTransitionTime": now(), **fields}]
