"""A gang that runs and has lost members: what is kept for their successors, for how long, and what comes after.

From when a gang that has run whole has fewer members than it needs, it is degraded, and its window is open: the quota
of what it has lost stays in use for it, and the room, where there is any, is kept from whoever is not more important.
What it needs to be whole again is placed together or not at all, before all new work. When the window closes
(`onMemberLoss`), or as soon as it is clear that it cannot help, what is left is taken out as well, and the gang starts
again whole, before the others of its priority; until it has been tried once, its quota is kept from these.

All of it follows from what is seen of the pods and what the status of the object says, so that a successor of this
process goes on with it: since when a gang is degraded is told by its condition, and what is kept by `status.kept`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from tutti.api.conditions import timestamp
from tutti.api.messages import HAS, IS, agreeing, counted
from tutti.api.resources import Amounts
from tutti.engine.lifecycle import LifecycleState, quota_usage
from tutti.engine.lifecycle.eviction import evict
from tutti.engine.lifecycle.losses import charge_of_loss, describe_failed, missed_of, still_missed, without_made_good
from tutti.engine.reading.resolution import through_local_queue
from tutti.engine.records.explanation import LACKS_NODE, EvictionReason, Explanation, Gate, LifecycleStep
from tutti.engine.records.members import MemberGroup
from tutti.engine.records.pod_sets import PodSetRequest, pending_pod_sets
from tutti.engine.records.reservations import KeptForSuccessors
from tutti.engine.records.workloads import Phase, Workload
from tutti.quota.tree import Usage, add_to

_WAITS = ("waits", "wait")


_LEAVING: Final = Phase.LEAVING
_WAITING: Final = Phase.WAITING
_SCHEDULED: Final = Phase.SCHEDULED


def is_restarting(workload: Workload) -> bool:
    """Whether a gang was taken out because it had lost members, and has not been tried as a whole since."""
    if workload.phase not in (_LEAVING, _WAITING) or workload.had_turn:
        return False
    return workload.evicted is not None and workload.evicted.reason == EvictionReason.MEMBER_LOST


def short_groups(workload: Workload) -> list[MemberGroup]:
    """Return the pod groups of a gang that runs, or starts again, that lack members whose successors are waited for."""
    if workload.key[0] == "Pod" or workload.problem is not None:
        return []
    if workload.phase is not _SCHEDULED and not is_restarting(workload):
        return []
    return [group for group in workload.groups.values() if group.on_loss is not None and group.lacking]


def awaits_successors(workload: Workload) -> bool:
    """Whether a gang of which nothing runs any more is waited for all the same: it lost all of it, and others come."""
    if workload.key[0] == "Pod":
        return workload.counts().lost > 0
    return _has_some_to_come(workload) and bool(short_groups(workload))


def is_found_degraded(workload: Workload) -> bool:
    """Whether its status says of a gang that has just been found, and of which nothing runs, that it is degraded."""
    if workload.key[0] == "Pod":
        return workload.counts().lost > 0
    return workload.was_scheduled and workload.degraded_since is not None and _has_some_to_come(workload)


def _has_some_to_come(workload: Workload) -> bool:
    tally = workload.counts()
    return bool(tally.waiting or tally.gated or tally.lost or tally.reserved)


def restarts_at(workload: Workload) -> float | None:
    """Return when a degraded gang is taken out to start again whole, Unix seconds; None: not at all.

    One that has lost none, and has come to need more, runs on without these. One of which nothing runs does not run on
    with what is left, whatever it says (Keep): it would keep what it had for as long as one that waits exists.
    """
    if workload.degraded_since is None:
        return None
    said = [group.on_loss for group in short_groups(workload) if group.on_loss is not None and group.has_lost]
    runs = workload.counts().bound > 0
    seconds = [one.window_seconds for one in said if one.action == "Restart" or not runs]
    return workload.degraded_since + workload.lost_seconds + min(seconds) if seconds else None


def describe_degraded(workload: Workload) -> str:
    """Say how many members a degraded gang has of how many it needs, what it waits for, and what will become of it."""
    tally, required = workload.counts(), workload.required
    have = tally.placed
    since = "" if workload.degraded_since is None else f" since {timestamp(workload.degraded_since)}"
    text = f"{have} of {counted(required, 'required member')} {agreeing(have, HAS)} a node that works{since}"
    text += f"{_failed(workload)}; "
    waiting, missing = tally.waiting + tally.reserved, required - have
    why = workload.reported_explanation
    if waiting < missing:
        text += f"waits for {counted(missing - waiting, 'successor')} to be created"
    elif why is not None:
        text += f"its {counted(waiting, 'successor', verb=_WAITS)} at the {why.gate} gate ({why.reason})"
    else:
        text += f"its {counted(waiting, 'successor', verb=IS)} being placed"
    at = restarts_at(workload)
    keeps = " (onMemberLoss: Keep)" if any(group.has_lost for group in workload.groups.values()) else ""
    end = f"it runs on as it is{keeps}" if at is None else f"it is restarted whole at {timestamp(at)}"
    return f"{text}; unless it is whole before, {end}" if at is not None else f"{text}; {end}"


def _failed(workload: Workload) -> str:
    return describe_failed([loss.failed for loss in workload.losses if loss.failed])


def follow_losses(state: LifecycleState, workload: Workload) -> None:
    """Keep for a gang just what it lacks; begin and end its window, and take it out when that is over."""
    if workload.phase is not _SCHEDULED:
        if workload.degraded_since is not None:
            _close(state, workload)
    else:
        _note_had(workload)
    if workload.degraded_since is not None or workload.losses:
        workload.losses = without_made_good(state, workload)
    short = short_groups(workload)
    if not short:
        if workload.phase is _SCHEDULED:
            _close(state, workload)
        if workload.losses or workload.key in state.kept_for_successors:
            workload.losses = []
            _keep(state, workload, [])
        return
    if workload.degraded_since is not None:
        workload.degraded_since = min(workload.degraded_since, state.now)  # a status says what somebody has written
    if workload.phase is _SCHEDULED and workload.degraded_since is None:
        workload.degraded_since, workload.lost_seconds, workload.held_up = state.now, 0.0, False
        state.reached(workload, LifecycleStep.DEGRADED, pods=sum(group.lacking for group in short))
        state.announce(workload, "Warning", "Degraded", describe_degraded(workload))
    if is_restarting(workload) and _turn_is_over(state, workload, short):
        workload.had_turn = True
        short = []
    workload.losses = still_missed(state, workload, short)
    _keep(state, workload, short)
    if workload.phase is _SCHEDULED:
        if not workload.queue and state.now < _room_is_kept_until(state, workload):
            state.set_alarm(workload, _room_is_kept_until(state, workload))
        _restart_in_time(state, workload, short)


def _note_had(workload: Workload) -> None:
    """Note how many members a gang has had: those that it could do without when they went are not missed."""
    for group in workload.groups.values():
        placed = group.counts().placed
        group.had = max(group.had, placed) if group.lacking else placed


@contextmanager
def lending_kept(state: LifecycleState, workload: Workload) -> Iterator[None]:
    """Inside, what is kept for a gang is free for it, and nobody is told; at the end what it still lacks is kept."""
    kept = state.kept_for_successors.pop(workload.key, None)
    if kept is None:
        yield
        return
    for charge, pods in kept.charges:
        state.ledger.refund(charge.queue, charge.usage, charge.holder, pods, told=False)
    try:
        yield
    finally:
        if is_restarting(workload):
            workload.had_turn = True  # and it was in vain
        again = state.kept_for_successors[workload.key] = _wanted(state, workload, short_groups(workload))
        for charge, pods in again.charges:
            state.charge(charge, pods)
        if workload.phase is Phase.WAITING:
            _tell_freed(state, kept, again)
        quota_usage.describe_holder(state, workload)


def kept_from(state: LifecycleState, workload: Workload, priority: int) -> Iterator[tuple[str, Amounts]]:
    """Yield the room that a workload whose pods have some priority may not take: node and amounts."""
    for key, kept in state.kept_for_successors.items():
        if key == workload.key or not kept.spots:
            continue
        other = state.workloads.get(key)
        if other is None or (priority > kept.priority and workload.priority >= other.priority):
            continue
        for node, amounts in kept.spots:
            if state.cluster.is_working(node):
                yield node, _as_far_as_there_is(state, node, amounts)


def forget_losses(state: LifecycleState, workload: Workload) -> None:
    """Keep nothing any more for a gang of which nothing is left."""
    workload.losses = []
    _keep(state, workload, [])


def _close(state: LifecycleState, workload: Workload) -> None:
    """Note that a gang is degraded no more: it is whole again, or does not run."""
    if workload.degraded_since is None:
        return
    seconds = state.now - workload.degraded_since
    workload.degraded_since, workload.lost_seconds, workload.held_up = None, 0.0, False
    state.reached(workload, LifecycleStep.RECOVERED, seconds=seconds, reason=workload.phase.value)
    if workload.phase is Phase.SCHEDULED:
        state.announce(
            workload, "Normal", "WholeAgain", f"all required members have a node again after {int(seconds)} s"
        )


def _turn_is_over(state: LifecycleState, workload: Workload, short: Iterable[MemberGroup]) -> bool:
    """Whether a gang that starts again has waited for its members as long as it waited for their successors."""
    evicted = workload.evicted
    assert evicted is not None  # it is restarting
    said = [group.on_loss.window_seconds for group in short if group.on_loss is not None]
    end = evicted.at + max(said, default=0)
    if end > state.now:
        state.set_alarm(workload, end)
    return end <= state.now


def _keep(state: LifecycleState, workload: Workload, short: list[MemberGroup]) -> None:
    """Have just that in use which is kept for what a gang lacks."""
    key = workload.key
    before = state.kept_for_successors.pop(key, None)
    if before is not None:
        for charge, pods in before.charges:
            state.ledger.refund(charge.queue, charge.usage, charge.holder, pods, told=False)
    kept = _wanted(state, workload, short) if short else None
    if kept is not None:
        state.kept_for_successors[key] = kept
        for charge, pods in kept.charges:
            state.charge(charge, pods)
    _tell_freed(state, before, kept)


def _tell_freed(state: LifecycleState, before: KeptForSuccessors | None, kept: KeptForSuccessors | None) -> None:
    """Have others look again who may have what is not kept any more."""
    if before is None:
        return
    for queue, usage in _usage(before).items():
        now = {} if kept is None else _usage(kept).get(queue, {})
        if any(amount > now.get(what, 0) for what, amount in usage.items()):
            state.ledger.changes.retry(queue)
    if len(before.spots) > (0 if kept is None else len(kept.spots)):
        state.cluster.freed.anywhere()


def _usage(kept: KeptForSuccessors) -> dict[str, Usage]:
    out: dict[str, Usage] = {}
    for charge, pods in kept.charges:
        add_to(out.setdefault(charge.queue, {}), charge.usage, pods)
    return out


def _wanted(state: LifecycleState, workload: Workload, short: Iterable[MemberGroup]) -> KeptForSuccessors:
    """Return what is to be kept for a gang: what was lost and, of what nobody has seen it lose, the like of the rest.

    No more of quota than there is: who uses more than there is now cannot have successors either.
    """
    priorities = [m.pod.priority for m in workload.members() if not m.pod.terminated]
    kept = KeptForSuccessors(min(priorities, default=workload.priority))
    if workload.key in state.nominations.ours:
        return kept  # others leave for it, and what it lacks is held by that
    keeps_room = workload.phase is Phase.SCHEDULED and (
        workload.queue or state.now < _room_is_kept_until(state, workload)
    )
    room: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    for loss in missed_of(workload, short):
        charge = charge_of_loss(state, workload, loss)
        if loss.node and keeps_room and (charge is not None or not workload.queue):
            kept.spots.append((loss.node, loss.amounts))
        if charge is not None:
            which = (charge.queue, tuple(sorted(charge.flavors.items())))
            if which not in room:
                room[which] = state.ledger.room_for(charge.queue, charge.usage)
            if room[which] > 0:
                room[which] -= 1
                kept.charges.append((charge, 1))
    return kept


def _room_is_kept_until(state: LifecycleState, workload: Workload) -> float:
    """Return for how long room is kept for a gang without a queue, whatever it says itself, Unix seconds.

    Nothing else bounds that: no quota is used meanwhile.
    """
    since = state.now if workload.degraded_since is None else workload.degraded_since
    return since + workload.lost_seconds + state.configuration.on_member_loss.window_seconds


def _as_far_as_there_is(state: LifecycleState, node: str, amounts: Amounts) -> Amounts:
    """Return how much of some amounts a node has in all, in scheduling units: a status may say anything."""
    nodes = state.cluster.nodes
    has = dict(zip(nodes.resource_index.names, nodes.allocatable[nodes.rows[node]].tolist(), strict=False))
    return {name: min(amount, has[name]) for name, amount in amounts.items() if name in has}


def _restart_in_time(state: LifecycleState, workload: Workload, short: list[MemberGroup]) -> None:
    """Take a degraded gang out when its window is over, or when it is clear that the window cannot help."""
    at = restarts_at(workload)
    if at is None:
        return
    if workload.queue and isinstance(through_local_queue(state.catalog, workload), Explanation):
        workload.held_up = True
        return  # in a queue that admits nothing now it could not start again, nor could its successors
    if workload.held_up and workload.counts().waiting:
        workload.lost_seconds = state.now - (workload.degraded_since or state.now)
        at = restarts_at(workload) or at
    workload.held_up = False
    hopeless = _hopeless(state, workload, short)
    if (state.now < at and not hopeless) or not any(group.missing for group in short):
        if state.now < at:
            state.set_alarm(workload, at)
        return  # when all that it lacks is on its way, that is looked at again when it has come
    have = counted(workload.required, "required member", verb=HAS)
    since = timestamp(workload.degraded_since or state.now)
    text = f"{workload.counts().placed} of {have} a node that works since {since}{_failed(workload)}"
    text += f", and {hopeless}" if hopeless else ", and it was not whole again in time (onMemberLoss)"
    workload.had_turn = False
    evict(state, workload, EvictionReason.MEMBER_LOST, f"{text}; it starts again whole")
    follow_losses(state, workload)


def _hopeless(state: LifecycleState, workload: Workload, short: list[MemberGroup]) -> str:
    """Return why waiting for successors cannot make a gang whole, as it is now; "" where it may."""
    node = state.ledger.tree.queues.get(workload.cluster_queue)
    if workload.queue and node is not None:
        wanted: Usage = {}
        for member in workload.members():
            if member.charge is not None:
                add_to(wanted, member.charge.usage, 1)
        for loss in missed_of(workload, short):
            charge = charge_of_loss(state, workload, loss)
            if charge is not None:
                add_to(wanted, charge.usage, 1)
        beyond = next((what for what, n in wanted.items() if n > node.potential(what)), None)
        if beyond is not None:
            return f"ClusterQueue {node.name} can never have as much {beyond[1]} in {beyond[0]} as all of it needs"
    gone = next((loss.node for loss in workload.losses if loss.node and loss.node not in state.cluster.nodes.rows), "")
    why, needs = workload.explanation, pending_pod_sets(workload)
    if not gone or why is None or not isinstance(needs, list):
        return ""
    if why.gate is not Gate.PLACEMENT or why.reason not in LACKS_NODE:
        return ""  # of what else they wait for, such as volumes or an extender's answer, there is no more elsewhere
    bound_to = next(
        (need for need in needs if need.required and need.topology is not None and need.topology.required), None
    )
    if bound_to is None:
        return ""
    return f"node {gone} is gone, and the {_domain(bound_to)} that the others are in has no room for successors"


def _domain(need: PodSetRequest) -> str:
    assert need.topology is not None  # that is how it was chosen
    return need.topology.required[-1]
