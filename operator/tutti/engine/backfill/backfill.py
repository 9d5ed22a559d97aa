"""Keeping quota and room for the head of a queue, so that it is not starved.

A ClusterQueue with `backfill: Reserved` has a reservation for its head: the first in its line that has failed for want
of quota or nodes. The reservation says when the head can start at the latest, on which nodes, with which quota. Until
then others may have what they are done with in time, and what the head will not need (EASY, `quota/backfill.py`).

Who is kept off, and who is let by, is in `letting_by.py`. Where nobody knows when the head can start, what becomes free
on the nodes that are nearest to being free is kept for it against all who are kept off, for `reservationSeconds`. Then
others may have it for a while, and the next in line is kept for.

With fair sharing the head of any queue is kept for whose turn would never come by the order of shares
(`overdue_heads.py`).

What throttles allow is kept as quota is, from whom they are about (`throttle_shadow.py`). For a head that waits for
nothing else, and of which nobody knows when it starts, that is all that is kept.

A reservation stays as it is while the head can have what it promises, and is only replaced by an earlier one. After a
restart it is kept again (`restored_heads.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from tutti.engine.admission import quota_holdback, throttling
from tutti.engine.backfill import BackfillState, overdue_heads
from tutti.engine.backfill.promise_texts import PASSES, ToldPromise, left_to_others, promise_of
from tutti.engine.backfill.start_time import StartEstimate, estimate_start, fits_before, still_fits
from tutti.engine.lifecycle import limits
from tutti.engine.lifecycle.phases import explain
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.faults import Whose
from tutti.engine.records.queue_entries import PendingQueue, QueueEntry
from tutti.engine.records.reservations import BackfillReservation, has_its_nodes
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.quota.backfill import reservation_pause, rounded_runtime
from tutti.quota.flavors import Queue

_LEAVING: Final = Phase.LEAVING
_WAITING: Final = Phase.WAITING


def note_expected_end(state: BackfillState, workload: Workload) -> None:
    """Note when what a workload has reserved or bound is free again at the latest."""
    returns, key = state.backfill_reservations.releases, workload.key
    end = state.now if workload.phase is _LEAVING else None
    if end is None and workload.limit_seconds is not None:
        end = limits.ends_at(state, workload)
    before = returns.end_of(key)
    if end == before is None:
        return
    if end is None:
        returns.forget(key)
    elif end != before:
        returns.expect(key, end)
    slots = [member.pod.slot for member in workload.members() if member.pod.slot >= 0]
    state.cluster.pod_columns.expect(slots, math.inf if end is None else end)


def forget_expected_end(state: BackfillState, key: WorkloadKey) -> None:
    """Forget a workload of which nothing is left."""
    state.backfill_reservations.pauses.pop(key, None)
    state.backfill_reservations.releases.forget(key)


def refresh_reservations(state: BackfillState, entry_of: Callable[[WorkloadKey], QueueEntry | None]) -> None:
    """Give up what is kept for those who are no heads any more, or for longer than it may be."""
    reservations = state.backfill_reservations
    state.attempt_part(overdue_heads.TURNS, partial(overdue_heads.refresh_turns, state, entry_of), None)
    if not reservations.of:
        reservations.releases.rest(state.ledger)
    for reservation in list(reservations.of.values()):
        whose, act = Whose(*reservation.workload), partial(_refresh, state, reservation, entry_of(reservation.workload))
        state.attempt(whose, "following what is kept for it", act, None)
    for key, (times, end) in list(reservations.pauses.items()):
        if 0 < end <= state.now:
            reservations.pauses[key] = (times, 0.0)
            state.cluster.freed.anywhere()
            entry = entry_of(key)
            if entry is not None and entry.queue is not None:
                state.ledger.changes.retry(entry.queue.name)


def _refresh(state: BackfillState, reservation: BackfillReservation, entry: QueueEntry | None) -> None:
    """Give up what is kept for one that is no head any more, or for longer than it may be."""
    is_head = entry is not None and _stays_kept_for(state, entry, reservation)
    if entry is None or not is_head or not has_its_nodes(reservation, state.cluster.nodes.rows):
        _give_up(state, reservation)
        if entry is None and _has_left_by_itself(state, reservation):
            _pause(state, state.catalog.queues[reservation.queue], reservation.workload)
    elif reservation.until <= state.now:
        _give_up(state, reservation)
        _pause(state, state.catalog.queues[reservation.queue], reservation.workload)
    else:
        reservation.key, reservation.local_queue = entry.key, entry.equivalence.local_queue


def _has_left_by_itself(state: BackfillState, reservation: BackfillReservation) -> bool:
    """Whether a head cannot be tried any more though it waits: it would else have a new while each time it comes back.

    Who waits for victims, or has been told to start later, is none of these; nor whose start is known.
    """
    workload = state.workloads.get(reservation.workload)
    if workload is None or workload.phase is not _WAITING or reservation.starts_at is not None:
        return False
    if reservation.queue not in state.catalog.queues or workload.not_before > state.now:
        return False
    return reservation.workload not in state.nominations.ours


def end_reservation(state: BackfillState, workload: Workload) -> None:
    """Keep nothing for a workload any more: it has started."""
    if workload.phase is _WAITING:
        workload.out_of_turn = False
    if (state.backfill_reservations.of or state.backfill_reservations.pauses) and release_reservation(
        state, workload.key
    ):
        overdue_heads.begin_debt(state, workload.cluster_queue, workload)


def look_for_next(state: BackfillState, queue: Queue | None) -> None:
    """Have the next head looked for: one for whom nothing was kept stands in its way no more."""
    if queue is not None and queue.reserves and queue.name not in state.backfill_reservations.of:
        state.cluster.freed.on(())


def release_reservation(state: BackfillState, key: WorkloadKey) -> bool:
    """Keep nothing for a workload any more; returns whether something was because it was its turn."""
    state.backfill_reservations.pauses.pop(key, None)
    mine = [reservation for reservation in state.backfill_reservations.of.values() if reservation.workload == key]
    for reservation in mine:
        _give_up(state, reservation)
    return any(reservation.owed for reservation in mine)


def reserve_for_head(state: BackfillState, entry: QueueEntry, why: Explanation) -> None:
    """Keep quota and room for a workload that could not be admitted, if it is the head of a queue that does so."""
    queue, reservations = entry.queue, state.backfill_reservations
    if queue is None or not _may_pass(why) or reservations.pausing(entry.workload.key):
        return
    if entry.workload.out_of_turn:  # others had the right to take it out: it does not come back at once
        entry.workload.out_of_turn = False
        _pause(state, queue, entry.workload.key)
        return
    is_throttled = why.gate is Gate.THROTTLE
    owed = not is_throttled and _has_turn(state, entry, queue)  # by shares, of which a throttle knows nothing
    if not (owed or _is_kept_for(entry)):
        return
    mine = reservations.of.get(queue.name)
    if mine is not None and mine.workload != entry.workload.key:
        if _is_before(mine, entry):
            return
        _give_up(state, mine)
        mine = None
    elif mine is None and not owed and _is_behind(state, entry):
        return
    beside = [one for one in reservations.of.values() if one is not mine and goes_before(one, entry, mine)]
    if mine is not None and _stays(state, entry, beside, mine, is_throttled=is_throttled):
        return
    found = estimate_start(state, entry, beside, of_throttles=is_throttled)
    now = None if found is None else _reservation_of(state, entry, found, mine, why)
    if mine is not None and (now is None or not now.keeps_as(mine)):
        _give_up(state, mine)
    if now is not None:
        reservations.of[queue.name] = now
        quota_holdback.drop_holdback(state, entry.workload.key, queue.name)
    elif owed or is_throttled:
        _pause(state, queue, entry.workload.key)  # others have their turns, though it is of no use to it


def keep_again(state: BackfillState, entry: QueueEntry, told: ToldPromise) -> None:
    """Keep for a head what an earlier process has kept for it, and promise it no less; it is told nothing new."""
    reservations, queue = state.backfill_reservations, entry.queue
    if queue is None or queue.name in reservations.of:
        return
    beside = [one for one in reservations.of.values() if goes_before(one, entry, None)]
    found = estimate_start(state, entry, beside)
    if found is None:
        return
    why = entry.workload.explanation
    assert why is not None  # it stands in line
    kept = _reservation_of(state, entry, found, None, why)
    kept.since = kept.since if told.since is None else told.since
    kept.why, kept.news = why, False
    kept.seen = _NEVER  # it is worked out again when the head is tried, beside all others
    if told.starts_at is not None and kept.promised <= told.starts_at + state.configuration.bind_window_seconds:
        kept.promised = min(kept.promised, told.starts_at)
    if told.until is not None:
        kept.until = min(kept.until, told.until)
    reservations.of[queue.name] = kept


def _has_turn(state: BackfillState, entry: QueueEntry, queue: Queue) -> bool:
    """Note whom a queue has as its head; returns whether it is its turn against the order of shares."""
    overdue_heads.note_head(state, entry)
    return overdue_heads.has_turn(state, queue.name, entry.workload.key)


def heads_to_try(
    state: BackfillState, lines: Iterable[PendingQueue], entry_of: Callable[[WorkloadKey], QueueEntry | None]
) -> Iterator[QueueEntry]:
    """Yield who is to be tried when there may be more room anywhere, whether or not it fits there.

    That is for whom room is kept, or something will be when it is tried next, and for whom something was until now.

    Args:
        state: As it is; who had something kept for it is forgotten.
        lines: Of all queues.
        entry_of: Tells where somebody stands.
    """
    reservations = state.backfill_reservations
    told, reservations.given_up = reservations.given_up, {}
    yield from (one for key in told if (one := entry_of(key)) is not None and one.equivalence.why is not None)
    kept = (entry_of(mine.workload) for mine in reservations.of.values())
    yield from (one for one in kept if one is not None and _may_lack_room(one))
    for line in lines:
        queue = state.catalog.queues.get(line.name[0])
        if queue is None or not queue.reserves:
            continue
        before = reservations.of.get(queue.name)
        heads = (one for one in line.parked() if _may_be_kept_for(state, one))
        head = min(heads, key=line.order, default=None)
        if head is not None and (before is None or line.order(head) < line.place(before.key, before.local_queue)):
            yield head


def explain_reservations(state: BackfillState) -> list[Workload]:
    """Have heads told what is kept for them, or that nothing is for a while; returns those for whom that is news."""
    news = []
    for key, (_, end) in state.backfill_reservations.pauses.items():
        left = state.workloads.get(key) if end > 0 else None
        before = None if left is None else left.explanation
        if left is not None and before is not None:
            explain(left, left_to_others(before, end))
            news += [left] if left.explanation is not before else []
    for reservation in state.backfill_reservations.of.values():
        workload = state.workloads.get(reservation.workload)
        if workload is None:
            continue  # what is kept for it is given up in the next turn
        explain(workload, reservation.why)
        if reservation.news:
            news.append(workload)
            reservation.news = False
    return news


def may_keep(state: BackfillState) -> bool:
    """Whether room may be kept for anybody."""
    return state.catalog.reserving or overdue_heads.may_be_overdue(state)


def lasts(workload: Workload) -> float | None:
    """Return for how long a workload is taken to run from now on, in seconds; None: for ever."""
    return None if workload.limit_seconds is None else rounded_runtime(max(0.0, workload.limit_seconds - workload.ran))


def _is_kept_for(entry: QueueEntry) -> bool:
    """Whether it stands in a line whose head is kept for."""
    queue = entry.queue
    workload = entry.workload
    return queue is not None and queue.reserves and workload.phase is Phase.WAITING and workload.held_since is None


def _stays_kept_for(state: BackfillState, entry: QueueEntry, reservation: BackfillReservation) -> bool:
    """Whether it is still a head for which its queue keeps something."""
    if entry.equivalence.line.name[0] != reservation.queue:
        return False
    return _is_kept_for(entry) or (
        reservation.owed and overdue_heads.has_turn(state, reservation.queue, reservation.workload)
    )


def _is_behind(state: BackfillState, entry: QueueEntry) -> bool:
    """Whether somebody is parked before it in its line for whom something will be kept when they are tried next."""
    line = entry.equivalence.line
    return any(line.order(one) < line.order(entry) and _may_be_kept_for(state, one) for one in line.parked())


def _may_lack_room(entry: QueueEntry) -> bool:
    """Whether one is parked, and for something else than quota or a throttle."""
    why = entry.equivalence.why
    return why is not None and why.gate not in (Gate.QUOTA, Gate.THROTTLE)


def _may_be_kept_for(state: BackfillState, parked: QueueEntry) -> bool:
    """Whether something will be kept for one that is parked, if nobody is before it, when it is tried next."""
    why = parked.equivalence.why
    return why is not None and _may_pass(why) and not state.backfill_reservations.pausing(parked.workload.key)


def _may_pass(why: Explanation) -> bool:
    return (why.gate, why.reason) in PASSES


def goes_before(reservation: BackfillReservation, entry: QueueEntry, mine: BackfillReservation | None) -> bool:
    """Whether a head goes before a workload that has a reservation of its own, or none."""
    queue, workload = entry.queue, entry.workload
    if queue is not None and queue.name == reservation.queue and workload.phase is Phase.WAITING:
        return _is_before(reservation, entry)
    priority = workload.priority if queue is None else queue.cross_queue_priority(workload.priority)
    if priority != reservation.priority or mine is None:
        return priority <= reservation.priority
    return reservation.number < mine.number


def _is_before(reservation: BackfillReservation, entry: QueueEntry) -> bool:
    """Whether the head of a reservation goes before one in its own line."""
    line = entry.equivalence.line
    return line.place(reservation.key, reservation.local_queue) < line.order(entry)


def _stays(
    state: BackfillState,
    entry: QueueEntry,
    beside: list[BackfillReservation],
    mine: BackfillReservation,
    *,
    is_throttled: bool,
) -> bool:
    """Whether what is kept for a head is what it wants, can be had as promised, and not sooner."""
    wanted = throttling.wanted_of(state, entry.needs) if state.throttles else {}
    if (mine.shape, mine.seen, mine.throttled) != (entry.equivalence.shape, _seen(state), wanted):
        return False
    if mine.starts_at is None and bool(mine.nodes or mine.usage) is is_throttled:
        return False  # what it lacks is another thing by now
    return still_fits(state, mine) and not fits_before(state, entry, beside, mine)


_NEVER = (-1, -1)


def _seen(state: BackfillState) -> tuple[int, int]:
    """Return what changes with the nodes, or with what queues and flavors say."""
    return state.cluster.nodes.version, state.catalog.version


def _reservation_of(
    state: BackfillState, entry: QueueEntry, found: StartEstimate, mine: BackfillReservation | None, why: Explanation
) -> BackfillReservation:
    reservations, queue, workload = state.backfill_reservations, entry.queue, entry.workload
    assert queue is not None  # it keeps something
    until = promised = math.inf
    if found.starts_at is None:
        times = (
            0 if queue.reserves else reservations.pauses.get(workload.key, (0, 0.0))[0]
        )  # work that runs long ends, too
        until = min(
            state.now + reservation_pause(times + 1, queue.reservation_seconds),
            math.inf if mine is None else mine.until,
        )
    else:
        promised = found.starts_at
        if mine is not None and promised <= mine.promised + state.configuration.bind_window_seconds:
            promised = min(promised, mine.promised)  # what began a moment late must not make others late, too
    reservations.last += mine is None
    names = state.cluster.nodes.names
    nodes = tuple(names[row] for row in found.rows.tolist())
    since = state.now if mine is None else mine.since
    return BackfillReservation(
        workload=workload.key,
        queue=queue.name,
        shape=entry.equivalence.shape,
        key=entry.key,
        local_queue=entry.equivalence.local_queue,
        priority=queue.cross_queue_priority(workload.priority),
        number=reservations.last if mine is None else mine.number,
        starts_at=found.starts_at,
        promised=promised,
        since=since,
        until=until,
        nodes=nodes,
        wanted=found.wanted,
        usage=found.usage,
        throttled=found.throttled,
        seen=_seen(state),
        why=promise_of(why, found, since, until, nodes),
        owed=not queue.reserves,
        news=mine is None or (mine.starts_at, mine.nodes) != (found.starts_at, nodes),
    )


def _pause(state: BackfillState, queue: Queue, workload: WorkloadKey) -> None:
    """Keep nothing for a head for a while, because that was in vain."""
    times = state.backfill_reservations.pauses.get(workload, (0, 0.0))[0] + 1
    state.backfill_reservations.pauses[workload] = (
        times,
        state.now + reservation_pause(times, queue.reservation_seconds),
    )
    look_for_next(state, queue)


def _give_up(state: BackfillState, reservation: BackfillReservation) -> None:
    """Let others have what was kept for a head."""
    del state.backfill_reservations.of[reservation.queue]
    state.backfill_reservations.given_up[reservation.workload] = None
    if reservation.owed:
        state.cluster.freed.anywhere()  # it may be anybody's turn now
    else:
        state.cluster.freed.on(reservation.nodes)
    state.ledger.changes.retry(reservation.queue)
