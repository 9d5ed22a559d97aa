"""How many workloads each queue holds, kept up to date one move at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from tutti.engine.workloads import Counted, Workload
from tutti.queueing.order import OrderKey

NOWHERE: Counted = ("", "", "")
"""What is counted in no queue."""


class QueueCounts:
    """Pending and admitted workloads per LocalQueue (`namespace/name`) and ClusterQueue (`name`).

    Attributes:
        told: The status last written per queue, by the uid of its object.
    """

    def __init__(self) -> None:
        self.told: dict[str, dict[str, Any]] = {}
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


class Positions:
    """Where each pending workload stands in its ClusterQueue, from 1; worked out once, when first asked for."""

    def __init__(self, workloads: Iterable[Workload]) -> None:
        self._workloads = workloads
        self._orders: dict[str, list[OrderKey]] | None = None

    def of(self, workload: Workload) -> int | None:
        """Return the position of a workload, or None where it is pending in no queue."""
        _, cluster, bucket = workload.counted
        if bucket != "pending" or not cluster:
            return None
        if self._orders is None:
            self._orders = {}
            for one in self._workloads:
                if one.counted[2] == "pending":
                    self._orders.setdefault(one.counted[1], []).append(one.order)
            for orders in self._orders.values():
                orders.sort()
        return bisect_left(self._orders[cluster], workload.order) + 1
