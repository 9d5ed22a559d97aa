"""Those for whom an earlier process had reserved quota and nodes, and had not bound anybody yet.

What is reserved is memory; that it is, statuses tell. So after a restart these are tried before anybody else, and have
as much again where it is still there for them, for what is left of the time that it may be held. Who has not stands in
line as everybody does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tutti.api.conditions import find_condition, is_true
from tutti.api.kinds import PodGroup
from tutti.api.kinds import Workload as WorkloadObject
from tutti.engine.admission.attempt import Admitted
from tutti.engine.admission.dry_runs import look
from tutti.engine.backfill import backfill
from tutti.engine.cycle.state import State
from tutti.engine.lifecycle.told_before import told_time
from tutti.engine.preemption import by_priority, nominated_room
from tutti.engine.records.faults import Whose
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey

_RESERVED = (Phase.RESERVED.value, Phase.BINDING.value)


def reserved_before(state: State, entry_of: Callable[[WorkloadKey], QueueEntry | None]) -> Iterator[QueueEntry]:
    """Yield who had a reservation and can have one again, as things are when each is asked for; it is to be tried."""
    waiting = [one for one in state.gangs.values() if one.phase is Phase.WAITING and one.held_since is None]
    for workload in sorted(filter(lambda one: _was_reserved(state, one), waiting), key=lambda one: one.order):
        entry = entry_of(workload.key)
        if entry is None:
            continue
        since, fits = _since(state, workload), partial(_fits, state, entry)
        if state.attempt(Whose(*workload.key), "looking whether it has what was reserved for it", fits, False):
            yield entry
            if since is not None and workload.phase is Phase.RESERVED and workload.deadline is not None:
                state.set_deadline(workload, max(0.0, workload.deadline - state.now - (state.now - since)))
                backfill.note_expected_end(state, workload)


def _was_reserved(state: State, workload: Workload) -> bool:
    """Whether the status of a workload that waits says that it has a reservation, and has not run."""
    if workload.evicted is not None or workload.was_scheduled:
        return False
    found = state.catalog.find(workload.key)
    if isinstance(found, PodGroup):
        return found.status.phase in _RESERVED
    return isinstance(found, WorkloadObject) and is_true(found.status.conditions, "QuotaReserved")


def _since(state: State, workload: Workload) -> float | None:
    """Return since when the status of a Workload says that it has its reservation; that of a PodGroup does not."""
    found = state.catalog.find(workload.key)
    if not isinstance(found, WorkloadObject):
        return None
    condition = find_condition(found.status.conditions, "QuotaReserved")
    return None if condition is None else told_time(condition.last_transition_time)


def _fits(state: State, entry: QueueEntry) -> bool:
    priority = by_priority.priority_of(state, entry.workload, entry.needs)
    with nominated_room.respecting_nominations(state, entry, priority):
        return isinstance(look(state, entry), Admitted)
