"""Taking a workload out: its running members are told to leave, and it waits in its queue again, or is set inactive.

`evict` takes a whole workload out, in whatever phase it is: what is reserved is given back at once, what is bound is
asked to leave, what is on its way is asked to leave when it has arrived. It is in phase LEAVING until the last member
has gone, and its quota and room go back member by member as they do. Then it waits as before, from the moment that the
rule for its reason gives. The status tells it by the conditions `Evicted`, `Preempted` and `Requeued`, so that a
successor of this process goes on with it.

What callers may rely on:

- `evict` may be called at any time, also within a try at another workload; the engine settles and reports its victims
  in the same turn. Nothing happens to a workload that has nothing reserved or bound, or is on its way out already:
  ask `can_leave` first where that matters. One that has lost all of its members begins anew all the same.
- Each member is asked once; a request that was refused is repeated with growing pauses. Members end within the grace
  period of their own pods. The decision is `Evict`, which marks the pod as DisruptionTarget before it deletes it.
- Members that are asked to leave keep their quota and room until they have ended.

Reasons, conditions and what follows from them are Kueue's (0.20, pkg/workload, pkg/controller/core), but for
BindWindowOver, MemberLost and Moved, which are ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from tutti.api.messages import IS, counted
from tutti.engine.lifecycle import LifecycleState, owner_starts
from tutti.engine.lifecycle.device_release import give_up_group_claims
from tutti.engine.lifecycle.phases import Transition, explain, transit
from tutti.engine.lifecycle.reservation import give_back_all, note_given_back
from tutti.engine.records.decisions import Deactivate, Evict
from tutti.engine.records.explanation import (
    DeactivationCause,
    EvictionReason,
    Explanation,
    Gate,
    LifecycleEvent,
    LifecycleStep,
)
from tutti.engine.records.members import Member
from tutti.engine.records.workloads import ADMITTED, Workload, WorkloadEviction
from tutti.quota.ordering import backoff_seconds

MOVED_BY_SCHEDULER = "MovedByScheduler"
"""What condition DisruptionTarget says of pods that are moved; disruption budgets are the API server's to keep then."""

_MARKS: dict[str, str] = {
    EvictionReason.PREEMPTED: "PreemptionByScheduler",
    EvictionReason.MOVED: MOVED_BY_SCHEDULER,
    EvictionReason.BIND_WINDOW_OVER: "GangRolledBack",
}
_FOR_OTHERS = (_MARKS[EvictionReason.PREEMPTED], MOVED_BY_SCHEDULER)
_EVENTS = {
    EvictionReason.PREEMPTED: "Preempted",
    EvictionReason.BIND_WINDOW_OVER: "RolledBack",
    EvictionReason.MOVED: "Moved",
}


def can_leave(workload: Workload) -> bool:
    """Whether there is anything to take out: something is reserved or bound, and not on its way out already."""
    if workload.held_since is not None:
        return True
    if workload.phase not in ADMITTED:
        return False
    return any(group.holds for group in workload.groups.values()) or any(m.pod.place for m in workload.members())


def evict(
    state: LifecycleState,
    workload: Workload,
    reason: EvictionReason,
    message: str,
    *,
    preempted: str = "",
    for_queue: str = "",
) -> None:
    """Take a whole workload out; what follows is in the description of this module.

    Args:
        state: The engine's memory.
        workload: What is taken out.
        reason: Why; it decides when the workload is tried again.
        message: The same in words, for people: of a victim, for whom and by which rule it has to leave.
        preempted: With reason PREEMPTED, that of condition `Preempted`: InClusterQueue, InCohortReclamation, ...
        for_queue: With reason PREEMPTED, the ClusterQueue of whom it leaves for, where that has one.
    """
    if not can_leave(workload) and reason is not EvictionReason.MEMBER_LOST:
        return
    if reason is EvictionReason.PODS_READY_TIMEOUT and _is_once_too_often(workload):
        text = (
            f"{message}; it was requeued {counted(workload.requeues, 'time')}, which is its limit, and is set inactive"
        )
        deactivate(state, workload, DeactivationCause.REQUEUING_LIMIT_EXCEEDED, text)
        return
    _take_out(state, workload, WorkloadEviction(reason.value, message, state.now, preempted), for_queue=for_queue)
    if reason is EvictionReason.PODS_READY_TIMEOUT:
        _requeue(state, workload)
    elif reason is EvictionReason.BIND_WINDOW_OVER:
        state.back_off(workload)
        workload.in_vain_at = state.now
    event = _EVENTS.get(reason, f"EvictedDueTo{reason.value}")
    state.announce(workload, "Warning", event, message)


