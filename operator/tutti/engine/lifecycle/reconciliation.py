"""The life of a workload: what its phase becomes when something was observed or a deadline has passed.

`reconcile` brings one workload up to date with what has been observed of it, `expire` does what is due when its
deadline has passed. Which phase may follow which stands in `phases.py`.
"""

from __future__ import annotations

from typing import Final

from tutti.api.frameworks import UnusableOwner
from tutti.cluster.pods import PodPhase
from tutti.engine.lifecycle import (
    LifecycleState,
    binding,
    card_binds,
    checks,
    device_objects,
    devices,
    early_starts,
    eviction,
    limits,
    losses,
    member_loss,
    owner_starts,
    permits,
    provisioning,
    quota_usage,
    reservation,
    scale_down,
    volumes,
)
from tutti.engine.lifecycle.bound_claims import next_claim_due, watch_bound_claims
from tutti.engine.lifecycle.device_pools import next_telling_due, watch_pools
from tutti.engine.lifecycle.device_release import free_claims_of_ended
from tutti.engine.lifecycle.extended_claims import remove_left_over
from tutti.engine.lifecycle.member_loss import awaits_successors, is_found_degraded
from tutti.engine.lifecycle.phases import Transition, explain, transit
from tutti.engine.records.explanation import LifecycleStep
from tutti.engine.records.members import MemberCounts
from tutti.engine.records.workloads import ADMITTED, GangStyle, Phase, Workload

_WAITING: Final = Phase.WAITING
_BINDING: Final = Phase.BINDING
_STEP_SCHEDULED: Final = LifecycleStep.SCHEDULED
_WITH_ROOM: Final = GangStyle.WITH_ROOM
_RUN_ON: Final = Transition.RUN_ON
_COMPLETE: Final = Transition.COMPLETE
_WANTING_NOTHING = (Phase.LEAVING, Phase.FINISHED, Phase.RESERVED, Phase.CHECKING)
"""Phases in which no nodes are looked for: members are to have none any more, or not yet, or all that wait have one."""


def reconcile(state: LifecycleState, workload: Workload) -> None:
    """Bring one workload, as it has just been read, up to date with what has been observed."""
    workload.rank = permits.sort_rank(state, workload) if state.plugin_host.sorts else 0.0
    tally = workload.counts()
    if tally.leaving:
        reservation.give_back_leaving(state, workload)
    if tally.failed or tally.lost:
        losses.note_losses(state, workload)
    quota_usage.update_charges(state, workload)
    limits.enforce_limits(state, workload)
    if tally.leaving:
        eviction.leave_together(state, workload)
    owner_starts.follow_owner(state, workload)
    checks.follow_checks(state, workload)
    before = workload.phase
    _follow_phase(state, workload)
    provisioning.settle(state, workload)
    member_loss.follow_losses(state, workload)
    limits.watch_limits(state, workload)
    scale_down.follow_protection(state, workload)
    quota_usage.describe_holder(state, workload)
    quota_usage.note_exposure(state, workload)
    if before is _WAITING and workload.phase in ADMITTED:
        state.touch(workload.key)  # found running: what it may not do has not been looked at yet


def _follow_phase(state: LifecycleState, workload: Workload) -> None:
    """Do what is to be done in the phase that a workload is in."""
    phase = workload.phase
    if phase is _WAITING:
        _reconcile_waiting(state, workload)
    elif phase is _BINDING:
        _reconcile_binding(state, workload)
    elif phase is Phase.CHECKING:
        pass  # it waits for answers, which have been looked at
    elif phase is Phase.RESERVED:
        _reconcile_reserved(state, workload)
    elif phase is Phase.LEAVING:
        _reconcile_leaving(state, workload)
    else:
        _reconcile_scheduled(state, workload)
        _send_again(state, workload)
        if workload.ask_at:
            if not workload.leaves_by_pod:
                eviction.keep_needed(workload)
            eviction.ask_to_leave(state, workload)


def start(state: LifecycleState, workload: Workload) -> bool:
    """Have a workload bound that has just got quota and nodes, or held until it may be.

    Returns:
        Whether its members are on their way.
    """
    is_whole = reservation.all_there(workload) or early_starts.may_start_early(workload)
    if workload.phase is _WAITING and not is_whole:
        reservation.await_members(state, workload)
        owner_starts.ask_to_start(state, workload)
        return False
    if not permits.may_bind(state, workload):
        return False
    binding.send_binds(state, workload)
    return workload.phase not in permits.STARTING  # else it waits for volumes, and says so


