"""Sparing victims that are not needed any more: whoever they were to make room for has started without it.

A pod that has been asked to leave cannot be kept. One whose eviction was refused so far, by a budget or an error, would
be asked again; where nobody waits for it any more it runs on. A workload is spared as a whole or not at all: once one
of its members has been asked, or reserved room was given back, it leaves.
"""

from __future__ import annotations

from collections.abc import Collection

from tutti.cluster.pods import PodKey
from tutti.engine.records.explanation import EvictionReason, LifecycleStep
from tutti.engine.records.members import Member
from tutti.engine.records.reservations import Nomination
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.engine.state import State


def spare(state: State) -> None:
    """Have victims of those that wait no more run on, as far as they can and nobody else waits for them."""
    needless, state.nominations.needless = state.nominations.needless, []
    for nomination in needless:
        _spare(state, nomination)


def _spare(state: State, nomination: Nomination) -> None:
    wanted = {victim for one in state.nominations.ours.values() for victim in one.victims}
    found: dict[WorkloadKey, Workload] = {}
    for victim in nomination.victims:
        address, member = state.home.get(victim), state.members.get(victim)
        if victim in wanted or address is None or member is None:
            continue
        workload = state.workloads[address[0]]
        if workload.phase is Phase.LEAVING:
            found[workload.key] = workload
        elif member.leave is not None and _is_untouched(member):
            member.leave = None  # one of those that its gang can do without
            state.touch(workload.key)
    for workload in found.values():
        if _can_stay(workload, wanted):
            _keep(state, workload)


def _can_stay(workload: Workload, wanted: Collection[PodKey]) -> bool:
    """Whether a workload that is being taken out for others is there as a whole still, and nobody waits for it."""
    evicted = workload.evicted
    if evicted is None or evicted.reason != EvictionReason.PREEMPTED or not workload.complete:
        return False
    return all(_is_untouched(member) and member.pod.key not in wanted for member in workload.members())


def _is_untouched(member: Member) -> bool:
    """Whether a member runs and has not been asked to leave with success, or was not to leave at all."""
    pod = member.pod
    if member.leave is None:
        return not (member.sent or member.unknown)
    return bool(pod.node) and not (pod.terminated or pod.deleting or member.evicting)


def _keep(state: State, workload: Workload) -> None:
    """Have a workload run on that was to leave."""
    for member in workload.members():
        member.leave = None
    state.reached(workload, LifecycleStep.SPARED)
    workload.phase, workload.evicted, workload.explanation = Phase.SCHEDULED, None, None
    workload.refusals, workload.ask_at, workload.running_since = 0, 0.0, state.now
    state.announce(workload, "Normal", "Spared", "it need not make room any more: nobody waits for it to leave")
    state.touch(workload.key)
