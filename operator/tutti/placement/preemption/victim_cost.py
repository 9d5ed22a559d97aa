"""What taking pods out costs: PodDisruptionBudgets, and kube-scheduler's five tie-breaks as one value to compare.

Rules: kube-scheduler 1.36, plugins/defaultpreemption (filterPodsWithPDBViolation): a budget without selector, or with
an empty one, covers nobody; neither is a pod without labels covered, nor one that the budget counts as disrupted
already. framework/preemption (pickOneNodeForPreemption) for the tie-breaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.api.limits import PodDisruptionBudget
from tutti.api.selectors import LabelSelector
from tutti.cluster.pods import PodRecord
from tutti.cluster.signatures import Anchor, PodSignature, anchors_of


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget: how many more pods of a namespace that a selector matches may be disrupted.

    Attributes:
        disrupted: Names of pods that are counted as disrupted already.
        of_all: Whether it is about all pods of its namespace, whatever labels they have.
    """

    namespace: str
    selector: LabelSelector | None
    allowed: int
    disrupted: frozenset[str] = frozenset()
    of_all: bool = False

    def covers(self, record: PodRecord) -> bool:
        """Whether taking this pod out would use the budget."""
        return record.name not in self.disrupted and self.means(record.pod_signature)

    def means(self, pod_signature: PodSignature) -> bool:
        """Whether the budget is about such pods, but for those it counts already."""
        if self.of_all:
            return pod_signature.namespace == self.namespace
        selector, labels = self.selector, pod_signature.labels
        if selector is None or not (selector.match_labels or selector.match_expressions):
            return False
        return pod_signature.namespace == self.namespace and bool(labels) and selector.matches(labels)


def budget_of(found: PodDisruptionBudget) -> Budget:
    """Return what a PodDisruptionBudget says."""
    status = found.status
    return Budget(
        found.metadata.namespace,
        found.spec.selector,
        status.disruptions_allowed,
        frozenset(status.disrupted_pods),
    )


MOST_TERMS: Final = 10_000
"""How many labels, expressions and values the budgets of one namespace may have together to be looked at one by one.

They are held against all unlike pods of it who may have to go, whenever anybody preempts."""


MOST_NEAR: Final = 256
"""Against how many budgets the labels of one pod are held that have one of them in common, those that allow least."""

MOST_COVERING: Final = 16
"""How many budgets count for one pod, those that allow least; the API server evicts no pod that two cover."""


def selector_terms(selector: LabelSelector | None) -> int:
    """Return how many labels, expressions and values a selector has; 0 of one that covers nobody."""
    if selector is None:
        return 0
    return len(selector.match_labels) + sum([1 + len(one.values) for one in selector.match_expressions])


def summed_up(budgets: Sequence[Budget]) -> list[Budget]:
    """Return budgets, with one in the place of all those of a namespace that have too many terms together.

    That one is about all its pods and allows nothing, as who writes so many wants: they are taken out last.
    """
    terms: dict[str, int] = {}
    for budget in budgets:
        terms[budget.namespace] = terms.get(budget.namespace, 0) + selector_terms(budget.selector)
    few = [budget for budget in budgets if terms[budget.namespace] <= MOST_TERMS]
    return few + [Budget(name, None, 0, of_all=True) for name, count in terms.items() if count > MOST_TERMS]


def _found_by(budgets: Sequence[Budget]) -> dict[tuple[str, Anchor], list[int]]:
    """Return budgets, by index, under what a pod they are about must have, by namespace; those that allow least first.

    Of several labels that is the one that the fewest budgets ask for.
    """
    asked: dict[tuple[str, str, str], int] = {}
    for budget in budgets:
        for key, value in budget.selector.match_labels.items() if budget.selector is not None else ():
            asked[budget.namespace, key, value] = asked.get((budget.namespace, key, value), 0) + 1
    found: dict[tuple[str, Anchor], list[int]] = {}
    for index in sorted(range(len(budgets)), key=lambda index: budgets[index].allowed):
        budget = budgets[index]
        anchors: Sequence[Anchor] = (None,) if budget.of_all else anchors_of(budget.selector)
        if budget.selector is not None and budget.selector.match_labels:
            anchors = [min(budget.selector.match_labels.items(), key=lambda one: asked[budget.namespace, *one])]
        for anchor in anchors:
            found.setdefault((budget.namespace, anchor), []).append(index)
    return found


@dataclass(slots=True)
class Coverage:
    """Which budgets cover whom, asked once per signature.

    Attributes:
        budgets: What covers them (`summed_up`).
        of_leaving: Whether a pod that is being deleted already would use a budget, as kube-scheduler counts it.
    """

    budgets: Sequence[Budget]
    of_leaving: bool = True
    _of: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _within: dict[tuple[str, Anchor], list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.budgets = summed_up(self.budgets)
        self._within = _found_by(self.budgets)

    def of(self, record: PodRecord) -> tuple[int, ...]:
        """Return the budgets, by index, that taking a pod out would use."""
        if not self.budgets or (record.deleting and not self.of_leaving):
            return ()
        known = self._of.get(id(record.pod_signature))
        if known is None:
            known = self._of[id(record.pod_signature)] = self._about(record.pod_signature)
        return tuple(i for i in known if record.name not in self.budgets[i].disrupted) if known else known

    def _about(self, pod_signature: PodSignature) -> tuple[int, ...]:
        """Return the budgets, by index, that are about pods of a signature: of very many, those that allow least."""
        anchors: list[Anchor] = [None]
        for label in pod_signature.labels.items():
            anchors += (label, (label[0], None))
        near = {i for anchor in anchors for i in self._within.get((pod_signature.namespace, anchor), ())[:MOST_NEAR]}
        first = sorted(near, key=lambda i: self.budgets[i].allowed)[:MOST_NEAR]
        about = (i for i in first if self.budgets[i].means(pod_signature))
        return tuple(sorted(islice(about, MOST_COVERING)))

    def violations(self, records: Iterable[PodRecord]) -> int:
        """Return how many of these pods no budget has room for once they are all taken out."""
        return self.without([budget.allowed for budget in self.budgets], records)[1] if self.budgets else 0

    def without(self, left: Sequence[int], records: Iterable[PodRecord]) -> tuple[list[int], int]:
        """Return what budgets that allow so much allow once these pods are out, and for how many one has no room."""
        after = list(left)
        return after, self.take(after, records)

    def take(self, left: list[int], records: Iterable[PodRecord]) -> int:
        """Have these pods use what budgets allow; returns for how many one has no room."""
        violations = 0
        for record in records:
            is_violating = False
            for index in self.of(record):
                left[index] -= 1
                is_violating |= left[index] < 0
            violations += is_violating
        return violations

    def give_back(self, left: list[int], records: Iterable[PodRecord]) -> None:
        """Undo `take`."""
        for record in records:
            for index in self.of(record):
                left[index] += 1

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
        used: dict[int, int] = {}
        at = None
        for i, (record, mine) in enumerate(zip(records, group.tolist(), strict=True)):
            if mine != at:
                used, at = {}, mine
            for index in self.of(record):
                used[index] = used.get(index, 0) + 1
                out[i] |= used[index] > self.budgets[index].allowed
        return out


PRIORITY_OFFSET = 1 << 31
"""Makes every priority count above nothing, so that fewer victims cost less than more of them."""


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
