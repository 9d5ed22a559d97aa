"""Equal single pods, one behind the other, admitted in one go, each as by itself.

All nodes are seen at once, and taken as each would have chosen. Where another has a claim, a throttle is about them or
quota is borrowed, each goes alone. Where others are nominated, so do those that have a queue, for its order may tell
whose room each may have, and those that are nominated themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from typing import Final

from tutti.cluster.volumes import NO_VOLUMES
from tutti.engine.admission import AdmissionState, throttling
from tutti.engine.admission.attempt import AdmissionAttempt, terms_of
from tutti.engine.admission.patience import data_rules
from tutti.engine.lifecycle import quota_usage
from tutti.engine.records.members import Charge, Member
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Phase, Workload
from tutti.placement.gang import place_in_turn
from tutti.quota.assignment import AssignmentMode, WorkloadAssignment
from tutti.quota.flavors import Queue
from tutti.quota.ledger import Account

_WAITING: Final = Phase.WAITING
MOST_IN_BATCH = 1024
"""So many are admitted together at most."""


def batch_of(
    state: AdmissionState,
    head: QueueEntry,
    choice: WorkloadAssignment | None,
    behind: Iterable[QueueEntry],
    most: float,
) -> list[QueueEntry]:
    """Return whose turn it is, and those `behind` it that may be admitted together with it; `most` of them at most."""
    if not _stands_alone(state, head):
        return [head]
    count = min(math.ceil(min(MOST_IN_BATCH, most)), _without_borrowing(state, head.queue, choice))
    nominated = state.nominations.ours
    followers = takewhile(lambda one: _is_single(one) and one.workload.key not in nominated, behind)
    return [head, *islice(followers, max(0, count - 1))]


def _is_single(entry: QueueEntry) -> bool:
    """Whether a workload is one pod that waits for a node."""
    return entry.workload.key[0] == "Pod" and entry.workload.phase is _WAITING


def _stands_alone(state: AdmissionState, entry: QueueEntry) -> bool:
    """Whether nothing but the room it takes tells a single pod from those equal to it, which come after it."""
    if not _is_single(entry) or len(entry.needs) != 1 or entry.equivalence.local_queue or entry.equivalence.apart:
        return False
    need, workload = entry.needs[0], entry.workload
    if entry.queue is not None and (entry.queue.checks.on_flavors or entry.queue.counts_each):
        return False
    if need.required != 1 or need.topology is not None or need.pod_class.volumes is not NO_VOLUMES:
        return False
    if (
        any(kept.spots for kept in state.kept_for_successors.values())
        or workload.key in state.nominations.ours
        or (entry.queue is not None and (state.nominations.ours or state.nominations.others))
        or state.backfill_reservations.of
        or state.backfill_reservations.pauses
    ):
        return False
    if (
        workload.flavor_seconds
        or data_rules(state, workload, entry.needs) is not None
        or throttling.concerns(state, need)
    ):
        return False
    return not (state.configuration.extenders or state.plugins.get(workload.scheduler) or state.moves.plans)


def reserve_batch(state: AdmissionState, batch: Sequence[QueueEntry], choice: WorkloadAssignment | None) -> int:
    """Reserve quota and a node for each of some equal single pods that stand alone, as if each were tried by itself.

    Args:
        state: The engine's memory.
        batch: The pods (`batch_of`).
        choice: The flavors that each of them could have by quota; None where none is needed.

    Returns:
        How many of them have it now, the first ones; the next is to be tried by itself.
    """
    first = batch[0]
    queue = first.queue
    with state.cluster.transaction() as transaction:
        attempt = AdmissionAttempt(state, first.workload, queue, transaction)
        terms = terms_of(attempt, first.needs, first.equivalence.pod_sets, choice)
        rows = place_in_turn(state.cluster.nodes, transaction, terms.asks[0], attempt.profile, len(batch))
        if not len(rows):
            first.equivalence.apart = True
            return 0
        transaction.commit()
    admitted = batch[: len(rows)]
    members = [one.needs[0].members[0] for one in admitted]
    state.cluster.assume_all([member.pod for member in members], rows.tolist())
    for one in admitted:
        one.workload.cluster_queue = queue.name if queue else ""
        one.workload.reserved_at = state.now
    if terms.charges[0] is not None:
        _charge_batch(state, members, [one.workload for one in admitted], terms.charges[0])
    return len(admitted)


def _without_borrowing(state: AdmissionState, queue: Queue | None, choice: WorkloadAssignment | None) -> int:
    """Return for how many the same flavors would be chosen one after the other: what is the queue's own is enough."""
    if queue is None or choice is None:
        return MOST_IN_BATCH
    if choice.mode is not AssignmentMode.FIT or choice.level:
        return 0
    return state.ledger.tree.queues[queue.name].times_without_borrowing(choice.usage, MOST_IN_BATCH)


def _charge_batch(
    state: AdmissionState, members: Sequence[Member], workloads: Sequence[Workload], charge: Charge
) -> None:
    """Let pods use quota, each for the workload that it is, as a charge says of one of them."""
    accounts = []
    for member, workload in zip(members, workloads, strict=True):
        member.charge, usage = charge.held_by(workload.name), dict(charge.usage)
        accounts.append(Account(quota_usage.holder_of(state, workload, usage), usage, pods=1, described=True))
    state.ledger.admit(charge.queue, accounts)
