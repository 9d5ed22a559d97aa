"""Whom to take out so that one pod fits: kube-scheduler's default preemption, on the columns.

A node is a candidate where taking pods out could help. All pods of lower priority are lifted off it, and put back one
by one, the most important first, as long as the pod still fits; those that cannot be put back are the victims. Of the
candidates the one is chosen that hurts least.

Where only room decides, that is done on all nodes at once; a node that the company of its pods rules out, or may rule
out once some are gone, is asked by itself.
The engine asks `gang.choose`, which equals this for a gang of one without disruption budgets; here is what
kube-scheduler does and says, for comparison and for what-if answers.
Rules: kube-scheduler 1.36, plugins/defaultpreemption and framework/preemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.cluster.pods import PodRecord
from tutti.placement.company import allowed
from tutti.placement.framework import ANYWHERE, Mask, Rows, Where
from tutti.placement.gang import Ask
from tutti.placement.judging import Assessment, fits_on, standing, tallies, why_not_on
from tutti.placement.misfit import message
from tutti.placement.plugins.node_resources_fit import lacking
from tutti.placement.preemption.budgets import Budget, Coverage
from tutti.placement.preemption.harm import Harm, importance
from tutti.placement.preemption.pool import Pool, Wish
from tutti.placement.profile import DEFAULT_PROFILE, Profile

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NEVER = "not eligible due to preemptionPolicy=Never."

LEAST_CANDIDATES = 100
CANDIDATES_PERCENT = 10


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
    survey = _Survey(cluster, preemptor, Coverage(budgets), profile, rows)
    most = max(nodes.count * CANDIDATES_PERCENT // 100, LEAST_CANDIDATES)
    found: list[Candidate] = []
    for row in np.roll(rows, -int(np.searchsorted(rows, start))).tolist():
        candidate = survey.candidate(row)
        if candidate is None:
            continue
        found.append(candidate)
        if len(found) >= most and any(not one.violations for one in found):
            break
    if found:
        return Preemption(min(found, key=lambda one: Harm.of(one.victims, one.violations)), "")
    reasons = Counter({NOT_HELPFUL: int(np.count_nonzero(nodes.present & said.final))})
    reasons.update(survey.reasons(rows))
    return Preemption(None, message(nodes.count, reasons))


class _Survey:
    """Who would have to go from each node: all at once where only room decides, any other node when it is asked for."""

    def __init__(
        self, cluster: Cluster, preemptor: Preemptor, coverage: Coverage, profile: Profile, rows: Rows
    ) -> None:
        self._cluster, self._preemptor, self._profile = cluster, preemptor, profile
        tenants, nodes = cluster.tenants, cluster.nodes
        slots = np.flatnonzero((tenants.row >= 0) & (tenants.priority < preemptor.priority))
        self._has_lower = np.zeros(len(nodes), dtype=np.bool_)
        self._has_lower[tenants.row[slots]] = True
        candidates = np.zeros(len(nodes), dtype=np.bool_)
        candidates[rows] = True
        slots = slots[candidates[tenants.row[slots]]]
        self._plain = candidates & self._only_room_decides()
        self._wish = Wish.of(cluster, Ask(preemptor.klass, 1, 0, preemptor.where), profile, self._plain, most=1)
        self._pool = Pool.of(cluster, slots, self._wish, coverage)
        self._lifted = self._pool.lift(self._wish.free(cluster))
        needed = np.broadcast_to(self._wish.request[:, None], self._lifted.shape)
        self._has_room = (self._lifted >= needed).all(axis=0) & self._has_lower
        self._gone = self._pool.put_back(self._lifted, needed, self._plain & self._has_room)
        self._starts = np.searchsorted(self._pool.row, np.arange(len(nodes) + 1))
        self._asked: dict[int, Candidate | None] = {}

    def candidate(self, row: int) -> Candidate | None:
        """Return who would have to go from a node; None where that would not help."""
        if not self._has_room[row]:
            return None
        if row not in self._asked:
            self._asked[row] = self._of_columns(row) if self._plain[row] else self._ask(row)
        return self._asked[row]

    def reasons(self, rows: Rows) -> Counter[str]:
        """Say of each of some nodes why taking pods out would not help."""
        out = Counter({NO_VICTIMS: int(np.count_nonzero(~self._has_lower[rows]))})
        nodes, asked = self._cluster.nodes, rows[self._has_lower[rows]]
        plain = asked[self._plain[asked]]
        for column, lifted, request in zip(self._wish.columns, self._lifted, self._wish.request, strict=True):
            out[lacking(nodes.axis.names[column])] += int(np.count_nonzero(lifted[plain] < request))
        for row in asked[~self._plain[asked]].tolist():
            out.update(self._why_not(row))
        return out

    def _only_room_decides(self) -> Mask:
        """bool[rows]: where nothing but room rules the pod out, nor could once others have left."""
        nodes, pod = self._cluster.nodes, self._preemptor
        mask = standing(pod.klass, nodes, pod.where, self._profile).mask
        if pod.klass.minds_company or self._profile.spreads_by_default:
            return np.zeros_like(mask)
        return allowed(mask, tallies(pod.klass, nodes, pod.where, self._profile))

    def _of_columns(self, row: int) -> Candidate:
        begin, end = self._starts[row], self._starts[row + 1]
        mine = begin + np.flatnonzero(self._gone[begin:end])
        victims = sorted(self._records(mine), key=importance)
        return Candidate(row, tuple(victims), int(np.count_nonzero(self._pool.violating[mine])))

    def _ask(self, row: int) -> Candidate | None:
        """Find who would have to go from a node whose pods' company counts."""
        pod, nodes = self._preemptor, self._cluster.nodes
        mine = np.arange(self._starts[row], self._starts[row + 1])
        with _Lifting(self._cluster, self._records(mine)) as lifting:
            if not fits_on(row, pod.klass, nodes, pod.where, self._profile):
                return None
            violating = 0
            for record, over in zip(list(lifting.lifted), self._pool.violating[mine].tolist(), strict=True):
                lifting.put_back(record)
                if not fits_on(row, pod.klass, nodes, pod.where, self._profile):
                    lifting.lift(record)
                    violating += over
            return Candidate(row, tuple(sorted(lifting.lifted, key=importance)), violating)

    def _why_not(self, row: int) -> list[str]:
        pod, mine = self._preemptor, np.arange(self._starts[row], self._starts[row + 1])
        with _Lifting(self._cluster, self._records(mine)):
            return why_not_on(row, pod.klass, self._cluster.nodes, pod.where, self._profile)

    def _records(self, mine: Rows) -> list[PodRecord]:
        """Return pods of the pool by their index."""
        return self._cluster.tenants.at(self._pool.slots[mine])


class _Lifting:
    """Pods taken off their node while a question is asked; they are all back afterwards."""

    def __init__(self, cluster: Cluster, records: Sequence[PodRecord]) -> None:
        self._cluster = cluster
        self.lifted: list[PodRecord] = []
        self._records = records

    def __enter__(self) -> Self:
        for record in self._records:
            self.lift(record)
        return self

    def __exit__(self, *_: object) -> None:
        for record in list(self.lifted):
            self.put_back(record)

    def lift(self, record: PodRecord) -> None:
        """Take one off."""
        self._cluster.lift(record)
        self.lifted.append(record)

    def put_back(self, record: PodRecord) -> None:
        """Put one back."""
        self._cluster.put_back(record)
        self.lifted.remove(record)
