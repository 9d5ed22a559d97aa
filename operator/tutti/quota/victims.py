"""Victims: in which order they are looked at, and how those not needed after all are given back.

Rules: Kueue, preemption/common/ordering.go and preemption.go (0.20).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import cmp_to_key
from typing import NamedTuple

from tutti.quota.policy import rank
from tutti.quota.snapshot import Demand, Holder, Snapshot, UsedLately, nobody_knows


class Reason(StrEnum):
    """Why a workload is preempted, as its condition tells it."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"


class Victim(NamedTuple):
    """A workload to preempt, and why."""

    holder: Holder
    reason: Reason


Fits = Callable[[], bool]


def in_victim_order(holders: Iterable[Holder], queue: str, *, used_lately: UsedLately = nobody_knows) -> list[Holder]:
    """Sort the candidates for preemption, the first victim first.

    Those already evicted; then other queues before the preemptor's own; then, in a queue that goes by past use, those
    of the LocalQueue that has used more; then lower priority (among all queues, then within its own), later
    reservation, and uid.

    Args:
        holders: The candidates.
        queue: The preemptor's ClusterQueue.
        used_lately: What their LocalQueues have used.
    """
    everybody = list(holders)
    known = {one.name: used for one in everybody if (used := used_lately(one)) is not None}

    def key(holder: Holder) -> tuple[bool, bool, int, int, float, str]:
        outward = rank(holder, abroad=True)
        return not holder.evicted, holder.queue == queue, outward, holder.priority, -holder.reserved_at, holder.uid

    def compare(a: Holder, b: Holder) -> int:
        one, other = key(a), key(b)
        if one[:2] == other[:2] and a.queue == b.queue and a.local_queue != b.local_queue:
            used, used_by_other = known.get(a.name), known.get(b.name)
            if used is not None and used_by_other is not None and used != used_by_other:
                return -1 if used > used_by_other else 1
        return (one > other) - (one < other)

    return sorted(everybody, key=cmp_to_key(compare) if known else key)


def fits(snapshot: Snapshot, demand: Demand, *, borrowing: bool) -> bool:
    """Whether a demand fits now.

    Args:
        snapshot: The tree.
        demand: What is wanted.
        borrowing: Whether its queue may use more than its own for it.
    """
    node = snapshot.queue(demand.queue)
    return all(
        (borrowing or not node.borrows(what, amount)) and amount <= max(0, node.available(what))
        for what, amount in demand.usage.items()
    )


def give_back(snapshot: Snapshot, victims: list[Victim], fit: Fits) -> list[Victim]:
    """Add removed victims again that are not needed, in the reverse order of removal; the last one always is.

    Args:
        snapshot: Where they have been removed.
        victims: In the order of removal.
        fit: Whether the preemptor fits.
    """
    kept = victims[-1:]
    for victim in reversed(victims[:-1]):
        snapshot.add(victim.holder)
        if not fit():
            snapshot.remove(victim.holder)
            kept.append(victim)
    return kept