def deactivate(state: LifecycleState, workload: Workload, cause: DeactivationCause, message: str) -> None:
    """Take a whole workload out, and set it inactive: it is not tried again before somebody sets it active.

    What has no object that could be set active is given up: whoever makes its pods may make other ones.
    """
    if not can_leave(workload):
        return
    has_object = workload.key[0] == "Workload"
    if has_object:
        workload.deactivated, workload.inactive_from = cause.value, 0
    else:
        workload.given_up = Explanation(Gate.PLACEMENT, cause.value, message)
    _take_out(state, workload, WorkloadEviction(f"{EvictionReason.DEACTIVATED}DueTo{cause.value}", message, state.now))
    state.announce(workload, "Warning", cause.value, message)
    if has_object:
        ask_to_deactivate(state, workload)


def evict_members(
    state: LifecycleState, workload: Workload, members: Iterable[Member], reason: str, message: str
) -> None:
    """Take out members that their workload can do without: it stays admitted, and its status says nothing of it.

    Args:
        state: The engine's memory.
        workload: What they belong to.
        members: Members beyond those that are required, bound or on their way.
        reason: What their condition DisruptionTarget says, such as PreemptionByScheduler.
        message: The same in words.
    """
    for member in members:
        member.leave = (reason, message)
        if not member.pod.node:
            workload.ask_at = state.now  # it is on its way, and is asked when it has arrived
    ask_to_leave(state, workload)
    state.touch(workload.key)


def keep_needed(workload: Workload) -> None:
    """Have members stay that were to leave as surplus and have not been asked yet, where the gang needs them by now."""
    for group in workload.groups.values():
        going = [m for m in group.members.values() if m.leave is not None and m.leave[0] in _FOR_OTHERS]
        going = [m for m in going if not (m.pod.deleting or m.pod.terminated)]
        tally = group.counts()
        short = group.min_count - (tally.placed - tally.leaving - len(going))
        for member in [m for m in going if not m.evicting][: max(0, short)]:
            member.leave = None


def ask_to_leave(state: LifecycleState, workload: Workload) -> None:
    """Ask each member that must go, and is or may be on a node, to leave; once, and again where that was refused.

    A pod of which nobody knows whether it was bound is asked, too: its end answers the question.
    """
    if state.now < workload.ask_at:
        state.set_alarm(workload, workload.ask_at)
        return
    for member in workload.members():
        pod = member.pod
        there = bool(pod.node) or member.unknown
        if member.leave is not None and there and not (pod.terminated or pod.deleting or member.evicting):
            member.evicting = True
            kept = member.leave[0] == MOVED_BY_SCHEDULER
            state.out.append(Evict(pod.namespace, pod.name, pod.uid, *member.leave, within_budgets=kept))


def leave_together(state: LifecycleState, workload: Workload) -> None:
    """Delete all members of a gang that wants it so once one of them is being deleted (pfnet: DeletedAsPartOfGang)."""
    going = next((m for m in workload.members() if m.pod.deleting and m.claim.leaves_together), None)
    left = [m for m in workload.members() if not (m.pod.terminated or m.pod.deleting or m.evicting)]
    if going is None or not left:
        return
    if state.now < workload.ask_at:
        state.set_alarm(workload, workload.ask_at)
        return
    text = f"member {going.pod.name} of its gang {workload.key[2]} is being deleted"
    for member in left:
        member.leave, member.evicting = member.leave or ("DeletedAsPartOfGang", text), True
        pod = member.pod
        state.out.append(Evict(pod.namespace, pod.name, pod.uid, *member.leave))
    note = f"{counted(len(left), 'pod', verb=IS)} deleted: {text}"
    state.announce(workload, "Warning", "DeletedAsPartOfGang", note)


def eviction_refused(state: LifecycleState, workload: Workload, member: Member) -> None:
    """Note that a member could not be asked to leave; that is done again after a while."""
    member.evicting = False
    backoff = state.configuration.backoff
    if workload.ask_at <= state.now:  # several that were refused together are asked again together
        workload.refusals += 1
        pause = backoff_seconds(workload.refusals, state.random, base=backoff.base_seconds, most=backoff.max_seconds)
        workload.ask_at = state.now + pause
    state.touch(workload.key)


