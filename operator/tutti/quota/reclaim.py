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

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from functools import cmp_to_key
from itertools import chain
from typing import Any, NamedTuple

from tutti.quota.policy import Preemptible, PreemptionPolicy
from tutti.quota.snapshot import AdmittedWorkload, Demand, Snapshot, UsedLately, nobody_knows, usage_of_all
from tutti.quota.tree import FlavorResource, QuotaNode, Usage, covers


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


AlsoFits = Callable[[], bool]
"""What must hold besides quota."""


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
    return sorted(everybody, key=_victim_key(everybody, queue, used_lately))


def _victim_key(
    everybody: Iterable[AdmittedWorkload], queue: str, used_lately: UsedLately
) -> Callable[[AdmittedWorkload], Any]:
    """Return by what these are sorted."""
    known = {one.name: used for one in everybody if (used := used_lately(one)) is not None}

    def key(holder: AdmittedWorkload) -> tuple[bool, bool, int, int, float, str]:
        own, across = holder.priority, holder.cross_queue_priority
        return (
            not holder.evicted,
            holder.queue == queue,
            own if across is None else across,
            own,
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

    return cmp_to_key(compare) if known else key


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


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a demand fits once some are gone: in quota and, where that is asked, otherwise.

    Attributes:
        snapshot: From which they are removed.
        demand: What is wanted.
        borrowing: Whether its queue may use more than its own for it.
        also_fits: What must hold besides quota; asked only where quota suffices.
    """

    snapshot: Snapshot
    demand: Demand
    borrowing: bool
    also_fits: AlsoFits | None = None

    def __call__(self) -> bool:
        """Whether it fits now."""
        return self.has_quota() and (self.also_fits is None or self.also_fits())

    def has_quota(self) -> bool:
        """Whether it has quota now; the less is used, the sooner."""
        return fits(self.snapshot, self.demand, borrowing=self.borrowing)

    def lacks_quota_alone(self) -> bool:
        """Whether who holds none cannot help it: nothing else is asked, and there is too little."""
        return self.also_fits is None and not self.has_quota()


def gives_back(holder: AdmittedWorkload) -> bool:
    """Whether quota comes free when a holder goes; none does where what it had is promised to others already."""
    return any(holder.usage.values())


def fill_back(snapshot: Snapshot, victims: list[Victim], fit: Fit) -> list[Victim]:
    """Add removed victims again that are not needed, in the reverse order of removal; the last one always is.

    Where there is no quota with one of them, there is none with another of the same queue that holds the same.

    Args:
        snapshot: Where they have been removed.
        victims: In the order of removal.
        fit: Whether the preemptor fits.
    """
    kept, too_much = victims[-1:], set[tuple[str, frozenset[tuple[FlavorResource, int]]]]()
    for victim in reversed(victims[:-1]):
        held = victim.holder.queue, frozenset(victim.holder.usage.items())
        if held in too_much:
            kept.append(victim)
            continue
        snapshot.add(victim.holder)
        if not fit():
            if not fit.has_quota():
                too_much.add(held)
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

    own: list[PreemptionCandidate]
    hierarchical: list[PreemptionCandidate]
    by_priority: list[PreemptionCandidate]

    def in_order(self) -> list[PreemptionCandidate]:
        """Return them in the order to remove them: those already evicted first."""
        kinds = [one for one in (self.hierarchical, self.by_priority, self.own) if one]
        if len(kinds) == 1:
            return kinds[0]  # each is in this order by itself
        return sorted(chain.from_iterable(kinds), key=lambda candidate: not candidate.holder.evicted)


CandidatesKnown = dict[tuple[object, ...], PreemptionCandidates]
"""What was found of one preemptor while nothing else is used of any queue, by what of its demand decides it."""


def classical_victims(
    snapshot: Snapshot,
    demand: Demand,
    *,
    also_fits: AlsoFits | None = None,
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
    order = candidates.in_order()
    if first:
        order = sorted(order, key=lambda candidate: candidate.holder.name not in first)
    for borrowing in _attempts(snapshot, demand, candidates):
        fit, of_use = Fit(snapshot, demand, borrowing, also_fits), order
        if fit.lacks_quota_alone():
            of_use = [candidate for candidate in order if gives_back(candidate.holder)]
        with snapshot.trial():
            victims = _removed_until(fit, of_use)
            if victims:
                return fill_back(snapshot, victims, fit)
    return []


def _removed_until(fit: Fit, order: Sequence[PreemptionCandidate]) -> list[Victim]:
    """Remove candidates in this order until a demand fits; returns who has been removed, nobody where it never does.

    Where many have to go, they go by runs: of one queue, by one right, and twice as many after each that was in vain,
    or half as many where it was not.
    """
    snapshot, victims = fit.snapshot, list[Victim]()
    at, stride = 0, 1
    while at < len(order):
        run = _run_of(order, at, stride)
        first, together = run[0].holder, len(run) > 1
        if together:
            usage = usage_of_all(one.holder for one in run)
            if not _goes_in_vain(fit, run[0], usage):
                stride = len(run) // 2
                continue
            snapshot.remove_all(first.queue, [one.holder for one in run], usage)
        elif _may_go(snapshot, fit.demand, run[0], borrowing=fit.borrowing):
            snapshot.remove(first)
        else:
            at, stride = at + 1, 2
            continue
        victims += [Victim(one.holder, _REASONS[one.claim]) for one in run]
        if not together and fit():
            return victims
        at, stride = at + len(run), 2 * stride if together else 2
    return []


def _run_of(order: Sequence[PreemptionCandidate], at: int, most: int) -> Sequence[PreemptionCandidate]:
    """Return those next in order, `most` of them at most, that are of one queue and may go by the same right."""
    first, end = order[at], at + 1
    while end < min(len(order), at + most):
        other = order[end]
        if other.claim is not first.claim or other.common is not first.common:
            break
        if other.holder.queue != first.holder.queue:
            break
        end += 1
    return order[at:end]


def _goes_in_vain(fit: Fit, first: PreemptionCandidate, usage: Usage) -> bool:
    """Whether all of a run that begins with one would go, and the demand had no quota even then.

    Who may go after others have gone may go before, too; and without quota once all are gone there is none before.

    Args:
        fit: The demand.
        first: One of the run; the others are of the same queue, and may go by the same right.
        usage: What they use together.
    """
    tree, queue = fit.snapshot.tree, first.holder.queue
    tree.remove(queue, usage)
    in_vain = not fit.has_quota() and _may_go(fit.snapshot, fit.demand, first, borrowing=fit.borrowing)
    tree.add(queue, usage)
    return in_vain


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
    kinds: dict[PreemptionVariant, list[PreemptionCandidate]] = {
        PreemptionVariant.OWN_QUEUE: [],
        PreemptionVariant.HIERARCHY: [],
        PreemptionVariant.PRIORITY: [],
    }
    for source in sources:
        kinds[source.claim].extend(_in_queue(snapshot, demand, source))
    found = PreemptionCandidates(*(_in_victim_order(snapshot, demand, kind) for kind in kinds.values()))
    if known is not None:
        known[key] = found
    return found


def _in_victim_order(
    snapshot: Snapshot, demand: Demand, candidates: list[PreemptionCandidate]
) -> list[PreemptionCandidate]:
    key = _victim_key((one.holder for one in candidates), demand.queue, snapshot.used_lately)
    return sorted(candidates, key=lambda candidate: key(candidate.holder))


def has_candidates(snapshot: Snapshot, demand: Demand) -> bool:
    """Whether anybody may be preempted for a demand, as things are now."""
    policy = snapshot.policy(demand.queue)
    return any(
        snapshot.has_candidate(one.named_by(policy), demand, one.queue.name) for one in _by_queue(snapshot, demand)
    )


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
    may_be_limited = source.claim is PreemptionVariant.PRIORITY
    for holder in snapshot.candidates(source.named_by(policy), demand, source.queue.name):
        mine = source.claim
        if may_be_limited and not policy.allows_while_borrowing(demand, holder):
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
