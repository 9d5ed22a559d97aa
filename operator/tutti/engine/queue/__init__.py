"""Who waits in which line, who is next, and when."""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti.engine.backfill import BackfillState
from tutti.engine.ingest import IngestState
from tutti.engine.records.applications import Applications


@dataclass(kw_only=True)
class QueueState(IngestState, BackfillState):
    """What the rules of queues need: all that decides whether a workload is tried now, and that ends when it waits.

    Attributes:
        applications: The parts of applications that wait.
        ordered_by: What `cluster.nodes.network.version` was when their order was last looked at.
    """

    applications: Applications = field(default_factory=Applications)
    ordered_by: int = 0
