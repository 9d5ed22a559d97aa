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
    def outward(self) -> int | None:
        """What the priority counts where it is compared with those of other queues; None for the same."""

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
        """Whether this candidate of another queue may be preempted even though the queue then borrows."""
        mine, other = rank(preemptor, abroad=True), rank(candidate, abroad=True)
        if not self.while_borrowing or other >= mine:
            return False
        return self.threshold is None or other <= self.threshold


NOBODY = PreemptionPolicy()
"""Preempts nobody."""


def rank(one: Ranked, *, abroad: bool) -> int:
    """Return what the priority of a workload counts within its queue, or `abroad`, among all queues."""
    return one.outward if abroad and one.outward is not None else one.priority


def allows(who: Who, preemptor: Ranked, candidate: Ranked, *, abroad: bool = False) -> bool:
    """Whether a policy lets one workload preempt the other; `abroad` where that is of another queue."""
    mine, other = rank(preemptor, abroad=abroad), rank(candidate, abroad=abroad)
    lower = other < mine
    match who:
        case Who.NEVER:
            return False
        case Who.LOWER_PRIORITY:
            return lower
        case Who.LOWER_OR_NEWER_EQUAL_PRIORITY:
            newer = preemptor.queued_at < candidate.queued_at
            return lower or (other == mine and newer)
        case Who.ANY:
            return True
        case _:
            assert_never(who)
