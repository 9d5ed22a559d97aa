"""Keeping quota and room for the head of a queue, so that it is not starved, and letting by who does not delay it.

A ClusterQueue with `backfill: Reserved` has a shadow for its head: the first in its line that has failed for want of
quota or nodes. The shadow says when the head can start at the latest, on which nodes, with which quota. Until then
others may have what they are done with in time, and what the head will not need (EASY, `quota/backfill.py`).

Who is kept off: everybody, of all queues, whose priority among the queues is not higher, but for those before the head
in its own line and gangs that have to be mended. Of two heads of equal priority the one that was kept for first goes
before. Quota is kept from other queues only where they would borrow: what is their own is never kept from them.

Where nobody knows when the head can start, what becomes free on the nodes that are nearest to being free is kept for it
against all of these, for `reservationSeconds`. Then others may have it for a while, and the next in line is kept for.

With fair sharing the head of any queue is kept for whose turn would never come by the order of shares
(`overdue_heads.py`): so that nobody leaves for that, what is their own is not kept from others where they would lack
it, and who lacks only what is kept takes nobody out.

A shadow stays as it is while the head can have what it promises, and is only replaced by an earlier one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tutti.api.conditions import timestamp
from tutti.engine.admission import quota_holdback
from tutti.engine.admission.admission import look
from tutti.engine.admission.attempt import assign_flavors
from tutti.engine.backfill import overdue_heads
from tutti.engine.backfill.start_time import (
    StartEstimate,
    estimate_start,
    fits_before,
    kept_quota,
    kept_room,
    still_fits,
)
from tutti.engine.lifecycle import limits, reconciliation
from tutti.engine.lifecycle.phases import explain
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.reservations import BackfillReservation
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey, workload_named_by_key
from tutti.engine.state import State
from tutti.quota.assignment import NoFit
from tutti.quota.backfill import lasting, pause
from tutti.quota.flavors import Queue

WOULD_DELAY = "WouldDelay"
_PASSES = (Gate.PLACEMENT, "Unschedulable"), (Gate.QUOTA, NoFit.WAITING_FOR_QUOTA.reason), (Gate.QUEUE, WOULD_DELAY)
"""What a head may wait for: what never comes is not waited for."""


def note_expected_end(state: State, workload: Workload) -> None:
    """Note when what a workload has reserved or bound is free again at the latest."""
    returns, key = state.shadows.returns, workload.key
    end = state.now if workload.phase is Phase.LEAVING else limits.ends_at(state, workload)
    before = returns.end_of(key)
    if end == before is None:
        return
    if end is None:
        returns.forget(key)
    elif end != before:
        returns.expect(key, end)
    slots = [member.pod.slot for member in workload.members() if member.pod.slot >= 0]
    state.cluster.tenants.expect(slots, math.inf if end is None else end)


def forget_expected_end(state: State, key: WorkloadKey) -> None:
    """Forget a workload of which nothing is left."""
    state.shadows.pauses.pop(key, None)
    state.shadows.returns.forget(key)


def refresh_reservations(state: State, entry_of: Callable[[WorkloadKey], QueueEntry | None]) -> None:
    """Give up what is kept for those who are no heads any more, or for longer than it may be."""
    shadows = state.shadows
    overdue_heads.refresh_turns(state, entry_of)
    if not shadows.of:
        shadows.returns.rest(state.holdings)
    for shadow in list(shadows.of.values()):
        entry = entry_of(shadow.workload)
        is_head = entry is not None and _stays_kept_for(state, entry, shadow)
        if entry is None or not is_head or not _has_its_nodes(state, shadow):
            _give_up(state, shadow)
        elif shadow.until <= state.now:
            _give_up(state, shadow)
            _pause(state, state.catalog.queues[shadow.queue], shadow.workload)
        else:
            shadow.key, shadow.door = entry.key, entry.bunch.door
    for key, (times, end) in list(shadows.pauses.items()):
        if 0 < end <= state.now:
            shadows.pauses[key] = (times, 0.0)
            state.cluster.freed += 1
            entry = entry_of(key)
            if entry is not None and entry.queue is not None:
                state.holdings.look_again(entry.queue.name)


def end_reservation(state: State, workload: Workload) -> None:
    """Keep nothing for a workload any more: it has started."""
    if workload.phase is Phase.WAITING:
        workload.out_of_turn = False
    if release_reservation(state, workload.key):
        overdue_heads.begin_debt(state, workload.cluster_queue, workload)


def release_reservation(state: State, key: WorkloadKey) -> bool:
    """Keep nothing for a workload any more; returns whether something was because it was its turn."""
    state.shadows.pauses.pop(key, None)
    mine = [shadow for shadow in state.shadows.of.values() if shadow.workload == key]
    for shadow in mine:
        _give_up(state, shadow)
    return any(shadow.owed for shadow in mine)


def respecting_reservations(state: State, entry: QueueEntry) -> AbstractContextManager[list[BackfillReservation]]:
    """Keep from a workload, while it is tried, what is kept for those whom it would delay; yields their shadows."""
    shadows = [one for one in state.shadows.of.values() if _is_kept_from(state, one, entry)]
    if any(one.owed for one in shadows) and _takes_its_own(state, entry) and not _fits(state, entry, shadows):
        shadows = [one for one in shadows if not one.owed]  # what is its own is never kept from it
    return withholding(state, entry, shadows)


def withholding(
    state: State, entry: QueueEntry, shadows: list[BackfillReservation]
) -> AbstractContextManager[list[BackfillReservation]]:
    """Keep from a workload what is kept for some heads."""
    return _keeping(state, entry, shadows) if shadows else nullcontext(shadows)


def lacks_only_overdue(state: State, entry: QueueEntry, shadows: list[BackfillReservation]) -> bool:
    """Whether a workload would fit, were it not for whose turn it is: nobody leaves for it then, it waits for that."""
    others = [one for one in shadows if not one.owed]
    return len(others) < len(shadows) and _fits(state, entry, others)


def _fits(state: State, entry: QueueEntry, shadows: list[BackfillReservation]) -> bool:
    """Whether a workload fits beside what is kept for some heads."""
    with withholding(state, entry, shadows):
        return isinstance(look(state, entry), list)


def _takes_its_own(state: State, entry: QueueEntry) -> bool:
    """Whether a workload asks for no more than what is its queue's own."""
    choice = assign_flavors(state, entry)
    return choice is not None and not choice.level


