"""Keeping quota and room for the head of a queue, so that it is not starved, and letting by who does not delay it.

A ClusterQueue with `backfill: Reserved` has a shadow for its head: the first in its line that has failed for want of
quota or nodes. The shadow says when the head can start at the latest, on which nodes, with which quota. Until then
others may have what they are done with in time, and what the head will not need (EASY, `quota/backfill.py`).

Who is kept off: everybody, of all queues, whose priority among the queues is not higher, but for those before the head
in its own line and gangs that have to be mended. Of two heads of equal priority the one that was kept for first goes
before. Quota is kept from other queues only where they would borrow: what is their own is never kept from them.

Where nobody knows when the head can start, what becomes free on the nodes that are nearest to being free is kept for it
against all of these, for `reservationSeconds`. Then others may have it for a while, and the next in line is kept for.

With fair sharing the head of any queue is kept for whose turn would never come by the order of shares (`owing.py`): so
that nobody leaves for that, what is their own is not kept from others where they would lack it, and who lacks only what
is kept takes nobody out.

A shadow stays as it is while the head can have what it promises, and is only replaced by an earlier one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tutti.api.conditions import timestamp
from tutti.engine.admission import holding_back
from tutti.engine.admission.admission import look
from tutti.engine.admission.choices import nominate
from tutti.engine.backfill import owing
from tutti.engine.backfill.shadowing import Prospect, fits_before, foresee, kept_quota, kept_room, still_fits
from tutti.engine.lifecycle import life, limits
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.lines import Standing
from tutti.engine.records.naming import named_by
from tutti.engine.records.shadows import Shadow
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.engine.state import State
from tutti.quota.assignment import NoFit
from tutti.quota.backfill import reservation_pause, rounded_runtime
from tutti.quota.flavors import Queue

WOULD_DELAY = "WouldDelay"
_PASSES = (Gate.PLACEMENT, "Unschedulable"), (Gate.QUOTA, NoFit.WAITING_FOR_QUOTA.reason), (Gate.QUEUE, WOULD_DELAY)
"""What a head may wait for: what never comes is not waited for."""


def note_end(state: State, workload: Workload) -> None:
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


def forget(state: State, key: WorkloadKey) -> None:
    """Forget a workload of which nothing is left."""
    state.shadows.pauses.pop(key, None)
    state.shadows.returns.forget(key)


def stir(state: State, standing_of: Callable[[WorkloadKey], Standing | None]) -> None:
    """Give up what is kept for those who are no heads any more, or for longer than it may be."""
    shadows = state.shadows
    owing.stir(state, standing_of)
    if not shadows.of:
        shadows.returns.rest(state.ledger)
    for shadow in list(shadows.of.values()):
        standing = standing_of(shadow.workload)
        is_head = standing is not None and _stays_kept_for(state, standing, shadow)
        if standing is None or not is_head or not _has_its_nodes(state, shadow):
            _give_up(state, shadow)
        elif shadow.until <= state.now:
            _give_up(state, shadow)
            _pause(state, state.catalog.queues[shadow.queue], shadow.workload)
        else:
            shadow.key, shadow.door = standing.key, standing.bunch.door
    for key, (times, end) in list(shadows.pauses.items()):
        if 0 < end <= state.now:
            shadows.pauses[key] = (times, 0.0)
            state.cluster.freed += 1
            standing = standing_of(key)
            if standing is not None and standing.queue is not None:
                state.ledger.retry(standing.queue.name)


def end(state: State, workload: Workload) -> None:
    """Keep nothing for a workload any more: it has started."""
    if workload.phase is Phase.WAITING:
        workload.out_of_turn = False
    if let_go(state, workload.key):
        owing.begin(state, workload.cluster_queue, workload)


def let_go(state: State, key: WorkloadKey) -> bool:
    """Keep nothing for a workload any more; returns whether something was because it was its turn."""
    state.shadows.pauses.pop(key, None)
    mine = [shadow for shadow in state.shadows.of.values() if shadow.workload == key]
    for shadow in mine:
        _give_up(state, shadow)
    return any(shadow.owed for shadow in mine)


def respected(state: State, standing: Standing) -> AbstractContextManager[list[Shadow]]:
    """Keep from a workload, while it is tried, what is kept for those whom it would delay; yields their shadows."""
    shadows = [one for one in state.shadows.of.values() if _is_kept_from(state, one, standing)]
    if any(one.owed for one in shadows) and _takes_its_own(state, standing) and not _fits(state, standing, shadows):
        shadows = [one for one in shadows if not one.owed]  # what is its own is never kept from it
    return keeping(state, standing, shadows)


def keeping(state: State, standing: Standing, shadows: list[Shadow]) -> AbstractContextManager[list[Shadow]]:
    """Keep from a workload what is kept for some heads."""
    return _keeping(state, standing, shadows) if shadows else nullcontext(shadows)


def lacks_what_is_owed(state: State, standing: Standing, shadows: list[Shadow]) -> bool:
    """Whether a workload would fit, were it not for whose turn it is: nobody leaves for it then, it waits for that."""
    others = [one for one in shadows if not one.owed]
    return len(others) < len(shadows) and _fits(state, standing, others)


def _fits(state: State, standing: Standing, shadows: list[Shadow]) -> bool:
    """Whether a workload fits beside what is kept for some heads."""
    with keeping(state, standing, shadows):
        return isinstance(look(state, standing), list)


def _takes_its_own(state: State, standing: Standing) -> bool:
    """Whether a workload asks for no more than what is its queue's own."""
    choice = nominate(state, standing)
    return choice is not None and not choice.level


