"""Gangs that start as soon as there is room for all of them, though some members do not exist yet (YuniKorn).

An application declares all its task groups on its first pod. Once room for every one of them is held, those that exist
are bound at once, and the room of the others is kept until they come: a driver that makes its executors would wait for
ever otherwise. When the time for that is over, unused room is given back and what runs goes on. An application that has
found no nodes for as long is placed pod by pod (style Soft) or given up (Hard).
"""

from __future__ import annotations

from tutti.api.messages import IS, WAS, agreeing, counted
from tutti.engine.lifecycle import reservation
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.workloads import Phase, Style, Workload
from tutti.engine.state import State

TIMED_OUT = "ResourceReservationTimeout"
"""YuniKorn's word for the end of its patience."""


def may_start(workload: Workload) -> bool:
    """Whether what there is of a gang is bound though others are yet to come."""
    return workload.style is not None and any(member.pod.assumed for member in workload.members())


def is_open(workload: Workload) -> bool:
    """Whether a gang that has started early still waits for members."""
    return workload.style is not None and not reservation.all_there(workload)


def fill(state: State, workload: Workload) -> None:
    """Let those that have come have the room that was kept for them: this very room, or else room elsewhere."""
    if workload.style is None:
        return
    reservation.hand_over_holds(state, workload)
    for group in workload.groups.values():
        tally = group.tally()
        excess = tally.placed + tally.reserved + tally.waiting + len(group.holds) - group.min_count
        reservation.release_holds(state, group, max(0, excess))
    if not workload.tally().live and any(group.holds for group in workload.groups.values()):
        time_out(state, workload)  # whoever would have made the others has ended


def explain(state: State, workload: Workload) -> None:
    """Say what room is kept for, and until when."""
    held = sum(len(group.holds) for group in workload.groups.values())
    if held and workload.deadline is not None:
        seconds = int(workload.deadline - state.now)
        text = f"nodes are kept for {counted(held, 'more member')} (given back after {seconds} s)"
        workload.explanation = Explanation(Gate.PERMIT, "WaitingForMembers", text, {"missing": str(held)})
    elif workload.explanation is not None and workload.explanation.reason == "WaitingForMembers":
        workload.explanation = None  # nothing is kept any more


def time_out(state: State, workload: Workload) -> None:
    """Give back the room of those that have not come; what runs goes on, and others are placed one by one."""
    held = sum(len(group.holds) for group in workload.groups.values())
    reservation.give_back_all(state, workload)
    workload.scattered, workload.deadline, workload.explanation = True, None, None
    text = (
        f"not all of its members have come in time; {counted(held, 'node')} that {agreeing(held, WAS)} kept "
        f"{agreeing(held, IS)} given back, and what runs goes on"
    )
    state.announce(workload, "Normal", TIMED_OUT, text)
    state.touch(workload.key)


def lose_patience(state: State, workload: Workload) -> None:
    """Note since when a gang finds no nodes, and no longer wait for all of them together when that lasts too long."""
    why = workload.explanation
    if workload.style is None or workload.scattered or workload.given_up:
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
    if workload.style is Style.SOFT:
        workload.scattered = True
        text = f"there were no nodes for all of it together for {patience} s; its pods are placed one by one (Soft)"
    else:
        text = f"there were no nodes for all of it together for {patience} s; it is given up (Hard)"
        workload.given_up = text
    state.announce(workload, "Warning", TIMED_OUT, text)
    state.touch(workload.key)
