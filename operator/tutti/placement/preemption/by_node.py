"""One pod that fits nowhere: which node to clear for it, where only a trial tells whether it fits there then.

So it is for nodes that the company of their pods rules out, or may rule out once some are gone. On such a node
everybody who may go is lifted, and put back one by one, the most important first, as long as the pod still fits; those
that cannot be put back are the victims. The node that is hurt least is chosen.
Rule: kube-scheduler 1.36, plugins/defaultpreemption and framework/preemption. Ours differs in budgets: for how many
they have no room is counted over those that leave and not over all that might; whoever is less important may use them
first.

A node is hardly hurt less than for room alone, which is known of all nodes at once. So they are tried in that order,
and no more of them once the rest would be hurt more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from tutti.cluster.cluster import Cluster
from tutti.cluster.kin import ALONE, Query
from tutti.cluster.pods import PodRecord
from tutti.cluster.surroundings import Surroundings
from tutti.placement.company import allowed
from tutti.placement.framework import Mask, Rows
from tutti.placement.gang import Ask
from tutti.placement.judging import standing, tallies
from tutti.placement.plugins.pod_topology_spread import PodTopologySpread
from tutti.placement.preemption.budgets import Coverage
from tutti.placement.preemption.harm import PRIORITY_OFFSET, Harm
from tutti.placement.preemption.lifting import Lifting
from tutti.placement.preemption.pool import Pool, Wish
from tutti.placement.preemption.units import NO_GRADE, Numbers, Units
from tutti.placement.profile import Profile
from tutti.placement.spreading import HARD, spreadings

MOST = 100
"""How many nodes are tried: as many as kube-scheduler looks for candidates at least (minCandidateNodesAbsolute)."""

FEW = 16
"""So many are tried even if they would, for room alone, be hurt no less than the best found by then."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """A node and who must leave it: bool[units]."""

    row: int
    gone: Mask
    harm: Harm


@dataclass(slots=True)
class _Looks:
    """At whom a pod looks, beyond the room they take.

    Attributes:
        queries: Whom its own terms and constraints mean.
    """

    queries: list[Query]
    around: Surroundings
    _known: dict[int, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: Cluster, ask: Ask, profile: Profile) -> Self:
        """Return at whom the pods of an ask look."""
        klass, nodes = ask.klass, cluster.nodes
        queries = [term.query for term in klass.company.terms]
        for plugin in profile.company:
            if isinstance(plugin, PodTopologySpread):
                queries += [one.query for one in spreadings(klass, nodes, HARD, plugin.defaults)[0]]
        return cls(queries, nodes.around)

    def at(self, pod: PodRecord) -> bool:
        """Whether a pod is among them, or brings something along that others may mind."""
        kin = pod.kin
        known = self._known.get(id(kin))
        if known is None:
            labels = self.around.namespace_labels(kin.namespace)
            means = any(query.matches(kin.namespace, labels, kin.labels) for query in self.queries)
            known = self._known[id(kin)] = means or kin.company != ALONE
        return known or bool(pod.uses)


@dataclass(slots=True)
class ByNode:
    """One choice for one pod."""

    cluster: Cluster
    ask: Ask
    units: Units
    coverage: Coverage
    profile: Profile
    wish: Wish
    looks: _Looks

    @classmethod
    def of(cls, cluster: Cluster, ask: Ask, units: Units, coverage: Coverage, profile: Profile) -> Self:
        """Begin a choice."""
        nodes = cluster.nodes
        mask = standing(ask.klass, nodes, ask.where, profile).mask
        for tally in tallies(ask.klass, nodes, ask.where, profile):
            for rejection in tally.rejections():
                mask = mask & ~(rejection.rows & rejection.final)
        wish = Wish.of(cluster, ask, profile, mask, most=1)
        return cls(cluster, ask, units, coverage, profile, wish, _Looks.of(cluster, ask, profile))

    def choose(self, besides: Mask, *, than: Harm | None) -> Cleared | None:
        """Return the node that is hurt least, and less than something else would; None where there is none.

        Args:
            besides: bool[rows], nodes of which it is known already what clearing them would do.
            than: What else would be hurt, if anything.
        """
        rows, highest, total = self._worth_trying(besides)
        best: Cleared | None = None
        for tried, (row, *least) in enumerate(zip(rows.tolist(), highest.tolist(), total.tolist(), strict=True)):
            if than is not None and not than.violations and least[0] > than.highest:
                break
            if tried >= (FEW if than is not None and least >= [than.highest, than.total] else MOST):
                break
            found = self._clear(row)
            if found is not None and (than is None or found.harm < than):
                best, than = found, found.harm
        return best

    def _worth_trying(self, besides: Mask) -> tuple[Rows, Numbers, Numbers]:
        """Return the nodes where leaving makes room, and what that hurts if only room decides, the least first.

        Returns:
            The rows; the highest priority of those that must leave, and the sum of their priorities, as in `Harm`.
        """
        cluster, units = self.cluster, self.units
        pool = Pool.of(cluster, units.slots, self.wish, Coverage(()), units.grade[units.of] == NO_GRADE)
        lifted = pool.lift(self.wish.free(cluster))
        there = np.zeros(len(cluster.nodes), dtype=np.bool_)
        there[pool.row] = True
        rows = there & ~besides & (self.wish.capacity(lifted) > 0)
        gone = pool.put_back(lifted, np.broadcast_to(self.wish.request[:, None], lifted.shape), rows)
        grade = _grades(units, cluster)[pool.slots]
        least, highest = np.full(len(rows), np.iinfo(np.int64).max), np.full(len(rows), NO_GRADE)
        np.minimum.at(least, pool.row, grade)
        np.maximum.at(highest, pool.row[gone], grade[gone])
        hurting = gone & (grade != NO_GRADE)
        total = np.zeros(len(rows), dtype=np.int64)
        np.add.at(total, pool.row[hurting], grade[hurting] + PRIORITY_OFFSET)
        np.maximum(highest, np.where(total == 0, least, highest), out=highest)
        number, first = np.bincount(pool.row[hurting], minlength=len(rows)), np.full(len(rows), np.inf)
        among = np.flatnonzero(hurting & (grade == highest[pool.row]))
        np.minimum.at(first, pool.row[among], cluster.tenants.started[pool.slots[among]])
        found = np.flatnonzero(rows)
        found = found[np.lexsort((-first[found], number[found], total[found], highest[found]))]
        return found, highest[found], total[found]

    def _clear(self, row: int) -> Cleared | None:
        """Find who must leave a node; None where that is no help."""
        there = np.zeros(len(self.units), dtype=np.bool_)
        there[self.units.of[self.cluster.tenants.row[self.units.slots] == row]] = True
        units = self.units.some(there)
        found: list[tuple[Harm, Mask]] = []
        for over in self._over_budget(units):
            gone = self._left_out(row, units, units.least_harm_first(over)[::-1])
            if gone is None:
                return None
            found.append((units.harm(self.cluster, gone, self.coverage), gone))
        harm, gone = min(found, key=lambda one: one[0])
        there[there] = gone
        return Cleared(row, there, harm)

    def _over_budget(self, units: Units) -> list[Mask]:
        """Return who might be beyond a budget, bool[units]: if the least important use it first, or the most."""
        everybody = np.ones(len(units), dtype=np.bool_)
        least = units.over_budget(self.cluster, everybody, self.coverage)
        if not least.any():
            return [least]
        return [least, units.over_budget(self.cluster, everybody, self.coverage, reverse=True)]

    def _left_out(self, row: int, units: Units, order: Numbers) -> Mask | None:
        """Lift units off a node and put them back in an order; returns bool[units], those that must leave."""
        lifted: dict[int, Lifting] = {}
        try:
            for unit in order.tolist():
                lifted[unit] = Lifting(self.cluster, units.pods_of(unit), seen=True)
                lifted[unit].lift()
            if not (self._has_room(row) and self._is_open(row)):
                return None
            self._put_back(row, units, lifted)
        finally:
            for lifting in lifted.values():
                lifting.put_back()
        gone = np.zeros(len(units), dtype=np.bool_)
        gone[list(lifted)] = True
        return gone

    def _put_back(self, row: int, units: Units, lifted: dict[int, Lifting]) -> None:
        """Put back who need not leave, in order."""
        for unit, lifting in list(lifted.items()):
            lifting.put_back()
            pods = self.cluster.tenants.at(units.pods_of(unit))
            if self._has_room(row) and (not any(map(self.looks.at, pods)) or self._is_open(row)):
                del lifted[unit]
            else:
                lifting.lift()

    def _has_room(self, row: int) -> bool:
        nodes, columns = self.cluster.nodes, self.wish.columns
        return bool((nodes.allocatable[row, columns] - nodes.requested[row, columns] >= self.wish.request).all())

    def _is_open(self, row: int) -> bool:
        """Whether the company on the nodes lets the pod go to one of them."""
        found = tallies(self.ask.klass, self.cluster.nodes, self.ask.where, self.profile)
        return not any(rejection.rows[row] for tally in found for rejection in tally.rejections())


def open_now(cluster: Cluster, ask: Ask, profile: Profile) -> Mask:
    """Return bool[rows]: the nodes that may take a pod of an ask, as far as it is not for room."""
    nodes = cluster.nodes
    mask = standing(ask.klass, nodes, ask.where, profile).mask
    return allowed(mask, tallies(ask.klass, nodes, ask.where, profile))


def _grades(units: Units, cluster: Cluster) -> Numbers:
    """Return int64[slots]: the grade of each pod's unit."""
    out = np.full(len(cluster.tenants), NO_GRADE)
    out[units.slots] = units.grade[units.of]
    return out