@contextmanager
def _keeping(state: State, standing: Standing, shadows: list[Shadow]) -> Iterator[list[Shadow]]:
    quota = [(one.queue, kept_quota(state, one)) for one in shadows if _needs_its_quota(state, one, standing)]
    with state.cluster.transaction() as kept:
        for one in shadows:
            kept.withhold(*kept_room(state, one))
        with state.ledger.withheld(quota):
            yield shadows


def why_kept_off(state: State, standing: Standing, why: Explanation, shadows: Sequence[Shadow]) -> Explanation:
    """Return why a workload could not be admitted: because it would delay the heads of these shadows, if so."""
    if not shadows or not any(need.required for need in standing.needs):
        return why
    if not isinstance(look(state, standing), list):
        return why
    first = min(shadows, key=lambda one: one.number)
    more = f" and {len(shadows) - 1} more" if len(shadows) > 1 else ""
    name = named_by(first.workload, standing.workload.key[1], known=state.workloads, discreet=state.discreet)
    text = f"would delay {name}{more}, "
    if first.starts_at is None:
        text += f"for which room is kept until {timestamp(first.until)}"
        return Explanation(Gate.QUEUE, WOULD_DELAY, text, {"behind": name})
    text += f"which starts at {timestamp(first.starts_at)} at the latest; it would have to end before (it "
    text += "has no maximumExecutionTimeSeconds)" if lasts(standing.workload) is None else "may run for longer)"
    return Explanation(Gate.QUEUE, WOULD_DELAY, text, {"behind": name, "startsAt": timestamp(first.starts_at)})


def look_ahead(state: State, standing: Standing, why: Explanation) -> None:
    """Keep quota and room for a workload that could not be admitted, if it is the head of a queue that does so."""
    queue, shadows = standing.queue, state.shadows
    if queue is None or not _may_pass(why) or shadows.pausing(standing.workload.key):
        return
    if standing.workload.out_of_turn:  # others had the right to take it out: it does not come back at once
        standing.workload.out_of_turn = False
        _pause(state, queue, standing.workload.key)
        return
    owing.note(state, standing)
    owed = owing.has_turn(state, queue.name, standing.workload.key)
    if not (owed or _is_kept_for(standing)):
        return
    mine = shadows.of.get(queue.name)
    if mine is not None and mine.workload != standing.workload.key:
        if _is_before(mine, standing):
            return
        _give_up(state, mine)
        mine = None
    elif mine is None and not owed and _is_behind(state, standing):
        return
    beside = [one for one in shadows.of.values() if one is not mine and _goes_before(one, standing, mine)]
    if mine is not None and _stays(state, standing, beside, mine):
        return
    found = foresee(state, standing, beside)
    now = None if found is None else _shadow(state, standing, found, mine, why)
    if mine is not None and (now is None or not now.keeps_as(mine)):
        _give_up(state, mine)
    if now is not None:
        shadows.of[queue.name] = now
        holding_back.drop(state, standing.workload.key, queue.name)
    elif owed:
        _pause(state, queue, standing.workload.key)  # others have their turns, though it is of no use to it


def tell(state: State, changed: dict[WorkloadKey, Workload]) -> None:
    """Have heads told what is kept for them."""
    for shadow in state.shadows.of.values():
        workload = state.workloads[shadow.workload]
        workload.explanation = shadow.why
        if shadow.news:
            changed[workload.key] = workload
            shadow.news = False


def may_keep(state: State) -> bool:
    """Whether room may be kept for anybody."""
    return state.catalog.reserving or owing.may_be(state)


def lasts(workload: Workload) -> float | None:
    """Return for how long a workload is taken to run from now on, in seconds; None: for ever."""
    return None if workload.limit_seconds is None else rounded_runtime(max(0.0, workload.limit_seconds - workload.ran))


def _is_kept_for(standing: Standing) -> bool:
    """Whether it stands in a line whose head is kept for."""
    queue = standing.queue
    return queue is not None and queue.reserves and standing.workload.phase is Phase.WAITING


