"""Choosing victims by trying for one pod, on nodes that inter-pod constraints rule out, or may once some have gone.

From such a node everybody who may go is removed, and reprieved one by one, the most important first, as long as the pod
still fits; those that cannot be are the victims. The node where that costs least is chosen.
Rule: kube-scheduler 1.36, plugins/defaultpreemption and framework/preemption. Ours differs in budgets: for how many
they have no room is counted over those that leave and not over all that might; whoever is less important may use them
first. A node hardly costs less than for room alone, which is known of all nodes at once. So they are tried in that
order, and no more of them once the rest would cost more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tutti.cluster.cluster import Cluster
from tutti.placement.framework import Mask, Rows
from tutti.placement.gang import Ask
from tutti.placement.preemption.looks import Looks
from tutti.placement.preemption.pool import ResourceWish, VictimPool
from tutti.placement.preemption.search import VictimSearch
from tutti.placement.preemption.units import NO_BAND, Numbers, SimulatedRemoval, VictimUnits
from tutti.placement.preemption.victim_cost import PRIORITY_OFFSET, Coverage, VictimCost
from tutti.placement.profile import Profile, pre_filter, static_filter_result
from tutti.placement.sequential import feasible

MOST_NODES = 100
"""How many nodes are tried: as many as kube-scheduler looks for candidates at least (minCandidateNodesAbsolute)."""

FEW_NODES = 16
"""So many are tried even if they would, for room alone, be hurt no less than the best found by then."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """A node and who must leave it: bool[units]."""

    row: int
    gone: Mask
    cost: VictimCost


class ByNode:
    """One choice for one pod."""

    def __init__(self, search: VictimSearch, ask: Ask) -> None:
        cluster, profile = search.cluster, search.profile
        nodes = cluster.nodes
        mask = static_filter_result(ask.pod_class, nodes, ask.where, profile).mask
        for state in pre_filter(ask.pod_class, nodes, ask.where, profile):
            for rejection in state.rejections():
                mask = mask & ~(rejection.rows & rejection.final)
        self._cluster, self._units, self._coverage = cluster, search.units, search.coverage
        self._ask, self._profile = ask, profile
        self._wish = ResourceWish.of(cluster, ask, profile, mask, most=1)
        self._looks = Looks.of(cluster, [ask], profile)

    def choose(self, besides: Mask, *, than: VictimCost | None) -> Cleared | None:
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
            if tried >= (FEW_NODES if than is not None and least >= [than.highest, than.total] else MOST_NODES):
                break
            found = self._clear(row)
            if found is not None and (than is None or found.cost < than):
                best, than = found, found.cost
        return best

    def _worth_trying(self, besides: Mask) -> tuple[Rows, Numbers, Numbers]:
        """Return the nodes where leaving makes room, and what that hurts if only room decides, the least first.

        Returns:
            The rows; the highest priority of those that must leave, and the sum of theirs, as in `VictimCost`.
        """
        cluster, units = self._cluster, self._units
        pool = VictimPool.of(cluster, units.slots, self._wish, Coverage(()), units.band[units.of] == NO_BAND)
        removed = pool.remove(self._wish.free(cluster))
        there = np.zeros(len(cluster.nodes), dtype=np.bool_)
        there[pool.row] = True
        rows = there & ~besides & (self._wish.capacity(removed) > 0)
        gone = pool.reprieve(removed, np.broadcast_to(self._wish.request[:, None], removed.shape), rows)
        band = _bands(units, cluster)[pool.slots]
        least, highest = np.full(len(rows), np.iinfo(np.int64).max), np.full(len(rows), NO_BAND)
        np.minimum.at(least, pool.row, band)
        np.maximum.at(highest, pool.row[gone], band[gone])
        costly = gone & (band != NO_BAND)
        total = np.zeros(len(rows), dtype=np.int64)
        np.add.at(total, pool.row[costly], band[costly] + PRIORITY_OFFSET)
        np.maximum(highest, np.where(total == 0, least, highest), out=highest)
        number, first = np.bincount(pool.row[costly], minlength=len(rows)), np.full(len(rows), np.inf)
        among = np.flatnonzero(costly & (band == highest[pool.row]))
        np.minimum.at(first, pool.row[among], cluster.pod_columns.started[pool.slots[among]])
        found = np.flatnonzero(rows)
        found = found[np.lexsort((-first[found], number[found], total[found], highest[found]))]
        return found, highest[found], total[found]

    def _clear(self, row: int) -> Cleared | None:
        """Find who must leave a node; None where that is no help."""
        there = np.zeros(len(self._units), dtype=np.bool_)
        there[self._units.of[self._cluster.pod_columns.row[self._units.slots] == row]] = True
        units = self._units.some(there)
        found: list[tuple[VictimCost, Mask]] = []
        for over in self._over_budget(units):
            gone = self._left_out(row, units, units.cheapest_first(over)[::-1])
            if gone is None:
                return None
            found.append((units.cost(self._cluster, gone, self._coverage), gone))
        cost, gone = min(found, key=lambda one: one[0])
        there[there] = gone
        return Cleared(row, there, cost)

    def _over_budget(self, units: VictimUnits) -> list[Mask]:
        """Return who might be beyond a budget, bool[units]: if the least important use it first, or the most."""
        everybody = np.ones(len(units), dtype=np.bool_)
        least = units.over_budget(self._cluster, everybody, self._coverage)
        if not least.any():
            return [least]
        return [least, units.over_budget(self._cluster, everybody, self._coverage, reverse=True)]

    def _left_out(self, row: int, units: VictimUnits, order: Numbers) -> Mask | None:
        """Lift units off a node and put them back in an order; returns bool[units], those that must leave."""
        removed: dict[int, SimulatedRemoval] = {}
        try:
            for unit in order.tolist():
                removed[unit] = SimulatedRemoval(self._cluster, units.pods_of(unit), seen=True)
                removed[unit].remove()
            if not (self._has_room(row) and self._is_open(row)):
                return None
            self._reprieve(row, units, removed)
        finally:
            for removal in removed.values():
                removal.reprieve()
        gone = np.zeros(len(units), dtype=np.bool_)
        gone[list(removed)] = True
        return gone

    def _reprieve(self, row: int, units: VictimUnits, removed: dict[int, SimulatedRemoval]) -> None:
        """Put back who need not leave, in order."""
        for unit, removal in list(removed.items()):
            removal.reprieve()
            pods = self._cluster.pod_columns.at(units.pods_of(unit))
            if self._has_room(row) and (not any(map(self._looks.at, pods)) or self._is_open(row)):
                del removed[unit]
            else:
                removal.remove()

    def _has_room(self, row: int) -> bool:
        nodes, columns = self._cluster.nodes, self._wish.columns
        return bool((nodes.allocatable[row, columns] - nodes.requested[row, columns] >= self._wish.request).all())

    def _is_open(self, row: int) -> bool:
        """Whether the pods on the nodes let the pod go to one of them."""
        found = pre_filter(self._ask.pod_class, self._cluster.nodes, self._ask.where, self._profile)
        return not any(rejection.rows[row] for state in found for rejection in state.rejections())


def open_nodes(cluster: Cluster, ask: Ask, profile: Profile) -> Mask:
    """Return bool[rows]: the nodes that may take a pod of an ask, as far as it is not for room."""
    nodes = cluster.nodes
    mask = static_filter_result(ask.pod_class, nodes, ask.where, profile).mask
    return feasible(mask, pre_filter(ask.pod_class, nodes, ask.where, profile))


def _bands(units: VictimUnits, cluster: Cluster) -> Numbers:
    """Return int64[slots]: the band of each pod's unit."""
    out = np.full(len(cluster.pod_columns), NO_BAND)
    out[units.slots] = units.band[units.of]
    return out
