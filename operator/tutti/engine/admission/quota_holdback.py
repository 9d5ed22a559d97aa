"""Holding back what is a queue's own from those who would borrow it, while the head of the queue waits for it.

A head that asks for quota which is there for it but lent away, in a queue that may not take back all of its own, would
starve behind a stream of borrowers: what becomes free is never enough at once. So what is free of its request is held
back. How much: Kueue, scheduler.go `resourcesToReserve` (`quota/preemption.py`). From whom, and for how long, goes
beyond Kueue, which holds it back for one cycle and thus forgets a parked head with the next borrower that comes alone:

- from those who would borrow in the same tree, across from the head; what is their own is never kept from a queue;
- as long as the head waits, where its line is strict and it stands at the front of that, or where nothing but
  borrowers stands in its way: its own queue uses so little that its request fits beside it. Otherwise in the turn in
  which the head was tried, as with Kueue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tutti.api.resources import format_amount
from tutti.engine.admission import AdmissionState
from tutti.engine.records.discretion import workload_named_by_key
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.members import Charge
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.reservations import QuotaHoldback
from tutti.engine.records.workloads import UNDER_WAY, Phase, Workload, WorkloadKey
from tutti.quota.assignment import AssignmentMode, NoFit
from tutti.quota.flavors import Queue
from tutti.quota.ordering import entry_key
from tutti.quota.policy import Preemptible
from tutti.quota.preemption import resources_to_reserve
from tutti.quota.tree import FlavorResource, QuotaNode, Usage, add_to, borrowing_level


def note_holdback(state: AdmissionState, entry: QueueEntry, why: Explanation) -> None:
    """Take note of one that could not be admitted: something may be held back for it from now on, or no more."""
    queue, book, workload = entry.queue, state.quota_holdbacks, entry.workload
    if queue is None or entry.equivalence.line.name[1]:
        return
    mine = book.of.get(queue.name)
    choice, place = entry.equivalence.choice, entry.equivalence.line.order(entry)
    waits = why.gate is Gate.QUOTA and choice is not None and choice.mode is AssignmentMode.PREEMPT
    kept_for = queue.reserves or state.backfill_reservations.is_for(queue.name, workload.key)
    if choice is None or not waits or queue.policy.reclaim is Preemptible.ANY or kept_for:
        drop_holdback(state, workload.key, queue.name)
        if mine is not None and mine.strict and place < mine.place:
            drop_holdback(state, mine.workload, queue.name)  # who is behind this one does not come by his quota either
    elif mine is None or mine.workload == workload.key or place <= mine.place:
        wanted = {what: amount for what, amount in choice.usage.items() if amount}
        away = _away(state.ledger.tree.queues[queue.name], wanted)
        key = entry_key(queue.cross_queue_priority(workload.priority), workload.queued_at, away)
        found = QuotaHoldback(
            workload.key, queue.name, wanted, away > 0, key, place, entry.equivalence.line.strict, book.turn
        )
        if mine is not None and (mine.workload, mine.usage) != (found.workload, found.usage):
            book.activate(queue.name)
        book.of[queue.name] = found


def drop_holdback(state: AdmissionState, workload: WorkloadKey, queue: str) -> None:
    """Hold nothing back for a workload any more; nothing happens where nothing is."""
    found = state.quota_holdbacks.of.get(queue)
    if found is not None and found.workload == workload:
        del state.quota_holdbacks.of[queue]
        state.quota_holdbacks.activate(queue)


def lapse_holdbacks(state: AdmissionState) -> None:
    """End the turn: hold nothing back for those whose own queue stands in their way, until they are tried again.

    One at the front of a strict line may have come to borrow by what others of its queue were given since it was tried.
    """
    book = state.quota_holdbacks
    book.turn += 1
    for owner in list(book.of.values()):
        node = state.ledger.tree.queues.get(owner.queue)
        if not (owner.strict or _lacks_only_what_is_lent(state, owner)):
            drop_holdback(state, owner.workload, owner.queue)
        elif node is not None and (away := _away(node, owner.usage)) != owner.key.level:
            book.of[owner.queue] = replace(owner, borrows=away > 0, key=owner.key._replace(level=away))
            book.activate(owner.queue)


def _away(node: QuotaNode, wanted: Mapping[FlavorResource, int]) -> int:
    """Return from how far away a queue would borrow what is wanted; 0 for what is its own."""
    return max((borrowing_level(node, what, amount).height for what, amount in wanted.items()), default=0)


def _lacks_only_what_is_lent(state: AdmissionState, owner: QuotaHoldback) -> bool:
    node = state.ledger.tree.queues.get(owner.queue)
    return node is not None and all(
        amount <= node.nominal(what) - node.usage.get(what, 0) for what, amount in owner.usage.items()
    )


def refused_by_holdback(
    state: AdmissionState, workload: Workload, queue: Queue, wanted: Mapping[FlavorResource, int], *, away: int
) -> Explanation | None:
    """Return why a workload may not have quota that there is: it would borrow what is held back; None where it may.

    Args:
        state: The engine's memory.
        workload: Who it is.
        queue: Its ClusterQueue.
        wanted: What it would use, all of which is free.
        away: From how far away it would come, 0 for what is the queue's own.
    """
    if not away or not state.quota_holdbacks.of or (workload.phase in UNDER_WAY and not workload.complete):
        return None
    left = state.quota_holdbacks.left
    if all(amount <= left.get(what, 0) for what, amount in wanted.items()):
        return None
    key = entry_key(queue.cross_queue_priority(workload.priority), workload.queued_at, away)
    owners = [
        one
        for one in _others(state, queue)
        if not one.borrows or one.turn == state.quota_holdbacks.turn or one.key < key
    ]
    against = [one for one in owners if _lends_to(state, queue, one, wanted)]
    if not against:
        return None
    node = state.ledger.tree.queues[queue.name]
    free = {what: max(0, node.available(what)) for what in wanted}
    with state.ledger.snapshot.trial():
        for one in against:
            state.ledger.snapshot.charge(one.queue, held_back_for(state, one))
        short = next((what for what, amount in wanted.items() if amount > max(0, node.available(what))), None)
    if short is None:
        return None
    if workload.phase is Phase.WAITING and workload.held_since is None:
        state.quota_holdbacks.note_refused(workload.key, [one.queue for one in against])
    whose = next(one for one in against if short in one.usage)
    name = workload_named_by_key(whose.workload, workload.key[1], known=state.workloads, discreet=state.discreet)
    return _held_back(queue, whose, name, short, wanted[short], free[short])


def is_held_back(state: AdmissionState, entry: QueueEntry, wanted: Usage) -> bool:
    """Whether a workload could not have quota that is free, because it would borrow what is held back for others.

    It is asked with those gone who may leave for it, so that nobody leaves in vain, as Kueue asks whether what it has
    victims for fits beside what it has reserved.
    """
    queue = entry.queue
    if queue is None or not state.quota_holdbacks.of:
        return False
    away = _away(state.ledger.tree.queues[queue.name], wanted)
    return refused_by_holdback(state, entry.workload, queue, wanted, away=away) is not None


@contextmanager
def sparing(state: AdmissionState, left: Sequence[tuple[Charge, int]]) -> Iterator[None]:
    """Inside, hold back nothing of what others have left for a workload: each charge, and for how many pods."""
    usage: Usage = {}
    for charge, pods in left:
        add_to(usage, charge.usage, pods)
    state.quota_holdbacks.left = usage
    try:
        yield
    finally:
        state.quota_holdbacks.left = {}


def room_beside_holdbacks(
    state: AdmissionState, queue: Queue, per_pod: Mapping[FlavorResource, int], workload: Workload
) -> int:
    """Return how many pods of this usage a queue has quota for, besides what is held back from it."""
    room = state.ledger.room_for(queue.name, per_pod)
    if not room or not state.quota_holdbacks.of or (workload.phase in UNDER_WAY and not workload.complete):
        return room
    node = state.ledger.tree.queues[queue.name]
    own = max(0, min((node.own_left(what) // amount for what, amount in per_pod.items() if amount), default=room))
    if own >= room:
        return room
    with state.ledger.snapshot.trial():
        for one in list(_others(state, queue)):
            state.ledger.snapshot.charge(one.queue, held_back_for(state, one))
        beside = state.ledger.room_for(queue.name, per_pod)
    return min(room, max(own, beside))


def held_back_for(state: AdmissionState, owner: QuotaHoldback) -> Mapping[FlavorResource, int]:
    """Return what is held back for an owner, beyond what its queue uses now."""
    node = state.ledger.tree.queues.get(owner.queue)
    return {} if node is None else resources_to_reserve(node, owner.usage, borrows=owner.borrows)


def _others(state: AdmissionState, queue: Queue) -> Iterator[QuotaHoldback]:
    """Yield those of other queues in the same tree."""
    root = state.ledger.root_of(queue.name)
    for one in state.quota_holdbacks.of.values():
        if one.queue != queue.name and state.ledger.root_of(one.queue) == root:
            yield one


def _lends_to(state: AdmissionState, queue: Queue, owner: QuotaHoldback, wanted: Mapping[FlavorResource, int]) -> bool:
    """Whether what a queue wants would be borrowed across from an owner: beyond the largest subtree without it."""
    snapshot = state.ledger.snapshot
    mine, theirs = snapshot.queue(queue.name), snapshot.queue(owner.queue)
    common = {id(node) for node in theirs.ancestors()}
    side: QuotaNode = mine
    for node in mine.ancestors():
        if id(node) in common:
            break
        side = node
    with snapshot.trial():
        snapshot.charge(queue.name, wanted)
        return any(what in owner.usage and side.borrows(what) for what in wanted)


def _held_back(
    queue: Queue, owner: QuotaHoldback, name: str, what: FlavorResource, asked: int, free: int
) -> Explanation:
    flavor, resource = what
    text = f"ClusterQueue {queue.name}: needs {format_amount(resource, asked)} {resource} in {flavor}, which it would "
    text += f"borrow; {format_amount(resource, free)} is free, but held back for {name} of ClusterQueue {owner.queue}"
    text += ", which goes before it" if owner.borrows else ", whose own quota that is"
    details = {"heldBackFor": name}
    return Explanation(Gate.QUOTA, NoFit.WAITING_FOR_QUOTA.reason, text, details)