def _stays_kept_for(state: State, standing: Standing, shadow: Shadow) -> bool:
    """Whether it is still a head for which its queue keeps something."""
    if standing.bunch.line.name[0] != shadow.queue:
        return False
    return _is_kept_for(standing) or (shadow.owed and owing.has_turn(state, shadow.queue, shadow.workload))


def _has_its_nodes(state: State, shadow: Shadow) -> bool:
    """Whether all nodes are there on which something is kept for a head."""
    nodes = state.cluster.nodes
    return shadow.seen[0] == nodes.version or all(name in nodes.rows for name in shadow.nodes)


def _is_behind(state: State, standing: Standing) -> bool:
    """Whether somebody sleeps before it in its line for whom something will be kept when they are tried next."""
    line = standing.bunch.line
    return any(
        line.order(one) < line.order(standing)
        and one.bunch.why is not None
        and _may_pass(one.bunch.why)
        and not state.shadows.pausing(one.workload.key)
        for one in line.sleeping()
    )


def _may_pass(why: Explanation) -> bool:
    return (why.gate, why.reason) in _PASSES


def _is_kept_from(state: State, shadow: Shadow, standing: Standing) -> bool:
    """Whether a workload may not have what is kept for a head."""
    workload, queue = standing.workload, standing.queue
    if shadow.workload == workload.key or life.is_broken(workload):
        return False
    mine = state.shadows.of.get(queue.name) if queue is not None else None
    if not _goes_before(shadow, standing, mine if mine is not None and mine.workload == workload.key else None):
        return False
    left = lasts(workload)
    return left is None or shadow.starts_at is None or state.now + left > shadow.promised


def _goes_before(shadow: Shadow, standing: Standing, mine: Shadow | None) -> bool:
    """Whether a head goes before a workload that has a shadow of its own, or none."""
    queue, workload = standing.queue, standing.workload
    if queue is not None and queue.name == shadow.queue and workload.phase is Phase.WAITING:
        return _is_before(shadow, standing)
    priority = workload.priority if queue is None else queue.cross_queue_priority(workload.priority)
    if priority != shadow.priority or mine is None:
        return priority <= shadow.priority
    return shadow.number < mine.number


def _is_before(shadow: Shadow, standing: Standing) -> bool:
    """Whether the head of a shadow goes before one in its own line."""
    line = standing.bunch.line
    return line.place(shadow.key, shadow.door) < line.order(standing)


def _needs_its_quota(state: State, shadow: Shadow, standing: Standing) -> bool:
    """Whether a workload would use quota that is kept for a head: its queue's, or what both borrow."""
    queue = standing.queue
    if queue is None or state.ledger.root_of(queue.name) != state.ledger.root_of(shadow.queue):
        return False
    if queue.name == shadow.queue:
        return True
    choice = nominate(state, standing)
    return choice is not None and choice.level > 0


def _stays(state: State, standing: Standing, beside: list[Shadow], mine: Shadow) -> bool:
    """Whether what is kept for a head is what it wants, can be had as promised, and not sooner."""
    if (mine.shape, mine.seen) != (standing.bunch.shape, _seen(state)):
        return False
    return still_fits(state, mine) and not fits_before(state, standing, beside, mine)


def _seen(state: State) -> tuple[int, int]:
    """Return what changes with the nodes, or with what queues and flavors say."""
    return state.cluster.nodes.version, state.catalog.version


def _shadow(state: State, standing: Standing, found: Prospect, mine: Shadow | None, why: Explanation) -> Shadow:
    shadows, queue, workload = state.shadows, standing.queue, standing.workload
    assert queue is not None  # it keeps something
    until = promised = math.inf
    if found.starts_at is None:
        times = 0 if queue.reserves else shadows.pauses.get(workload.key, (0, 0.0))[0]  # work that runs long ends, too
        until = min(
            state.now + reservation_pause(times + 1, queue.reservation_seconds),
            math.inf if mine is None else mine.until,
        )
    else:
        promised = found.starts_at
        if mine is not None and promised <= mine.promised + state.configuration.bind_window_seconds:
            promised = min(promised, mine.promised)  # what began a moment late must not make others late, too
    shadows.last += mine is None
    names = state.cluster.nodes.names
    nodes = tuple(names[row] for row in found.rows.tolist())
    return Shadow(
        workload=workload.key,
        queue=queue.name,
        shape=standing.bunch.shape,
        key=standing.key,
        door=standing.bunch.door,
        priority=queue.cross_queue_priority(workload.priority),
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
    state.shadows.pauses[workload] = (times, state.now + reservation_pause(times, queue.reservation_seconds))


def _give_up(state: State, shadow: Shadow) -> None:
    """Let others have what was kept for a head."""
    del state.shadows.of[shadow.queue]
    state.cluster.freed += 1
    state.ledger.retry(shadow.queue)
