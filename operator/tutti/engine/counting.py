"""How many workloads each queue holds, kept up to date one move at a time."""

from __future__ import annotations

from typing import Any

from tutti.engine.catalog import ObjectKey
from tutti.engine.workloads import Counted, Workload

NOWHERE: Counted = ("", "", "")
"""What is counted in no queue."""


class QueueCounts:
    """Pending and admitted workloads per LocalQueue (`namespace/name`) and ClusterQueue (`name`).

    Attributes:
        told: The status last written per queue.
    """

    def __init__(self) -> None:
        self.told: dict[ObjectKey, dict[str, Any]] = {}
        self._counts: dict[str, list[int]] = {}

    def of(self, name: str) -> tuple[int, int]:
        """Return how many workloads are pending and admitted in a queue."""
        pending, admitted = self._counts.get(name, (0, 0))
        return pending, admitted

    def move(self, workload: Workload, to: Counted, changed: dict[str, None]) -> None:
        """Count a workload under `to` (its queues and bucket); the queues this concerns are added to `changed`."""
        before = workload.counted
        for name in (*before[:2], *to[:2]):
            if name:
                changed[name] = None  # what it uses may have changed though its bucket has not
        if before == to:
            return
        self._add(before, -1)
        self._add(to, 1)
        workload.counted = to

    def _add(self, where: Counted, by: int) -> None:
        local, cluster, bucket = where
        if not bucket:
            return
        for name in (local, cluster):
            if name:
                counts = self._counts.setdefault(name, [0, 0])
                counts[0 if bucket == "pending" else 1] += by
