"""What a workload says of itself that the order of its queue may go by, and whose it is.

    scheduling.tutti.dev/expected-seconds: "5400"
    scheduling.tutti.dev/progress: "0.4"
    scheduling.tutti.dev/user: anna
    scheduling.tutti.dev/speed-by-members: "1=1,2=1.9,4=3.4"

A number that cannot be read says nothing: it is a hint, and no reason to keep anybody waiting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tutti.api.conventions.speed_by_members import LONGEST_TEXT, SPEED_BY_MEMBERS
from tutti.api.model import GROUP

EXPECTED_SECONDS: Final = f"{GROUP}/expected-seconds"
"""For how long it runs, in whole seconds."""
USER: Final = f"{GROUP}/user"
"""Whose it is; nobody but an admission policy keeps tenants from writing what they like (docs/security.md)."""
PROGRESS: Final = f"{GROUP}/progress"
"""How much progress it still makes, from 0 for none to 1."""
LONGEST_USER: Final = 256
MOST_SECONDS: Final = 2**31 - 1
_LONGEST_NUMBER: Final = 32
_STEPS: Final = 100
_KEYS: Final = frozenset((EXPECTED_SECONDS, PROGRESS, USER, SPEED_BY_MEMBERS))


class OrderHints(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was said.

    Attributes:
        seconds: For how long it runs; 0: it does not say.
        progress: In hundredths; -1: it does not say.
        user: Whose it is; "": it does not say.
        speed: How fast it runs with how many members, as it was written; "": it does not say.
    """

    seconds: int = 0
    progress: int = -1
    user: str = ""
    speed: str = ""

    def __bool__(self) -> bool:
        return self != NO_HINTS


NO_HINTS: Final = OrderHints()


def order_hints(annotations: Mapping[str, Any]) -> OrderHints:
    """Return what the annotations of an object say, as they were written."""
    if _KEYS.isdisjoint(annotations):
        return NO_HINTS  # as nearly always, and this is asked for every change of every pod
    seconds, progress = _number(annotations.get(EXPECTED_SECONDS)), _number(annotations.get(PROGRESS))
    user, speed = annotations.get(USER), annotations.get(SPEED_BY_MEMBERS)
    found = OrderHints(
        0 if seconds is None or seconds < 1 else int(min(seconds, MOST_SECONDS)),
        -1 if progress is None or not 0 <= progress <= 1 else round(progress * _STEPS),
        user[:LONGEST_USER] if isinstance(user, str) else "",
        speed[: LONGEST_TEXT + 1] if isinstance(speed, str) else "",
    )
    return found if found != NO_HINTS else NO_HINTS


def progress_of(hints: OrderHints) -> float:
    """Return how much progress is made, 0 to 1; who does not say it makes some."""
    return 1.0 if hints.progress < 0 else hints.progress / _STEPS


def _number(said: Any) -> float | None:
    """Return a number that is written in decimal digits; None where it is none."""
    if not isinstance(said, str) or len(said) > _LONGEST_NUMBER:
        return None
    try:
        found = float(said)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
