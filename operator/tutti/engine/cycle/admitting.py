"""Steps 4 and 5 of a turn: reserve quota and nodes for who is next, all or nothing, and have bound what is complete.

Who cannot be admitted waits: for others to be taken out for it, or for what changes.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from tutti.engine.admission import quota_holdback
from tutti.engine.admission.admission import reserve, reserve_as_left
from tutti.engine.admission.attempt import Admitted, Refusal, assign_flavors
from tutti.engine.admission.batches import reserve_batch
from tutti.engine.admission.dry_runs import look, why_surplus_waits
from tutti.engine.backfill import backfill, letting_by
from tutti.engine.cycle.scheduling_cycle import SchedulingCycle
from tutti.engine.cycle.state import State
from tutti.engine.ingest import promises
from tutti.engine.lifecycle import checks, early_starts, permits, reconciliation
from tutti.engine.lifecycle.phases import explain
from tutti.engine.preemption import by_priority, moves, nominated_room, nominations
from tutti.engine.preemption.by_quota import NOBODY_LEAVES, preempt
from tutti.engine.queue.heads import Batch
from tutti.engine.records.explanation import LifecycleStep
from tutti.engine.records.nominations import Nomination
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.reservations import BackfillReservation
from tutti.engine.records.workloads import ADMITTED, Phase, Workload
from tutti.engine.status import reporting
from tutti.quota.assignment import WorkloadAssignment

# Looked up once: to reach a member through its enum takes ten times as long (Python 3.11), and this runs for each pod.
_CHECKING: Final = Phase.CHECKING
_WAITING: Final = Phase.WAITING
_ADMITTED: Final = LifecycleStep.ADMITTED


def admit(cycle: SchedulingCycle, batch: Batch) -> None:
    """Try a workload, or several equal single pods at once; the first is set aside where that raises."""
    first = batch.entries[0]
    try:
        if len(batch.entries) == 1 or not _try_together(cycle, batch):
            _try_one(cycle, first, batch.choice)
    except Exception as error:  # noqa: BLE001 - a bulkhead: whatever it is, it is this workload's
        cycle.set_aside(first.workload, error, "admitting")


def _try_one(cycle: SchedulingCycle, entry: QueueEntry, choice: WorkloadAssignment | None) -> None:
    """Admit a workload: reserve quota and nodes for it and have it bound; or else let it wait."""
    state, workload = cycle.state, entry.workload
    cycle.queue.evaluated += 1
    if promises.taken_by_others(state, workload):
        cycle.queue.drop(workload)
        return  # it is read again in this turn, and stands in line again in the next
    has_kept = moves.has_kept(state, workload) or workload.held_since is not None
    nomination = state.nominations.ours.get(workload.key)
    priority = by_priority.priority_of(state, workload, entry.needs)
    with (
        moves.lending_own(state, workload),
        checks.lending_held(state, workload),
        nominated_room.respecting_nominations(state, entry, priority),
    ):
        if nomination is not None:
            waits = nomination.victims and not nomination.anew
            if waits and not _fits_beside_victims(state, entry, nomination):
                cycle.note([*cycle.queue.park_for_victims(state, entry, nomination.why), workload])
                return
            nominations.end_nomination(state, workload.key)
        with letting_by.respecting_reservations(state, entry) as against:
            if has_kept or nomination is not None or against:  # so there is other quota than when it was chosen
                choice = assign_flavors(state, entry)
            found = _reserve(state, entry, choice, nomination)
        state.count_try(workload, admitted=not isinstance(found, Refusal))
        if isinstance(found, Refusal):
            _wait(cycle, entry, found, priority, against, nomination)
            return
    _leave_queue(cycle, workload)
    if nomination is not None:
        state.nominations.needless.append(nomination)
        nominations.spare_victims(state)
        nominations.leave_spots(state, workload.key, nomination)
    _bind(cycle, workload)
    if found.has_more:
        cycle.queue.place(state, workload)


def _reserve(
    state: State, entry: QueueEntry, choice: WorkloadAssignment | None, nomination: Nomination | None
) -> Admitted | Refusal:
    """Reserve quota and nodes for a workload; where others have left for it, at the least what they have left."""
    if nomination is None:
        return reserve(state, entry, choice)
    with quota_holdback.sparing(state, nomination.charges):
        found = reserve(state, entry, choice)
        if isinstance(found, Refusal):
            found = reserve_as_left(state, entry, nomination.charges, found)
    return found


def _try_together(cycle: SchedulingCycle, batch: Batch) -> bool:
    """Admit equal single pods that are next one after the other; returns whether the first of them was."""
    state, first = cycle.state, batch.entries[0]
    priority = by_priority.priority_of(state, first.workload, first.needs)
    with nominated_room.respecting_nominations(state, first, priority):
        admitted = batch.entries[: reserve_batch(state, batch.entries, batch.choice)]
    for workload in (entry.workload for entry in admitted):
        cycle.queue.evaluated += 1
        state.count_try(workload, admitted=True)
        _leave_queue(cycle, workload)
        _bind(cycle, workload)
    return bool(admitted)


def _fits_beside_victims(state: State, entry: QueueEntry, nomination: Nomination) -> bool:
    """Whether a workload fits while victims are there that it has been waiting for."""
    with (
        letting_by.respecting_reservations(state, entry),
        nominations.without_nomination(state, nomination),
    ):
        return isinstance(look(state, entry), Admitted)


def _wait(
    cycle: SchedulingCycle,
    entry: QueueEntry,
    refusal: Refusal,
    priority: int,
    against: list[BackfillReservation],
    nomination: Nomination | None,
) -> None:
    """Let a workload wait that could not be admitted: for its victims, where others are taken out for it.

    Args:
        cycle: Its line.
        entry: The workload.
        refusal: Why it could not be admitted, and what it could have if others were gone.
        priority: That of its pods.
        against: What is kept from it for the heads of queues.
        nomination: What was held for it until now, if anything was.
    """
    state, workload, why, preemption = cycle.state, entry.workload, refusal.why, NOBODY_LEAVES
    approver = permits.asks_for_approval(state, workload)
    if approver:
        why = permits.unapproved(why, approver)
    elif not letting_by.lacks_only_overdue(state, entry, against):
        with letting_by.withholding(state, entry, against):
            held_back = partial(quota_holdback.is_held_back, state, entry)
            moving = state.may_move
            preemption = preempt(
                state, entry, why, refusal.options, priority=priority, moving=moving, held_back=held_back
            )
    if preemption.waits is not None:
        cycle.note(cycle.queue.park_for_victims(state, entry, preemption.waits))
        backfill.look_for_next(state, entry.queue)
    else:
        why = checks.with_quota_held(workload, letting_by.why_kept_off(state, entry, why, against))
        cycle.note(cycle.queue.park(state, entry, why, lacks_nodes=preemption.lacks_nodes))
        backfill.reserve_for_head(state, entry, why)
        if workload.degraded_since is not None:
            state.touch(workload.key)  # it may be clear by now that waiting is no use
    if nomination is not None and workload.key in state.nominations.ours:
        nominations.leave_spots(state, workload.key, nomination)
    elif nomination is not None:
        state.cluster.freed.anywhere()
    is_news = nomination is not None or preemption.waits is not None
    if is_news or not (workload.key in cycle.changed or reporting.is_reported_later(state, workload)):
        cycle.note([workload])


def _leave_queue(cycle: SchedulingCycle, workload: Workload) -> None:
    """Take a workload out of its queue that has been admitted, and keep nothing for it any more."""
    state = cycle.state
    cycle.queue.drop(workload)
    state.nominations.chose_again.pop(workload.key, None)
    backfill.end_reservation(state, workload)
    backfill.look_for_next(state, state.catalog.queues.get(workload.cluster_queue))
    quota_holdback.drop_holdback(state, workload.key, workload.cluster_queue)


def _bind(cycle: SchedulingCycle, workload: Workload) -> None:
    """Have a workload bound that has just got quota and nodes, or held until it may be."""
    state, before = cycle.state, workload.phase
    if before is _CHECKING:
        cycle.changed[workload.key] = workload
        return
    is_bound = reconciliation.start(state, workload)
    tally = workload.counts()
    if is_bound and (workload.style is not None or tally.waiting):
        explain(workload, why_surplus_waits(state, workload))
        early_starts.explain_kept_nodes(state, workload)
    if before is _WAITING and workload.phase in ADMITTED:
        pods = tally.reserved + sum(len(group.holds) for group in workload.groups.values())
        state.reached(workload, _ADMITTED, seconds=state.now - workload.queued_at, pods=pods)
    backfill.note_expected_end(state, workload)
    cycle.changed[workload.key] = workload