@contextmanager
def _keeping(
    state: State, entry: QueueEntry, shadows: list[BackfillReservation]
) -> Iterator[list[BackfillReservation]]:
    quota = [(one.queue, kept_quota(state, one)) for one in shadows if _needs_its_quota(state, one, entry)]
    with state.cluster.transaction() as kept:
        for one in shadows:
            kept.withhold(*kept_room(state, one))
        with state.holdings.withheld(quota):
            yield shadows


def why_kept_off(
    state: State, entry: QueueEntry, why: Explanation, shadows: Sequence[BackfillReservation]
) -> Explanation:
    """Return why a workload could not be admitted: because it would delay the heads of these shadows, if so."""
    if not shadows or not any(need.required for need in entry.needs):
        return why
    if not isinstance(look(state, entry), list):
        return why
    first = min(shadows, key=lambda one: one.number)
    more = f" and {len(shadows) - 1} more" if len(shadows) > 1 else ""
    name = workload_named_by_key(first.workload, entry.workload.key[1], known=state.workloads, discreet=state.discreet)
    text = f"would delay {name}{more}, "
    if first.starts_at is None:
        text += f"for which room is kept until {timestamp(first.until)}"
        return Explanation(Gate.QUEUE, WOULD_DELAY, text, {"behind": name})
    text += f"which starts at {timestamp(first.starts_at)} at the latest; it would have to end before (it "
    text += "has no maximumExecutionTimeSeconds)" if lasts(entry.workload) is None else "may run for longer)"
    return Explanation(Gate.QUEUE, WOULD_DELAY, text, {"behind": name, "startsAt": timestamp(first.starts_at)})


