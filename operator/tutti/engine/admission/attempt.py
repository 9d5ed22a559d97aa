"""One try at one workload: the flavors that it could have by quota, what it asks for in these, and what it has got.

The flavors are remembered for as long as the answer would be the same: every head in a cohort tree is asked about
whenever anything in the tree moves, and most of the answers stay as they were.

A workload that may run with fewer pods than it has starts with as many as fit together with its required ones, by
quota and by nodes, in flavors chosen for all of them: Kueue's search (`tutti.quota.assigner`), which leaves out of
every pod group a like part of what it can do without. Who is left out has not failed: it is a surplus member, and gets
its place as soon as there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tutti.cluster.transaction import Transaction
from tutti.engine.records.consultation import ExtenderQuery
from tutti.engine.records.members import Charge
from tutti.engine.records.pod_sets import PodSetRequest, PreemptionOption, class_never_admitted
from tutti.engine.records.queue_entries import EquivalenceClass, QueueEntry
from tutti.engine.records.workloads import Workload
from tutti.engine.state import State
from tutti.placement.framework import NO_FLAVOR, Rows
from tutti.placement.gang import Ask
from tutti.placement.profile import Profile
from tutti.quota.assigner import Chooser, Known, largest_counts
from tutti.quota.assignment import Choice, Verdict
from tutti.quota.flavors import Assignment, PodSet, Queue, assignments, usage_of, where_of
from tutti.quota.policy import NOBODY
from tutti.quota.preemption import Oracle
from tutti.quota.tree import FlavorResource


def assign_flavors(state: State, entry: QueueEntry) -> Choice | None:
    """Return the flavors that a workload could have by quota, as the tree is now; None where it needs no quota.

    Equal workloads of a queue are told the same, and the choice is made anew only when their tree has changed.
    """
    bunch, queue = entry.bunch, entry.queue
    if queue is None or not bunch.pod_sets:
        return None
    version = state.holdings.version(queue.name)
    if bunch.choice is None or (bunch.version != version and not _still_holds(state, queue, bunch, bunch.choice)):
        bunch.choice = flavor_chooser(state, queue, entry.workload, bunch.known).choose(bunch.pod_sets)
    bunch.version = version
    return bunch.choice


def _still_holds(state: State, queue: Queue, bunch: EquivalenceClass, choice: Choice) -> bool:
    """Whether a choice would be made again: it still fits without borrowing, or nothing can be had now either."""
    if choice.verdict is not Verdict.FIT:
        return _is_short(state, queue, bunch)
    if choice.level or not state.holdings.tight_since(queue.name, bunch.version):
        return False
    node = state.holdings.tree.queues[queue.name]
    return all(
        not amount or (amount <= node.available(what) and not node.borrows(what, amount))
        for what, amount in choice.usage.items()
    )


def _is_short(state: State, queue: Queue, bunch: EquivalenceClass) -> bool:
    """Whether what did not fit its quota surely does not fit it now either, and nobody may be preempted for it.

    Only asked of pods of one shape that need one resource group: then no flavor of it has enough for all resources.
    """
    known = bunch.known.asked
    if queue.policy != NOBODY or len(known) != 1 or len(known[0].groups) != 1 or known[0].uncovered:
        return False
    node, requests = state.holdings.tree.queues[queue.name], known[0].requests
    for index, resources in known[0].groups.items():
        for flavor in queue.groups[index].flavors:
            if all(requests[one] <= max(0, node.available((flavor, one))) for one in resources):
                return False
    return True


def flavor_chooser(state: State, queue: Queue, workload: Workload, known: Known | None = None) -> Chooser:
    """Return what chooses flavors for a workload by quota as it is now; what is `known` of its pod sets is kept."""
    snapshot, rules = state.holdings.snapshot, state.rules
    outward = queue.outward(workload.reach)
    oracle = Oracle(snapshot, rules, queue.name, workload.reach, workload.queued_at, outward)
    flavors = state.catalog.flavors
    node = snapshot.queue(queue.name)
    return Chooser(queue, node, flavors, queue.policy, oracle, fair=rules.fair, known=known)


@dataclass(slots=True)
class Taken:
    """What has been reserved of one need, from member `start` on: one row per pod, and what each uses of quota."""

    need: PodSetRequest
    start: int
    rows: Rows
    charge: Charge | None


@dataclass(slots=True)
class AdmissionAttempt:
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
    lacking: list[PreemptionOption] = field(default_factory=list)
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

    given: list[Assignment]
    asks: list[Ask]
    charges: list[Charge | None]

    def lacking(
        self,
        attempt: AdmissionAttempt,
        needs: Sequence[PodSetRequest],
        contested: frozenset[FlavorResource] = frozenset(),
    ) -> PreemptionOption:
        """Return it as what could be had if others were gone."""
        return PreemptionOption(needs, self.asks, self.charges, attempt.profile, contested)


def terms_of(
    attempt: AdmissionAttempt, needs: Sequence[PodSetRequest], pod_sets: Sequence[PodSet], choice: Choice | None
) -> Terms:
    """Return what the required pods of all needs ask for under the flavors chosen for each.

    Args:
        attempt: Whose they are.
        needs: With the pods.
        pod_sets: What each of them asks of quota (`needs.pod_sets_of`).
        choice: The flavors that were chosen for these; None where no quota is needed.
    """
    given: list[Assignment] = [{} for _ in needs]
    if choice is not None:
        chosen = {mine.name: mine.flavors for mine in choice.pod_sets}
        given = [{name: one.flavor for name, one in chosen[pods.name].items()} for pods in pod_sets]
    pairs = list(zip(needs, given, strict=True))
    asks = [ask_for(attempt.state, need, flavors, required=need.required) for need, flavors in pairs]
    return Terms(given, asks, [charge_for(attempt, need, flavors) for need, flavors in pairs])


def ways_of(attempt: AdmissionAttempt, queue: Queue, need: PodSetRequest) -> list[Assignment]:
    """Return how extra pods of a need may be counted: as those like them in their group, or their party, are."""
    klass, known = need.klass, attempt.state.catalog.flavors
    mine = (one.charge for one in attempt.taken if _are_alike(one.need, need))
    kept = need.kept.union(*(charge.flavors.values() for charge in mine if charge is not None))
    ways = list(assignments(queue, known, klass.requests, klass.spec.tolerations))
    for group in queue.groups:
        here = kept.intersection(group.flavors)
        barred = set(group.flavors) - here if here else set()
        ways = [way for way in ways if barred.isdisjoint(way.values())]
    return ways


def _are_alike(one: PodSetRequest, other: PodSetRequest) -> bool:
    """Whether pods of two needs get the same flavors."""
    if one.party is not None:
        return one.party == other.party
    return one.group is other.group and one.klass is other.klass


def ask_for(
    state: State,
    need: PodSetRequest,
    flavors: Assignment,
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


def query_of(ask: Ask, need: PodSetRequest) -> ExtenderQuery:
    """Return the same as a question to extenders, who are asked by one of its members."""
    return ExtenderQuery(ask, need.members[0].pod if need.members else None)


def charge_for(attempt: AdmissionAttempt, need: PodSetRequest, assignment: Assignment) -> Charge | None:
    """Return what each pod of a need uses of quota in these flavors; None without a queue."""
    if attempt.queue is None:
        return None
    usage = usage_of(assignment, need.klass.requests)
    return Charge(attempt.queue.name, assignment, usage, attempt.workload.name)


Fits = Callable[[Sequence[PodSetRequest]], bool]


def widest(needs: Sequence[PodSetRequest], queue: Queue | None, fits: Fits) -> list[PodSetRequest] | None:
    """Return needs of which as many pods as possible are required; None where no more than now can be.

    Args:
        needs: Whose required pods are known to fit.
        queue: Whose quota they use; None where they need none.
        fits: Whether the required pods of needs fit; where some do, fewer of them do, too.
    """
    least = [need.required for need in needs]
    most = [need.required + (0 if class_never_admitted(queue, need.klass) else need.extra) for need in needs]
    if most == least:
        return None
    if fits(sized(needs, most)):
        return sized(needs, most)
    counts = largest_counts(most, least, lambda tried: list(tried) == least or fits(sized(needs, tried)))
    return None if counts is None or list(counts) == least else sized(needs, counts)


def sized(needs: Sequence[PodSetRequest], counts: Sequence[int]) -> list[PodSetRequest]:
    """Return needs with so many pods required of each, and the rest of them extra."""
    return [_sized(need, count - need.required) for need, count in zip(needs, counts, strict=True)]


def _sized(need: PodSetRequest, more: int) -> PodSetRequest:
    growth = max(0, need.growth - more)
    return replace(need, required=need.required + more, extra=need.extra - more, growth=growth)
