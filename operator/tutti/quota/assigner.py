"""The flavor assigner: for each pod set and resource group, the first flavor that will do, or the best.

Rules: Kueue, flavorassigner.go (0.20). For every flavor and resource, with what earlier pod sets of the same workload
take of it added to the request:

    more than could be had                                    NO_FIT
    no more than is free                                      FIT
    within the nominal quota, or covered by less than the     what preemption could do: RECLAIM, PREEMPT or
    whole tree, or preemption while borrowing is allowed      NO_CANDIDATES
    otherwise                                                 NO_FIT

Preemption while borrowing is allowed by borrowWithinCohort, and with fair sharing by any preemption policy: Kueue's
code asks for reclaimWithinCohort there, but has a scenario (TestScheduleForFairSharing, preemption within queues that
borrow) in which withinClusterQueue alone does, because the other is left out.

All resources of a group take one flavor, which is as good as the worst of them. Kueue goes on, in its next cycle, with
the flavor behind the one at which it stopped; whoever asks here leaves out those in which there are no nodes, and asks
again at once.

A waiting workload is looked at again and again while usage comes and goes; what its pod sets ask of a queue stays the
same meanwhile, and is worked out once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tutti.quota.assignment import (
    AssignedFlavor,
    AssignmentMode,
    FlavorAttempt,
    NoFit,
    PodSetAssignment,
    PodSetGroupAssignment,
    WorkloadAssignment,
)
from tutti.quota.flavors import VIRTUAL, Flavor, PodSet, Queue, by_topology_only, is_limited, mismatch
from tutti.quota.policy import FlavorRank, Preemptible, PreemptionMode, PreemptionPolicy, is_better, stops
from tutti.quota.tree import FlavorResource, QuotaNode, Usage, add_to, borrowing_level


class PodSetGroup(NamedTuple):
    """What pod sets that share their flavors ask for.

    Attributes:
        number: Which of the workload's groups it is.
        pod_sets: Themselves.
        names: Theirs.
        totals: What each of them asks for per resource, and `requests` what all do.
        resource_groups: Those of the queue that are concerned, by index, with the resources asked for of each by name.
        uncovered: Whether they ask for something that the queue has no quota of.
    """

    number: int
    pod_sets: list[PodSet]
    names: tuple[str, ...]
    totals: list[dict[str, int]]
    requests: Mapping[str, int]
    resource_groups: Mapping[int, list[str]]
    uncovered: bool


@dataclass(slots=True)
class PodSetRequests:
    """What some pod sets ask of a queue; it holds as long as they and all flavors stay as they are.

    Attributes:
        groups: By those that share their flavors; empty where that has not been worked out.
        implied: Whether all pods of the queue are placed by topology, whether they ask for it or not.
        mismatches: Why those of a group may not be counted in a flavor of a resource group, or "": as far as looked at.
    """

    groups: list[PodSetGroup] = field(default_factory=list)
    implied: bool = False
    mismatches: dict[tuple[int, str, int], str] = field(default_factory=dict)

    def prepare(self, queue: Queue, flavors: Mapping[str, Flavor], pod_sets: Sequence[PodSet]) -> None:
        """Work out what some pod sets ask of a queue."""
        self.implied = by_topology_only(queue, flavors)
        together: dict[object, list[PodSet]] = {}
        for index, pods in enumerate(pod_sets):
            together.setdefault(pods.group or index, []).append(pods)
        indexes: dict[str, int] = {}
        for index, resources in enumerate(queue.groups):
            for name in resources.covered:
                indexes.setdefault(name, index)
        for number, members in enumerate(together.values()):
            totals = [{name: amount * pods.count for name, amount in pods.per_pod.items()} for pods in members]
            requests: dict[str, int] = {}
            for pods, total in zip(members, totals, strict=True):
                if VIRTUAL in indexes:
                    total[VIRTUAL] = pods.count
                add_to(requests, total)
            concerned: dict[int, list[str]] = {}
            for name in sorted(requests.keys() & indexes.keys()):
                concerned.setdefault(indexes[name], []).append(name)
            uncovered = any(
                amount and (not queue.shares_cards or is_limited(name, indexes))
                for name, amount in requests.items()
                if name not in indexes
            )
            names = tuple(pods.name for pods in members)
            self.groups.append(PodSetGroup(number, members, names, totals, requests, concerned, uncovered))

    def mismatch(
        self, queue: Queue, flavors: Mapping[str, Flavor], group: PodSetGroup, *, index: int, name: str
    ) -> str:
        """Return why a group may not be counted in a flavor of a resource group; "" where it may."""
        flavor = flavors.get(name)
        if flavor is None:
            found = f"flavor {name} does not exist"
        else:
            reasons = (mismatch(flavor, pods, queue.groups[index], implied=self.implied) for pods in group.pod_sets)
            found = next(filter(None, reasons), "")
        self.mismatches[index, name, group.number] = found
        return found


SimulatePreemption = Callable[[FlavorResource, int], FlavorRank]
"""What preemption could do for so much of one flavor and resource, and at which level it would then be covered."""

Without = Mapping[str, Collection[frozenset[str]]]
"""Pod set -> combinations of flavors that it may not have, nor may those that share theirs with it.

