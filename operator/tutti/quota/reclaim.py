"""Preemption by priority and by whose quota it is: the classical way, without fair shares.

Rules: Kueue, preemption.go `classicalPreemptions`, preemption/classical and preemption/common/ordering.go (0.20).

The way from the preemptor's queue to the root is walked with what is left to ask for above each node. Once a subtree
on the way has room for it by itself, every candidate outside of what was walked so far is using what belongs to that
subtree: a *hierarchical* candidate, for which borrowing does not matter. Candidates met before are *priority*
candidates: while the preemptor would borrow, only those that its policy names for that may go.

Candidates are removed in order until the demand fits; those not needed after all are given back. Order and giving back
are the same in preemption by fair shares.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from functools import cmp_to_key
from typing import NamedTuple

from tutti.quota.policy import Who, allows, rank
from tutti.quota.snapshot import Demand, Holder, Snapshot, UsedLately, nobody_knows
from tutti.quota.tree import QuotaNode, covers


class Reason(StrEnum):
    """Why a workload is preempted, as its condition tells it."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"


class Victim(NamedTuple):
    """A workload to preempt, and why."""

    holder: Holder
    reason: Reason


Fits = Callable[[], bool]


def in_victim_order(holders: Iterable[Holder], queue: str, *, used_lately: UsedLately = nobody_knows) -> list[Holder]:
    """Sort the candidates for preemption, the first victim first.

    Those already evicted; then other queues before the preemptor's own; then, in a queue that goes by past use, those
    of the LocalQueue that has used more; then lower priority (among all queues, then within its own), later
    reservation, and uid.

    Args:
        holders: The candidates.
        queue: The preemptor's ClusterQueue.
        used_lately: What their LocalQueues have used.
    """
    everybody = list(holders)
    known = {one.name: used for one in everybody if (used := used_lately(one)) is not None}

    def key(holder: Holder) -> tuple[bool, bool, int, int, float, str]:
        outward = rank(holder, abroad=True)
        return not holder.evicted, holder.queue == queue, outward, holder.priority, -holder.reserved_at, holder.uid

    def compare(a: Holder, b: Holder) -> int:
        one, other = key(a), key(b)
        if one[:2] == other[:2] and a.queue == b.queue and a.local_queue != b.local_queue:
            used, used_by_other = known.get(a.name), known.get(b.name)
            if used is not None and used_by_other is not None and used != used_by_other:
                return -1 if used > used_by_other else 1
        return (one > other) - (one < other)

    return sorted(everybody, key=cmp_to_key(compare) if known else key)


def fits(snapshot: Snapshot, demand: Demand, *, borrowing: bool) -> bool:
    """Whether a demand fits now.

    Args:
        snapshot: The tree.
        demand: What is wanted.
        borrowing: Whether its queue may use more than its own for it.
    """
    node = snapshot.queue(demand.queue)
    return all(
        (borrowing or not node.borrows(what, amount)) and amount <= max(0, node.available(what))
        for what, amount in demand.usage.items()
    )


def give_back(snapshot: Snapshot, victims: list[Victim], fit: Fits) -> list[Victim]:
    """Add removed victims again that are not needed, in the reverse order of removal; the last one always is.

    Args:
        snapshot: Where they have been removed.
        victims: In the order of removal.
        fit: Whether the preemptor fits.
    """
    kept = victims[-1:]
    for victim in reversed(victims[:-1]):
        snapshot.add(victim.holder)
        if not fit():
            snapshot.remove(victim.holder)
            kept.append(victim)
    return kept


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
