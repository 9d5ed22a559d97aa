"""Gangs that start before all their members exist, and what is kept for those that come later.

A gang with a gang scheduling style (YuniKorn) is bound as soon as there is room for all of it, though some members
do not exist yet: an application declares all its task groups on its first pod, and a driver that makes its executors
would wait for ever otherwise. The room of the others is kept until they come. When the time for that is over, unused
room is given back and what runs goes on. An application that has found no nodes for as long is placed pod by pod
(style Soft) or given up (Hard).
"""

from __future__ import annotations

from tutti.api.messages import IS, WAS, agreeing, counted
from tutti.engine.lifecycle import LifecycleState, reservation
from tutti.engine.lifecycle.phases import explain
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.workloads import GangStyle, Phase, Workload

RESERVATION_TIMEOUT = "ResourceReservationTimeout"
"""YuniKorn's word for the end of its patience."""


def may_start_early(workload: Workload) -> bool:
    """Whether what there is of a gang is bound though others are yet to come."""
    return workload.style is not None and any(member.pod.assumed for member in workload.members())


def keeps_room(workload: Workload) -> bool:
    """Whether all of a gang that exists is bound, and the room of the others is kept until they are made."""
    if workload.style is not GangStyle.WITH_ROOM or not workload.counts().live:
        return False
    return not any(member.pod.assumed for member in workload.members())


def awaits_late_members(workload: Workload) -> bool:
    """Whether a gang that has started early still waits for members."""
    return workload.style is not None and not reservation.all_there(workload)


def hand_over_late(state: LifecycleState, workload: Workload) -> None:
    """Let those that have come have the room that was kept for them: this very room, or else room elsewhere."""
    if workload.style is None:
        # The others are made whatever becomes of these, or nobody makes them.
        reservation.release_all_holds(state, workload)
        return
    reservation.hand_over_holds(state, workload)
    for group in workload.groups.values():
        tally = group.counts()
        waiting = tally.waiting - (reservation.awaiting_claims(group) if group.holds else 0)
        excess = tally.placed + tally.reserved + waiting + len(group.holds) - group.min_count
        reservation.release_holds(state, group, max(0, excess))
    if workload.counts().live or not any(group.holds for group in workload.groups.values()):
        return
    if workload.style is GangStyle.WITH_ROOM:
        reservation.give_back_all(state, workload)
    else:
        time_out_late_members(state, workload)  # whoever would have made the others has ended


def explain_kept_nodes(state: LifecycleState, workload: Workload) -> None:
    """Say what room is kept for, and until when."""
    held = sum(len(group.holds) for group in workload.groups.values())
    until = "" if workload.deadline is None else f" (given back after {int(workload.deadline - state.now)} s)"
    if workload.style is GangStyle.WITH_ROOM:
        until = ", made when those that run are ready"
    if held and until:
        text = f"nodes are kept for {counted(held, 'more member')}{until}"
        explain(workload, Explanation(Gate.PERMIT, "WaitingForMembers", text, {"missing": str(held)}))
    elif workload.explanation is not None and workload.explanation.reason == "WaitingForMembers":
        explain(workload, None)  # nothing is kept any more


def time_out_late_members(state: LifecycleState, workload: Workload) -> None:
    """Give back the room of those that have not come; what runs goes on, and others are placed one by one."""
    held = sum(len(group.holds) for group in workload.groups.values())
    reservation.give_back_all(state, workload)
    workload.placed_singly, workload.deadline = True, None
    explain(workload, None)
    text = (
        f"not all of its members have come in time; {counted(held, 'node')} that {agreeing(held, WAS)} kept "
        f"{agreeing(held, IS)} given back, and what runs goes on"
    )
    state.announce(workload, "Normal", RESERVATION_TIMEOUT, text)
    state.touch(workload.key)


def end_patience(state: LifecycleState, workload: Workload) -> None:
    """Note since when a gang finds no nodes, and no longer wait for all of them together when that lasts too long."""
    why = workload.explanation
    if workload.style in (None, GangStyle.WITH_ROOM) or workload.placed_singly or workload.given_up:
        return
    if workload.phase is not Phase.WAITING or why is None or why.gate is not Gate.PLACEMENT:
        workload.short_since = None
        return
    if workload.short_since is None:
        workload.short_since = state.now
    patience = reservation.permit_seconds(state, workload)
    if state.now < workload.short_since + patience:
        state.set_alarm(workload, workload.short_since + patience)
        return
    if workload.style is GangStyle.SOFT:
        workload.placed_singly = True
        text = f"there were no nodes for all of it together for {patience} s; its pods are placed one by one (Soft)"
    else:
        text = f"there were no nodes for all of it together for {patience} s; it is given up (Hard)"
        workload.given_up = Explanation(Gate.PLACEMENT, RESERVATION_TIMEOUT, text)
    state.announce(workload, "Warning", RESERVATION_TIMEOUT, text)
    state.touch(workload.key)
