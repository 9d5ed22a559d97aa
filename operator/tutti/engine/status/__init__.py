"""What is told to people and machines, and no more often than it changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti.engine.backfill import BackfillState
from tutti.engine.records.counters import Overuses, WaitingCounts
from tutti.engine.records.queue_positions import QueuePositions
from tutti.engine.records.workloads import Workload


@dataclass(kw_only=True)
class StatusState(BackfillState):
    """What is remembered of what was told.

    Attributes:
        tells_rooms: Whether statuses of queues say what is free on nodes; nobody reads them where time is virtual.
        queue_positions: Where those who wait stand in their ClusterQueues.
        waiting_counts: Who waits, and at which gate.
        tries: How often a workload was tried: whether it was a single pod, whether it was admitted, its scheduler.
        overuses: Which queues and cohorts use more quota than there is.
        tries: How often a workload was tried: whether it was a single pod, whether it was admitted, its scheduler.
    """

    tells_rooms: bool = True
    queue_positions: QueuePositions = field(default_factory=QueuePositions)
    waiting_counts: WaitingCounts = field(default_factory=WaitingCounts)
    overuses: Overuses = field(default_factory=Overuses)
    tries: dict[tuple[bool, bool, str], int] = field(default_factory=dict)

    def count_try(self, workload: Workload, *, admitted: bool) -> None:
        """Count that a workload was tried."""
        what = (workload.key[0] == "Pod", admitted, workload.scheduler)
        self.tries[what] = self.tries.get(what, 0) + 1
