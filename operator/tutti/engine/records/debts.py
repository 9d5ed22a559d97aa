"""The records of whose turn it is though the order of shares would never say so, and of what queues owe for that."""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti.engine.records.workloads import WorkloadKey
from tutti.quota.ordering import HeadKey
from tutti.quota.proportion import PendingRequests


@dataclass(slots=True)
class Claim:
    """The first of a ClusterQueue that has failed: it will be its turn when it has waited for long enough.

    Attributes:
        workload: Who it is.
        since: Since when it waits, Unix seconds.
        key: Its place in its line.
        door: Its LocalQueue, where these have places of their own.
    """

    workload: WorkloadKey
    since: float
    key: tuple[float, HeadKey]
    door: str


@dataclass(slots=True)
class Debt:
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
class Debts:
    """All of them.

    Attributes:
        of: By ClusterQueue.
        claims: By ClusterQueue.
        turns: Whose turn it is in each quota tree: the ClusterQueue, by what names the tree.
        pending: What is waited for at all ClusterQueues.
        looked_at: When all of that was last gone through, Unix seconds.
        stale: Whether something may have changed since.
    """

    of: dict[str, Debt] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    turns: dict[str, str] = field(default_factory=dict)
    pending: PendingRequests = field(default_factory=PendingRequests)
    looked_at: float = 0.0
    stale: bool = False
