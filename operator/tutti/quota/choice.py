"""The choice of flavors for a workload: for each pod set and resource group, the first that will do, or the best.

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

All resources of a group take one flavor, which is as good as the worst of them. The scan goes on, the next time, with
the flavor behind the one at which it stopped.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from tutti.quota.eligibility import by_topology_only, mismatch
from tutti.quota.flavors import VIRTUAL, Flavor, Queue
from tutti.quota.fungibility import Mode, Rank, is_better, stops
from tutti.quota.levels import level
from tutti.quota.outcome import Attempt, Choice, Chosen, NoFit, PodSetChoice
from tutti.quota.podsets import PodSet
from tutti.quota.policy import PreemptionPolicy, Who
from tutti.quota.tree import FlavorResource, QuotaNode, Usage

Simulate = Callable[[FlavorResource, int], Rank]
"""What preemption could do for so much of one flavor and resource, and at which level it would then be covered."""

Only = Mapping[tuple[str, str], str]
"""Pod set and resource -> the one flavor to consider."""

Scan = Sequence[Mapping[str, int]]
"""Per pod set, resource -> index of the flavor at which the last scan stopped, -1 where it came to the end."""

Without = Mapping[str, Collection[frozenset[str]]]
"""Pod set -> the flavors, of all its resource groups together, in which it is known that there are no nodes for it."""

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
        lenient: Whether resources that the queue does not cover are left out of account.
    """

    queue: Queue
    node: QuotaNode
    flavors: Mapping[str, Flavor]
    policy: PreemptionPolicy
    simulate: Simulate
    fair: bool = False
    lenient: bool = False

    def choose(
        self, pod_sets: Sequence[PodSet], *, scan: Scan = (), only: Only | None = None, without: Without = NOTHING
    ) -> Choice:
        """Choose flavors for all pod sets; where one cannot have any, those behind it are not looked at.

        Args:
            pod_sets: With the counts to choose for.
            scan: Where the last scan stopped.
            only: Restricts the flavors to consider.
            without: Leaves out combinations of flavors; of pod sets that share flavors, those of the first count.
        """
        choice = Choice()
        for members in _grouped(pod_sets):
            totals = [self._totals(pod_sets[index]) for index in members]
            at = scan[members[0]] if members[0] < len(scan) else {}
            left_out = without.get(pod_sets[members[0]].name, ())
            them = [pod_sets[index] for index in members]
            search = _Search(self, them, _sum(totals), choice.usage, at, only, left_out)
            failed = not search.run()
            for index, total in zip(members, totals, strict=True):
                mine = {name: found for name, found in search.chosen.items() if name in total and not failed}
                pods = pod_sets[index]
                one = PodSetChoice(pods.name, pods.count, total, mine, failed, tuple(search.attempts))
                one.per_pod = pods.per_pod
                choice.add(one)
            if failed:
                break
        self._check_topology(pod_sets, choice)
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

    def group_of(self, resource: str) -> int | None:
        """Return the index of the resource group that covers a resource."""
        covering = (index for index, group in enumerate(self.queue.groups) if resource in group.covered)
        return next(covering, None)

    def _totals(self, pods: PodSet) -> dict[str, int]:
        total = {name: amount * pods.count for name, amount in pods.per_pod.items()}
        if self.group_of(VIRTUAL) is not None:
            total[VIRTUAL] = pods.count
        return total

    def implied(self) -> bool:
        """Whether all pods of the queue are placed by topology, whether they ask for it or not."""
        return by_topology_only(self.queue, self.flavors)

    def _check_topology(self, pod_sets: Sequence[PodSet], choice: Choice) -> None:
        """A pod set is placed by one topology: all its flavors that have one must be the same."""
        for pods, mine in zip(pod_sets, choice.pod_sets, strict=False):
            if (pods.topology is None and not self.implied()) or mine.failed:
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
    members: Sequence[PodSet]
    requests: Mapping[str, int]
    taken: Usage
    scan: Mapping[str, int]
    only: Only | None
    without: Collection[frozenset[str]] = ()
    chosen: dict[str, Chosen] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)

    def run(self) -> bool:
        """Choose a flavor for each resource; returns whether there is one for all."""
        groups: dict[int, str] = {}
        for name in sorted(self.requests):
            index = self.chooser.group_of(name)
            if index is not None:
                groups.setdefault(index, name)
            elif not self.chooser.lenient and self.requests[name]:
                return False
        if self.without:
            return self._combine(groups)
        for index, first in groups.items():
            found = self._in_group(index, first)
            if found is None:
                return False
            self.chosen.update(found)
        return True

    def _combine(self, groups: Mapping[int, str]) -> bool:
        """Choose the best combination of flavors, one per resource group, that is not left out.

        A flavor stands in one resource group only, so what is free for one group does not depend on the others.
        """
        ranked = [self._ranked(index, first) for index, first in groups.items()]
        for combination in itertools.product(*ranked):
            if frozenset(one.flavor for found in combination for one in found.values()) not in self.without:
                for found in combination:
                    self.chosen.update(found)
                return True
        return False

    def _ranked(self, index: int, first: str) -> list[dict[str, Chosen]]:
        """Return what would be chosen in a resource group, then what would be without that, and so on."""
        ranked: list[dict[str, Chosen]] = []
        passed: set[str] = set()
        while (found := self._in_group(index, first, passed)) is not None:
            ranked.append(found)
            passed.update(one.flavor for one in found.values())
        return ranked

    def _in_group(self, index: int, first: str, passed: Collection[str] = ()) -> dict[str, Chosen] | None:
        fungibility = self.chooser.queue.fungibility
        names = self.chooser.queue.groups[index].flavors
        best: dict[str, Chosen] | None = None
        rank, tried = WORST, -1
        for tried in range(self.scan.get(first, -1) + 1, len(names)):
            attempt = None if names[tried] in passed else self._attempt(index, names[tried], first)
            if attempt is None:
                continue
            chosen, mine = attempt
            if stops(mine, fungibility):
                best = chosen
                break
            if is_better(mine, rank, fungibility):
                best, rank = chosen, mine
        for one in (best or {}).values():
            one.tried = -1 if tried == len(names) - 1 else tried
        return best

    def _attempt(self, index: int, name: str, first: str) -> tuple[dict[str, Chosen], Rank] | None:
        """Look at one flavor for all resources of a group; None where the pods may not be counted in it."""
        if self.only is not None and any(self.only.get((pods.name, first), name) != name for pods in self.members):
            return None
        listed = self.chooser.queue.groups[index].flavors
        if any(name not in pods.kept and not pods.kept.isdisjoint(listed) for pods in self.members):
            return None
        wrong = self._mismatch(index, name)
        if wrong:
            self.attempts.append(Attempt(name, Mode.NO_FIT, 0, index, NoFit.NO_MATCHING_FLAVOR, wrong))
            return None
        chosen: dict[str, Chosen] = {}
        worst, furthest, why = BEST, 0, NoFit.NONE
        for resource in sorted(set(self.requests).intersection(self.chooser.queue.groups[index].covered)):
            what = (name, resource)
            fit = self.chooser.fit(what, self.requests[resource] + self.taken.get(what, 0))
            why, furthest = max(why, fit.why), max(furthest, fit.rank.level)
            if is_better(worst, fit.rank, self.chooser.queue.fungibility):
                worst = fit.rank
            chosen[resource] = Chosen(name, fit.rank)
        self.attempts.append(Attempt(name, worst.mode, furthest, index, why))
        return chosen, worst

    def _mismatch(self, index: int, name: str) -> str:
        flavor = self.chooser.flavors.get(name)
        if flavor is None:
            return f"flavor {name} does not exist"
        group = self.chooser.queue.groups[index]
        implied = self.chooser.implied()
        reasons = (mismatch(flavor, pods, group, implied=implied) for pods in self.members)
        return next(filter(None, reasons), "")


def _grouped(pod_sets: Sequence[PodSet]) -> list[list[int]]:
    """Return the indexes of pod sets that share flavors, in the order of the first of each."""
    groups: dict[object, list[int]] = {}
    for index, pods in enumerate(pod_sets):
        groups.setdefault(pods.group or index, []).append(index)
    return list(groups.values())


def _sum(totals: Iterable[Mapping[str, int]]) -> dict[str, int]:
    result: dict[str, int] = {}
    for total in totals:
        for name, amount in total.items():
            result[name] = result.get(name, 0) + amount
    return result
