"""Preemption by priority and by whose quota it is: the classical way, without fair shares.

Rules: Kueue, preemption.go `classicalPreemptions` and preemption/classical (0.20).

The way from the preemptor's queue to the root is walked with what is left to ask for above each node. Once a subtree
on the way has room for it by itself, every candidate outside of what was walked so far is using what belongs to that
subtree: a *hierarchical* candidate, for which borrowing does not matter. Candidates met before are *priority*
candidates: while the preemptor would borrow, only those that its policy names for that may go.

Candidates are removed in order until the demand fits; those not needed after all are given back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from tutti.quota.levels import covers
from tutti.quota.policy import Who, allows
from tutti.quota.snapshot import Demand, Holder, Snapshot
from tutti.quota.tree import QuotaNode
from tutti.quota.victims import Fits, Reason, Victim, fits, give_back, in_victim_order


class Claim(Enum):
    """By what right a candidate may be preempted."""

    OWN_QUEUE = auto()
    HIERARCHY = auto()
    PRIORITY = auto()
    PRIORITY_WITHOUT_BORROWING = auto()


_REASONS = {
    Claim.OWN_QUEUE: Reason.IN_CLUSTER_QUEUE,
    Claim.HIERARCHY: Reason.IN_COHORT_RECLAMATION,
    Claim.PRIORITY: Reason.IN_COHORT_RECLAIM_WHILE_BORROWING,
    Claim.PRIORITY_WITHOUT_BORROWING: Reason.IN_COHORT_RECLAMATION,
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A workload that may be preempted; `common` is the nearest cohort that it shares with the preemptor."""

    holder: Holder
    claim: Claim
    common: QuotaNode | None = None


@dataclass(slots=True)
class Candidates:
    """All candidates of a demand, each kind in the order to try."""

    own: list[Candidate] = field(default_factory=list)
    hierarchical: list[Candidate] = field(default_factory=list)
    by_priority: list[Candidate] = field(default_factory=list)

    def in_order(self) -> list[Candidate]:
        """Return them in the order to remove them: those already evicted first."""
        everyone = (*self.hierarchical, *self.by_priority, *self.own)
        return sorted(everyone, key=lambda candidate: not candidate.holder.evicted)


def reclaim(
    snapshot: Snapshot, demand: Demand, *, also_fits: Fits | None = None, first: Collection[str] = ()
) -> list[Victim]:
    """Choose whom to preempt so that a demand fits; nobody where that is not possible.

    Args:
        snapshot: What is used now; unchanged afterwards.
        demand: What is wanted.
        also_fits: What must hold besides quota, asked after each removal.
        first: Holders, by name, that are tried before all others.
    """
    candidates = find_candidates(snapshot, demand)
    order = sorted(candidates.in_order(), key=lambda candidate: candidate.holder.name not in first)
    for borrowing in _attempts(snapshot, demand, candidates):

        def fit(borrowing: bool = borrowing) -> bool:
            return fits(snapshot, demand, borrowing=borrowing) and (also_fits is None or also_fits())

        with snapshot.trial():
            victims: list[Victim] = []
            for candidate in order:
                if not _may_go(snapshot, demand, candidate, borrowing=borrowing):
                    continue
                snapshot.remove(candidate.holder)
                victims.append(Victim(candidate.holder, _REASONS[candidate.claim]))
                if fit():
                    return give_back(snapshot, victims, fit)
    return []


def find_candidates(snapshot: Snapshot, demand: Demand) -> Candidates:
    """Find everybody who may be preempted for a demand, as things are now."""
    found = Candidates()
    node, policy = snapshot.queue(demand.queue), snapshot.policy(demand.queue)
    if policy.within is not Who.NEVER:
        found.own = _in_queue(snapshot, demand, node, Claim.OWN_QUEUE)
    if policy.reclaim is not Who.NEVER:
        owned, left = covers(node, demand.usage)
        walked = node
        for cohort in node.ancestors():
            claim = Claim.HIERARCHY if owned else Claim.PRIORITY
            into = found.hierarchical if owned else found.by_priority
            for queue in _borrowers(demand, cohort, walked):
                into += _in_queue(snapshot, demand, queue, claim, cohort)
            enough, left = covers(cohort, left)
            owned = owned or enough
            walked = cohort
    for name in ("own", "hierarchical", "by_priority"):
        by_holder = {candidate.holder.name: candidate for candidate in getattr(found, name)}
        holders = (candidate.holder for candidate in by_holder.values())
        order = in_victim_order(holders, demand.queue, used_lately=snapshot.used_lately)
        setattr(found, name, [by_holder[holder.name] for holder in order])
    return found


def _borrowers(demand: Demand, cohort: QuotaNode, walked: QuotaNode) -> Iterator[QuotaNode]:
    """Yield the queues below a cohort, but not below `walked`, that use more than their own of what is contested."""
    for child in cohort.children:
        if child is walked or not child.borrows_any(demand.contested):
            continue
        if child.leaf:
            yield child
        else:
            yield from _borrowers(demand, child, walked)


def _in_queue(
    snapshot: Snapshot, demand: Demand, queue: QuotaNode, claim: Claim, common: QuotaNode | None = None
) -> list[Candidate]:
    policy = snapshot.policy(demand.queue)
    who = policy.within if claim is Claim.OWN_QUEUE else policy.reclaim
    found = []
    for holder in snapshot.holders(queue.name):
        if holder.uses_any(demand.contested) and _may(snapshot, who, demand, holder):
            mine = claim
            if claim is Claim.PRIORITY and not policy.allows_while_borrowing(demand, holder):
                mine = Claim.PRIORITY_WITHOUT_BORROWING
            found.append(Candidate(holder, mine, common))
    return found


def _may(snapshot: Snapshot, who: Who, demand: Demand, holder: Holder) -> bool:
    return allows(who, demand, holder, abroad=holder.queue != demand.queue) and not snapshot.spared(holder)


def _attempts(snapshot: Snapshot, demand: Demand, candidates: Candidates) -> tuple[bool, ...]:
    """Return whether borrowing is allowed, for each attempt to make."""
    node, strict = snapshot.queue(demand.queue), not snapshot.policy(demand.queue).while_borrowing
    under = all(node.usage.get(what, 0) < node.nominal(what) for what in demand.contested)
    if not (candidates.hierarchical or candidates.by_priority) or (strict and not under):
        return (True,)
    if strict and not candidates.hierarchical:
        return (False, True)
    return (True, False)


def _may_go(snapshot: Snapshot, demand: Demand, candidate: Candidate, *, borrowing: bool) -> bool:
    """Whether a candidate may still be preempted after the removals so far: each node up to the common one borrows."""
    if candidate.claim is Claim.OWN_QUEUE:
        return True
    if borrowing and candidate.claim is Claim.PRIORITY_WITHOUT_BORROWING:
        return False
    node: QuotaNode | None = snapshot.queue(candidate.holder.queue)
    while node is not None and node is not candidate.common:
        if not node.borrows_any(demand.contested):
            return False
        node = node.parent
    return True
