"""What ClusterQueues have had beyond their part of quota that is shared, and whose heads wait for their turn by that.

The rule by which a turn goes against the order of shares is in `backfill/overdue_heads.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti.engine.records.queue_entries import QueueEntry
from tutti.quota.proportion import PendingRequests


@dataclass(slots=True)
class OverdueHead:
    """The first of a ClusterQueue that has failed: it will be its turn when it has waited for long enough.

    Attributes:
        entry: Its place in its line.
        since: Since when it waits, Unix seconds.
    """

    entry: QueueEntry
    since: float


@dataclass(slots=True)
class ShareDebt:
    """What one ClusterQueue owes.

    Attributes:
        seconds: For how long it would have to use nothing to make up for what it has had beyond its part.
        at: When that was worked out, Unix seconds.
        beyond: By how many times its part it uses more than that since then; less than 0 where it uses less.
    """

    seconds: float
    at: float
    beyond: float = 0.0


@dataclass(slots=True)
class ShareDebts:
    """What all ClusterQueues owe, and whose heads are overdue.

    Attributes:
        of: What each owes, by ClusterQueue.
        heads: The heads that may come to be overdue, by ClusterQueue.
        turns: Whose turn it is in each quota tree: the ClusterQueue, by what names the tree.
        pending: What is waited for at all ClusterQueues.
        looked_at: When all of that was last gone through, Unix seconds.
        stale: Whether something may have changed since.
    """

    of: dict[str, ShareDebt] = field(default_factory=dict)
    heads: dict[str, OverdueHead] = field(default_factory=dict)
    turns: dict[str, str] = field(default_factory=dict)
    pending: PendingRequests = field(default_factory=PendingRequests)
    looked_at: float = 0.0
    stale: bool = False
