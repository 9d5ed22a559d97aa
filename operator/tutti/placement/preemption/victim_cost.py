"""What taking pods out costs: PodDisruptionBudgets, and kube-scheduler's five tie-breaks as one value to compare.

Rules: kube-scheduler 1.36, plugins/defaultpreemption (filterPodsWithPDBViolation): a budget without selector, or with
an empty one, covers nobody; neither is a pod without labels covered, nor one that the budget counts as disrupted
already. framework/preemption (pickOneNodeForPreemption) for the tie-breaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.api.disruption import PodDisruptionBudget
from tutti.api.labels import LabelSelector
from tutti.cluster.pods import PodRecord
from tutti.cluster.signatures import PodSignature


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget: how many more pods of a namespace that a selector matches may be disrupted.

    Attributes:
        disrupted: Names of pods that are counted as disrupted already.
    """

    namespace: str
    selector: LabelSelector | None
    allowed: int
    disrupted: frozenset[str] = frozenset()

    def covers(self, record: PodRecord) -> bool:
        """Whether taking this pod out would use the budget."""
        return record.name not in self.disrupted and self.means(record.kin)

    def means(self, kin: PodSignature) -> bool:
        """Whether the budget is about such pods, but for those it counts already."""
        selector, labels = self.selector, kin.labels
        if selector is None or not (selector.match_labels or selector.match_expressions):
            return False
        return kin.namespace == self.namespace and bool(labels) and selector.matches(labels)


def budget_of(found: PodDisruptionBudget) -> Budget:
    """Return what a PodDisruptionBudget says."""
    status = found.status
    return Budget(
        found.metadata.namespace,
        found.spec.selector,
        status.disruptions_allowed,
        frozenset(status.disrupted_pods),
    )


@dataclass(slots=True)
class Coverage:
    """Which budgets cover whom, asked once per kin.

    Attributes:
        of_leaving: Whether a pod that is being deleted already would use a budget, as kube-scheduler counts it.
    """

    budgets: Sequence[Budget]
    of_leaving: bool = True
    _of: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def of(self, record: PodRecord) -> tuple[int, ...]:
        """Return the budgets, by index, that taking a pod out would use."""
        if not self.budgets or (record.deleting and not self.of_leaving):
            return ()
        known = self._of.get(id(record.kin))
        if known is None:
            known = tuple(i for i, budget in enumerate(self.budgets) if budget.means(record.kin))
            self._of[id(record.kin)] = known
        return tuple(i for i in known if record.name not in self.budgets[i].disrupted) if known else known

    def violations(self, records: Iterable[PodRecord]) -> int:
        """Return how many of these pods no budget has room for once they are all taken out."""
        left = [budget.allowed for budget in self.budgets]
        return self.take(left, records) if left else 0

    def has_room(self, left: Sequence[int], records: Iterable[PodRecord]) -> bool:
        """Whether all of these pods can be taken from what the budgets still allow."""
        trial = list(left)
        return not self.take(trial, records)

    def take(self, left: list[int], records: Iterable[PodRecord]) -> int:
        """Take pods from what the budgets still allow; returns for how many one of them has no room."""
        return sum([self.use(left, record) for record in records])

    def use(self, left: list[int], record: PodRecord) -> bool:
        """Take a pod from what the budgets still allow; returns whether one of them has no room for it."""
        violating = False
        for index in self.of(record):
            left[index] -= 1
            violating |= left[index] < 0
        return violating

    def violating(self, records: Sequence[PodRecord], group: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which pods no budget has room for when those of a group are taken out in this order.

        Args:
            records: The pods; those of one group side by side.
            group: int64[m], which group each is in; every group has the whole budgets to itself.

        Returns:
            bool[m].
        """
        out = np.zeros(len(records), dtype=np.bool_)
        if not self.budgets:
            return out
        left: list[int] = []
        at = None
        for i, (record, mine) in enumerate(zip(records, group.tolist(), strict=True)):
            if not self.of(record):
                continue
            if mine != at:
                left, at = [budget.allowed for budget in self.budgets], mine
            out[i] = self.use(left, record)
        return out


PRIORITY_OFFSET = 1 << 31
"""Makes every priority count above nothing, so that fewer victims are less harm than more of them."""


class VictimCost(NamedTuple):
    """What taking some pods out would do; the smaller, the better.

    Attributes:
        violations: Pods that no disruption budget has room for.
        highest: The highest priority among them.
        total: The sum of their priorities, each raised by PRIORITY_OFFSET.
        number: How many there are.
        youth: Minus when the first of those with the highest priority was started, Unix seconds.
    """

    violations: int
    highest: int
    total: int
    number: int
    youth: float

    @classmethod
    def of(cls, records: Sequence[PodRecord], violations: int) -> VictimCost:
        """Return what taking these pods out would do."""
        highest = max((record.priority for record in records), default=-PRIORITY_OFFSET)
        first = min((started_at(record) for record in records if record.priority == highest), default=0.0)
        total = sum(record.priority + PRIORITY_OFFSET for record in records)
        return cls(violations, highest, total, len(records), -first)


def started_at(record: PodRecord) -> float:
    """Return when a pod was started, Unix seconds; infinity where it has not been."""
    return record.started if record.started is not None else float("inf")


def importance_key(record: PodRecord) -> tuple[int, float]:
    """Order pods from the most important: by priority, then by who has run longest."""
    return -record.priority, started_at(record)
