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
from dataclasses import dataclass, field
from functools import partial

import msgspec

from tutti.cluster.transaction import Transaction
from tutti.engine.admission import AdmissionState
from tutti.engine.lifecycle import checks
from tutti.engine.records.consultation import ExtenderQuery
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.members import Charge, MemberGroup
from tutti.engine.records.never_admitted import class_never_admitted
from tutti.engine.records.pod_sets import PodSetRequest, PreemptionOption, quota_pod_sets
from tutti.engine.records.queue_entries import EquivalenceClass, QueueEntry
from tutti.engine.records.workloads import Workload
from tutti.placement.framework import NO_FLAVOR, FlavorConstraints, KeptOff, Rows
from tutti.placement.gang import Ask
from tutti.placement.plugins.leaving_nodes import kept_off, some_leave
from tutti.placement.profile import Profile
from tutti.quota.assigner import FlavorAssigner, PodSetRequests, largest_counts
from tutti.quota.assignment import AssignmentMode, WorkloadAssignment
from tutti.quota.flavors import FlavorByResource, PodSet, Queue, flavor_assignments, usage_of, where_of
from tutti.quota.policy import NOBODY
from tutti.quota.preemption import PreemptionOracle
from tutti.quota.provisioning import ProvisioningCheck
from tutti.quota.tree import FlavorResource


def assign_flavors(state: AdmissionState, entry: QueueEntry) -> WorkloadAssignment | None:
    """Return the flavors that a workload could have by quota, as the tree is now; None where it needs no quota.

    Equal workloads of a queue are told the same, and the choice is made anew only when their tree has changed.
    """
    equals, queue = entry.equivalence, entry.queue
    if queue is None or not equals.pod_sets:
        return None
    version = state.ledger.changes.version(queue.name)
    if equals.choice is None or (equals.version != version and not _still_holds(state, queue, equals, equals.choice)):
        equals.choice = _chosen(state, queue, entry)
    equals.version = version
    return equals.choice


def widest_assignment(
    state: AdmissionState, entry: QueueEntry, choice: WorkloadAssignment | None, *, starts: bool = False
) -> WorkloadAssignment | None:
    """Return the flavors that a workload could have by quota with as many of its surplus pods as fit.

    By these it is compared with the heads of other queues, as Kueue compares what a workload is to be admitted with: by
    its required pods alone, one that borrows with the rest would go before a more important one that has to borrow.

    Args:
        state: The engine's memory.
        entry: The workload.
        choice: What its required pods alone could have now (`assign_flavors`).
        starts: Whether it is asked even where others would compete for the surplus, so that it is compared without.
    """
    equals, queue = entry.equivalence, entry.queue
    if choice is None or queue is None or choice.mode is not AssignmentMode.FIT:
        return choice
    if (queue.by_speed and not starts) or not any(need.extra for need in entry.needs):
        return choice
    if equals.widest is None or equals.widest[0] != equals.version:
        chooser, found = flavor_chooser(state, queue, entry.workload), choice

        def fits(tried: Sequence[PodSetRequest]) -> bool:
            nonlocal found
            pod_sets = quota_pod_sets([need for need in tried if need.required])
            mine = chooser.assign(pod_sets)
            found = mine if mine.mode is AssignmentMode.FIT else found
            return mine.mode is AssignmentMode.FIT

        most = widest(entry.needs, queue, fits)
        if most is not None:
            fits(most)
        equals.widest = equals.version, choice if most is None else found
    return equals.widest[1]


def last_widest(entry: QueueEntry) -> WorkloadAssignment | None:
    """Return what `widest_assignment` said when flavors were last chosen for a workload, as far as it was asked then.

    What it said of an earlier choice, or of how a gang starts that competes for its surplus later, does not count.
    """
    equals, queue = entry.equivalence, entry.queue
    if equals.widest is None or equals.widest[0] != equals.version or (queue is not None and queue.by_speed):
        return equals.choice
    return equals.widest[1]


def _still_holds(state: AdmissionState, queue: Queue, equals: EquivalenceClass, choice: WorkloadAssignment) -> bool:
    """Whether a choice would be made again: it still fits without borrowing, or nothing can be had now either."""
    if choice.mode is not AssignmentMode.FIT:
        return _is_short(state, queue, equals)
    if choice.level or not state.ledger.changes.only_used_since(queue.name, equals.version):
        return False
    node = state.ledger.tree.queues[queue.name]
    return all(
        not amount or (amount <= node.available(what) and not node.borrows(what, amount))
        for what, amount in choice.usage.items()
    )


def _has_no_choice(queue: Queue, equals: EquivalenceClass) -> bool:
    """Whether there is one flavor for all that some workloads ask for."""
    known = equals.known.groups
    return len(known) == 1 and [len(queue.groups[index].flavors) for index in known[0].resource_groups] == [1]