def reserve_for_head(state: State, entry: QueueEntry, why: Explanation) -> None:
    """Keep quota and room for a workload that could not be admitted, if it is the head of a queue that does so."""
    queue, shadows = entry.queue, state.shadows
    if queue is None or not _may_pass(why) or shadows.pausing(entry.workload.key):
        return
    if entry.workload.out_of_turn:  # others had the right to take it out: it does not come back at once
        entry.workload.out_of_turn = False
        _pause(state, queue, entry.workload.key)
        return
    overdue_heads.note_head(state, entry)
    owed = overdue_heads.has_turn(state, queue.name, entry.workload.key)
    if not (owed or _is_kept_for(entry)):
        return
    mine = shadows.of.get(queue.name)
    if mine is not None and mine.workload != entry.workload.key:
        if _is_before(mine, entry):
            return
        _give_up(state, mine)
        mine = None
    elif mine is None and not owed and _is_behind(state, entry):
        return
    beside = [one for one in shadows.of.values() if one is not mine and _goes_before(one, entry, mine)]
    if mine is not None and _stays(state, entry, beside, mine):
        return
    found = estimate_start(state, entry, beside)
    now = None if found is None else _reservation_of(state, entry, found, mine, why)
    if mine is not None and (now is None or not now.keeps_as(mine)):
        _give_up(state, mine)
    if now is not None:
        shadows.of[queue.name] = now
        quota_holdback.drop_holdback(state, entry.workload.key, queue.name)
    elif owed:
        _pause(state, queue, entry.workload.key)  # others have their turns, though it is of no use to it


def explain_reservations(state: State) -> list[Workload]:
    """Have heads told what is kept for them; returns those for whom that is news."""
    news = []
    for shadow in state.shadows.of.values():
        workload = state.workloads[shadow.workload]
        explain(workload, shadow.why)
        if shadow.news:
            news.append(workload)
            shadow.news = False
    return news


def may_keep(state: State) -> bool:
    """Whether room may be kept for anybody."""
    return state.catalog.reserving or overdue_heads.may_be_overdue(state)


def lasts(workload: Workload) -> float | None:
    """Return for how long a workload is taken to run from now on, in seconds; None: for ever."""
    return None if workload.limit_seconds is None else lasting(max(0.0, workload.limit_seconds - workload.ran))


def _is_kept_for(entry: QueueEntry) -> bool:
    """Whether it stands in a line whose head is kept for."""
    queue = entry.queue
    return queue is not None and queue.reserves and entry.workload.phase is Phase.WAITING


def _stays_kept_for(state: State, entry: QueueEntry, shadow: BackfillReservation) -> bool:
    """Whether it is still a head for which its queue keeps something."""
    if entry.bunch.line.name[0] != shadow.queue:
        return False
    return _is_kept_for(entry) or (shadow.owed and overdue_heads.has_turn(state, shadow.queue, shadow.workload))


def _has_its_nodes(state: State, shadow: BackfillReservation) -> bool:
    """Whether all nodes are there on which something is kept for a head."""
    nodes = state.cluster.nodes
    return shadow.seen[0] == nodes.version or all(name in nodes.rows for name in shadow.nodes)


def _is_behind(state: State, entry: QueueEntry) -> bool:
    """Whether somebody sleeps before it in its line for whom something will be kept when they are tried next."""
    line = entry.bunch.line
    return any(
        line.order(one) < line.order(entry)
        and one.bunch.why is not None
        and _may_pass(one.bunch.why)
        and not state.shadows.pausing(one.workload.key)
        for one in line.sleeping()
    )


def _may_pass(why: Explanation) -> bool:
    return (why.gate, why.reason) in _PASSES


def _is_kept_from(state: State, shadow: BackfillReservation, entry: QueueEntry) -> bool:
    """Whether a workload may not have what is kept for a head."""
    workload, queue = entry.workload, entry.queue
    if shadow.workload == workload.key or reconciliation.lacks_members(workload):
        return False
    mine = state.shadows.of.get(queue.name) if queue is not None else None
    if not _goes_before(shadow, entry, mine if mine is not None and mine.workload == workload.key else None):
        return False
    left = lasts(workload)
    return left is None or shadow.starts_at is None or state.now + left > shadow.promised


def _goes_before(shadow: BackfillReservation, entry: QueueEntry, mine: BackfillReservation | None) -> bool:
    """Whether a head goes before a workload that has a shadow of its own, or none."""
    queue, workload = entry.queue, entry.workload
    if queue is not None and queue.name == shadow.queue and workload.phase is Phase.WAITING:
        return _is_before(shadow, entry)
    priority = workload.priority if queue is None else queue.outward(workload.priority)
    if priority != shadow.priority or mine is None:
        return priority <= shadow.priority
    return shadow.number < mine.number


