"""How late the event loop comes back to a timer: what every stream, bind and webhook has to wait, too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from tutti.controller.health import Check
from tutti.controller.metrics import Metrics

_EVERY_SECONDS: Final = 0.05
_TERM_SECONDS: Final = 60.0
_STUCK_SECONDS: Final = 60.0


class LongestStall:
    """The longest of the stalls of the last one to two terms, of a minute each."""

    def __init__(self, term_seconds: float = _TERM_SECONDS) -> None:
        self._term_seconds = term_seconds
        self._begun = 0.0
        self._before = 0.0
        self._longest = 0.0

    def add(self, now: float, stall: float) -> float:
        """Count a stall in seconds that ended now, on any clock that goes on; return the longest."""
        terms = (now - self._begun) // self._term_seconds
        if terms >= 1:
            self._before = self._longest if terms == 1 else 0.0
            self._longest = 0.0
            self._begun += terms * self._term_seconds
        self._longest = max(self._longest, stall)
        return max(self._longest, self._before)


class Pulse:
    """When the loop last came round; may be asked from any thread."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._last = ticks()

    def beat(self) -> None:
        """The loop has come round."""
        self._last = self._ticks()

    def is_there(self) -> bool:
        """Whether it has within a minute: a turn that takes longer than that is not expected to end."""
        return self._ticks() < self._last + _STUCK_SECONDS

    def check(self) -> Check:
        """The same for /healthz."""
        gone = self._ticks() - self._last
        return Check(self.is_there(), "ok" if gone < 1 else f"it has not come round for {gone:.0f} s")


async def measure_lag(metrics: Metrics, pulse: Pulse) -> None:
    """Note how late the loop runs a timer that is due twenty times a second, until cancelled.

    A stall is seen but for what is left until the timer is due, at most 50 ms of it.
    """
    loop, longest = asyncio.get_running_loop(), LongestStall()
    while True:
        due = loop.time() + _EVERY_SECONDS
        await asyncio.sleep(_EVERY_SECONDS)
        pulse.beat()
        now = loop.time()
        late = max(0.0, now - due)
        metrics.loop_lag_seconds.observe(late)
        metrics.loop_longest_stall_seconds.set(longest.add(now, late))
