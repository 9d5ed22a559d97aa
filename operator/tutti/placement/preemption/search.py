"""Among whom victims are looked for, and by what: what every way of choosing them is told."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tutti.cluster.cluster import Cluster
from tutti.placement.framework import Mask
from tutti.placement.preemption.units import VictimPredicate, VictimUnits
from tutti.placement.preemption.victim_cost import Coverage, VictimCost
from tutti.placement.profile import Profile

MOST_PLACED = 1024
"""How many asks the trials of one search place; one takes 0.2 to 0.7 ms, so all of them about half a second at most."""


@dataclass(slots=True)
class TrialBudget:
    """How many more asks may be placed by way of trial."""

    left: int = MOST_PLACED

    def allow(self, asks: int) -> bool:
        """Whether so many may be placed."""
        return asks <= self.left

    def note(self, asks: int) -> None:
        """Note that so many have been."""
        self.left -= asks


@dataclass(frozen=True, slots=True)
class VictimSearch:
    """One search for victims.

    Attributes:
        cluster: What is where.
        units: Everybody who may go.
        coverage: The budgets that count.
        profile: How the pods of the gang are placed.
        enough: What must hold besides, given bool[units] that are gone; once it holds it holds when more are gone.
        trials: How much may be tried yet.
    """

    cluster: Cluster
    units: VictimUnits
    coverage: Coverage
    profile: Profile
    enough: VictimPredicate
    trials: TrialBudget = field(default_factory=TrialBudget)

    def among(self, some: Mask) -> VictimSearch:
        """Return the same search among some of the units only, bool[units]."""
        numbers, count, enough = np.flatnonzero(some), len(self.units), self.enough

        def enough_of_some(gone: Mask) -> bool:
            all_gone = np.zeros(count, dtype=np.bool_)
            all_gone[numbers[gone]] = True
            return enough(all_gone)

        return replace(self, units=self.units.some(some), enough=enough_of_some)

    def cost(self, gone: Mask) -> VictimCost:
        """Return what it does if some units, bool[units], leave."""
        return self.units.cost(self.cluster, gone, self.coverage)
