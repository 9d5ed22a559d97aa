"""Among whom victims are looked for, and by what: what every way of choosing them is told."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tutti.cluster.cluster import Cluster
from tutti.placement.framework import Mask
from tutti.placement.preemption.units import VictimPredicate, VictimUnits
from tutti.placement.preemption.victim_cost import Coverage, VictimCost
from tutti.placement.profile import Profile


@dataclass(frozen=True, slots=True)
class VictimSearch:
    """One search for victims.

    Attributes:
        cluster: What is where.
        units: Everybody who may go.
        coverage: The budgets that count.
        profile: How the pods of the gang are placed.
        enough: What must hold besides, given bool[units] that are gone; once it holds it holds when more are gone.
    """

    cluster: Cluster
    units: VictimUnits
    coverage: Coverage
    profile: Profile
    enough: VictimPredicate

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
