"""Preemption by fair shares: whoever has more than is fair gives up workloads to whoever has less.

Rules: Kueue, preemption.go `fairPreemptions` and preemption/fairsharing/strategy.go (0.20). Shares are compared just
below the nearest common cohort of preemptor and target, with the demand counted as used:

    LESS_THAN_OR_EQUAL_TO_FINAL_SHARE   the preemptor's share <= the target's once the candidate is gone
    LESS_THAN_INITIAL_SHARE             the preemptor's share <  the target's as it is

Within its nominal quota of all that is contested, a preemptor takes from borrowers whatever their shares.

Ours: whoever was admitted out of turn (`engine/backfill/overdue_heads.py`) is not taken out by shares; it would come
and go.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tutti.quota.contest import Contest
from tutti.quota.policy import Who, allows
from tutti.quota.share import share
from tutti.quota.snapshot import Demand, Holder, Snapshot
from tutti.quota.tree import QuotaNode
from tutti.quota.victims import Fits, Reason, Victim, fits, give_back, in_victim_order


class Strategy(StrEnum):
    """When a workload may be preempted for the sake of fairness."""

    LESS_THAN_OR_EQUAL_TO_FINAL_SHARE = "LessThanOrEqualToFinalShare"
    LESS_THAN_INITIAL_SHARE = "LessThanInitialShare"


STRATEGIES = (Strategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE, Strategy.LESS_THAN_INITIAL_SHARE)
"""Both, in the order in which they are tried where nothing else is said."""


def fair_reclaim(
    snapshot: Snapshot,
    demand: Demand,
    *,
    strategies: Sequence[Strategy] = STRATEGIES,
    also_fits: Fits | None = None,
    first: Collection[str] = (),
) -> list[Victim]:
    """Choose whom to preempt so that a demand fits; nobody where that is not possible.

    Args:
        snapshot: What is used now; unchanged afterwards.
        demand: What is wanted.
        strategies: The first is tried on all candidates; a second, which can only be LESS_THAN_INITIAL_SHARE, on
            those that are left, once per queue.
        also_fits: What must hold besides quota, asked after each removal.
        first: Holders, by name, that are tried before all others of their queues.
    """
    candidates = in_victim_order(fair_candidates(snapshot, demand), demand.queue, used_lately=snapshot.used_lately)
    candidates.sort(key=lambda holder: holder.name not in first)
    if not candidates:
        return []
    with snapshot.trial():
        snapshot.charge(demand.queue, demand.usage)
        run = _Run(snapshot, demand, also_fits)
        done = run.first(candidates, strategies[0])
        if not done and len(strategies) > 1:
            done = run.second()
        snapshot.refund(demand.queue, demand.usage)
        return give_back(snapshot, run.victims, run.fit) if done else []


@dataclass(slots=True)
class _Run:
    """One search for victims, on a snapshot in which the demand is counted as used."""

    snapshot: Snapshot
    demand: Demand
    also_fits: Fits | None
    victims: list[Victim] = field(default_factory=list)
    passed_over: list[Holder] = field(default_factory=list)

    def fit(self) -> bool:
        """Whether the demand fits; it must not be counted as used."""
        return fits(self.snapshot, self.demand, borrowing=True) and (self.also_fits is None or self.also_fits())

    def first(self, candidates: list[Holder], strategy: Strategy) -> bool:
        """Take candidates until the demand fits, by the first strategy; returns whether it does."""
        preemptor = self.snapshot.queue(self.demand.queue)
        entitled = not preemptor.borrows_any(self.demand.contested)
        contest = Contest(self.snapshot, self.demand.queue, candidates)
        for queue in contest.offers():
            if queue is preemptor or entitled:
                reason = Reason.IN_CLUSTER_QUEUE if queue is preemptor else Reason.IN_COHORT_RECLAMATION
                if self._take(contest.take(queue), reason):
                    return True
            elif self._by_share(contest, queue, strategy):
                return True
        return False

    def second(self) -> bool:
        """Take one candidate more of each queue whose share is greater than the preemptor's, until the demand fits."""
        contest = Contest(self.snapshot, self.demand.queue, self.passed_over)
        for queue in contest.offers():
            mine, theirs = contest.sides(queue)
            holder = contest.take(queue)
            if share(mine).key < share(theirs).key and self._take(holder, Reason.IN_COHORT_FAIR_SHARING):
                return True
            contest.drop(queue)
        return False

    def _by_share(self, contest: Contest, queue: QuotaNode, strategy: Strategy) -> bool:
        """Take the first candidate of a queue that may go by a strategy; those before it are passed over."""
        mine, theirs = contest.sides(queue)
        least, initial = share(mine), share(theirs)
        hopeless = least.infinite and not initial.infinite
        while contest.has(queue):
            holder = contest.take(queue)
            if holder.out_of_turn:
                continue
            if not hopeless:
                if strategy is Strategy.LESS_THAN_INITIAL_SHARE:
                    may_go = least.key < initial.key
                else:
                    may_go = least.key <= self._key_without(holder, theirs)
                if may_go:
                    return self._take(holder, Reason.IN_COHORT_FAIR_SHARING)
            self.passed_over.append(holder)
        return False

    def _key_without(self, holder: Holder, theirs: QuotaNode) -> tuple[object, object]:
        with self.snapshot.trial():
            self.snapshot.remove(holder)
            return share(theirs).key

    def _take(self, holder: Holder, reason: Reason) -> bool:
        self.snapshot.remove(holder)
        self.victims.append(Victim(holder, reason))
        with self.snapshot.trial():
            self.snapshot.refund(self.demand.queue, self.demand.usage)
            return self.fit()


def fair_candidates(snapshot: Snapshot, demand: Demand) -> list[Holder]:
    """Return whom the preemptor's policy lets it preempt: in its own queue, and in those of its tree that borrow."""
    node, policy = snapshot.queue(demand.queue), snapshot.policy(demand.queue)
    found = _in_queue(snapshot, demand, node, policy.within)
    if node.parent is not None and policy.reclaim is not Who.NEVER:
        for queue in node.root().leaves():
            if queue is not node and queue.borrows_any(demand.contested):
                found += _in_queue(snapshot, demand, queue, policy.reclaim)
    return found


def _in_queue(snapshot: Snapshot, demand: Demand, queue: QuotaNode, who: Who) -> list[Holder]:
    if who is Who.NEVER:
        return []
    return [
        holder
        for holder in snapshot.holders(queue.name)
        if holder.uses_any(demand.contested)
        and allows(who, demand, holder, abroad=holder.queue != demand.queue)
        and not snapshot.spared(holder)
    ]
