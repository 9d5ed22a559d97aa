"""Who is kept off what is kept for the heads of queues while it is tried, and who is let by because it delays nobody.

Kept off is everybody, of all queues, whose priority among the queues is not higher, but for those before the head in
its own line and gangs that have to be mended, and but for who ends in time (EASY, `quota/backfill.py`). Of two heads of
equal priority the one that was kept for first goes before. Quota is kept from other queues only where they would
borrow: what is their own is never kept from them.

Where something is kept because of an overdue head, nobody leaves for that: what is their own is not kept from others
where they would lack it, and who lacks only what is kept takes nobody out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tutti.api.conditions import timestamp
from tutti.engine.admission.attempt import Admitted, assign_flavors
from tutti.engine.admission.dry_runs import look
from tutti.engine.admission.mending import goes_first
from tutti.engine.backfill import BackfillState, throttle_shadow
from tutti.engine.backfill.backfill import goes_before, lasts
from tutti.engine.backfill.promise_texts import WOULD_DELAY
from tutti.engine.backfill.start_time import kept_quota, kept_room
from tutti.engine.records.discretion import workload_named_by_key
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.reservations import BackfillReservation


def respecting_reservations(
    state: BackfillState, entry: QueueEntry
) -> AbstractContextManager[list[BackfillReservation]]:
    """Keep from a workload, while it is tried, what is kept for those whom it would delay; yields it."""
    reservations = [one for one in state.backfill_reservations.of.values() if _is_kept_from(state, one, entry)]
    if not reservations:
        return nullcontext(reservations)
    if any(one.owed for one in reservations) and _takes_its_own(state, entry) and not _fits(state, entry, reservations):
        reservations = [one for one in reservations if not one.owed]  # what is its own is never kept from it
    return withholding(state, entry, reservations)


def withholding(
    state: BackfillState, entry: QueueEntry, reservations: list[BackfillReservation]
) -> AbstractContextManager[list[BackfillReservation]]:
    """Keep from a workload what is kept for some heads."""
    return _keeping(state, entry, reservations) if reservations else nullcontext(reservations)


def lacks_only_overdue(state: BackfillState, entry: QueueEntry, reservations: list[BackfillReservation]) -> bool:
    """Whether a workload would fit, were it not for whose turn it is: nobody leaves for it then, it waits for that."""
    others = [one for one in reservations if not one.owed]
    return len(others) < len(reservations) and _fits(state, entry, others)


def _fits(state: BackfillState, entry: QueueEntry, reservations: list[BackfillReservation]) -> bool:
    """Whether a workload fits beside what is kept for some heads."""
    with withholding(state, entry, reservations):
        return isinstance(look(state, entry), Admitted)


def _takes_its_own(state: BackfillState, entry: QueueEntry) -> bool:
    """Whether a workload asks for no more than what is its queue's own."""
    choice = assign_flavors(state, entry)
    return choice is not None and not choice.level


@contextmanager
def _keeping(
    state: BackfillState, entry: QueueEntry, reservations: list[BackfillReservation]
) -> Iterator[list[BackfillReservation]]:
    quota = [(one.queue, kept_quota(state, one)) for one in reservations if _needs_its_quota(state, one, entry)]
    with state.cluster.transaction() as kept:
        for one in reservations:
            kept.withhold(*kept_room(state, one))
        mine = "" if entry.queue is None else entry.queue.name
        with state.ledger.withheld(quota, mine), throttle_shadow.keeping(state, entry, reservations):
            yield reservations


def why_kept_off(
    state: BackfillState, entry: QueueEntry, why: Explanation, reservations: Sequence[BackfillReservation]
) -> Explanation:
    """Return why a workload could not be admitted: because it would delay the heads of these reservations, if so."""
    if not reservations or not any(need.required for need in entry.needs):
        return why
    found = look(state, entry)
    if not isinstance(found, Admitted):
        return found if why.gate is Gate.THROTTLE else why  # what a throttle has kept from it is not to be told
    first = min(reservations, key=lambda one: one.number)
    more = f" and {len(reservations) - 1} more" if len(reservations) > 1 else ""
    name = workload_named_by_key(first.workload, entry.workload.key[1], known=state.workloads, discreet=state.discreet)
    text = f"would delay {name}{more}, "
    if first.starts_at is None:
        text += f"for which room is kept until {timestamp(first.until)}"
        return Explanation(Gate.QUEUE, WOULD_DELAY, text, {"behind": name})
    text += f"which starts at {timestamp(first.starts_at)} at the latest; it would have to end before (it "
    text += "has no maximumExecutionTimeSeconds)" if lasts(entry.workload) is None else "may run for longer)"
    return Explanation(Gate.QUEUE, WOULD_DELAY, text, {"behind": name, "startsAt": timestamp(first.starts_at)})


def _is_kept_from(state: BackfillState, reservation: BackfillReservation, entry: QueueEntry) -> bool:
    """Whether a workload may not have what is kept for a head."""
    workload, queue = entry.workload, entry.queue
    if reservation.workload == workload.key or goes_first(workload, entry.needs):
        return False
    if workload.held_since is not None:
        return False  # it had its turn when it got its quota
    mine = state.backfill_reservations.of.get(queue.name) if queue is not None else None
    if not goes_before(reservation, entry, mine if mine is not None and mine.workload == workload.key else None):
        return False
    left = lasts(workload)
    return left is None or reservation.starts_at is None or state.now + left > reservation.promised


def _needs_its_quota(state: BackfillState, reservation: BackfillReservation, entry: QueueEntry) -> bool:
    """Whether a workload would use quota that is kept for a head: its queue's, or what both borrow."""
    queue = entry.queue
    if queue is None or state.ledger.root_of(queue.name) != state.ledger.root_of(reservation.queue):
        return False
    if queue.name == reservation.queue:
        return True
    choice = assign_flavors(state, entry)
    return choice is not None and choice.level > 0
