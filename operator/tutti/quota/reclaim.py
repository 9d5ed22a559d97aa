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

from tutti.quota.policy import Preemptible, PreemptionPolicy, priority_in
from tutti.quota.snapshot import AdmittedWorkload, Demand, Snapshot, UsedLately, nobody_knows
from tutti.quota.tree import QuotaNode, covers


class PreemptionReason(StrEnum):
    """Why a workload is preempted, as its condition tells it."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"


class Victim(NamedTuple):
    """A workload to preempt, and why."""

    holder: AdmittedWorkload
    reason: PreemptionReason


Fits = Callable[[], bool]


def in_victim_order(
    holders: Iterable[AdmittedWorkload], queue: str, *, used_lately: UsedLately = nobody_knows
) -> list[AdmittedWorkload]:
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

    def key(holder: AdmittedWorkload) -> tuple[bool, bool, int, int, float, str]:
        cross_queue_priority = priority_in(holder, across_queues=True)
        return (
            not holder.evicted,
            holder.queue == queue,
            cross_queue_priority,
            holder.priority,
            -holder.reserved_at,
            holder.uid,
        )

    def compare(a: AdmittedWorkload, b: AdmittedWorkload) -> int:
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


def fill_back(snapshot: Snapshot, victims: list[Victim], fit: Fits) -> list[Victim]:
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


class PreemptionVariant(Enum):
    """By what right a candidate may be preempted."""

    OWN_QUEUE = auto()
    HIERARCHY = auto()
    PRIORITY = auto()
    PRIORITY_WITHOUT_BORROWING = auto()


_REASONS = {
    PreemptionVariant.OWN_QUEUE: PreemptionReason.IN_CLUSTER_QUEUE,
    PreemptionVariant.HIERARCHY: PreemptionReason.IN_COHORT_RECLAMATION,
    PreemptionVariant.PRIORITY: PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING,
    PreemptionVariant.PRIORITY_WITHOUT_BORROWING: PreemptionReason.IN_COHORT_RECLAMATION,
}


class PreemptionCandidate(NamedTuple):
    """A workload that may be preempted; `common` is the nearest cohort that it shares with the preemptor."""

    holder: AdmittedWorkload
    claim: PreemptionVariant
    common: QuotaNode | None = None


@dataclass(slots=True)
class PreemptionCandidates:
    """All candidates of a demand, each kind in the order to try."""

    own: list[PreemptionCandidate] = field(default_factory=list)
    hierarchical: list[PreemptionCandidate] = field(default_factory=list)
    by_priority: list[PreemptionCandidate] = field(default_factory=list)

    def in_order(self) -> list[PreemptionCandidate]:
        """Return them in the order to remove them: those already evicted first."""
        everyone = (*self.hierarchical, *self.by_priority, *self.own)
        return sorted(everyone, key=lambda candidate: not candidate.holder.evicted)


CandidatesKnown = dict[tuple[object, ...], PreemptionCandidates]
"""What was found of one preemptor while nothing else is used of any queue, by what of its demand decides it."""


def classical_victims(
    snapshot: Snapshot,
    demand: Demand,
    *,
    also_fits: Fits | None = None,
    first: Collection[str] = (),
    known: CandidatesKnown | None = None,
) -> list[Victim]:
    """Choose whom to preempt so that a demand fits; nobody where that is not possible.

    Args:
        snapshot: What is used now; unchanged afterwards.
        demand: What is wanted.
        also_fits: What must hold besides quota, asked after each removal.
        first: Holders, by name, that are tried before all others.
        known: Candidates of the same preemptor that have been found since anything changed.
    """
    candidates = find_candidates(snapshot, demand, may_go=True, known=known)
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
                    return fill_back(snapshot, victims, fit)
    return []


def find_candidates(
    snapshot: Snapshot, demand: Demand, *, may_go: bool = False, known: CandidatesKnown | None = None
) -> PreemptionCandidates:
    """Find everybody who may be preempted for a demand, as things are now.

    Args:
        snapshot: What is used now.
        demand: What is wanted.
        may_go: Leave out those whom no attempt takes: priority candidates of a queue that has to borrow for it and may
            preempt nobody while it does.
        known: Those of the same preemptor that have been found since anything changed.
    """
    sources = list(_by_queue(snapshot, demand, may_go=may_go))
    key = (may_go, demand.contested, *((id(one.queue), one.claim, id(one.common)) for one in sources))
    if known is not None and key in known:
        return known[key]
    found = PreemptionCandidates()
    kinds = {
        PreemptionVariant.OWN_QUEUE: found.own,
        PreemptionVariant.HIERARCHY: found.hierarchical,
        PreemptionVariant.PRIORITY: found.by_priority,
    }
    for source in sources:
        kinds[source.claim].extend(_in_queue(snapshot, demand, source))
    for name in ("own", "hierarchical", "by_priority"):
        by_holder = {candidate.holder.name: candidate for candidate in getattr(found, name)}
        holders = (candidate.holder for candidate in by_holder.values())
        order = in_victim_order(holders, demand.queue, used_lately=snapshot.used_lately)
        setattr(found, name, [by_holder[holder.name] for holder in order])
    if known is not None:
        known[key] = found
    return found


def has_candidates(snapshot: Snapshot, demand: Demand) -> bool:
    """Whether anybody may be preempted for a demand, as things are now."""
    return any(next(_in_queue(snapshot, demand, one), None) is not None for one in _by_queue(snapshot, demand))


def may_have_victims(snapshot: Snapshot, demand: Demand) -> bool:
    """Whether the policies name anybody whom an attempt could take for a demand, protected or not."""
    policy = snapshot.policy(demand.queue)
    return any(
        snapshot.allowed(one.named_by(policy), demand, one.queue.name)
        for one in _by_queue(snapshot, demand, may_go=True)
    )


class _Source(NamedTuple):
    """A queue whose workloads are candidates, and by what right."""

    queue: QuotaNode
    claim: PreemptionVariant
    common: QuotaNode | None = None

    def named_by(self, policy: PreemptionPolicy) -> Preemptible:
        """Return whom of it a policy names."""
        return policy.within if self.claim is PreemptionVariant.OWN_QUEUE else policy.reclaim


def _by_queue(snapshot: Snapshot, demand: Demand, *, may_go: bool = False) -> Iterator[_Source]:
    """Yield the queues that have candidates; `may_go`, those only of which one may be taken."""
    node, policy = snapshot.queue(demand.queue), snapshot.policy(demand.queue)
    if policy.within is not Preemptible.NEVER:
        yield _Source(node, PreemptionVariant.OWN_QUEUE)
    if policy.reclaim is Preemptible.NEVER:
        return
    stuck = may_go and not policy.while_borrowing and not _is_under(node, demand)
    owned, left = covers(node, demand.usage)
    walked = node
    for cohort in node.ancestors():
        claim = PreemptionVariant.HIERARCHY if owned else PreemptionVariant.PRIORITY
        if owned or not stuck:
            for queue in _borrowers(demand, cohort, walked):
                yield _Source(queue, claim, cohort)
        enough, left = covers(cohort, left)
        owned = owned or enough
        walked = cohort


def _borrowers(demand: Demand, cohort: QuotaNode, walked: QuotaNode) -> Iterator[QuotaNode]:
    """Yield the queues below a cohort, but not below `walked`, that use more than their own of what is contested."""
    for child in cohort.children:
        if child is walked or not child.borrows_any(demand.contested):
            continue
        if child.leaf:
            yield child
        else:
            yield from _borrowers(demand, child, walked)


def _in_queue(snapshot: Snapshot, demand: Demand, source: _Source) -> Iterator[PreemptionCandidate]:
    policy = snapshot.policy(demand.queue)
    for holder in snapshot.allowed(source.named_by(policy), demand, source.queue.name):
        if holder.uses_any(demand.contested) and not snapshot.protected(holder):
            mine = source.claim
            if mine is PreemptionVariant.PRIORITY and not policy.allows_while_borrowing(demand, holder):
                mine = PreemptionVariant.PRIORITY_WITHOUT_BORROWING
            yield PreemptionCandidate(holder, mine, source.common)


def _attempts(snapshot: Snapshot, demand: Demand, candidates: PreemptionCandidates) -> tuple[bool, ...]:
    """Return whether borrowing is allowed, for each attempt to make."""
    node, strict = snapshot.queue(demand.queue), not snapshot.policy(demand.queue).while_borrowing
    if not (candidates.hierarchical or candidates.by_priority) or (strict and not _is_under(node, demand)):
        return (True,)
    if strict and not candidates.hierarchical:
        return (False, True)
    return (True, False)


def _is_under(node: QuotaNode, demand: Demand) -> bool:
    """Whether a queue uses less than it is given of all that is contested."""
    return all(node.usage.get(what, 0) < node.nominal(what) for what in demand.contested)


def _may_go(snapshot: Snapshot, demand: Demand, candidate: PreemptionCandidate, *, borrowing: bool) -> bool:
    """Whether a candidate may still be preempted after the removals so far: each node up to the common one borrows."""
    if candidate.claim is PreemptionVariant.OWN_QUEUE:
        return True
    if borrowing and candidate.claim is PreemptionVariant.PRIORITY_WITHOUT_BORROWING:
        return False
    node: QuotaNode | None = snapshot.queue(candidate.holder.queue)
    while node is not None and node is not candidate.common:
        if not node.borrows_any(demand.contested):
            return False
        node = node.parent
    return True
