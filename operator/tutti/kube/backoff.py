"""How long to wait before trying again: one jittered exponential backoff for everything that talks to the cluster.

Jitter keeps many clients, or the many streams of one, from coming back in step after the server was away.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_LONGEST_EXPONENT: Final = 32


@dataclass(slots=True)
class Backoff:
    """Growing waits in seconds: between half and the whole of `first * 2**failures`, at most `longest`."""

    first: float = 0.2
    longest: float = 30.0
    failures: int = 0
    uniform: Callable[[float, float], float] = random.uniform

    def next(self, at_least: float | None = None, *, at_most: float = float("inf")) -> float:
        """Count one failure and return the seconds to wait, never less than what the server asked for."""
        ceiling = min(self.longest, at_most, self.first * 2.0 ** min(self.failures, _LONGEST_EXPONENT))
        self.failures += 1
        return max(ceiling * self.uniform(0.5, 1.0), at_least or 0.0)

    def reset(self) -> None:
        """Forget the failures: something worked."""
        self.failures = 0