def go_on_leaving(state: LifecycleState, workload: Workload) -> bool:
    """Go on taking a workload out.

    Returns:
        Whether nothing of it is left on nodes, or may come to be there.
    """
    left = [m for m in workload.members() if _is_there(m)]
    give_up_group_claims(state, workload)
    for member in left:
        member.leave = member.leave or _mark(workload)
    if left:
        if not owner_starts.is_suspending(state, workload):
            ask_to_leave(state, workload)
        return False
    for member in workload.members():
        member.leave = None
    workload.refusals, workload.ask_at = 0, 0.0
    return True


def forgo_lost_members(workload: Workload) -> None:
    """Have a workload that was taken out begin again without those of its members that have not been seen to end.

    They were lost, and are not waited for. Their nodes may come back; they end there then, and are none of the others.
    """
    there = [m.pod for m in workload.members() if m.pod.node and not m.pod.terminated]
    if all(pod.deleting for pod in there):
        for pod in there:
            pod.forgone = True
            pod.recount()


def count_lost_members_again(workload: Workload) -> None:
    """Have those counted again, while they end, that a workload was begun without, where their nodes have come back.

    It has what it needs without them, and another process could not tell them from others that are ending.
    """
    for member in workload.members() if workload.counts().lost else ():
        if member.pod.forgone:
            member.pod.forgone = False
            member.pod.recount()


def ask_to_deactivate(state: LifecycleState, workload: Workload) -> None:
    """Have a workload's object say that it is inactive."""
    kind, namespace, name = workload.key
    assert kind == "Workload"  # nothing else can be inactive
    state.out.append(Deactivate(namespace, name, workload.uid))


def _take_out(state: LifecycleState, workload: Workload, eviction: WorkloadEviction, *, for_queue: str = "") -> None:
    ran = workload.running_for(state.now)
    workload.ran += ran
    note_given_back(state, workload)
    said = (ran, workload.counts().bound, eviction.reason, eviction.preempted, for_queue)
    state.lifecycle_events.append(
        LifecycleEvent(LifecycleStep.EVICTED, workload.key, workload.cluster_queue, workload.queue, *said)
    )
    if workload.held_since is not None:
        transit(workload, Transition.HOLD)  # it may have been looking for nodes with it
    give_back_all(state, workload)
    state.plugin_holds.pop(workload.key, None)
    transit(workload, Transition.LEAVE)
    workload.deadline, workload.evicted = None, eviction
    workload.running_since = workload.unready_since = None
    workload.was_ready = False
    explain_leaving(workload, eviction)
    owner_starts.leave(state, workload, eviction.reason, eviction.message)
    go_on_leaving(state, workload)
    state.touch(workload.key)


def explain_leaving(workload: Workload, eviction: WorkloadEviction) -> None:
    """Have a workload told why it leaves."""
    gate = Gate.CHECKS if eviction.reason == EvictionReason.ADMISSION_CHECK else Gate.PERMIT
    explain(workload, Explanation(gate, eviction.reason, eviction.message))


def _is_there(member: Member) -> bool:
    """Whether a member is on a node, or may come to be there though nothing is sent any more.

    One that is lost is not waited for: nobody would say when it has ended.
    """
    if member.pod.node:
        return not (member.pod.terminated or member.pod.lost)
    return member.sent or member.unknown


def _mark(workload: Workload) -> tuple[str, str]:
    """Return reason and message for the members of a workload that is being taken out."""
    eviction = workload.evicted
    assert eviction is not None  # that is what puts it into phase LEAVING
    return _MARKS.get(eviction.reason, eviction.reason), f"{eviction.message} (member of {workload.name})"


def _is_once_too_often(workload: Workload) -> bool:
    limit = workload.requeue.limit
    return workload.key[0] == "Workload" and limit is not None and workload.requeues + 1 > limit


def _requeue(state: LifecycleState, workload: Workload) -> None:
    """Count one more eviction, and do not try the workload again before the backoff that it asks for is over."""
    policy = workload.requeue
    workload.requeues += 1
    wait = backoff_seconds(
        workload.requeues, state.random, base=policy.backoff_base_seconds, most=policy.backoff_max_seconds
    )
    workload.not_before = state.now + wait
    state.timers.add(workload)
