"""How many workloads each queue holds, and what they use, kept up to date one move at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tutti.engine.records.workloads import Counted, Workload, WorkloadKey
from tutti.quota.tree import Usage, add_to

NOWHERE: Counted = ("", "", "")
"""What is counted in no queue."""


@dataclass(slots=True)
class Count:
    """What one queue holds: workloads by what they do, and the quota of those that have some.

    Attributes:
        pending: How many wait.
        admitted: How many have quota and room, and may keep them.
        leaving: How many are being taken out, and still use quota.
        reserved: The quota that is held by any of them.
        yielding: The part of it that those hold that are being taken out.
    """

    pending: int = 0
    admitted: int = 0
    leaving: int = 0
    reserved: Usage = field(default_factory=dict)
    yielding: Usage = field(default_factory=dict)


class QueueCounts:
    """Workloads per LocalQueue (`namespace/name`) and ClusterQueue (`name`).

    Attributes:
        told: The status last written per queue, by the uid of its object.
    """

    def __init__(self) -> None:
        self.told: dict[str, dict[str, Any]] = {}
        self._counts: dict[str, Count] = {}
        self._usage: dict[WorkloadKey, Usage] = {}

    def of(self, name: str) -> Count:
        """Return what a queue holds."""
        return self._counts.get(name) or Count()

    def move(self, workload: Workload, to: Counted, usage: Usage, changed: dict[str, None]) -> None:
        """Count a workload, with what it uses, under `to` (its queues and bucket).

        The queues that this concerns are added to `changed`.
        """
        before, used = workload.counted, self._usage.get(workload.key, {})
        for name in (*before[:2], *to[:2]):
            if name:
                changed[name] = None  # what it uses may have changed though its bucket has not
        if before == to and used == usage:
            return
        self._add(before, used, -1)
        self._add(to, usage, 1)
        workload.counted = to
        self._usage[workload.key] = usage
        if not usage:
            del self._usage[workload.key]

    def _add(self, where: Counted, usage: Usage, by: int) -> None:
        local, cluster, bucket = where
        for name in (local, cluster):
            if not name:
                continue
            count = self._counts.setdefault(name, Count())
            if bucket:
                setattr(count, bucket, getattr(count, bucket) + by)
            add_to(count.reserved, usage, by)
            if bucket == "leaving":
                add_to(count.yielding, usage, by)
            if not (count.pending or count.admitted or count.leaving or any(count.reserved.values())):
                del self._counts[name]
