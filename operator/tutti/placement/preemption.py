"""Whom to take out so that one pod fits: kube-scheduler's default preemption, on the columns.

A node is a candidate where taking pods out could help. All pods of lower priority are lifted off it, and put back one
by one, the most important first, as long as the pod still fits; those that cannot be put back are the victims. Of the
candidates the one is chosen that hurts least.
Rules: kube-scheduler 1.36, plugins/defaultpreemption and framework/preemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tutti.api.labels import LabelSelector
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.cluster.pods import PodRecord
from tutti.placement.framework import ANYWHERE, Where
from tutti.placement.judging import Assessment, fits_on, why_not_on
from tutti.placement.misfit import message
from tutti.placement.profile import DEFAULT_PROFILE, Profile

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NEVER = "not eligible due to preemptionPolicy=Never."

LEAST_CANDIDATES = 100
CANDIDATES_PERCENT = 10
_PRIORITY_OFFSET = 1 << 31


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
        selector, labels = self.selector, record.kin.labels
        if selector is None or not (selector.match_labels or selector.match_expressions):
            return False
        here = record.namespace == self.namespace and bool(labels)
        return here and record.name not in self.disrupted and selector.matches(labels)


@dataclass(frozen=True, slots=True)
class Preemptor:
    """The pod that wants a node."""

    klass: PodClass
    priority: int
    never: bool = False
    where: Where = ANYWHERE


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that would do, and who would have to go; the most important first."""

    row: int
    victims: tuple[PodRecord, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class Preemption:
    """What came of it: the chosen candidate, or a message that says why there is none."""

    chosen: Candidate | None
    message: str


def preempt(
    cluster: Cluster,
    preemptor: Preemptor,
    said: Assessment,
    budgets: Sequence[Budget] = (),
    *,
    start: int = 0,
    profile: Profile = DEFAULT_PROFILE,
) -> Preemption:
    """Choose a node and victims for a pod that fits nowhere; nothing is changed.

    Args:
        cluster: What is where.
        preemptor: The pod.
        said: What all filters said of it.
        budgets: All PodDisruptionBudgets.
        start: The row to begin with; with many nodes, only so many candidates are looked for.
        profile: The filters that must pass.
    """
    if preemptor.never:
        return Preemption(None, NEVER)
    nodes = cluster.nodes
    rows = np.flatnonzero(nodes.present & ~said.final & ~said.feasible)
    reasons = Counter({NOT_HELPFUL: int(np.count_nonzero(nodes.present & said.final))})
    most = max(nodes.count * CANDIDATES_PERCENT // 100, LEAST_CANDIDATES)
    found: list[Candidate] = []
    for row in np.roll(rows, -int(np.searchsorted(rows, start))).tolist():
        one = _candidate(cluster, preemptor, row, budgets, profile)
        if not isinstance(one, Candidate):
            reasons.update(one)
            continue
        found.append(one)
        if len(found) >= most and any(not candidate.violations for candidate in found):
            break
    return Preemption(min(found, key=_harm), "") if found else Preemption(None, message(nodes.count, reasons))


def _candidate(
    cluster: Cluster, preemptor: Preemptor, row: int, budgets: Sequence[Budget], profile: Profile
) -> Candidate | list[str]:
    """Find who would have to go from a node; or return why that would not help."""
    klass, where, nodes = preemptor.klass, preemptor.where, cluster.nodes
    lower = [record for record in cluster.on_node(nodes.names[row]) if record.priority < preemptor.priority]
    if not lower:
        return [NO_VICTIMS]
    lower.sort(key=_importance)
    lifted = list(lower)
    for record in lower:
        cluster.lift(record)
    try:
        if not fits_on(row, klass, nodes, where, profile):
            return why_not_on(row, klass, nodes, where, profile)
        violating = _violating(lower, budgets)
        for record in sorted(lower, key=lambda one: one.key not in violating):
            cluster.put_back(record)
            if fits_on(row, klass, nodes, where, profile):
                lifted.remove(record)
            else:
                cluster.lift(record)
        return Candidate(row, tuple(lifted), sum(record.key in violating for record in lifted))
    finally:
        for record in lifted:
            cluster.put_back(record)


def _importance(record: PodRecord) -> tuple[int, float]:
    """Order pods from the most important: by priority, then by who has run longest."""
    return -record.priority, _started(record)


def _started(record: PodRecord) -> float:
    return record.started if record.started is not None else float("inf")


def _violating(records: Sequence[PodRecord], budgets: Sequence[Budget]) -> set[tuple[str, str]]:
    """Return the pods that no budget has room for when they are taken out in this order."""
    left = [budget.allowed for budget in budgets]
    out = set()
    for record in records:
        for index in _covering(record, budgets):
            left[index] -= 1
            if left[index] < 0:
                out.add(record.key)
    return out


def _covering(record: PodRecord, budgets: Sequence[Budget]) -> Iterator[int]:
    return (index for index, budget in enumerate(budgets) if budget.covers(record))


def _harm(candidate: Candidate) -> tuple[float, ...]:
    """Order candidates from the least harm; equal ones stay in the order they were found in."""
    victims = candidate.victims
    highest = max((record.priority for record in victims), default=-_PRIORITY_OFFSET)
    longest = min((_started(record) for record in victims if record.priority == highest), default=0.0)
    total = sum(record.priority + _PRIORITY_OFFSET for record in victims)
    return candidate.violations, highest, total, len(victims), -longest
