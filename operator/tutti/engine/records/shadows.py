"""The records of what is kept for the heads of queues: whose it is, where, and from when on they can have it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tutti.engine.records.explanation import Explanation
from tutti.engine.records.returns import Returns
from tutti.engine.records.workloads import WorkloadKey
from tutti.quota.ordering import HeadKey
from tutti.quota.tree import Usage


@dataclass(slots=True)
class Shadow:
    """What is kept for the head of one ClusterQueue.

    Attributes:
        workload: Whose it is.
        queue: Its ClusterQueue.
        shape: What decided where it fits; one that wants something else is another.
        key: Its place in its line, among those of its LocalQueue where past use counts.
        door: That LocalQueue (`namespace/name`); "" where past use does not count.
        priority: What its priority counts among all queues.
        number: Of two of equal priority, the one with the lower number goes before.
        starts_at: When it fits at the latest, if what runs ends when its time is over, Unix seconds; None where nobody
            knows.
        promised: The earliest of these that it was ever told; infinity where nobody knows.
        until: When nothing is kept for it any more, Unix seconds; infinity where it is known when it starts.
        nodes: Where its required pods go then.
        wanted: int64[nodes, resources], what they take there, in scheduling units.
        usage: What they use of the queue's quota.
        seen: The version of the node columns when it was worked out.
        why: What its workload is told.
        owed: Whether it is kept because its turn would never come by the order of shares.
        news: Whether that has not been told yet.
    """

    workload: WorkloadKey
    queue: str
    shape: tuple[object, ...]
    key: tuple[float, HeadKey]
    door: str
    priority: int
    number: int
    starts_at: float | None
    promised: float
    until: float
    nodes: tuple[str, ...]
    wanted: NDArray[np.int64]
    usage: Usage
    seen: tuple[int, int]
    why: Explanation
    owed: bool = False
    news: bool = True

    def keeps_as(self, other: Shadow) -> bool:
        """Whether it keeps the same as another, so that nobody else gains by the change."""
        mine = (self.starts_at, self.promised, self.nodes, self.usage)
        return mine == (other.starts_at, other.promised, other.nodes, other.usage) and bool(
            np.array_equal(self.wanted, other.wanted)
        )


@dataclass(slots=True)
class Shadows:
    """Everything that is kept.

    Attributes:
        of: By ClusterQueue.
        returns: When what a workload has is free again at the latest, for those of which it is known.
        pauses: Heads for which was kept in vain: how often, and until when nothing is kept again (0: it may be).
        last: The last number that was given.
    """

    of: dict[str, Shadow] = field(default_factory=dict)
    returns: Returns = field(default_factory=Returns)
    pauses: dict[WorkloadKey, tuple[int, float]] = field(default_factory=dict)
    last: int = 0

    def is_for(self, queue: str, workload: WorkloadKey) -> bool:
        """Whether a ClusterQueue keeps something for a workload."""
        mine = self.of.get(queue)
        return mine is not None and mine.workload == workload

    def pausing(self, workload: WorkloadKey) -> bool:
        """Whether nothing is kept for a workload for a while."""
        return self.pauses.get(workload, (0, 0.0))[1] > 0

    def next_due(self) -> float | None:
        """Return when something is kept no more, or may be again, Unix seconds; None: not at all."""
        times = [one.until for one in self.of.values() if one.until < math.inf]
        times += [end for _, end in self.pauses.values() if end > 0]
        return min(times, default=None)
