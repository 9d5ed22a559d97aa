"""What preemption could do for a workload, tried out before a flavor is chosen, and what is reserved for it meanwhile.

Whom a workload may preempt, by the rules of this cluster (`PreemptionRules`), costs a look at all who hold quota; that
there is nobody in other queues is found sooner, for many at once (`PreemptionReach`).

Rules: Kueue, preemption_oracle.go (0.20): victims only in other queues are a reclaim, one in its own queue makes it a
preemption, none is no candidates; the level is the one at which the request would be covered once they are gone.

scheduler.go `resourcesToReserve`: a workload that needs preemption but has no victims yet would otherwise see what
little is free given to queues that come after it. It reserves as much of its request as is free below the nominal
quota, or, where it would borrow, below the nominal quota and the borrowing limit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import msgspec

from tutti.quota.fair_reclaim import STRATEGIES, FairSharingStrategy, fair_candidates, fair_victims, has_fair_candidates
from tutti.quota.fair_sharing import QueueOrdering
from tutti.quota.policy import NOBODY, FlavorRank, Preemptible, PreemptionMode, priority_in
from tutti.quota.reclaim import (
    AlsoFits,
    CandidatesKnown,
    Victim,
    classical_victims,
    find_candidates,
    has_candidates,
    may_have_victims,
)
from tutti.quota.snapshot import AdmittedWorkload, Demand, Snapshot
from tutti.quota.tree import FlavorResource, QuotaNode, Usage, borrowing_level


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """How preemption goes in this cluster.

    Attributes:
        fair: Whether by fair shares.
        strategies: By which rules of fairness.
        ordering: By what queues are compared where it is asked who is next; victims go by what is borrowed.
    """

    fair: bool = False
    strategies: Sequence[FairSharingStrategy] = STRATEGIES
    ordering: QueueOrdering = QueueOrdering.BORROWED_SHARE

    def victims(
        self,
        snapshot: Snapshot,
        demand: Demand,
        also_fits: AlsoFits | None = None,
        *,
        first: Collection[str] = (),
        known: CandidatesKnown | None = None,
    ) -> list[Victim]:
        """Choose whom to preempt so that a demand fits, some of them `first`; nobody where that is not possible.

        Where more is wanted of the same one after the other, `known` is who may be preempted at all.
        """
        policy = snapshot.policy(demand.queue)
        if policy.within is Preemptible.NEVER and policy.reclaim is Preemptible.NEVER:
            return []
        if self.fair:
            return fair_victims(snapshot, demand, strategies=self.strategies, also_fits=also_fits, first=first)
        return classical_victims(snapshot, demand, also_fits=also_fits, first=first, known=known)

    def candidates(self, snapshot: Snapshot, demand: Demand) -> list[AdmittedWorkload]:
        """Return who may be preempted for a demand as things are, though perhaps not all of them together."""
        if self.fair:
            return fair_candidates(snapshot, demand)
        return [one.holder for one in find_candidates(snapshot, demand).in_order()]

    def within_reach(self, snapshot: Snapshot, demands: Sequence[Demand]) -> list[AdmittedWorkload]:
        """Return whom a policy names for one of some demands in queues that borrow, protected or not.

        Nobody else can become a candidate by being divided into holders of parts of what it holds. There is nobody
        where none of them could be a victim.

        Args:
            snapshot: What is used now.
            demands: Of the same workload; they differ in what is contested.
        """
        if not self.fair and not any(may_have_victims(snapshot, one) for one in demands):
            return []
        demand, contested = demands[0], frozenset().union(*(one.contested for one in demands))
        node, policy = snapshot.queue(demand.queue), snapshot.policy(demand.queue)
        found: list[AdmittedWorkload] = []
        for leaf in node.root().leaves():
            if leaf is node:
                found += snapshot.allowed(policy.within, demand, leaf.name)
            elif policy.reclaim is not Preemptible.NEVER and leaf.borrows_any(contested):
                found += snapshot.allowed(policy.reclaim, demand, leaf.name)
        return found

    def has_candidates(self, snapshot: Snapshot, demand: Demand) -> bool:
        """Whether there are any of these."""
        if self.fair:
            return has_fair_candidates(snapshot, demand)
        return has_candidates(snapshot, demand)


class Preemptor(NamedTuple):
    """Who would preempt, whatever it asks for: some ClusterQueue with a priority, in it and among all queues."""

    queue: str
    priority: int
    cross_queue_priority: int


_MOST_BORROWERS = 16
"""Where more queues of a tree borrow, one of them is taken to have candidates."""


@dataclass(frozen=True, slots=True)
class PreemptionReach:
    """Whether preemptors may have candidates in other queues as things are; who borrows is found once for a whole tree.

    It errs to one side: nobody has candidates there of whom this says that there are none, whatever is contested,
    protected or not, and by the classical rules as well as by fair shares.
    """

    snapshot: Snapshot
    _borrowing: dict[str, list[str]] = field(default_factory=dict)
    _others: dict[str, tuple[float, Mapping[int, float]]] = field(default_factory=dict)

    def before_whom(self, preemptor: Preemptor) -> float:
        """Return before when a preemptor has to have come to have any; infinite: any time will do; Unix seconds."""
        reclaim = self.snapshot.policy(preemptor.queue).reclaim
        if reclaim is Preemptible.NEVER:
            return -math.inf
        lowest, newest = self._holding(preemptor.queue)
        if lowest < preemptor.cross_queue_priority or (reclaim is Preemptible.ANY and newest):
            return math.inf
        if reclaim is Preemptible.LOWER_PRIORITY:
            return -math.inf
        return newest.get(preemptor.cross_queue_priority, -math.inf)

    def _holding(self, queue: str) -> tuple[float, Mapping[int, float]]:
        """Return of those that hold quota in other queues that borrow the lowest priority, and when the newest came.

        Priorities are those among all queues; that of whom nobody looks at, since too many borrow, is minus infinity.
        """
        known = self._others.get(queue)
        if known is None:
            others = [one for one in self._borrowers(queue) if one != queue]
            newest: dict[int, float] = {}
            for one in chain.from_iterable(map(self.snapshot.holders, others[:_MOST_BORROWERS])):
                priority = priority_in(one, across_queues=True)
                newest[priority] = max(newest.get(priority, -math.inf), one.queued_at)
            lowest = -math.inf if len(others) > _MOST_BORROWERS else min(newest, default=math.inf)
            known = self._others[queue] = lowest, newest
        return known

    def _borrowers(self, queue: str) -> list[str]:
        """Return the queues in the tree of a queue that use more than their own of anything."""
        root = self.snapshot.queue(queue).root()
        found = self._borrowing.get(root.name)
        if found is None:
            found = [leaf.name for leaf in root.leaves() if leaf.borrows_any(leaf.usage)]
            self._borrowing[root.name] = found
        return found


class PreemptionOracle(msgspec.Struct, frozen=True):
    """Tries preemption for one workload, while nothing else is used of any queue."""

    snapshot: Snapshot
    rules: PreemptionRules
    queue: str
    priority: int
    queued_at: float
    cross_queue_priority: int | None = None
    known: CandidatesKnown = {}

    def __call__(self, what: FlavorResource, amount: int) -> FlavorRank:
        """Return what preemption could do for so much of one flavor and resource."""
        node, victims = self.snapshot.queue(self.queue), list[Victim]()
        if self.snapshot.policy(self.queue) != NOBODY:
            wanted, contested = {what: amount}, frozenset((what,))
            demand = Demand(self.queue, wanted, contested, self.priority, self.queued_at, self.cross_queue_priority)
            victims = self.rules.victims(self.snapshot, demand, known=self.known)
        if not victims:
            return FlavorRank(PreemptionMode.NO_CANDIDATES, borrowing_level(node, what, amount).height)
        with self.snapshot.trial():
            self.snapshot.remove_each(victim.holder for victim in victims)
            covered = borrowing_level(node, what, amount).height
        own = any(victim.holder.queue == self.queue for victim in victims)
        return FlavorRank(PreemptionMode.PREEMPT if own else PreemptionMode.RECLAIM, covered)


def resources_to_reserve(node: QuotaNode, request: Mapping[FlavorResource, int], *, borrows: bool) -> Usage:
    """Return what to count as used in the queue until the end of the cycle."""
    kept: Usage = {}
    for what, amount in request.items():
        quota = node.quotas.get(what)
        limit = node.nominal(what)
        if borrows:
            if quota is None or quota.borrowing_limit is None:
                kept[what] = amount
                continue
            limit += quota.borrowing_limit
        kept[what] = max(0, min(amount, limit - node.usage.get(what, 0)))
    return kept
