"""In which order the workloads of a queue are tried where it is not first come, first served.

Each factor comes to a number from 0 to 1, for a workload that has waited w seconds, is expected to run for e, asks for
the part s of its queue, and whose user has the part u of it in use and the part d of it waiting. The score is the sum
by weight, over the sum of the weights; the highest goes first.

    Age             min(1, w / ageSeconds)      Slurm multifactor, PriorityMaxAge
    Largest         s                           Slurm multifactor, JobSize; s = max over resources of asked / quota
    Smallest        1 - s                       Slurm, PriorityFavorSmall
    Share           1 - u                       least dominant share first (DRF, Ghodsi et al., NSDI 2011)
    Shortest        h / (h + e)                 shortest job first; h = runSeconds only matters in a mix
    Longest         e / (h + e)                 longest job first
    ResponseRatio   w / (w + e)                 orders as (w + e) / e does (HRRN, Brinch Hansen 1971)
    Demand          min(1, d)                   demand-aware (Beltre et al., KubeSphere, 2019): most demand first
    DemandAndShare  (1 + min(1, d) - u) / 2     demand-DRF-aware (same): d - u, descending
    Progress        p                           SpeCon (Mao et al., 2020): who still progresses before who has converged

None of the factors decreases while somebody waits and nothing else happens, so that of two that differ in age alone
the older one goes first, whatever the weights; the engine has such ones in one class.

Nobody starves: whoever has waited for maxWaitSeconds goes before all who have not, the oldest first. Of two users who
are equal in everything the order of names decides, never that in which factors are written down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Number = float | NDArray[np.float64]
"""Of one workload, or float64[workloads] of many; both are worked out by the same operations in the same order."""


class Factor(StrEnum):
    """What an order may go by."""

    AGE = "Age"
    LARGEST = "Largest"
    SMALLEST = "Smallest"
    SHARE = "Share"
    LONGEST = "Longest"
    SHORTEST = "Shortest"
    RESPONSE_RATIO = "ResponseRatio"
    DEMAND = "Demand"
    DEMAND_AND_SHARE = "DemandAndShare"
    PROGRESS = "Progress"


TIMED = frozenset({Factor.AGE, Factor.RESPONSE_RATIO})
"""What changes while nothing happens."""
BY_RUN_TIME = frozenset({Factor.LONGEST, Factor.SHORTEST, Factor.RESPONSE_RATIO})
BY_USE = frozenset({Factor.SHARE, Factor.DEMAND_AND_SHARE})
BY_DEMAND = frozenset({Factor.DEMAND, Factor.DEMAND_AND_SHARE})


class Standpoint(NamedTuple):
    """What an order goes by of a workload, or of many (float64[workloads] each).

    Attributes:
        wait: Seconds since it came.
        seconds: For how long it is expected to run.
        size: The part of the queue's quota that it asks for, in its dominant resource, 0 to 1.
        share: The part of it that its user has in use, likewise.
        demand: The part of it that its user has waiting; may be above 1.
        progress: 0 for who has converged, 1 for who still progresses.
    """

    wait: Number
    seconds: Number
    size: Number
    share: Number
    demand: Number
    progress: Number


def _value(factor: Factor, of: Standpoint, age_seconds: float, run_seconds: float) -> Number:  # noqa: PLR0911 - one each
    match factor:
        case Factor.AGE:
            return np.minimum(of.wait / age_seconds, 1.0)
        case Factor.LARGEST:
            return of.size
        case Factor.SMALLEST:
            return 1.0 - of.size
        case Factor.SHARE:
            return 1.0 - of.share
        case Factor.SHORTEST:
            return run_seconds / (run_seconds + of.seconds)
        case Factor.LONGEST:
            return of.seconds / (run_seconds + of.seconds)
        case Factor.RESPONSE_RATIO:
            return of.wait / (of.wait + of.seconds)
        case Factor.DEMAND:
            return np.minimum(of.demand, 1.0)
        case Factor.DEMAND_AND_SHARE:
            return (1.0 + np.minimum(of.demand, 1.0) - of.share) / 2.0
        case Factor.PROGRESS:
            return of.progress


@dataclass(frozen=True, slots=True)
class QueueOrder:
    """In which order workloads of a queue are tried.

    Attributes:
        weights: Of each factor that counts, above 0.
        among_all: Whether it is the order of all, whatever their priority; else of those of one priority.
        max_wait: Seconds after which somebody goes before all who have waited for less.
        age_seconds: Seconds after which Age counts in full.
        run_seconds: An expected run time that counts half.
    """

    weights: Mapping[Factor, int]
    among_all: bool = False
    max_wait: float = math.inf
    age_seconds: float = 604_800.0
    run_seconds: float = 3600.0

    def goes_by(self, factors: frozenset[Factor]) -> bool:
        """Whether any of these counts."""
        return not factors.isdisjoint(self.weights)

    def score(self, of: Standpoint) -> Number:
        """Return the score of a workload, or float64[workloads]: from 0 to 1, the highest goes first."""
        total: Number = 0.0
        for factor in Factor:  # in one order, so that it does not matter in which they were written down
            weight = self.weights.get(factor)
            if weight is not None:
                total = total + weight * _value(factor, of, self.age_seconds, self.run_seconds)
        return total / sum(self.weights.values())

    def values(self, of: Standpoint) -> dict[Factor, float]:
        """Return what each factor that counts comes to for one workload, for people."""
        counting = [one for one in Factor if one in self.weights]
        return {one: float(_value(one, of, self.age_seconds, self.run_seconds)) for one in counting}

    def terms(self, priority: int, since: float, now: float, of: Standpoint) -> tuple[float, float, float]:
        """Return what sorts a workload, the next one first: less is earlier.

        Args:
            priority: Its own.
            since: Since when it waits, Unix seconds; 0 for one that had its turn already.
            now: Unix seconds.
            of: What the order goes by.
        """
        less = 0.0 if self.among_all else float(-priority)
        if self.is_overdue(since, now):
            return less, 0.0, since
        return less, 1.0, -float(self.score(of))

    def columns(
        self, priority: NDArray[np.float64], since: NDArray[np.float64], now: float, of: Standpoint
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the same of many: float64[workloads] each."""
        less = np.zeros_like(priority) if self.among_all else -priority
        overdue = (since <= 0) | (now - since >= self.max_wait)
        score = np.broadcast_to(np.asarray(self.score(of), dtype=np.float64), since.shape)
        return less, np.where(overdue, 0.0, 1.0), np.where(overdue, since, -score)

    def is_overdue(self, since: float, now: float) -> bool:
        """Whether somebody who waits since then goes before all who are not overdue."""
        return since <= 0 or now - since >= self.max_wait
