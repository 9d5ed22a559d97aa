"""What a ClusterQueue prefers and allows itself: whom it may have evicted, and which of several flavors it takes.

Rules: Kueue, preemption/common/preemption_policy.go and classical/hierarchical_preemption.go for preemption;
flavorassigner.go `isPreferred` and `shouldTryNextFlavor` for flavors (0.20). A flavor is as good as the worst of the
resources asked for in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple, Protocol, assert_never


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


class Mode(IntEnum):
    """How a flavor could be had, from worst to best."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


class Rank(NamedTuple):
    """How good a flavor is; `level` is from how far away its quota would come, 0 from the queue itself."""

    mode: Mode
    level: int = 0


@dataclass(frozen=True, slots=True)
class Fungibility:
    """What a ClusterQueue says of its flavors.

    Attributes:
        borrowing_stops: Whether to stop at a flavor that is had by borrowing.
        preemption_stops: Whether to stop at a flavor that is had by preemption.
        preempt_rather: Whether preempting nearby is better than borrowing from afar.
    """

    borrowing_stops: bool = True
    preemption_stops: bool = False
    preempt_rather: bool = False


DEFAULT_FUNGIBILITY = Fungibility()


def is_better(one: Rank, other: Rank, fungibility: Fungibility) -> bool:
    """Whether one rank is strictly better than the other; what cannot be had now is worst whatever is preferred."""
    if one == other:
        return False
    if Mode.NO_FIT in (one.mode, other.mode):
        return one.mode is not Mode.NO_FIT
    hopeless = [rank.mode is Mode.NO_CANDIDATES for rank in (one, other)]
    if hopeless[0] != hopeless[1]:
        return hopeless[1]
    if fungibility.preempt_rather:
        return (-one.level, one.mode) > (-other.level, other.mode)
    return (one.mode, -one.level) > (other.mode, -other.level)


def stops(rank: Rank, fungibility: Fungibility) -> bool:
    """Whether a flavor of this rank is taken without looking at those behind it."""
    if rank.mode in (Mode.NO_FIT, Mode.NO_CANDIDATES):
        return False
    if rank.mode is not Mode.FIT and not fungibility.preemption_stops:
        return False
    return rank.level == 0 or fungibility.borrowing_stops