def next_held_due(state: LifecycleState) -> float | None:
    """Return when what holds reservations must be looked at again, Unix seconds; None: not at all."""
    times = (
        permits.next_permit_due(state),
        device_objects.next_late_due(state),
        next_telling_due(state),
        next_claim_due(state),
        card_binds.next_answer_due(state),
    )
    return min((time for time in times if time is not None), default=None)


def take_due(state: LifecycleState) -> list[Workload]:
    """Return the workloads whose deadline has passed; look again at those with something else to do or tell."""
    device_objects.pass_time(state)
    free_claims_of_ended(state)
    remove_left_over(state)
    watch_pools(state)
    watch_bound_claims(state)
    card_binds.look_again(state)
    out = []
    for workload in state.timers.take_due(state.now):
        if workload.deadline is not None and workload.deadline <= state.now:
            out.append(workload)
            state.nominations.touched.add(workload.key)
        if workload.report_at is not None and workload.report_at <= state.now:
            workload.report_at = None
            state.touch(workload.key)
        if workload.alarm is not None and workload.alarm <= state.now:
            workload.alarm = None  # set anew where it is looked at
            state.touch(workload.key)
        if 0 < workload.not_before <= state.now:
            workload.not_before = 0.0
            state.touch(workload.key)
        state.timers.settle(workload, state.now)
    return out


def _time_out_claims(state: LifecycleState, workload: Workload) -> bool:
    """Give back what waits for claims that were not bound in time; returns whether anything did."""
    awaits_volumes, awaits_devices = volumes.awaits_volumes(state, workload), devices.awaits_devices(state, workload)
    if awaits_volumes:
        volumes.time_out_volumes(state, workload)
    if awaits_devices:
        devices.time_out_devices(state, workload)
    awaits_turn = workload.phase is Phase.RESERVED and card_binds.has_turns(state, workload)
    if awaits_turn:
        card_binds.time_out_turns(state, workload)
    return awaits_volumes or awaits_devices or awaits_turn


def expire(state: LifecycleState, workload: Workload) -> None:
    """Do what is due when a workload's deadline has passed; binds that are still out are waited for.

    Those of which nobody knows what became are not sent again for a gang that is bound in part: it is given up, and who
    may be on a node after all leaves as well.
    """
    if workload.deadline is None or state.now < workload.deadline:
        return
    if workload.held_since is not None:
        checks.time_out(state, workload)
        state.touch(workload.key)
        return
    if workload.phase is Phase.RESERVED:
        workload.in_vain_at = state.now
    awaited = _time_out_claims(state, workload)
    if workload.phase is Phase.RESERVED and workload.key in state.plugin_holds:
        permits.time_out_permit(state, workload)
    elif permits.awaits_approval(workload):
        permits.time_out_approval(state, workload)
    elif workload.phase is Phase.RESERVED:
        reservation.time_out_members(state, workload)
        owner_starts.give_up_start(state, workload)
    elif workload.phase is Phase.BINDING and not _awaits_binds(workload):
        if not (awaited and reservation.go_on_with_window(state, workload, in_vain=True)):
            _end_bind_window(state, workload)
    elif not awaited:
        return
    state.touch(workload.key)


def _end_bind_window(state: LifecycleState, workload: Workload) -> None:
    """Do what is due when the bind window of a workload is over."""
    if workload.counts().bound and early_starts.awaits_late_members(workload):
        early_starts.time_out_late_members(state, workload)
    elif workload.counts().bound and _has_no_sizes(state, workload):
        workload.deadline = None  # nobody says how many it needs, so what runs is left alone until somebody does
        limits.note_start(state, workload)
    elif workload.counts().bound and workload.keeps_trying:
        binding.keep_trying(state, workload)
    elif workload.counts().bound:
        binding.roll_back(state, workload)
    else:
        reservation.break_up(state, workload)


def _awaits_binds(workload: Workload) -> bool:
    """Whether binds are out whose answers decide what becomes of a workload at the end of its bind window."""
    assumed = [member for member in workload.members() if member.pod.assumed]
    given_up = workload.counts().bound and not (workload.keeps_trying or early_starts.awaits_late_members(workload))
    return any(member.sent for member in assumed) if given_up else bool(assumed)


