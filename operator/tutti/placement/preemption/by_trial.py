"""Choosing victims by trying, for pods with inter-pod constraints, so that no sum tells whether they fit.

For a gang, units are put in order from the least cost; the shortest beginning of that order without which the gang
fits is found by halving. Then those that are not needed are reprieved, the most important first, halves at a time.
Users of one claim go together, or none has to go for its devices: it is asked once for all of them whether the gang
fits beside the devices of that claim, and where it does not, no more about each.

For one pod, so it is for nodes that inter-pod constraints rule out, or may rule out once some pods are gone. From such
a node everybody who may go is removed, and reprieved one by one, the most important first, as long as the pod still
fits; those that cannot be are the victims. The node where that costs least is chosen.
Rule: kube-scheduler 1.36, plugins/defaultpreemption and framework/preemption. Ours differs in budgets: for how many
they have no room is counted over those that leave and not over all that might; whoever is less important may use them
first. A node hardly costs less than for room alone, which is known of all nodes at once. So they are tried in that
order, and no more of them once the rest would cost more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from tutti.api.network import GROUP_LABEL
from tutti.cluster.classes import Feature
from tutti.cluster.cluster import Cluster
from tutti.cluster.device_holders import DeviceHolders
from tutti.cluster.devices.asks import ClaimKey
from tutti.cluster.label_index import NamespaceIndex
from tutti.cluster.pods import PodRecord
from tutti.cluster.signatures import UNCONSTRAINED, PodQuery
from tutti.cluster.transaction import Transaction
from tutti.placement.framework import Mask, Rows
from tutti.placement.gang import Ask, hardest_first
from tutti.placement.plugins.spread_constraints import HARD, spread_constraints
from tutti.placement.plugins.topology_spread import PodTopologySpread
from tutti.placement.preemption.pool import ResourceWish, VictimPool
from tutti.placement.preemption.search import VictimSearch
from tutti.placement.preemption.units import NO_BAND, Numbers, SimulatedRemoval, VictimUnits
from tutti.placement.preemption.victim_cost import PRIORITY_OFFSET, Coverage, VictimCost
from tutti.placement.profile import Profile, pre_filter, static_filter_result
from tutti.placement.sequential import feasible
from tutti.placement.together import fit_together, in_order


class ByTrial:
    """One choice.

    Args:
        search: Among whom, and by what.
        asks: What the gang wants.
        seen: Whether it matters who is where, beyond the room they take.
    """

    def __init__(self, search: VictimSearch, asks: Sequence[Ask], *, seen: bool) -> None:
        self._cluster, self._units, self._coverage = search.cluster, search.units, search.coverage
        self._profile, self._enough = search.profile, search.enough
        self._asks, self._seen = asks, seen
        self._searching = False  # whether one order of the asks is not enough, so that others are tried each time
        self._rows: Rows = np.zeros(0, dtype=np.int64)

    def choose(self) -> Mask | None:
        """Return bool[units] that must go; None where the gang does not fit even without all of them."""
        everybody = np.ones(len(self._units), dtype=np.bool_)
        if not self._fits(everybody):
            self._searching = True
            if not self._fits(everybody):
                return None
        order = self._units.cheapest_first(self._units.over_budget(self._cluster, everybody, self._coverage))
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            if self._fits(self._only(order[:middle])):
                high = middle
            else:
                low = middle + 1
        needed = self._only(order[:low])
        assert self._fits(needed)  # the shortest beginning was found by halving, or it is everybody
        return self._without_idle(needed, order[:low][::-1])

    def _without_idle(self, needed: Mask, most_important_first: Numbers) -> Mask:
        """Reprieve all that are not on the nodes where the gang would be, if that does no harm, then what can be."""
        used = np.zeros(len(self._cluster.nodes), dtype=np.bool_)
        used[self._rows] = True
        there = np.zeros(len(self._units), dtype=np.bool_)
        there[self._units.of[used[self._cluster.pod_columns.row[self._units.slots]]]] = True
        if self._fits(needed & there):
            needed = needed & there
        bound = self._bound_by_claims(needed)
        while True:
            loose = needed & ~bound
            left = self._reprieve(most_important_first[loose[most_important_first]], needed)
            if not (needed & ~left).any():
                return left
            needed = left  # who was put back may be whom another pod must be near: then the others may not need to go

    def _bound_by_claims(self, needed: Mask) -> Mask:
        """Return bool[units]: which all must go, because the gang needs the devices that several of them share."""
        bound = np.zeros(len(self._units), dtype=np.bool_)
        if not any(ask.pod_class.features & Feature.DEVICES for ask in self._asks):
            return bound
        holders, sharing = self._cluster.device_users.holders, dict[ClaimKey, set[int]]()
        mine = np.flatnonzero(needed[self._units.of])
        records = self._cluster.pod_columns.at(self._units.slots[mine])
        for record, unit in zip(records, self._units.of[mine].tolist(), strict=True):
            for claim in holders.claims_for(record):
                sharing.setdefault(claim, set()).add(unit)
        for claim, several in sharing.items():
            users = list(several)
            if len(users) >= SEVERAL and not bound[users].all() and not self._fits(needed, held_fast=claim):
                bound[users] = True
        return bound

    def _reprieve(self, some: Numbers, needed: Mask) -> Mask:
        """Put back what can be of some units, in order; returns bool[units] that must still go."""
        if not len(some):
            return needed
        without = needed.copy()
        without[some] = False
        if self._fits(without):
            return without
        if len(some) == 1:
            return needed
        half = len(some) // 2
        return self._reprieve(some[half:], self._reprieve(some[:half], needed))

    def _fits(self, gone: Mask, *, held_fast: ClaimKey | None = None) -> bool:
        """Whether the gang fits if some units are gone, and one claim keeps its devices."""
        if not self._enough(gone):
            return False
        holders = self._cluster.device_users.holders
        holders.held_fast = set() if held_fast is None else {held_fast}
        try:
            removal = SimulatedRemoval(self._cluster, self._units.pods(gone), seen=self._seen)
            with removal, self._cluster.transaction() as transaction:
                found = self._place(transaction)
        finally:
            holders.held_fast = set()
        if found is None or isinstance(found, int):
            return False
        self._rows = np.concatenate(found)
        return True

    def _place(self, transaction: Transaction) -> list[Rows] | int | None:
        nodes = self._cluster.nodes
        if self._searching:
            return fit_together(nodes, transaction, self._asks, self._profile)
        return in_order(nodes, transaction, self._asks, hardest_first(nodes, self._asks), self._profile)

    def _only(self, some: Numbers) -> Mask:
        out = np.zeros(len(self._units), dtype=np.bool_)
        out[some] = True
        return out


SEVERAL = 3
"""Of so many users of one claim, or more, it is asked for all at once whether its devices are needed."""

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


@dataclass(slots=True)
class _Queries:
    """At whom a pod looks, beyond the room they take.

    Attributes:
        queries: Whom its own terms and constraints mean.
        holders: Who has devices, where it asks for some.
        talks: Whether it is a part of an application, and so shares links with others of any.
    """

    queries: list[PodQuery]
    around: NamespaceIndex
    holders: DeviceHolders | None
    talks: bool = False
    _known: dict[int, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: Cluster, ask: Ask, profile: Profile) -> Self:
        """Return at whom the pods of an ask look."""
        pod_class, nodes = ask.pod_class, cluster.nodes
        queries = [term.query for term in pod_class.inter_pod.terms]
        for plugin in profile.inter_pod:
            if isinstance(plugin, PodTopologySpread):
                queries += [one.query for one in spread_constraints(pod_class, nodes, HARD, plugin.defaults)[0]]
        asks_for_devices = bool(pod_class.features & Feature.DEVICES)
        talks = bool(pod_class.features & Feature.NETWORK) and bool(nodes.network)
        return cls(queries, nodes.namespaces, cluster.device_users.holders if asks_for_devices else None, talks)

    def at(self, pod: PodRecord) -> bool:
        """Whether a pod is among them, or brings something along that others may mind."""
        pod_signature = pod.pod_signature
        known = self._known.get(id(pod_signature))
        if known is None:
            labels = self.around.namespace_labels(pod_signature.namespace)
            means = any(query.matches(pod_signature.namespace, labels, pod_signature.labels) for query in self.queries)
            in_application = self.talks and GROUP_LABEL in pod_signature.labels
            known = means or in_application or pod_signature.inter_pod != UNCONSTRAINED
            self._known[id(pod_signature)] = known
        return known or bool(pod.uses) or (self.holders is not None and self.holders.concerns(pod))


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
        self._looks = _Queries.of(cluster, ask, profile)

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
