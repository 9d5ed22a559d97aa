"""Whose workloads a queue may have evicted for its own.

Rules: Kueue, preemption/common/preemption_policy.go and classical/hierarchical_preemption.go (0.20).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, assert_never


class Ranked(Protocol):
    """What a policy compares."""

    @property
    def priority(self) -> int:
        """The higher, the more important."""

    @property
    def queued_at(self) -> float:
        """When it came into its queue, Unix seconds; equal priorities are served in this order."""


class Who(StrEnum):
    """Which workloads may be preempted."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"
    ANY = "Any"


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """What a ClusterQueue allows itself.

    Attributes:
        within: Whom it preempts in its own queue.
        reclaim: Whom it preempts in queues of its tree that borrow.
        while_borrowing: Whether it may preempt in other queues even though it then borrows itself.
        threshold: The highest priority that is preempted while borrowing; None for any that is lower.
    """

    within: Who = Who.NEVER
    reclaim: Who = Who.NEVER
    while_borrowing: bool = False
    threshold: int | None = None

    def allows_while_borrowing(self, preemptor: Ranked, candidate: Ranked) -> bool:
        """Whether this candidate may be preempted even though the queue then borrows."""
        if not self.while_borrowing or candidate.priority >= preemptor.priority:
            return False
        return self.threshold is None or candidate.priority <= self.threshold


NOBODY = PreemptionPolicy()
"""Preempts nobody."""


def allows(who: Who, preemptor: Ranked, candidate: Ranked) -> bool:
    """Whether a policy lets one workload preempt the other."""
    lower = candidate.priority < preemptor.priority
    match who:
        case Who.NEVER:
            return False
        case Who.LOWER_PRIORITY:
            return lower
        case Who.LOWER_OR_NEWER_EQUAL_PRIORITY:
            newer = preemptor.queued_at < candidate.queued_at
            return lower or (candidate.priority == preemptor.priority and newer)
        case Who.ANY:
            return True
        case _:
            assert_never(who)