def wants_nodes(workload: Workload) -> bool:
    """Whether it stands in a queue: one that waits, or that runs and has, or is promised, members without a node."""
    if workload.phase in _WANTING_NOTHING:
        return False
    if workload.phase is _WAITING:
        return True
    return workload.counts().waiting > 0 or lacks_room(workload)


def lacks_room(workload: Workload) -> bool:
    """Whether a gang runs that keeps room for members which are yet to be made, and has too little of it."""
    if workload.phase is not _BINDING or workload.style is not _WITH_ROOM:
        return False
    return any(
        group.promised is not None and group.missing > len(group.holds) + group.counts().waiting
        for group in workload.groups.values()
    )


def is_gone(state: LifecycleState, workload: Workload) -> bool:
    """Whether nothing is left of a workload: no member, no hold, no object."""
    for group in workload.groups.values():
        if group.members or group.holds:
            return False
    return workload.managed is None and not state.catalog.stands_alone(workload.key)


def _reconcile_waiting(state: LifecycleState, workload: Workload) -> None:
    if workload.style is not None:
        early_starts.end_patience(state, workload)
    if workload.evicted is not None:
        eviction.forgo_lost_members(workload)
    tally = workload.counts()
    if workload.was_finished and tally.live and not workload.decided:
        workload.was_finished = workload.was_scheduled = False  # these are another run's
        workload.outcome = ""
        workload.ran = 0.0
    decided = workload.decided or workload.was_scheduled or tally.succeeded + tally.failed >= workload.required
    if decided and _has_ended(workload, tally):
        workload.was_scheduled = workload.was_scheduled or workload.brought_together
        _finished(state, workload)
    elif workload.was_finished and _is_empty(tally):
        _finished(state, workload)
    elif workload.complete or (workload.was_scheduled and tally.bound) or is_found_degraded(workload):
        _scheduled(state, workload)
    elif tally.bound:
        # Found bound in part, as a crash in the middle of binding leaves it: complete it, or take it out.
        binding.open_bind_window(state, workload)


def _reconcile_reserved(state: LifecycleState, workload: Workload) -> None:
    reservation.hand_over_holds(state, workload)
    reservation.trim_holds(state, workload)
    if not reservation.is_whole(state, workload) or workload.problem is not None:
        reservation.break_up(state, workload)
    elif (reservation.all_there(workload) or early_starts.may_start_early(workload)) and permits.may_bind(
        state, workload
    ):
        binding.send_binds(state, workload)


def _reconcile_binding(state: LifecycleState, workload: Workload) -> None:
    early_starts.hand_over_late(state, workload)
    tally = workload.counts()
    if workload.complete or workload.brought_together:
        _scheduled(state, workload)
        _send_again(state, workload)
    elif not tally.placed and not tally.reserved:
        reservation.break_up(state, workload)
        workload.running_since = None
        _reconcile_waiting(state, workload)
        state.touch(workload.key)  # whom it may count on that is not made yet is another question while it waits
    else:
        limits.note_first_members(state, workload)
        if early_starts.keeps_room(workload):
            workload.deadline = None
            state.keeping_room[workload.key] = workload
        elif workload.deadline is None and not _has_no_sizes(state, workload):
            state.set_deadline(workload, state.configuration.bind_window_seconds)
        elif workload.window_left is not None and not _awaits_claims(state, workload):
            reservation.go_on_with_window(state, workload)
        _send_again(state, workload)
        early_starts.explain_kept_nodes(state, workload)


def _has_no_sizes(state: LifecycleState, workload: Workload) -> bool:
    """Whether nobody says how large it is: what its members name is not there, or what owns them cannot be read.

    An object of ours that cannot be read is there.
    """
    if any(isinstance(member.owned.gang, UnusableOwner) for member in workload.members()):
        return True
    missing = workload.problem is not None and state.catalog.find(workload.key) is None
    return missing and workload.key not in state.catalog.broken


def _send_again(state: LifecycleState, workload: Workload) -> None:
    """Send binds again of which nobody knows whether they took effect, after a while."""
    if state.now >= workload.not_before and any(m.pod.assumed and not m.sent for m in workload.members()):
        binding.send_binds(state, workload)


