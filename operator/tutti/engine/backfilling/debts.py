"""The records of what queues owe that have had more than their part, because it was their turn nevertheless."""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti.quota.proportion import Pending, Proportion
from tutti.quota.tree import QuotaNode


@dataclass(slots=True)
class Debt:
    """What one ClusterQueue owes.

    Attributes:
        seconds: For how long it would have to use nothing to make up for what it has had beyond its part.
        at: When that was worked out, Unix seconds.
        beyond: By how many times its part it uses more than that since then; less than 0 where it uses less.
        stale: Whether what it uses may have changed since.
    """

    seconds: float
    at: float
    beyond: float
    stale: bool = False


@dataclass(slots=True)
class Debts:
    """All of them.

    Attributes:
        of: By ClusterQueue.
        pending: What is waited for at all ClusterQueues.
        look_at: ClusterQueues whose first is to be tried again then, Unix seconds, because it will have waited so long.
        parts: What the queues of each tree deserve, by the name of its root, and of which tree that is.
        parts_at: When that was worked out, Unix seconds.
    """

    of: dict[str, Debt] = field(default_factory=dict)
    pending: Pending = field(default_factory=Pending)
    look_at: dict[str, float] = field(default_factory=dict)
    parts: dict[str, tuple[QuotaNode, Proportion]] = field(default_factory=dict)
    parts_at: float = 0.0
