"""What a ClusterQueue prefers and allows itself: whom it may have evicted, and which of several flavors it takes.

Rules: Kueue, preemption/common/preemption_policy.go and classical/hierarchical_preemption.go for preemption;
flavorassigner.go `isPreferred` and `shouldTryNextFlavor` for flavors (0.20). A flavor is as good as the worst of the
resources asked for in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple, Protocol, assert_never

import msgspec


class Ranked(Protocol):
    """What a policy compares."""

    @property
    def priority(self) -> int:
        """The higher, the more important."""

    @property
    def cross_queue_priority(self) -> int | None:
        """What the priority counts where it is compared with those of other queues; None for the same."""

    @property
    def queued_at(self) -> float:
        """When it came into its queue, Unix seconds; equal priorities are served in this order."""


class Preemptible(StrEnum):
    """Which workloads may be preempted."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"
    ANY = "Any"


class PreemptionPolicy(msgspec.Struct, frozen=True):
    """What a ClusterQueue allows itself.

    Attributes:
        within: Whom it preempts in its own queue.
        reclaim: Whom it preempts in queues of its tree that borrow.
        while_borrowing: Whether it may preempt in other queues even though it then borrows itself.
        threshold: The highest priority that is preempted while borrowing; None for any that is lower.
    """

    within: Preemptible = Preemptible.NEVER
    reclaim: Preemptible = Preemptible.NEVER
    while_borrowing: bool = False
    threshold: int | None = None

    def allows_while_borrowing(self, preemptor: Ranked, candidate: Ranked) -> bool:
        """Whether this candidate of another queue may be preempted even though the queue then borrows."""
        mine, other = priority_in(preemptor, across_queues=True), priority_in(candidate, across_queues=True)
        if not self.while_borrowing or other >= mine:
            return False
        return self.threshold is None or other <= self.threshold


NOBODY = PreemptionPolicy()
"""Preempts nobody."""


def priority_in(one: Ranked, *, across_queues: bool) -> int:
    """Return what the priority of a workload counts within its queue or, `across_queues`, among all queues."""
    return one.cross_queue_priority if across_queues and one.cross_queue_priority is not None else one.priority


def allows(who: Preemptible, preemptor: Ranked, candidate: Ranked, *, across_queues: bool = False) -> bool:
    """Whether a policy lets one workload preempt the other; `across_queues` where that is of another queue."""
    mine, other = (
        priority_in(preemptor, across_queues=across_queues),
        priority_in(candidate, across_queues=across_queues),
    )
    lower = other < mine
    match who:
        case Preemptible.NEVER:
            return False
        case Preemptible.LOWER_PRIORITY:
            return lower
        case Preemptible.LOWER_OR_NEWER_EQUAL_PRIORITY:
            newer = preemptor.queued_at < candidate.queued_at
            return lower or (other == mine and newer)
        case Preemptible.ANY:
            return True
        case _:
            assert_never(who)


class PreemptionMode(IntEnum):
    """How a flavor could be had, from worst to best."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


class FlavorRank(NamedTuple):
    """How good a flavor is; `level` is from how far away its quota would come, 0 from the queue itself."""

    mode: PreemptionMode
    level: int = 0


@dataclass(frozen=True, slots=True)
class Fungibility:
    """What a ClusterQueue says of its flavors.

    Attributes:
        borrowing_stops: Whether to stop at a flavor that is had by borrowing.
        preemption_stops: Whether to stop at a flavor that is had by preemption.
        preempt_rather: Whether preempting nearby is better than borrowing from afar.
        earliest_finish: Whether flavors are looked at in the order of how long who asks takes in them.
    """

    borrowing_stops: bool = True
    preemption_stops: bool = False
    preempt_rather: bool = False
    earliest_finish: bool = False


DEFAULT_FUNGIBILITY = Fungibility()


def is_better(one: FlavorRank, other: FlavorRank, fungibility: Fungibility) -> bool:
    """Whether one rank is strictly better than the other; what cannot be had now is worst whatever is preferred."""
    if one == other:
        return False
    if PreemptionMode.NO_FIT in (one.mode, other.mode):
        return one.mode is not PreemptionMode.NO_FIT
    hopeless = [rank.mode is PreemptionMode.NO_CANDIDATES for rank in (one, other)]
    if hopeless[0] != hopeless[1]:
        return hopeless[1]
    if fungibility.preempt_rather:
        return (-one.level, one.mode) > (-other.level, other.mode)
    return (one.mode, -one.level) > (other.mode, -other.level)


def stops(rank: FlavorRank, fungibility: Fungibility) -> bool:
    """Whether a flavor of this rank is taken without looking at those behind it."""
    if rank.mode in (PreemptionMode.NO_FIT, PreemptionMode.NO_CANDIDATES):
        return False
    if rank.mode is not PreemptionMode.FIT and not fungibility.preemption_stops:
        return False
    return rank.level == 0 or fungibility.borrowing_stops
