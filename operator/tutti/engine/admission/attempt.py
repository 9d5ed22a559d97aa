"""One try at one workload: what it asks for under the flavors that were chosen, and what it has got so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tutti.cluster.transaction import Transaction
from tutti.engine.records.consultation import Query
from tutti.engine.records.members import Charge
from tutti.engine.records.needs import Lacking, Need
from tutti.engine.records.workloads import Workload
from tutti.engine.state import State
from tutti.placement.framework import NO_FLAVOR, Rows
from tutti.placement.gang import Ask
from tutti.placement.profile import Profile
from tutti.quota.assignment import WorkloadAssignment
from tutti.quota.flavors import FlavorByResource, PodSet, Queue, flavor_assignments, usage_of, where_of
from tutti.quota.tree import FlavorResource


@dataclass(slots=True)
class Taken:
    """What has been reserved of one need, from member `start` on: one row per pod, and what each uses of quota."""

    need: Need
    start: int
    rows: Rows
    charge: Charge | None


@dataclass(slots=True)
class Attempt:
    """One try at one workload; leaving its transaction without commit gives all nodes back.

    Attributes:
        probes: Whether it only looks for more than it has already got, for which no extender is asked again.
        charged: What has been charged of quota, and for how many pods each.
        apart: Whether pods that share a claim may be out of the supposed reach of one volume: more pods are not had so.
    """

    state: State
    workload: Workload
    queue: Queue | None
    transaction: Transaction
    probes: bool = False
    apart: bool = True
    taken: list[Taken] = field(default_factory=list)
    lacking: list[Lacking] = field(default_factory=list)
    charged: list[tuple[Charge, int]] = field(default_factory=list)

    def charge(self, charge: Charge, pods: int) -> None:
        """Use quota for so many pods, until `refund`."""
        self.state.charge(charge, pods)
        self.charged.append((charge, pods))

    def refund(self) -> None:
        """Give back all quota that was charged, because the attempt has failed in the middle."""
        while self.charged:
            self.state.refund(*self.charged.pop())

    @property
    def profile(self) -> Profile:
        """The profile that the members name; a gang without members yet takes the first."""
        return self.state.profiles.get(self.workload.scheduler) or next(iter(self.state.profiles.values()))


@dataclass(frozen=True, slots=True)
class Terms:
    """What is asked for, per need: its flavors, of nodes, and of quota."""

    given: list[FlavorByResource]
    asks: list[Ask]
    charges: list[Charge | None]

    def lacking(
        self, attempt: Attempt, needs: Sequence[Need], contested: frozenset[FlavorResource] = frozenset()
    ) -> Lacking:
        """Return it as what could be had if others were gone."""
        return Lacking(needs, self.asks, self.charges, attempt.profile, contested)


def terms_of(
    attempt: Attempt, needs: Sequence[Need], pod_sets: Sequence[PodSet], choice: WorkloadAssignment | None
) -> Terms:
    """Return what the required pods of all needs ask for under the flavors chosen for each.

    Args:
        attempt: Whose they are.
        needs: With the pods.
        pod_sets: What each of them asks of quota (`needs.pod_sets_of`).
        choice: The flavors that were chosen for these; None where no quota is needed.
    """
    given: list[FlavorByResource] = [{} for _ in needs]
    if choice is not None:
        chosen = {mine.name: mine.flavors for mine in choice.pod_sets}
        given = [{name: one.flavor for name, one in chosen[pods.name].items()} for pods in pod_sets]
    pairs = list(zip(needs, given, strict=True))
    asks = [ask_for(attempt.state, need, flavors, required=need.required) for need, flavors in pairs]
    return Terms(given, asks, [charge_for(attempt, need, flavors) for need, flavors in pairs])


def ways_of(attempt: Attempt, queue: Queue, need: Need) -> list[FlavorByResource]:
    """Return how extra pods of a need may be counted: as those like them in their group, or their party, are."""
    klass, known = need.klass, attempt.state.catalog.flavors
    mine = (one.charge for one in attempt.taken if _are_alike(one.need, need))
    kept = need.kept.union(*(charge.flavors.values() for charge in mine if charge is not None))
    ways = list(flavor_assignments(queue, known, klass.requests, klass.spec.tolerations))
    for group in queue.groups:
        here = kept.intersection(group.flavors)
        barred = set(group.flavors) - here if here else set()
        ways = [way for way in ways if barred.isdisjoint(way.values())]
    return ways


def _are_alike(one: Need, other: Need) -> bool:
    """Whether pods of two needs get the same flavors."""
    if one.party is not None:
        return one.party == other.party
    return one.group is other.group and one.klass is other.klass


def ask_for(
    state: State,
    need: Need,
    flavors: FlavorByResource,
    *,
    required: int = 0,
    extra: int = 0,
    taken: Sequence[Taken] = (),
) -> Ask:
    """Return what is asked of nodes for a need in these flavors; `taken` is what its party may have got in this try."""
    known = state.catalog.flavors
    where = where_of(flavors, known) if flavors else NO_FLAVOR
    if need.near is None:
        return Ask(need.klass, required, extra, where)
    levels = next((known[name].levels for name in dict.fromkeys(flavors.values()) if known[name].levels), ())
    near = need.near.on(levels, need.party, need.group.name, 0 if extra else need.growth)
    if near is not None:
        rows = state.cluster.nodes.rows
        there, own = ([rows[name] for name in names if name in rows] for names in (need.there, need.own))
        for one in taken:
            if one.need.party == need.party:
                there += one.rows.tolist()
                own += one.rows.tolist() if one.need.group is need.group else []
        near = near.joining(there, own)
    return Ask(need.klass, required, extra, where, near)


def query_of(ask: Ask, need: Need) -> Query:
    """Return the same as a question to extenders, who are asked by one of its members."""
    return Query(ask, need.members[0].pod if need.members else None)


def charge_for(attempt: Attempt, need: Need, assignment: FlavorByResource) -> Charge | None:
    """Return what each pod of a need uses of quota in these flavors; None without a queue."""
    if attempt.queue is None:
        return None
    usage = usage_of(assignment, need.klass.requests)
    return Charge(attempt.queue.name, assignment, usage, attempt.workload.name)
