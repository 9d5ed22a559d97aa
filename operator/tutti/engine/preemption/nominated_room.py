"""How nominated room is kept from others while they are tried, and who may have it nevertheless.

A workload that goes before another by the order of queues may have what is held for it: else it would have to take it
out again. But never one that the other could take out in its turn, because its queue uses what is not its own. That
would be a ring: the victim comes back as the more important one, and leaves again for the same preemptor. For the same
reason its pods do not take out those of the other either, once these run, whatever their priority.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
from numpy.typing import NDArray

from tutti.api.resources import Amounts
from tutti.cluster.nominated_pods import NominatedClass, NominatedPods
from tutti.cluster.pods import PodRecord
from tutti.cluster.transaction import Transaction
from tutti.engine.lifecycle import member_loss
from tutti.engine.preemption import PreemptionState, moves
from tutti.engine.records.nominations import Nomination, Precedence
from tutti.engine.records.pod_sets import PodSetRequest, requested_by
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Phase, Workload
from tutti.placement.gang import looks_around
from tutti.quota.flavors import Queue
from tutti.quota.policy import allows
from tutti.quota.snapshot import AdmittedWorkload, Demand
from tutti.quota.tree import add_to


def precedence_of(state: PreemptionState, entry: QueueEntry) -> Precedence:
    """Return how a workload that is tried stands to those for whom quota and room are held."""
    queue, workload, found = entry.queue, entry.workload, Precedence()
    if queue is None or not state.nominations.ours:
        return found
    root, borrows = state.ledger.root_of(queue.name), would_borrow(state, queue, entry.needs)
    mine, order = workload.preemption_priority, workload.order
    for key, nomination in state.nominations.ours.items():
        theirs = next((charge.queue for charge, _ in nomination.charges), "")
        other, known = state.workloads.get(key), state.catalog.queues.get(theirs)
        if key == workload.key or other is None or known is None or state.ledger.root_of(theirs) != root:
            continue
        if theirs == queue.name:
            # Whoever a plugin sorts before one of higher priority would be taken out for it at once, without end.
            if mine >= other.preemption_priority and order < other.order:
                found.lesser.append(key)
        elif borrows and _may_take_out(known, other, queue, workload.priority):
            found.entitled.append(key)
        elif queue.cross_queue_priority(mine) > known.cross_queue_priority(other.priority):
            found.lesser.append(key)
    return found


def would_borrow(state: PreemptionState, queue: Queue, needs: Sequence[PodSetRequest]) -> bool:
    """Whether in some flavor a queue would use more than its own if it admitted what needs ask for."""
    node, asked = state.ledger.tree.queues.get(queue.name), requested_by(needs)
    return node is None or any(node.borrows(what, asked[what[1]]) for what in queue.quotas if what[1] in asked)


def is_entitled(state: PreemptionState, other: Workload, queue: Queue, priority: int) -> bool:
    """Whether a workload that has quota may take out one of this priority of a queue that borrows, by its policy."""
    theirs = state.catalog.queues.get(other.cluster_queue)
    if theirs is None or theirs is queue or state.ledger.root_of(theirs.name) != state.ledger.root_of(queue.name):
        return False
    return _may_take_out(theirs, other, queue, priority)


def _may_take_out(theirs: Queue, other: Workload, queue: Queue, priority: int) -> bool:
    """Whether the policy of another queue lets a workload of it take out this priority, where this queue borrows."""
    demand = Demand(
        theirs.name,
        {},
        frozenset(),
        other.preemption_priority,
        other.queued_at,
        cross_queue_priority=theirs.cross_queue_priority(other.preemption_priority),
    )
    holder = AdmittedWorkload(
        "", queue.name, {}, priority, queued_at=math.inf, cross_queue_priority=queue.cross_queue_priority(priority)
    )
    return allows(theirs.policy.reclaim, demand, holder, across_queues=True)


_LEAST = -(2**31) - 1
"""Below every priority that a pod can have."""


def respecting_nominations(state: PreemptionState, entry: QueueEntry, priority: int) -> AbstractContextManager[None]:
    """Let nominated pods take their room while a workload is tried, but those that it goes before.

    Args:
        state: The engine's memory.
        entry: Who is tried.
        priority: That of its pods; it goes before nominated pods of lower priority.
    """
    moving = bool(state.moves.plans)
    if not (state.nominations.ours or state.nominations.others or state.kept_for_successors or moving):
        return nullcontext()
    workload, precedence = entry.workload, precedence_of(state, entry)
    if workload.phase is Phase.SCHEDULED and workload.complete:
        # Members beyond its need have nothing that others were taken out for.
        priority, precedence = _LEAST, Precedence()
    nominations = state.nominations.against(workload.key, priority, precedence)
    kept: list[tuple[str, Amounts]] = []
    if moving:
        places, kept = moves.kept_places(state, workload, priority)
        nominations += [one for one in places if not any(one is other for other in nominations)]
    state.nominated.follow(nominations, state.cluster)
    foreign, known = state.nominations.foreign(priority), state.cluster.nodes.rows
    others = [(spot.pod_class, known[spot.node]) for spot in foreign if spot.node in known]
    waiting, room = state.nominated.nominated(state.cluster, moves=False, others=others)
    if state.kept_for_successors:
        kept += member_loss.kept_from(state, workload, priority)
    moved: list[NominatedClass] = []
    if any(one.moves for one in nominations):
        moved, _ = state.nominated.nominated(state.cluster, moves=True)
    if not (waiting or moved or kept):
        return nullcontext()
    return _withheld(state, entry, nominations, NominatedPods(waiting, room), moved, kept)


@contextmanager
def _withheld(
    state: PreemptionState,
    entry: QueueEntry,
    nominations: Sequence[Nomination],
    waiting: NominatedPods,
    moved: Sequence[NominatedClass],
    kept: Sequence[tuple[str, Amounts]],
) -> Iterator[None]:
    nodes = state.cluster.nodes
    with state.cluster.transaction() as claims:
        if kept:
            claims.withhold(*_kept_room(state, kept))
        with _free_of_victims(state, nominations):
            for pod_class, rows, counts in moved:
                claims.put(rows, counts, pod_class)
            claims.nominate(waiting.placed, waiting.room)
        if moved and _minds_company(state, entry, claims):
            claims.show()
        covered = state.nominations.covered = state.nominated.overlap(state.cluster)
        if covered is not None:
            in_use = covered.in_use()
            claims.withhold(covered.rows, -in_use)
            waiting.overlap = covered.rows, in_use
        nodes.nominated = waiting if waiting.placed else None
        try:
            yield
        finally:
            state.nominations.covered, nodes.nominated = None, None


@contextmanager
def minding_domains(state: PreemptionState) -> Iterator[None]:
    """Inside, whoever is nominated counts in all of its topology domains for who is tried against it.

    So nobody is taken out for a pod that could not go to its node once those are there who have been nominated before.
    kube-scheduler 1.36 has both wait for their victims, and the second look for others when the first has come.
    """
    nominated = state.cluster.nodes.nominated
    if nominated is None:
        yield
        return
    nominated.in_domains = True
    try:
        yield
    finally:
        nominated.in_domains = False


def _minds_company(state: PreemptionState, entry: QueueEntry, claims: Transaction) -> bool:
    """Whether who is moved can matter beyond its room to those that are tried, or to any that is moved for them.

    Nobody may rely on the company of pods that may never come.
    """
    if any(member.pod.pod_class.inter_pod.affinity for member in entry.workload.members()):
        return False
    moves_others = entry.queue is not None and bool(entry.queue.max_moves)
    return moves_others or any(looks_around(need.pod_class, state.cluster.nodes, claims) for need in entry.needs)


@contextmanager
def _free_of_victims(state: PreemptionState, nominations: Iterable[Nomination]) -> Iterator[None]:
    """Have nominated pods find the devices, and parts of cards, that their victims still have: nobody else gets these.

    What victims have of cards until they are gone counts beside that: who comes meanwhile finds less than there is.
    """
    holders, cards = state.cluster.device_users.holders, state.cluster.nodes.cards
    victims: list[PodRecord] = []
    if holders or cards:
        known = (state.cluster.pods.get(victim) for one in nominations for victim in one.victims)
        victims = [pod for pod in known if pod is not None]
    pods, sharing = [pod for pod in victims if holders.concerns(pod)], victims if cards else []
    holders.lift(pods, back=False)
    holders.lift_departing(back=False)
    for pod in sharing:
        cards.lift(pod.key, pod.place, back=False)
    try:
        yield
    finally:
        for pod in sharing:
            cards.lift(pod.key, pod.place, back=True)
        holders.lift_departing(back=True)
        holders.lift(pods, back=True)


def _kept_room(
    state: PreemptionState, kept: Iterable[tuple[str, Amounts]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what is kept for successors of lost members: rows, and int64[rows, resources]; no more than a node has."""
    nodes = state.cluster.nodes
    found: dict[int, dict[str, int]] = {}
    for node, amounts in kept:
        add_to(found.setdefault(nodes.rows[node], {}), amounts)
    rows = np.array(list(found), dtype=np.int64)
    most = np.zeros((len(rows), nodes.allocatable.shape[1]), dtype=np.int64)
    for index, (row, here) in enumerate(found.items()):
        for name, amount in here.items():
            column = nodes.resource_index.column(name)
            if column < most.shape[1]:  # else no node has any
                most[index, column] = min(amount, int(nodes.allocatable[row, column]))
    return rows, most


def take_covered(state: PreemptionState, transaction: Transaction, gone: NDArray[np.int64] | None = None) -> None:
    """Take the room that others are nominated for and their victims still use, for the case that these have gone.

    Args:
        state: The engine's memory; somebody is being tried.
        transaction: Takes it.
        gone: int64[k], the slots of those who are taken to have gone; None for all of them.
    """
    covered = state.nominations.covered
    if covered is None:
        return
    more = covered.released(gone)
    some = more.any(axis=1)
    if some.any():
        transaction.withhold(covered.rows[some], more[some])
