"""What calls of users' plugins and learned policies take, by plugin and profile, under kube-scheduler's name.

The engine makes these calls through what it is handed here, and never learns what was measured. Only what is not ours
is measured, so a cluster without plugins pays nothing; `tutti top plugins` measures everything that decides, elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from prometheus_client import CollectorRegistry, Histogram

from tutti.placement.extension import PluginCall

T = TypeVar("T")

# kube-scheduler's (1.36, pkg/scheduler/metrics: ten microseconds, and each half as much again).
_BUCKETS = tuple(0.00001 * 1.5**i for i in range(20))
_POINTS = {"filter": "Filter", "score": "Score", "policy": "Score", "sort": "QueueSort", "permit": "Permit"}


class PluginTimes:
    """Measures calls.

    Args:
        registry: Serves what was measured.
        clock: Seconds.
    """

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._seconds = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "How long a call of a user's plugin, or of a learned policy, took: one for all nodes.",
            ["plugin", "extension_point", "status", "profile"], registry=registry, buckets=_BUCKETS,
        )  # fmt: skip

    def __call__(self, asked: PluginCall, call: Callable[[], T]) -> T:
        """Make a call; what it raises counts, too, and is let out."""
        began, status = self._clock(), "Error"
        try:
            answer = call()
            status = "Success"
        finally:
            point = _POINTS[asked.point]
            self._seconds.labels(asked.plugin, point, status, asked.profile).observe(self._clock() - began)
        return answer
