"""Who waits in which line, who is next, and when."""

from __future__ import annotations

from dataclasses import dataclass

from tutti.engine.backfill import BackfillState
from tutti.engine.ingest import IngestState


@dataclass(kw_only=True)
class QueueState(IngestState, BackfillState):
    """What the rules of queues need: all that decides whether a workload is tried now, and that ends when it waits."""