def _reconcile_leaving(state: LifecycleState, workload: Workload) -> None:
    if eviction.go_on_leaving(state, workload):
        transit(workload, Transition.LEFT)
        workload.was_scheduled = False
        _reconcile_waiting(state, workload)


def _reconcile_scheduled(state: LifecycleState, workload: Workload) -> None:
    """Keep a workload scheduled while it runs; once nothing of it does, it is over or starts again as a whole."""
    reservation.release_all_holds(state, workload)  # all that it needs is there, and who comes later finds his own room
    tally = workload.counts()
    if _has_ended(workload, tally) or (workload.was_finished and _is_empty(tally)):
        _finished(state, workload)
    elif tally.bound or workload.complete or awaits_successors(workload):
        transit(workload, _RUN_ON)
        workload.was_finished, workload.outcome = False, ""
        limits.note_start(state, workload)
    else:
        workload.running_since = None
        transit(workload, Transition.START_ANEW)
        workload.was_scheduled = workload.was_finished = False
        workload.outcome = ""
        workload.forget_ended()
    if not tally.waiting:
        explain(workload, None)


def _has_ended(workload: Workload, tally: MemberCounts) -> bool:
    """Whether all members have ended, or those that decide; what failed because it was taken out is no end."""
    if workload.decided:
        return True
    if tally.live or tally.leaving:
        return False
    if (
        tally.lost
        and not workload.complete
        and any(m.pod.counted is PodPhase.LOST and not m.over for m in workload.members())
    ):
        return False  # nobody knows of these how they end
    if workload.evicted is not None:
        return workload.complete
    return tally.succeeded + tally.failed > 0


def _finished(state: LifecycleState, workload: Workload) -> None:
    """Note that it has ended; it stays so when its members are cleaned up, until others come. The rest may go."""
    if workload.phase is not Phase.FINISHED:
        tally = workload.counts()
        ran, ended = workload.running_for(state.now), tally.succeeded + tally.failed
        how = "Succeeded" if workload.has_succeeded else "Failed"
        if not workload.was_finished:  # else its object has said how, and perhaps no member is left by now
            workload.outcome = how
        state.reached(workload, LifecycleStep.FINISHED, seconds=ran, pods=ended, reason=how)
    left = [m for m in workload.members() if m.pod.node and not m.pod.terminated and m.leave is None]
    if left:
        text = f"{workload.name} has succeeded (successPolicy)"
        eviction.evict_members(state, workload, left, "WorkloadSucceeded", text)
    reservation.give_back_all(state, workload)
    transit(workload, Transition.FINISH)
    workload.was_finished = True
    workload.forget_ended()
    workload.evicted = workload.running_since = workload.short_since = None
    workload.placed_singly = False


def _is_empty(tally: MemberCounts) -> bool:
    """Whether no member is left that anybody counts on."""
    return not (tally.live or tally.leaving or tally.succeeded or tally.failed)


def _awaits_claims(state: LifecycleState, workload: Workload) -> bool:
    return volumes.awaits_volumes(state, workload) or devices.awaits_devices(state, workload)


def _scheduled(state: LifecycleState, workload: Workload) -> None:
    was_bound = workload.phase is _BINDING
    bound_by_us = was_bound and not workload.was_scheduled
    transit(workload, _COMPLETE)
    if was_bound:
        losses.note_brought(state, workload)
    elif workload.was_scheduled:
        losses.recall_had(workload)
    explain(workload, None)
    if not _awaits_claims(state, workload):  # of members beyond those that had to be bound
        workload.deadline = None
    workload.was_scheduled, workload.attempts, workload.not_before, workload.in_vain_at = True, 0, 0.0, 0.0
    eviction.count_lost_members_again(workload)
    if bound_by_us:
        bound = [m.pod.node for m in workload.members() if m.pod.node and not m.over]
        nodes, count = sorted(set(bound)), len(bound)
        where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
        whole = "" if workload.key[0] == "Pod" else "1 pod of " if count == 1 else f"all {count} pods of "
        state.reached(workload, _STEP_SCHEDULED, seconds=reservation.held_seconds(state, workload), pods=count)
        state.announce(workload, "Normal", "Scheduled", f"Successfully assigned {whole}{workload.name} to {where}")
    _reconcile_scheduled(state, workload)
