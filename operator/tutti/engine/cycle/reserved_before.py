"""Those for whom an earlier process had reserved quota and nodes, and had not bound anybody yet.

What is reserved is memory; that it is, statuses tell. So after a restart these are tried before anybody else, and have
as much again where it is still there for them, for what is left of the time that it may be held. Who has not stands in
line as everybody does.

Where it was, nobody tells. So gangs that have lost members, perhaps while nobody looked, are mended before: what they
need for that is often on one node alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tutti.api.conditions import is_true
from tutti.api.kinds import PodGroup
from tutti.api.kinds import Workload as WorkloadObject
from tutti.engine.admission.attempt import Admitted
from tutti.engine.admission.dry_runs import look
from tutti.engine.admission.mending import goes_first
from tutti.engine.backfill import backfill
from tutti.engine.cycle.state import State
from tutti.engine.lifecycle import checks, permits
from tutti.engine.lifecycle.told_before import told_before
from tutti.engine.preemption import by_priority, nominated_room
from tutti.engine.records.explanation import HELD_UNTIL, RESERVED_TEXT
from tutti.engine.records.faults import Whose
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.quota.ordering import OrderKey

_RESERVED = (Phase.RESERVED.value, Phase.BINDING.value)


def reserved_before(state: State, entry_of: Callable[[WorkloadKey], QueueEntry | None]) -> Iterator[QueueEntry]:
    """Yield who is mended, or had a reservation, and can be, or have one, as things are then; it is to be tried."""
    waiting = [one for one in state.workloads.values() if one.phase is Phase.WAITING]
    reserved = [one for one in waiting if _was_reserved(state, one)]
    lacking = [one for one in state.gangs.values() if one.degraded_since is not None] if reserved else []
    for workload in [*sorted(lacking, key=_order), *sorted(reserved, key=_order)]:
        entry = entry_of(workload.key)
        if entry is None or not (workload.phase is Phase.WAITING or goes_first(workload, entry.needs)):
            continue
        until, fits = told_before(state, workload).time(HELD_UNTIL), partial(_fits, state, entry)
        if state.attempt(Whose(*workload.key), "looking whether it has what was reserved for it", fits, False):
            yield entry
            if until is not None and workload.phase is Phase.RESERVED:
                permits.hold_no_longer(state, workload, until)
                backfill.note_expected_end(state, workload)


def _order(workload: Workload) -> OrderKey:
    return workload.order


def _was_reserved(state: State, workload: Workload) -> bool:
    """Whether the status of a workload that waits says that it has a reservation, and has not run.

    What has no object of ours is told by its pods.
    """
    if workload.evicted is not None or workload.was_scheduled:
        return False
    found = state.catalog.find(workload.key)
    if isinstance(found, PodGroup):
        return found.status.phase in _RESERVED
    if isinstance(found, WorkloadObject):
        return is_true(found.status.conditions, "Admitted")
    waiting = (member for member in workload.members() if member.pod.placeable)
    return any(member.reported[1].startswith(RESERVED_TEXT) for member in waiting)


def _fits(state: State, entry: QueueEntry) -> bool:
    priority = by_priority.priority_of(state, entry.workload, entry.needs)
    with checks.lending_held(state, entry.workload), nominated_room.respecting_nominations(state, entry, priority):
        return isinstance(look(state, entry), Admitted)
