"""Keeping again, after a restart, what heads were told is kept for them: before anybody is tried in the first turn.

Else who is tried before a head, of another queue perhaps, could take what it was promised. A head is the first of its
line that was told that it lacks what others may pass it by for. What its status says beside that is kept to: since when
something is kept for it, and until when or when it starts; or until when others go first, because it was kept for in
vain. Where, and of which quota, is found anew in the order in which they were first kept for, so that no head is put
off by one that came after it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tutti.engine.backfill import BackfillState, backfill, overdue_heads
from tutti.engine.backfill.promise_texts import ToldPromise, told_promise
from tutti.engine.lifecycle.told_before import told_before
from tutti.engine.records.faults import Whose
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Phase, WorkloadKey
from tutti.quota.ordering import OrderKey


class ToldHead(NamedTuple):
    """A head for which something was kept.

    Attributes:
        entry: Its place in its line.
        told: What it was told of that.
    """

    entry: QueueEntry
    told: ToldPromise


def restore_reservations(state: BackfillState, entry_of: Callable[[WorkloadKey], QueueEntry | None]) -> None:
    """Keep quota and room again for the heads of an earlier process: one of each queue, the first of its line."""
    if state.backfill_reservations.restored:
        return
    state.backfill_reservations.restored = True
    if not backfill.may_keep(state):
        return
    overdue_heads.restore_debts(state)
    heads: dict[str, ToldHead] = {}
    for workload in state.workloads.values():
        entry = entry_of(workload.key) if workload.phase is Phase.WAITING else None
        if entry is None or entry.queue is None or workload.held_since is not None:
            continue
        told = told_promise(told_before(state, workload))
        if told.left_until is not None and told.left_until > state.now:
            state.backfill_reservations.pauses[workload.key] = (1, told.left_until)
            continue
        if not (told.kept or (entry.queue.reserves and told.passed)):
            continue
        before, line = heads.get(entry.queue.name), entry.equivalence.line
        if before is None or line.order(entry) < line.order(before.entry):
            heads[entry.queue.name] = ToldHead(entry, told)
    for head in sorted(heads.values(), key=partial(_place, state)):
        whose = Whose(*head.entry.workload.key)
        state.attempt(whose, "keeping again what was kept for it", partial(_keep, state, head), None)


def _place(state: BackfillState, head: ToldHead) -> tuple[float, OrderKey]:
    """Sort heads by since when something is kept for each: a pod does not tell, and who was not told yet is last."""
    workload, since = head.entry.workload, head.told.since
    untold = workload.queued_at if head.told.kept else state.now
    return untold if since is None else since, workload.order


def _keep(state: BackfillState, head: ToldHead) -> None:
    queue = head.entry.queue
    if queue is not None and not queue.reserves:
        overdue_heads.restore_turn(state, queue.name, head.entry)
    backfill.keep_again(state, head.entry, head.told)
