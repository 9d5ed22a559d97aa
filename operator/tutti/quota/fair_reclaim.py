"""Preemption by fair shares: whoever has more than is fair gives up workloads to whoever has less.

Rules: Kueue, preemption.go `fairPreemptions`, preemption/fairsharing/strategy.go and ordering.go (0.20). Shares are
compared just below the nearest common cohort of preemptor and target, with the demand counted as used:

    LESS_THAN_OR_EQUAL_TO_FINAL_SHARE   the preemptor's share <= the target's once the candidate is gone
    LESS_THAN_INITIAL_SHARE             the preemptor's share <  the target's as it is

Within its nominal quota of all that is contested, a preemptor takes from borrowers whatever their shares.

In which order queues give up workloads: from the root, go down into the child with the highest share until it is a
queue. A queue is out for good when it has no candidates left or does not borrow (the preemptor's own may), a cohort
when it does not borrow (those above the preemptor may) or all below it are out. Of equal shares, a cohort goes before
a queue, a later cohort before an earlier one, and the queue whose first candidate comes first in the order of victims
before the other.

Ours: those evicted already are offered before all others, so that nobody leaves in their place; Kueue offers them
first of their queue. And whoever was admitted out of turn (`engine/backfill/overdue_heads.py`) is not taken out by
shares; it would come and go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tutti.quota.fair_sharing import ShareKey, fair_share
from tutti.quota.policy import Preemptible
from tutti.quota.reclaim import AlsoFits, Fit, PreemptionReason, Victim, fill_back, gives_back, in_victim_order
from tutti.quota.snapshot import AdmittedWorkload, Demand, Snapshot
from tutti.quota.tree import QuotaNode


class TargetQueueOrdering:
    """Offers queues one after the other; whoever asks must `take` a candidate or `drop` the queue each time.

    Args:
        snapshot: What is used. Between two offers it may only change in the queue that was offered.
        queue: The preemptor's queue.
        candidates: In the order of victims.
    """

    def __init__(self, snapshot: Snapshot, queue: str, candidates: Iterable[AdmittedWorkload]) -> None:
        self._preemptor = snapshot.queue(queue)
        self._above = set(map(id, self._preemptor.ancestors()))
        self._left: dict[str, list[AdmittedWorkload]] = {}
        for holder in candidates:
            self._left.setdefault(holder.queue, []).append(holder)
        for mine in self._left.values():
            mine.reverse()
        self._out: set[int] = set()
        self._shares: dict[int, tuple[bool, ShareKey]] = {}

    def offers(self) -> Iterator[QuotaNode]:
        """Yield the queue to take from next, until none is left."""
        root = self._preemptor.root()
        while id(root) not in self._out:
            queue = self._pick(root)
            if queue is not None:
                yield queue
                for node in (queue, *queue.ancestors()):
                    self._shares.pop(id(node), None)

    def has(self, queue: QuotaNode) -> bool:
        """Whether a queue has candidates left."""
        return bool(self._left.get(queue.name))

    def take(self, queue: QuotaNode) -> AdmittedWorkload:
        """Return a queue's next candidate, and count it as dealt with."""
        return self._left[queue.name].pop()

    def drop(self, queue: QuotaNode) -> None:
        """Offer a queue no more."""
        self._out.add(id(queue))

    def sides(self, target: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
        """Return the children of the nearest common cohort: the preemptor's side, and the target's."""
        theirs = target
        while theirs.parent is not None and id(theirs.parent) not in self._above:
            theirs = theirs.parent
        mine = self._preemptor
        while mine.parent is not None and mine.parent is not theirs.parent:
            mine = mine.parent
        return mine, theirs

    def _pick(self, node: QuotaNode) -> QuotaNode | None:
        """Return the queue to take from below a node; None where a look at it put something out."""
        if node.leaf:
            if not self.has(node):
                self.drop(node)
                return None
            return node
        best: QuotaNode | None = None
        for child in node.children:
            if id(child) not in self._out and self._stays(child) and (best is None or self._beats(child, best)):
                best = child
        if best is None:
            self._out.add(id(node))
            return None
        return best if best.leaf else self._pick(best)

    def _stays(self, child: QuotaNode) -> bool:
        exempt = child is self._preemptor or id(child) in self._above
        if (exempt or self._share(child)[0]) and (not child.leaf or self.has(child)):
            return True
        self._out.add(id(child))
        return False

    def _share(self, node: QuotaNode) -> tuple[bool, ShareKey]:
        """Return whether a node borrows, and its share."""
        found = self._shares.get(id(node))
        if found is None:
            mine = fair_share(node)
            found = self._shares[id(node)] = (bool(mine.borrowed), mine.key)
        return found

    def _beats(self, one: QuotaNode, best: QuotaNode) -> bool:
        mine, other = self._share(one)[1], self._share(best)[1]
        if mine != other or not one.leaf:
            return mine >= other
        if not best.leaf:
            return False
        first, second = self._left[one.name][-1], self._left[best.name][-1]
        return in_victim_order((second, first), self._preemptor.name)[0] is first


class FairSharingStrategy(StrEnum):
    """When a workload may be preempted for the sake of fairness."""

    LESS_THAN_OR_EQUAL_TO_FINAL_SHARE = "LessThanOrEqualToFinalShare"
    LESS_THAN_INITIAL_SHARE = "LessThanInitialShare"


STRATEGIES = (FairSharingStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE, FairSharingStrategy.LESS_THAN_INITIAL_SHARE)
"""Both, in the order in which they are tried where nothing else is said."""


def fair_victims(
    snapshot: Snapshot,
    demand: Demand,
    *,
    strategies: Sequence[FairSharingStrategy] = STRATEGIES,
    also_fits: AlsoFits | None = None,
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
    fit, found = Fit(snapshot, demand, borrowing=True, also_fits=also_fits), fair_candidates(snapshot, demand)
    if fit.lacks_quota_alone():
        found = [holder for holder in found if gives_back(holder)]
    candidates = in_victim_order(found, demand.queue, used_lately=snapshot.used_lately)
    candidates.sort(key=lambda holder: holder.name not in first)
    if not candidates:
        return []
    with snapshot.trial():
        snapshot.charge(demand.queue, demand.usage)
        run = _Run(snapshot, demand, fit)
        done = run.first(candidates, strategies[0])
        if not done and len(strategies) > 1:
            done = run.second()
        snapshot.refund(demand.queue, demand.usage)
        return fill_back(snapshot, run.victims, run.fit) if done else []


@dataclass(slots=True)
class _Run:
    """One search for victims, on a snapshot in which the demand is counted as used.

    Attributes:
        fit: Whether the demand fits; it must not be counted as used then.
    """

    snapshot: Snapshot
    demand: Demand
    fit: Fit
    victims: list[Victim] = field(default_factory=list)
    passed_over: list[AdmittedWorkload] = field(default_factory=list)

    def first(self, candidates: list[AdmittedWorkload], strategy: FairSharingStrategy) -> bool:
        """Take candidates until the demand fits, by the first strategy; returns whether it does."""
        leaving = [holder for holder in candidates if holder.evicted]
        staying = [holder for holder in candidates if not holder.evicted]
        return any(self._first_of(some, strategy) for some in (leaving, staying) if some)

    def _first_of(self, candidates: list[AdmittedWorkload], strategy: FairSharingStrategy) -> bool:
        preemptor = self.snapshot.queue(self.demand.queue)
        entitled = not preemptor.borrows_any(self.demand.contested)
        contest = TargetQueueOrdering(self.snapshot, self.demand.queue, candidates)
        for queue in contest.offers():
            if queue is preemptor or entitled:
                reason = (
                    PreemptionReason.IN_CLUSTER_QUEUE if queue is preemptor else PreemptionReason.IN_COHORT_RECLAMATION
                )
                if self._take(contest.take(queue), reason):
                    return True
            elif self._by_share(contest, queue, strategy):
                return True
        return False

    def second(self) -> bool:
        """Take one candidate more of each queue whose share is greater than the preemptor's, until the demand fits."""
        contest = TargetQueueOrdering(self.snapshot, self.demand.queue, self.passed_over)
        for queue in contest.offers():
            mine, theirs = contest.sides(queue)
            holder = contest.take(queue)
            if fair_share(mine).key < fair_share(theirs).key and self._take(
                holder, PreemptionReason.IN_COHORT_FAIR_SHARING
            ):
                return True
            contest.drop(queue)
        return False

    def _by_share(self, contest: TargetQueueOrdering, queue: QuotaNode, strategy: FairSharingStrategy) -> bool:
        """Take the first candidate of a queue that may go by a strategy; those before it are passed over."""
        mine, theirs = contest.sides(queue)
        least, initial = fair_share(mine), fair_share(theirs)
        hopeless = least.infinite and not initial.infinite
        while contest.has(queue):
            holder = contest.take(queue)
            if holder.out_of_turn:
                continue
            if not hopeless:
                if strategy is FairSharingStrategy.LESS_THAN_INITIAL_SHARE:
                    may_go = least.key < initial.key
                else:
                    may_go = least.key <= self._key_without(holder, theirs)
                if may_go:
                    return self._take(holder, PreemptionReason.IN_COHORT_FAIR_SHARING)
            self.passed_over.append(holder)
        return False

    def _key_without(self, holder: AdmittedWorkload, theirs: QuotaNode) -> tuple[object, object]:
        with self.snapshot.trial():
            self.snapshot.remove(holder)
            return fair_share(theirs).key

    def _take(self, holder: AdmittedWorkload, reason: PreemptionReason) -> bool:
        self.snapshot.remove(holder)
        self.victims.append(Victim(holder, reason))
        with self.snapshot.trial():
            self.snapshot.refund(self.demand.queue, self.demand.usage)
            return self.fit()


def fair_candidates(snapshot: Snapshot, demand: Demand) -> list[AdmittedWorkload]:
    """Return whom the preemptor's policy lets it preempt: in its own queue, and in those of its tree that borrow."""
    return [one for queue, who in _by_queue(snapshot, demand) for one in snapshot.candidates(who, demand, queue)]


def has_fair_candidates(snapshot: Snapshot, demand: Demand) -> bool:
    """Whether there is anybody."""
    return any(snapshot.has_candidate(who, demand, queue) for queue, who in _by_queue(snapshot, demand))


def _by_queue(snapshot: Snapshot, demand: Demand) -> Iterator[tuple[str, Preemptible]]:
    """Yield the queues that have candidates, and whom of each the preemptor's policy names."""
    node, policy = snapshot.queue(demand.queue), snapshot.policy(demand.queue)
    yield node.name, policy.within
    if node.parent is not None and policy.reclaim is not Preemptible.NEVER:
        for queue in node.root().leaves():
            if queue is not node and queue.borrows_any(demand.contested):
                yield queue.name, policy.reclaim
