"""Which of several flavors is better, and when to stop looking for a better one.

Rules: Kueue, flavorassigner.go `isPreferred` and `shouldTryNextFlavor` (0.20). A flavor is as good as the worst of
the resources asked for in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


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