def _chosen(state: AdmissionState, queue: Queue, entry: QueueEntry) -> WorkloadAssignment:
    """Choose the flavors of a workload: where there is one of each, and its queue has as much, what its like had."""
    equals = entry.equivalence
    own = equals.own
    if own is not None and state.ledger.tree.queues[queue.name].has_own(own.usage):
        return own
    found = flavor_chooser(state, queue, entry.workload, equals.known).assign(equals.pod_sets)
    if found.mode is AssignmentMode.FIT and not found.level and _has_no_choice(queue, equals):
        equals.own = found
    return found


def _is_short(state: AdmissionState, queue: Queue, equals: EquivalenceClass) -> bool:
    """Whether what did not fit its quota surely does not fit it now either, and nobody may be preempted for it.

    Only asked of pods of one shape that need one resource group: then no flavor of it has enough for all resources.
    """
    known = equals.known.groups
    if queue.policy != NOBODY or len(known) != 1 or len(known[0].resource_groups) != 1 or known[0].uncovered:
        return False
    node, requests = state.ledger.tree.queues[queue.name], known[0].requests
    for index, resources in known[0].resource_groups.items():
        for flavor in queue.groups[index].flavors:
            for one in resources:
                if requests[one] > max(0, node.available((flavor, one))):
                    break
            else:
                return False
    return True


def flavor_chooser(
    state: AdmissionState, queue: Queue, workload: Workload, known: PodSetRequests | None = None
) -> FlavorAssigner:
    """Return what chooses flavors for a workload by quota as it is now; what is `known` of its pod sets is kept."""
    snapshot, rules = state.ledger.snapshot, state.rules
    cross_queue_priority = queue.cross_queue_priority(workload.preemption_priority)
    oracle = PreemptionOracle(
        snapshot, rules, queue.name, workload.preemption_priority, workload.queued_at, cross_queue_priority
    )
    flavors = state.catalog.flavors
    node = snapshot.queue(queue.name)
    later = partial(state.ledger.most_ever, queue.name) if state.ledger.highest is not None else None
    seconds = dict(workload.flavor_seconds) if queue.fungibility.earliest_finish else {}
    return FlavorAssigner(
        queue, node, flavors, queue.policy, oracle, fair=rules.fair, requests=known, most_ever=later, seconds=seconds
    )


class Taken(msgspec.Struct):
    """What has been reserved of one need, from member `start` on: one row per pod, and what each uses of quota."""

    need: PodSetRequest
    start: int
    rows: Rows
    charge: Charge | None


class Admitted(msgspec.Struct, frozen=True):
    """What a workload gets by an attempt: nodes for its pods, or quota alone, with which it waits for these.

    Attributes:
        taken: The pods that have nodes, in the transaction of the attempt.
        held: What is to be held of quota without nodes: a group, how many of its pods, and what each of them uses.
        provisions: By which check nodes are to be asked for, and in which flavors; None where they are not.
        has_more: Whether it is to stand in line again at once, with more of its pods: others were to go before these.
    """

    taken: Sequence[Taken] = ()
    held: Sequence[tuple[MemberGroup, int, Charge]] = ()
    provisions: tuple[ProvisioningCheck, tuple[str, ...]] | None = None
    has_more: bool = False

    @property
    def awaits(self) -> bool:
        """Whether it is to wait with quota alone: for checks, or for nodes that are asked for."""
        return bool(self.held) or self.provisions is not None


class Refusal(msgspec.Struct, frozen=True):
    """That a workload could not be admitted.

    Attributes:
        why: What it waits for.
        options: What it could have if others were gone, the best first.
    """

    why: Explanation
    options: Sequence[PreemptionOption] = ()


@dataclass(frozen=True, slots=True)
class AdmissionAttempt:
    """One try at one workload; leaving its transaction without commit gives all nodes back.

    Attributes:
        probes: Whether it only looks for more than it has already got, for which no extender is asked again.
        may_ask: Whether nodes may be asked for where none has room.
        apart: Whether pods that share a claim may be out of the supposed reach of one volume: more pods are not had so.
        charged: What has been charged of quota, and for how many pods each.
    """

    state: AdmissionState
    workload: Workload
    queue: Queue | None
    transaction: Transaction
    probes: bool = False
    may_ask: bool = False
    apart: bool = True
    charged: list[tuple[Charge, int]] = field(default_factory=list)

    def checks_ahead(self, terms: Terms) -> list[str]:
        """Return the admission checks that it has yet to pass under these terms, before it has nodes."""
        if self.queue is None or not self.queue.checks.on_flavors:
            return []
        flavors = [flavor for given in terms.given for flavor in given.values()]
        return checks.checks_ahead(self.queue.checks, self.workload, flavors)

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