Each names the flavors of all resource groups that these ask for together.
"""

ALL_ALLOWED: Without = MappingProxyType({})

BEST, WORST = FlavorRank(PreemptionMode.FIT), FlavorRank(PreemptionMode.NO_FIT)

Found = dict[str, AssignedFlavor]
"""Resource -> the flavor that is found for it."""

MOST_NAMED = 5
"""How many resources are named in a sentence."""


class FlavorAssigner(msgspec.Struct, frozen=True):
    """Assigns flavors in one queue.

    Attributes:
        node: The queue in the quota tree.
        simulate: Asked where preemption could help.
        fair: Whether preemption goes by fair shares.
        requests: What the pod sets ask for, kept by whoever asks for the same ones again.
        seconds: How long whoever asks takes in which flavor, where those are looked at first in which it takes least;
            the others follow in the queue's order.
        most_ever: Says how much of a flavor and resource could be had at any later time, where other quotas hold at
            times; None: as much as now.
    """

    queue: Queue
    node: QuotaNode
    flavors: Mapping[str, Flavor]
    policy: PreemptionPolicy
    simulate: SimulatePreemption
    fair: bool = False
    requests: PodSetRequests | None = None
    most_ever: Callable[[FlavorResource], int] | None = None
    seconds: Mapping[str, int] = {}

    def assign(self, pod_sets: Sequence[PodSet], *, without: Without = ALL_ALLOWED) -> WorkloadAssignment:
        """Assign flavors to all pod sets; where one cannot have any, of those behind it only who never can is noted.

        Args:
            pod_sets: With the counts to assign flavors for.
            without: Leaves out combinations of flavors.

        Returns:
            What each has got, in the order of the pod sets.
        """
        requests = PodSetRequests() if self.requests is None else self.requests
        if not requests.groups:
            requests.prepare(self.queue, self.flavors, pod_sets)
        assignment = WorkloadAssignment()
        for number, group in enumerate(requests.groups, 1):
            search = _Search(self, requests, group, dict(assignment.usage))
            barred = [flavors for name in group.names for flavors in without.get(name, ())] if without else None
            found = None if group.uncovered else search.combination(barred) if barred else search.first()
            search.note(found, assignment)
            if found is None:
                self._look_behind(search, requests.groups[number:], assignment)
                break
        if len(assignment.pod_sets) > 1:
            order = {pods.name: index for index, pods in enumerate(pod_sets)}
            assignment.pod_sets.sort(key=lambda mine: order[mine.name])
        asking = {pods.name for pods in pod_sets if pods.topology is not None}
        if asking or requests.implied:
            self._check_topology(asking, assignment, implied=requests.implied)
        assignment.mode = min((pods.mode for pods in assignment.pod_sets), default=AssignmentMode.NO_FIT)
        return assignment

    def _look_behind(self, waits: _Search, behind: Sequence[PodSetGroup], assignment: WorkloadAssignment) -> None:
        """Note who can never have what it asks for behind pod sets that can have nothing yet: all of them are needed.

        What only one flavor could ever do for counts there, also of those that have to wait for it.
        """
        taken = dict(waits.taken)
        add_to(taken, waits.of_only_flavors())
        for group in behind:
            search = _Search(self, waits.requests, group, dict(taken))
            if group.uncovered or search.will_never_do():
                search.note(None, assignment)
            else:
                add_to(taken, search.of_only_flavors())

    def fit(self, what: FlavorResource, amount: int) -> tuple[FlavorRank, NoFit]:
        """Return how so much of one flavor and resource could be had, and why it does not fit."""
        if amount > self.node.potential(what):
            return WORST, NoFit.EXCEEDS_MAX_QUOTA if self.exceeds(what, amount) else NoFit.WAITING_FOR_QUOTA
        covered = borrowing_level(self.node, what, amount)
        if amount <= max(0, self.node.available(what)):
            return FlavorRank(PreemptionMode.FIT, covered.height), NoFit.NONE
        policy = self.policy
        fairly = self.fair and {policy.within, policy.reclaim} != {Preemptible.NEVER}
        if amount <= self.node.nominal(what) or covered.partial or policy.while_borrowing or fairly:
            return self.simulate(what, amount), NoFit.NONE
        return FlavorRank(PreemptionMode.NO_FIT, covered.height), NoFit.WAITING_FOR_QUOTA

    def exceeds(self, what: FlavorResource, amount: int) -> bool:
        """Tell whether so much of one flavor and resource can never be had."""
        return amount > self.node.potential(what) and (self.most_ever is None or amount > self.most_ever(what))

    def _check_topology(self, asking: Collection[str], assignment: WorkloadAssignment, *, implied: bool) -> None:
        """A pod set is placed by one topology: all its flavors that have one must be the same.

        In a queue of topologies alone those that no flavor counts, such as a launcher that asks for nothing, go
        wherever there is room: Kueue admits no such pod set at all ("no flavor assigned").
        """
        for mine in assignment.pod_sets:
            if mine.failed or not (mine.name in asking or (implied and mine.flavors)):
                continue
            found = sorted({one.flavor for one in mine.flavors.values() if self.flavors[one.flavor].levels})
            if len(found) != 1:
                mine.problem = self._why_no_topology(mine, found)

    def _why_no_topology(self, mine: PodSetAssignment, found: Sequence[str]) -> str:
        """Return why nobody knows by which topology a pod set is placed, and what would be right."""
        if found:
            return f"its pods are counted in {' and '.join(found)}, of which each has a topology: have one count them"
        if mine.flavors:
            counted = sorted({one.flavor for one in mine.flavors.values()})
            return f"its pods are placed by topology, and {' and '.join(counted)}, which counts them, names none"
        covered = list(dict.fromkeys(name for group in self.queue.groups for name in group.covered))
        return (
            f"its pods want a topology, which is that of their flavor, and ask for nothing that a flavor of this queue "
            f"counts: have them ask for {' or '.join(covered[:MOST_NAMED])}, or name another queue"
        )


class _Search(msgspec.Struct):
    """The search for flavors of pod sets that share them; `taken` is what those before them take."""

    assigner: FlavorAssigner
    requests: PodSetRequests
    group: PodSetGroup
    taken: Usage
    attempts: list[FlavorAttempt] = []

    def first(self) -> Found | None:
        """Return a flavor for each resource: in each resource group the first that will do, or the best."""
        found: Found = {}
        indexes = iter(self.group.resource_groups)
        for index in indexes:
            best = self._best(index)
            if best is None:
                for behind in indexes:
                    self._note_never(behind)
                return None
            found.update(best)
        return found

    def note(self, found: Found | None, assignment: WorkloadAssignment) -> None:
        """Add what was found for these pod sets to the assignment of their workload; None where they can have none."""
        group, attempts = self.group, tuple(self.attempts)
        flavors = frozenset([one.flavor for one in found.values()]) if found else frozenset[str]()
        assignment.groups.append(PodSetGroupAssignment(group.names, group.requests, flavors, attempts, self.taken))
        for pods, total in zip(group.pod_sets, group.totals, strict=True):
            mine = {name: one for name, one in (found or {}).items() if name in total}
            assignment.add(PodSetAssignment(pods.name, pods.count, total, mine, found is None, attempts))

    def will_never_do(self) -> bool:
        """Whether these pod sets can never have flavors; notes those that will not do."""
        for index in self.group.resource_groups:
            self._note_never(index)
        return bool(self.attempts)

    def of_only_flavors(self) -> Usage:
        """Return what these pod sets will use of flavors beside which no other of the resource group will ever do."""
        wanted: Usage = {}
        for index, resources in self.group.resource_groups.items():
            names = self.assigner.queue.groups[index].flavors
            left = [name for name in names if self._why_never(index, name)[0] is NoFit.NONE]
            if len(left) == 1:
                wanted.update({(left[0], one): self.group.requests[one] for one in resources})
        return wanted

    def _note_never(self, index: int) -> None:
        """Note the flavors of a resource group if none of them will ever do; nobody asks whom to preempt for it."""
        attempts: list[FlavorAttempt] = []
        for name in self.assigner.queue.groups[index].flavors:
            why, text = self._why_never(index, name)
            if why is NoFit.NONE:
                return
            attempts.append(FlavorAttempt(name, PreemptionMode.NO_FIT, 0, index, why, text))
        self.attempts.extend(attempts)

    def _why_never(self, index: int, name: str) -> tuple[NoFit, str]:
        """Return why a flavor can never do for a resource group, with the text if it is no quota; NONE if it may do."""
        wrong = self._mismatch(index, name)
        if wrong:
            return NoFit.NO_MATCHING_FLAVOR, wrong
        too_much = (self.assigner.exceeds(what, amount) for what, amount in self._wanted(index, name).items())
        return (NoFit.EXCEEDS_MAX_QUOTA if any(too_much) else NoFit.NONE), ""

    def combination(self, barred: Collection[frozenset[str]]) -> Found | None:
        """Return the best combination of flavors, one per resource group, that is not barred.

        A flavor stands in one resource group only, so what is free for one group does not depend on the others.
        """
        for combination in itertools.product(*map(self._ranked, self.group.resource_groups)):
            if frozenset(one.flavor for best in combination for one in best.values()) not in barred:
                return {name: one for best in combination for name, one in best.items()}
        return None

    def _ranked(self, index: int) -> list[Found]:
        """Return what would be chosen in a resource group, then what would be without that, and so on."""
        ranked: list[Found] = []
        passed: set[str] = set()
        while (best := self._best(index, passed)) is not None:
            ranked.append(best)
            passed.update(one.flavor for one in best.values())
        return ranked

    def _best(self, index: int, passed: Collection[str] = ()) -> Found | None:
        """Return the flavor of a resource group that is taken: the first that stops the search, else the best."""
        queue = self.assigner.queue
        best: Found | None = None
        rank = WORST
        names: Sequence[str] = queue.groups[index].flavors
        if self.assigner.seconds:
            names = sorted(names, key=lambda name: self.assigner.seconds.get(name, math.inf))
        for name in names:
            attempt = None if name in passed else self._attempt(index, name)
            if attempt is None:
                continue
            found, mine = attempt
            if mine == BEST or stops(mine, queue.fungibility):
                return found
            if is_better(mine, rank, queue.fungibility):
                best, rank = found, mine
        return best

    def _attempt(self, index: int, name: str) -> tuple[Found, FlavorRank] | None:
        """Look at one flavor for all resources of a group; None where the pods may not be counted in it."""
        assigner, group = self.assigner, self.group
        for pods in group.pod_sets:
            if pods.kept and name not in pods.kept and pods.kept.intersection(assigner.queue.groups[index].flavors):
                return None
        wrong = self._mismatch(index, name)
        if wrong:
            self.attempts.append(FlavorAttempt(name, PreemptionMode.NO_FIT, 0, index, NoFit.NO_MATCHING_FLAVOR, wrong))
            return None
        wanted = self._wanted(index, name)
        if assigner.node.has_own(wanted):
            self.attempts.append(FlavorAttempt(name, PreemptionMode.FIT, 0, index))
            return {resource: AssignedFlavor(name, BEST) for _, resource in wanted}, BEST
        found: Found = {}
        worst, furthest, why = BEST, 0, NoFit.NONE
        for what, amount in wanted.items():
            rank, reason = assigner.fit(what, amount)
            why, furthest = max(why, reason), max(furthest, rank.level)
            if is_better(worst, rank, assigner.queue.fungibility):
                worst = rank
            found[what[1]] = AssignedFlavor(name, rank)
        self.attempts.append(FlavorAttempt(name, worst.mode, furthest, index, why))
        return found, worst

    def _mismatch(self, index: int, name: str) -> str:
        """Return why the pods may not be counted in a flavor; "" where they may."""
        known = self.requests.mismatches.get((index, name, self.group.number))
        if known is not None:
            return known
        queue, flavors = self.assigner.queue, self.assigner.flavors
        return self.requests.mismatch(queue, flavors, self.group, index=index, name=name)

    def _wanted(self, index: int, name: str) -> dict[FlavorResource, int]:
        """Return what is asked for of a flavor, with what pod sets before these take of it."""
        wanted = {(name, one): self.group.requests[one] for one in self.group.resource_groups[index]}
        for what in wanted.keys() & self.taken.keys():
            wanted[what] += self.taken[what]
        return wanted


Counts = tuple[int, ...]


def largest_counts(counts: Sequence[int], minimums: Sequence[int], fits: Callable[[Counts], bool]) -> Counts | None:
    """Return the largest counts that fit; None where none do, or nothing may be left out.

    Args:
        counts: Pods of each pod set.
        minimums: The fewest of each; equal to the count where none may be left out.
        fits: Whether counts fit; where some do, all smaller ones must.
    """
    spare = [count - least for count, least in zip(counts, minimums, strict=True)]
    steps = sum(spare)
    if not steps:
        return None

    def at(step: int) -> Counts:
        return tuple(count - less * step // steps for count, less in zip(counts, spare, strict=True))

    low, high = 0, steps + 1
    while low < high:
        middle = (low + high) // 2
        if fits(at(middle)):
            high = middle
        else:
            low = middle + 1
    return at(low) if low <= steps else None
