"""Throughput as scheduler_perf samples it (1.36, test/integration/scheduler_perf/util.go, throughputCollector).

Whoever samples says what the time is; nothing here looks at a clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

PERCENTILES: Final = (50, 90, 95, 99)


class Sampler:
    """Turns a count of scheduled pods, told about once a second, into pods per second.

    A second in which nothing was scheduled gives no sample by itself: the next sample is spread over it, and counts
    once for each second that it stands for.
    """

    def __init__(self) -> None:
        self.samples: list[float] = []
        self._last: tuple[int, float] | None = None
        self._skipped = 0

    def tick(self, scheduled: int, at: float) -> None:
        """Take note of how many pods had been scheduled by then, in seconds; the first only set where to begin."""
        if not scheduled:
            return
        if self._last is None:
            self._last = scheduled, at
            return
        before, since = self._last
        if scheduled == before:
            self._skipped += 1
            return
        self.samples += [(scheduled - before) / (at - since)] * (self._skipped + 1)
        self._last, self._skipped = (scheduled, at), 0


def summary(values: Sequence[float]) -> dict[str, float]:
    """Return the mean and the percentiles of some values, by nearest rank; nothing where there are none."""
    if not values:
        return {}
    ordered = sorted(values)
    ranks = {f"Perc{rank}": ordered[math.ceil(len(ordered) * rank / 100) - 1] for rank in PERCENTILES}
    return {"Average": sum(ordered) / len(ordered), **ranks}
