"""The flavor assigner: for each pod set and resource group, the first flavor that will do, or the best.

Rules: Kueue, flavorassigner.go (0.20). For every flavor and resource, with what earlier pod sets of the same workload
take of it added to the request:

    more than could ever be had                               NO_FIT
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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from tutti.quota.assignment import Attempt, Choice, Chosen, NoFit, PartyChoice, PodSetChoice
from tutti.quota.flavors import VIRTUAL, Flavor, PodSet, Queue, ResourceGroup, by_topology_only, mismatch
from tutti.quota.policy import Mode, PreemptionPolicy, Rank, Who, is_better, stops
from tutti.quota.tree import FlavorResource, QuotaNode, Usage, add_to, level


class Asked(NamedTuple):
    """What pod sets that share their flavors ask for.

    Attributes:
        indexes: Theirs among all pod sets of the workload.
        pod_sets: Themselves.
        totals: What each of them asks for per resource, and `requests` what all do.
        groups: The resource groups concerned, by index, with the resources asked for of each, in order of name.
        uncovered: Whether they ask for something that the queue has no quota of.
    """

    indexes: list[int]
    pod_sets: list[PodSet]
    totals: list[dict[str, int]]
    requests: Mapping[str, int]
    groups: Mapping[int, list[str]]
    uncovered: bool


@dataclass(slots=True)
class Known:
    """What has been found out of some pod sets in a queue; it holds as long as they and all flavors stay as they are.

    Attributes:
        asked: What they ask for, by those that share their flavors; empty where that has not been found out.
        implied: Whether all pods of the queue are placed by topology, whether they ask for it or not.
    """

    asked: list[Asked] = field(default_factory=list)
    implied: bool = False
    _wrong: dict[tuple[int, str, int], str] = field(default_factory=dict)

    def find_out(self, queue: Queue, flavors: Mapping[str, Flavor], pod_sets: Sequence[PodSet]) -> None:
        """Find out what some pod sets ask of a queue, unless it is known."""
        if not self.asked:
            self.asked = [_asked(queue, pod_sets, indexes) for indexes in _grouped(pod_sets)]
            self.implied = by_topology_only(queue, flavors)

    def wrong(self, queue: Queue, flavors: Mapping[str, Flavor], asked: Asked, *, index: int, name: str) -> str:
        """Return why pod sets may not be counted in a flavor of a resource group; "" where they may."""
        key = index, name, asked.indexes[0]
        if key not in self._wrong:
            self._wrong[key] = self._find_wrong(queue.groups[index], flavors.get(name), asked, name)
        return self._wrong[key]

    def _find_wrong(self, group: ResourceGroup, flavor: Flavor | None, asked: Asked, name: str) -> str:
        if flavor is None:
            return f"flavor {name} does not exist"
        reasons = (mismatch(flavor, pods, group, implied=self.implied) for pods in asked.pod_sets)
        return next(filter(None, reasons), "")


def _asked(queue: Queue, pod_sets: Sequence[PodSet], indexes: list[int]) -> Asked:
    them = [pod_sets[index] for index in indexes]
    totals = [_totals(queue, pods) for pods in them]
    requests = _sum(totals)
    groups: dict[int, list[str]] = {}
    uncovered = False
    for name in sorted(requests):
        index = _group_of(queue, name)
        if index is not None:
            groups.setdefault(index, []).append(name)
        else:
            uncovered = uncovered or bool(requests[name])
    return Asked(indexes, them, totals, requests, groups, uncovered)


def _totals(queue: Queue, pods: PodSet) -> dict[str, int]:
    total = {name: amount * pods.count for name, amount in pods.per_pod.items()}
    if _group_of(queue, VIRTUAL) is not None:
        total[VIRTUAL] = pods.count
    return total


def _group_of(queue: Queue, resource: str) -> int | None:
    """Return the index of the resource group that covers a resource."""
    covering = (index for index, group in enumerate(queue.groups) if resource in group.covered)
    return next(covering, None)


def _grouped(pod_sets: Sequence[PodSet]) -> list[list[int]]:
    """Return the indexes of pod sets that share flavors, in the order of the first of each."""
    groups: dict[object, list[int]] = {}
    for index, pods in enumerate(pod_sets):
        groups.setdefault(pods.group or index, []).append(index)
    return list(groups.values())


def _sum(totals: Iterable[Mapping[str, int]]) -> dict[str, int]:
    result: dict[str, int] = {}
    for total in totals:
        add_to(result, total)
    return result


Simulate = Callable[[FlavorResource, int], Rank]
"""What preemption could do for so much of one flavor and resource, and at which level it would then be covered."""

Without = Mapping[str, Collection[frozenset[str]]]
"""Pod set -> combinations of flavors that it may not have, nor may those that share theirs with it.

