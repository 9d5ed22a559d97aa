"""The time that the engine is told: the time of day, but going on as evenly as a clock that nobody sets.

The time of day can be set: by hours when a machine learns it after its start, or wrongly for a moment. All limits,
backoffs and deadlines of what runs would be over at once, or would wait until the former time has come again. So time
goes on with a clock that counts seconds, and is brought to the time of day bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

AT_ONCE_SECONDS = 1.0
"""A time of day that is ahead by no more than this is followed at once."""

SLEW = 0.1
"""Where it is ahead by more, or behind, so much more or less time passes in a second until both are one again."""

TOLD_SECONDS = 60.0
"""From which difference on a line is logged."""

_NOISE_SECONDS = 0.001

log = structlog.get_logger(__name__)


class SteadyTime:
    """Unix seconds that never go back, stand still or leap.

    Args:
        clock: The time of day, in Unix seconds.
        ticks: Seconds that go on while the machine sleeps, from any beginning, and that nobody sets.
    """

    def __init__(self, clock: Callable[[], float], ticks: Callable[[], float]) -> None:
        self._clock = clock
        self._ticks = ticks
        self._last: tuple[float, float] | None = None
        self._told = False

    def __call__(self) -> float:
        """Return the time now; at the first call it is the time of day."""
        wall, tick = self._clock(), self._ticks()
        if self._last is None:
            self._last = wall, tick
            return wall
        before, last = self._last
        passed = max(0.0, tick - last)
        ahead = wall - (before + passed)
        if -_NOISE_SECONDS <= ahead <= AT_ONCE_SECONDS:
            now = max(before, wall)
        else:
            now = before + passed + max(-SLEW * passed, min(SLEW * passed, ahead))
        self._last = now, tick
        self._tell(wall - now)
        return now

    def _tell(self, ahead: float) -> None:
        """Log a line when the time of day has been set, and when that has been caught up with."""
        if not self._told and abs(ahead) > TOLD_SECONDS:
            self._told = True
            log.warning("clock_was_set", ahead_seconds=round(ahead), caught_up_in_seconds=round(abs(ahead) / SLEW))
        elif self._told and abs(ahead) <= AT_ONCE_SECONDS:
            self._told = False
            log.info("clock_caught_up")
