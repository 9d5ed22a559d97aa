"""What leaves together: a pod by itself, or a whole gang; as columns, for there may be one for each pod there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.cluster import Cluster
from tutti.cluster.pods import PodRecord
from tutti.cluster.tenants import Slots
from tutti.placement.framework import Mask
from tutti.placement.preemption.budgets import Coverage
from tutti.placement.preemption.harm import PRIORITY_OFFSET, Harm

Numbers = NDArray[np.int64]
"""int64[n]: units by their number, or something of each."""

NO_GRADE = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Party:
    """Pods that leave together or not at all.

    Attributes:
        priority: Of all of them together.
        harmless: Whether their leaving hurts nobody: they are leaving already, or their gang has more than it needs.
    """

    pods: Sequence[PodRecord]
    priority: int
    harmless: bool = False


@dataclass(frozen=True, slots=True)
class Units:
    """Everybody who may be taken out.

    Attributes:
        slots: int64[m], the pods; those of one unit side by side.
        of: int64[m], ascending, the unit of each.
        starts: int64[n + 1], where each unit begins among the pods.
        grade: int64[n], the priority of each; NO_GRADE where its leaving hurts nobody.
        started: float64[n], when the first pod of each was started, Unix seconds.
    """

    slots: Slots
    of: Numbers
    starts: Numbers
    grade: Numbers
    started: NDArray[np.float64]

    @classmethod
    def among(cls, cluster: Cluster, singles: Slots, parties: Iterable[Party] = ()) -> Units:
        """Return the units made of pods by themselves, and of parties; pods without room are left out.

        Args:
            cluster: Where they are.
            singles: The pods that leave by themselves, by their slots; none of them in a party.
            parties: The others.
        """
        tenants = cluster.tenants
        there = [(party, [pod.slot for pod in party.pods if pod.slot >= 0]) for party in parties]
        there = [(party, slots) for party, slots in there if slots]
        sizes = [np.ones(len(singles), dtype=np.int64), np.array([len(slots) for _, slots in there], dtype=np.int64)]
        starts = np.concatenate(([0], np.cumsum(np.concatenate(sizes))))
        slots = np.concatenate((singles, *(np.array(slots, dtype=np.int64) for _, slots in there)))
        grades = [NO_GRADE if party.harmless else party.priority for party, _ in there]
        own = np.where(tenants.leaving[singles], NO_GRADE, tenants.priority[singles])
        return cls(
            slots=slots,
            of=np.repeat(np.arange(len(starts) - 1), np.diff(starts)),
            starts=starts,
            grade=np.concatenate((own, np.array(grades, dtype=np.int64))),
            started=np.minimum.reduceat(tenants.started[slots], starts[:-1]) if len(slots) else np.zeros(0),
        )

    def some(self, which: Mask) -> Units:
        """Return some of them, numbered anew: bool[n]."""
        pods = which[self.of]
        size = self.size[which]
        return Units(
            slots=self.slots[pods],
            of=np.repeat(np.arange(len(size)), size),
            starts=np.concatenate(([0], np.cumsum(size))),
            grade=self.grade[which],
            started=self.started[which],
        )

    def __len__(self) -> int:
        """How many units there are."""
        return len(self.grade)

    @property
    def size(self) -> Numbers:
        """int64[n], how many pods each has."""
        return np.diff(self.starts)

    def pods(self, chosen: Mask) -> Slots:
        """Return the pods of some units: bool[n] to int64[...]."""
        return self.slots[chosen[self.of]]

    def least_harm_first(self, violating: Mask) -> Numbers:
        """Return all units, those whose leaving hurts least first.

        Over budget comes last of all; then by priority; a whole gang after a pod by itself and a larger one after a
        smaller; then who has run longest (kube-scheduler 1.36, framework/preemption, moreImportantVictim).

        Args:
            violating: bool[n], those that no disruption budget has room for.
        """
        return np.lexsort((-self.started, self.size, self.grade, violating))

    def pods_of(self, unit: int) -> Slots:
        """Return the pods of one unit."""
        return self.slots[self.starts[unit] : self.starts[unit + 1]]

    def harm(self, cluster: Cluster, chosen: Mask, coverage: Coverage) -> Harm:
        """Return what taking out some units, bool[units], would do; those that hurt nobody do not count.

        A pod counts with the priority of what it leaves with.
        """
        hurting = chosen & (self.grade != NO_GRADE)
        grade, size, started = self.grade[hurting], self.size[hurting], self.started[hurting]
        highest = int(grade.max(initial=-PRIORITY_OFFSET))
        return Harm(
            violations=self.violations(cluster, chosen, coverage),
            highest=highest,
            total=int((size * (grade + PRIORITY_OFFSET)).sum()),
            number=int(size.sum()),
            youth=-float(started[grade == highest].min()) if len(grade) else 0.0,
        )

    def violations(self, cluster: Cluster, chosen: Mask, coverage: Coverage) -> int:
        """Return how many pods of some units no budget has room for."""
        return coverage.violations(cluster.tenants.at(self.pods(chosen))) if coverage.budgets else 0

    def over_budget(self, cluster: Cluster, some: Mask, coverage: Coverage, *, reverse: bool = False) -> Mask:
        """Tell for which of some units no budget has room if those that hurt least, or most, go first: bool[units]."""
        over = np.zeros(len(self), dtype=np.bool_)
        left = [budget.allowed for budget in coverage.budgets]
        if left:
            order = self.least_harm_first(over)
            for unit in (order[::-1] if reverse else order).tolist():
                pods = cluster.tenants.at(self.pods_of(unit)) if some[unit] else []
                if coverage.has_room(left, pods):
                    coverage.take(left, pods)
                else:
                    over[unit] = True
        return over