Each names the flavors of all resource groups that these ask for together.
"""

NOTHING: Without = MappingProxyType({})

BEST, WORST = Rank(Mode.FIT), Rank(Mode.NO_FIT)


class _Fit(NamedTuple):
    rank: Rank
    why: NoFit = NoFit.NONE


@dataclass(frozen=True, slots=True)
class Chooser:
    """Chooses flavors in one queue.

    Attributes:
        node: The queue in the quota tree.
        simulate: Asked where preemption could help.
        fair: Whether preemption goes by fair shares.
        known: What has been found out before, kept by whoever asks for the same pod sets again.
    """

    queue: Queue
    node: QuotaNode
    flavors: Mapping[str, Flavor]
    policy: PreemptionPolicy
    simulate: Simulate
    fair: bool = False
    known: Known | None = None

    def choose(self, pod_sets: Sequence[PodSet], *, without: Without = NOTHING) -> Choice:
        """Choose flavors for all pod sets; where one cannot have any, those behind it are not looked at.

        Args:
            pod_sets: With the counts to choose for.
            without: Leaves out combinations of flavors.

        Returns:
            What each has got, in the order of the pod sets.
        """
        choice, known = Choice(), Known() if self.known is None else self.known
        known.find_out(self.queue, self.flavors, pod_sets)
        for asked in known.asked:
            barred = [flavors for pods in asked.pod_sets for flavors in without.get(pods.name, ())]
            search = _Search(self, known, asked, choice.usage, barred)
            failed = not search.run()
            choice.add(*search.outcome(failed=failed))
            if failed:
                break
        order = {pods.name: index for index, pods in enumerate(pod_sets)}
        choice.pod_sets.sort(key=lambda mine: order[mine.name])
        self._check_topology(pod_sets, choice, implied=known.implied)
        return choice

    def fit(self, what: FlavorResource, amount: int) -> _Fit:
        """Return how so much of one flavor and resource could be had."""
        if amount > self.node.potential(what):
            return _Fit(WORST, NoFit.EXCEEDS_MAX_QUOTA)
        covered = level(self.node, what, amount)
        if amount <= max(0, self.node.available(what)):
            return _Fit(Rank(Mode.FIT, covered.height))
        policy = self.policy
        fairly = self.fair and {policy.within, policy.reclaim} != {Who.NEVER}
        if amount <= self.node.nominal(what) or covered.partial or policy.while_borrowing or fairly:
            return _Fit(self.simulate(what, amount))
        return _Fit(Rank(Mode.NO_FIT, covered.height), NoFit.WAITING_FOR_QUOTA)

    def _check_topology(self, pod_sets: Sequence[PodSet], choice: Choice, *, implied: bool) -> None:
        """A pod set is placed by one topology: all its flavors that have one must be the same."""
        asking = {pods.name for pods in pod_sets if implied or pods.topology is not None}
        for mine in choice.pod_sets:
            if mine.name not in asking or mine.failed:
                continue
            found = sorted({one.flavor for one in mine.flavors.values() if self.flavors[one.flavor].levels})
            if len(found) == 1:
                mine.topology_of = found[0]
            else:
                mine.problem = f"placed by topology, it needs one flavor that has one, not {', '.join(found) or 'none'}"


@dataclass(slots=True)
class _Search:
    """The search for flavors of pod sets that share them."""

    chooser: Chooser
    known: Known
    asked: Asked
    taken: Usage
    without: Collection[frozenset[str]] = ()
    chosen: dict[str, Chosen] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)

    def run(self) -> bool:
        """Choose a flavor for each resource; returns whether there is one for all."""
        if self.asked.uncovered:
            return False
        if self.without:
            return self._combine()
        for index in self.asked.groups:
            found = self._in_group(index)
            if found is None:
                return False
            self.chosen.update(found)
        return True

    def outcome(self, *, failed: bool) -> tuple[PartyChoice, list[PodSetChoice]]:
        """Return what has been found for all pod sets together, and for each of them."""
        chosen, attempts, asked = {} if failed else self.chosen, tuple(self.attempts), self.asked
        names = tuple(pods.name for pods in asked.pod_sets)
        party = PartyChoice(names, asked.requests, frozenset(one.flavor for one in chosen.values()), attempts)
        found: list[PodSetChoice] = []
        for pods, total in zip(asked.pod_sets, asked.totals, strict=True):
            mine = {name: one for name, one in chosen.items() if name in total}
            found.append(PodSetChoice(pods.name, pods.count, total, mine, failed, attempts))
        return party, found

    def _combine(self) -> bool:
        """Choose the best combination of flavors, one per resource group, that is not left out.

        A flavor stands in one resource group only, so what is free for one group does not depend on the others.
        """
        ranked = [self._ranked(index) for index in self.asked.groups]
        for combination in itertools.product(*ranked):
            if frozenset(one.flavor for found in combination for one in found.values()) not in self.without:
                for found in combination:
                    self.chosen.update(found)
                return True
        return False

    def _ranked(self, index: int) -> list[dict[str, Chosen]]:
        """Return what would be chosen in a resource group, then what would be without that, and so on."""
        ranked: list[dict[str, Chosen]] = []
        passed: set[str] = set()
        while (found := self._in_group(index, passed)) is not None:
            ranked.append(found)
            passed.update(one.flavor for one in found.values())
        return ranked

    def _in_group(self, index: int, passed: Collection[str] = ()) -> dict[str, Chosen] | None:
        fungibility = self.chooser.queue.fungibility
        names = self.chooser.queue.groups[index].flavors
        best: dict[str, Chosen] | None = None
        rank = WORST
        for name in names:
            attempt = None if name in passed else self._attempt(index, name)
            if attempt is None:
                continue
            chosen, mine = attempt
            if stops(mine, fungibility):
                best = chosen
                break
            if is_better(mine, rank, fungibility):
                best, rank = chosen, mine
        return best

    def _attempt(self, index: int, name: str) -> tuple[dict[str, Chosen], Rank] | None:
        """Look at one flavor for all resources of a group; None where the pods may not be counted in it."""
        resources = self.asked.groups[index]
        for pods in self.asked.pod_sets:
            if pods.kept and name not in pods.kept and pods.kept.intersection(self.chooser.queue.groups[index].flavors):
                return None
        wrong = self.known.wrong(self.chooser.queue, self.chooser.flavors, self.asked, index=index, name=name)
        if wrong:
            self.attempts.append(Attempt(name, Mode.NO_FIT, 0, index, NoFit.NO_MATCHING_FLAVOR, wrong))
            return None
        chosen: dict[str, Chosen] = {}
        worst, furthest, why = BEST, 0, NoFit.NONE
        for resource in resources:
            what = (name, resource)
            fit = self.chooser.fit(what, self.asked.requests[resource] + self.taken.get(what, 0))
            why, furthest = max(why, fit.why), max(furthest, fit.rank.level)
            if is_better(worst, fit.rank, self.chooser.queue.fungibility):
                worst = fit.rank
            chosen[resource] = Chosen(name, fit.rank)
        self.attempts.append(Attempt(name, worst.mode, furthest, index, why))
        return chosen, worst


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