class Terms(msgspec.Struct, frozen=True):
    """What is asked for, per need: its flavors, of nodes, and of quota."""

    given: list[FlavorByResource]
    asks: list[Ask]
    charges: list[Charge | None]

    def lacking(
        self,
        attempt: AdmissionAttempt,
        needs: Sequence[PodSetRequest],
        contested: frozenset[FlavorResource] = frozenset(),
    ) -> PreemptionOption:
        """Return it as what could be had if others were gone.

        Who holds quota already needs no more of it; who has admission checks ahead needs no nodes yet.
        """
        holds, asks, charges = attempt.workload.held_since is not None, self.asks, self.charges
        if holds:
            charges = [None for _ in charges]
        elif attempt.checks_ahead(self):
            asks = []
        return PreemptionOption(needs, asks, charges, attempt.profile, contested)

    def to_hold(self, workload: Workload, needs: Sequence[PodSetRequest]) -> list[tuple[MemberGroup, int, Charge]]:
        """Return what a workload would hold of quota without nodes; nothing more where it holds some already."""
        if workload.held_since is not None:
            return []
        charges = zip(needs, self.charges, strict=True)
        return [(need.group, need.required, charge) for need, charge in charges if charge is not None]


def terms_of(
    attempt: AdmissionAttempt,
    needs: Sequence[PodSetRequest],
    pod_sets: Sequence[PodSet],
    choice: WorkloadAssignment | None,
) -> Terms:
    """Return what the required pods of all needs ask for under the flavors chosen for each.

    Args:
        attempt: Whose they are.
        needs: With the pods.
        pod_sets: What each of them asks of quota (`records.pod_sets.quota_pod_sets`).
        choice: The flavors that were chosen for these; None where no quota is needed.
    """
    given: list[FlavorByResource] = [{} for _ in needs]
    if choice is not None:
        chosen = {mine.name: mine.flavors for mine in choice.pod_sets}
        given = [{name: one.flavor for name, one in chosen[pods.name].items()} for pods in pod_sets]
    pairs = list(zip(needs, given, strict=True))
    asks = [ask_for(attempt.state, need, flavors, required=need.required) for need, flavors in pairs]
    return Terms(given, asks, [charge_for(attempt, need, flavors) for need, flavors in pairs])


def ways_of(
    attempt: AdmissionAttempt, queue: Queue, need: PodSetRequest, taken: Sequence[Taken]
) -> list[FlavorByResource]:
    """Return how extra pods of a need may be counted: as those like them in their pod set group, `taken` or older."""
    pod_class, known = need.pod_class, attempt.state.catalog.flavors
    mine = (one.charge for one in taken if _are_alike(one.need, need))
    kept = need.kept.union(*(charge.flavors.values() for charge in mine if charge is not None))
    ways = list(flavor_assignments(queue, known, pod_class.charged, pod_class.spec.tolerations))
    for group in queue.groups:
        here = kept.intersection(group.flavors)
        barred = set(group.flavors) - here if here else set()
        ways = [way for way in ways if barred.isdisjoint(way.values())]
    return ways


def _are_alike(one: PodSetRequest, other: PodSetRequest) -> bool:
    """Whether pods of two needs get the same flavors."""
    if one.pod_set_group is not None:
        return one.pod_set_group == other.pod_set_group
    return one.group is other.group and one.pod_class is other.pod_class


def ask_for(
    state: AdmissionState,
    need: PodSetRequest,
    flavors: FlavorByResource,
    *,
    required: int = 0,
    extra: int = 0,
    taken: Sequence[Taken] = (),
) -> Ask:
    """Return what is asked of nodes for a need in these flavors; `taken` is what its group may have got in this try."""
    known = state.catalog.flavors
    where = where_of(flavors, known) if flavors else NO_FLAVOR
    added = need.group.added
    if added is not None:
        where = FlavorConstraints((*where.node_labels, *added.node_labels), (*where.tolerations, *added.tolerations))
    if need.in_gang and some_leave(state.cluster.nodes):
        where = kept_off(where, KeptOff.LEAVING)
    if need.topology is None:
        return Ask(need.pod_class, required, extra, where)
    levels = next((known[name].levels for name in dict.fromkeys(flavors.values()) if known[name].levels), ())
    topology = need.topology.on(levels, need.pod_set_group, need.group.name, 0 if extra else need.growth)
    if topology is not None:
        rows = state.cluster.nodes.rows
        there, own = ([rows[name] for name in names if name in rows] for names in (need.there, need.own))
        for one in taken:
            if one.need.pod_set_group == need.pod_set_group:
                there += one.rows.tolist()
                own += one.rows.tolist() if one.need.group is need.group else []
        topology = topology.joining(there, own)
    return Ask(need.pod_class, required, extra, where, topology)


def query_of(ask: Ask, need: PodSetRequest) -> ExtenderQuery:
    """Return the same as a question to extenders, who are asked by one of its members."""
    return ExtenderQuery(ask, need.members[0].pod if need.members else None)


def charge_for(attempt: AdmissionAttempt, need: PodSetRequest, assignment: FlavorByResource) -> Charge | None:
    """Return what each pod of a need uses of quota in these flavors; None without a queue."""
    if attempt.queue is None:
        return None
    usage = usage_of(assignment, need.pod_class.charged)
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
    most = [need.required + (0 if class_never_admitted(queue, need.pod_class) else need.extra) for need in needs]
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
    return msgspec.structs.replace(need, required=need.required + more, extra=need.extra - more, growth=growth)