def _is_before(shadow: BackfillReservation, entry: QueueEntry) -> bool:
    """Whether the head of a shadow goes before one in its own line."""
    line = entry.bunch.line
    return line.place(shadow.key, shadow.door) < line.order(entry)


def _needs_its_quota(state: State, shadow: BackfillReservation, entry: QueueEntry) -> bool:
    """Whether a workload would use quota that is kept for a head: its queue's, or what both borrow."""
    queue = entry.queue
    if queue is None or state.holdings.root_of(queue.name) != state.holdings.root_of(shadow.queue):
        return False
    if queue.name == shadow.queue:
        return True
    choice = assign_flavors(state, entry)
    return choice is not None and choice.level > 0


def _stays(state: State, entry: QueueEntry, beside: list[BackfillReservation], mine: BackfillReservation) -> bool:
    """Whether what is kept for a head is what it wants, can be had as promised, and not sooner."""
    if (mine.shape, mine.seen) != (entry.bunch.shape, _seen(state)):
        return False
    return still_fits(state, mine) and not fits_before(state, entry, beside, mine)


def _seen(state: State) -> tuple[int, int]:
    """Return what changes with the nodes, or with what queues and flavors say."""
    return state.cluster.nodes.version, state.catalog.version


def _reservation_of(
    state: State, entry: QueueEntry, found: StartEstimate, mine: BackfillReservation | None, why: Explanation
) -> BackfillReservation:
    shadows, queue, workload = state.shadows, entry.queue, entry.workload
    assert queue is not None  # it keeps something
    until = promised = math.inf
    if found.starts_at is None:
        times = 0 if queue.reserves else shadows.pauses.get(workload.key, (0, 0.0))[0]  # work that runs long ends, too
        until = min(state.now + pause(times + 1, queue.reservation_seconds), math.inf if mine is None else mine.until)
    else:
        promised = found.starts_at
        if mine is not None and promised <= mine.promised + state.configuration.bind_window_seconds:
            promised = min(promised, mine.promised)  # what began a moment late must not make others late, too
    shadows.last += mine is None
    names = state.cluster.nodes.names
    nodes = tuple(names[row] for row in found.rows.tolist())
    return BackfillReservation(
        workload=workload.key,
        queue=queue.name,
        shape=entry.bunch.shape,
        key=entry.key,
        door=entry.bunch.door,
        priority=queue.outward(workload.priority),
        number=shadows.last if mine is None else mine.number,
        starts_at=found.starts_at,
        promised=promised,
        until=until,
        nodes=nodes,
        wanted=found.wanted,
        usage=found.usage,
        seen=_seen(state),
        why=_promise(why, found.starts_at, until, nodes),
        owed=not queue.reserves,
        news=mine is None or (mine.starts_at, mine.nodes) != (found.starts_at, nodes),
    )


def _promise(why: Explanation, starts_at: float | None, until: float, nodes: tuple[str, ...]) -> Explanation:
    """Return what a head is told: why it waits, and what is kept for it."""
    where = f"node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} nodes"
    details = {**why.details, "keptNodes": str(len(nodes))}
    if starts_at is None:
        text = (
            f"nobody knows when: what becomes free on {where} is kept for it until {timestamp(until)} "
            "(reservationSeconds); give what runs there maximumExecutionTimeSeconds"
        )
        details["keptUntil"] = timestamp(until)
    else:
        text = f"it starts at {timestamp(starts_at)} at the latest, on {where} kept for it"
        details["startsAt"] = timestamp(starts_at)
    return Explanation(why.gate, why.reason, f"{why.message.removesuffix('.')}; {text}", details)


def _pause(state: State, queue: Queue, workload: WorkloadKey) -> None:
    """Keep nothing for a head for a while, because that was in vain."""
    times = state.shadows.pauses.get(workload, (0, 0.0))[0] + 1
    state.shadows.pauses[workload] = (times, state.now + pause(times, queue.reservation_seconds))


def _give_up(state: State, shadow: BackfillReservation) -> None:
    """Let others have what was kept for a head."""
    del state.shadows.of[shadow.queue]
    state.cluster.freed += 1
    state.holdings.look_again(shadow.queue)
