"""When a workload has to leave by rules of its own or of its queue, and until when it may not be made to.

It leaves when it is set inactive, when its queue is drained, when it has run as long as it may, and when it is not
ready, or not ready again, in time. Rules: Kueue 0.20 (pkg/controller/core, KEP-349 and KEP-3125 on requeuing and
execution time, concepts on stop policies). Two of its clocks start elsewhere: Kueue counts from admission, because it
does not know when pods are placed; here both times begin when the required members have been bound or, of a gang that
keeps room for members yet to be made, when the first of the others have.
"""

from __future__ import annotations

import math
from typing import Final

from tutti.api.kinds import Workload as WorkloadObject
from tutti.api.messages import IS, agreeing, counted
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.lifecycle.eviction import ask_to_deactivate, deactivate, evict
from tutti.engine.lifecycle.losses import describe_failed, name_of_ended
from tutti.engine.records.explanation import SET_INACTIVE, DeactivationCause, EvictionReason
from tutti.engine.records.members import Member
from tutti.engine.records.observations import Deactivated
from tutti.engine.records.workloads import ADMITTED, GangStyle, Phase, Workload
from tutti.quota.ordering import SPREAD, backoff_seconds

_BINDING: Final = Phase.BINDING
_SCHEDULED: Final = Phase.SCHEDULED
_WITH_ROOM: Final = GangStyle.WITH_ROOM


def read_limits(workload: Workload, found: WorkloadObject) -> None:
    """Take over from a Workload object whether it is active, how long it may take, and how it is requeued.

    One that is set active again starts anew: its evictions and the time it has run are forgotten.
    """
    spec = found.spec
    seen = workload.inactive_from is not None and 0 < workload.inactive_from <= found.metadata.generation
    if workload.deactivated and (seen or not spec.active):
        workload.deactivated, workload.inactive_from = "", None
    active = spec.active and not workload.deactivated
    if active and not workload.active:
        workload.requeues, workload.ran, workload.attempts, workload.not_before = 0, 0.0, 0, 0.0
        workload.in_vain_at = 0.0
    workload.active, workload.requeue = active, spec.requeue
    workload.decisive = tuple(spec.success_policy.pod_groups) if spec.success_policy else ()
    workload.fails_with_members = spec.failure_policy.on_member_failure == "Deactivate"
    workload.ready_seconds, workload.limit_seconds = spec.ready_timeout_seconds, spec.maximum_execution_time_seconds
    workload.limit_by = ""


def limit_by_queue(state: LifecycleState, workload: Workload) -> None:
    """Have a workload run for as long as its queue's default says, where neither it nor an owner says how long.

    That is the last that is read of how long it may run.
    """
    if workload.limit_seconds is None and workload.queue:
        default = state.catalog.default_limit(workload.key[1], workload.queue, workload.cluster_queue)
        if default is not None:
            workload.limit_seconds, workload.limit_by = default.seconds, default.said_by
    _keep_to_limit(state, workload)


def _keep_to_limit(state: LifecycleState, workload: Workload) -> None:
    """Let what is admitted run for no longer than it said, where heads are promised when that ends.

    It may have been let by for that. Its queue's default is its administrator's, who may raise it.
    """
    known, by = workload.limit_kept
    workload.limit_stands = False
    if known is not None and workload.phase in ADMITTED and state.catalog.reserving and not (by and workload.limit_by):
        said = workload.limit_seconds
        if said is None or said > known:
            workload.limit_seconds, workload.limit_by, workload.limit_stands = known, by, True
    workload.limit_kept = workload.limit_seconds, workload.limit_by


def enforce_limits(state: LifecycleState, workload: Workload) -> None:
    """Take a workload out that may not go on."""
    if workload.deactivated and workload.inactive_from is None and workload.ask_at <= state.now:
        workload.inactive_from = 0
        ask_to_deactivate(state, workload)
    if workload.held_since is not None:
        stopped = _stopped(state, workload)
        if stopped is not None:
            evict(state, workload, *stopped)
        return
    if workload.phase not in ADMITTED:
        return
    if workload.evicted is not None:
        workload.evicted, workload.began = None, state.now  # it has been admitted since
    stopped = _stopped(state, workload)
    failed = _failed(workload) if workload.fails_with_members else None
    if stopped is not None:
        evict(state, workload, *stopped)
    elif failed is not None:
        text = f"its member {name_of_ended(failed)} has failed (failurePolicy){SET_INACTIVE}"
        deactivate(state, workload, DeactivationCause.MEMBER_FAILED, text)
    elif _counts_time(workload):
        _enforce_times(state, workload)


def watch_limits(state: LifecycleState, workload: Workload) -> None:
    """Note since when a workload is not ready, and have it looked at when one of its times is over."""
    if workload.limit_seconds is not None and ends_at(state, workload) is not None:
        state.ending[workload.key] = workload
    else:
        state.ending.pop(workload.key, None)
    _note_expected(state, workload)
    if not _counts_time(workload):
        if workload.not_before:  # it may have been found so, and another clock may have said so
            workload.not_before = min(workload.not_before, state.now + _longest_backoff(state, workload))
            state.timers.add(workload)
        if workload.ask_at > state.now:
            state.set_alarm(workload, workload.ask_at)
        return
    if workload.limit_seconds is None and workload.ready_seconds is None:
        return
    if workload.ready_seconds is not None:
        if workload.ready:
            workload.unready_since, workload.was_ready = None, True
        elif workload.unready_since is None:
            workload.unready_since = state.now
    for end in (_execution_ends(workload), _readiness_ends(workload)):
        if end is not None:  # one that has passed already, while nobody looked, is enforced in this turn
            state.set_alarm(workload, end)


def _longest_backoff(state: LifecycleState, workload: Workload) -> float:
    """Return for how many seconds a workload may be put off at most; what checks ask for has a bound of its own."""
    by_check = workload.evicted is not None and workload.evicted.reason == EvictionReason.ADMISSION_CHECK
    if by_check or workload.checks or workload.provisioning:
        return math.inf
    most = max(state.configuration.backoff.max_seconds, workload.requeue.backoff_max_seconds)
    return most * (1 + SPREAD)


def _note_expected(state: LifecycleState, workload: Workload) -> None:
    """Note whether it is known how long a workload that has quota and room is expected to take."""
    if workload.flavor_seconds and workload.phase in ADMITTED:
        state.expected[workload.key] = workload
    elif state.expected:
        state.expected.pop(workload.key, None)


def note_first_members(state: LifecycleState, workload: Workload) -> None:
    """Have the times of a gang begin that keeps room for members yet to be made: when the first of the others ran.

    Whoever makes its members may never make the rest of them, and the room is kept meanwhile.
    """
    if workload.running_since is None and workload.style is GangStyle.WITH_ROOM and workload.counts().bound:
        started = [member.pod.started for member in workload.members() if member.pod.node and not member.over]
        workload.running_since = min([state.now, *(at for at in started if at is not None)])


def note_start(state: LifecycleState, workload: Workload) -> None:
    """Have the times of a workload begin that runs whole: now, or when as many as it needs had been taken over.

    Who is found running is told by his pods alone where he has no object, or one that somebody has made anew.
    """
    if workload.running_since is None:
        times = [math.inf if m.pod.started is None else m.pod.started for m in workload.members() if _runs(m)]
        needed = sorted(times)[: max(1, workload.required)]
        workload.running_since = min(state.now, max(needed, default=state.now))


def _runs(member: Member) -> bool:
    return bool(member.pod.node) and not (member.over or member.pod.terminated)


def _counts_time(workload: Workload) -> bool:
    """Whether the times of a workload run: it has started whole, keeps room for the rest of it, or has none to come."""
    if workload.phase is _BINDING:
        return workload.running_since is not None and (workload.style is _WITH_ROOM or workload.deadline is None)
    return workload.phase is _SCHEDULED


def deactivate_finished(state: LifecycleState, result: Deactivated) -> None:
    """Take in what became of a Deactivate; one that failed is asked for again after a while."""
    workload = state.workloads.get(("Workload", result.namespace, result.name))
    if workload is None or workload.uid != result.uid or not workload.deactivated:
        return
    if result.generation:
        workload.inactive_from = result.generation
    else:
        workload.inactive_from = None
        workload.refusals += 1
        backoff = state.configuration.backoff
        pause = backoff_seconds(workload.refusals, state.random, base=backoff.base_seconds, most=backoff.max_seconds)
        workload.ask_at = state.now + pause
    state.touch(workload.key)


def ends_at(state: LifecycleState, workload: Workload) -> float | None:
    """Return when a workload that has quota and room ends at the latest, Unix seconds; None where nobody knows.

    One that is yet to be bound is taken to begin now or, while it waits for members, when it may not wait any longer.
    Its pods take a moment more to end than this says.
    """
    if workload.limit_seconds is None or not (workload.phase in ADMITTED or workload.held_since is not None):
        return None
    end = _execution_ends(workload)
    if end is not None:
        return end
    holds = workload.phase is Phase.RESERVED or workload.held_since is not None
    waits = holds and workload.deadline is not None
    since = max(state.now, workload.deadline or 0.0) if waits else state.now
    return since + workload.limit_seconds - workload.ran


def _stopped(state: LifecycleState, workload: Workload) -> tuple[EvictionReason, str] | None:
    """Return why a workload may not stay though it has done nothing wrong; None where it may.

    What only holds a reservation leaves a queue that is on hold, too.
    """
    if not workload.active:
        return EvictionReason.DEACTIVATED, "spec.active was set to false"
    if not workload.queue:
        return None
    reserved = workload.phase is Phase.RESERVED or workload.held_since is not None
    namespace = workload.key[1]
    queue = state.catalog.queues.get(workload.cluster_queue or state.leads_to(namespace, workload.queue))
    if queue is not None and (queue.drain or (queue.hold and reserved)):
        return EvictionReason.CLUSTER_QUEUE_STOPPED, f"ClusterQueue {queue.name} is stopped by its stopPolicy"
    local = state.catalog.local_queue(namespace, workload.queue)
    if local is not None and (local.drain or (local.hold and reserved)):
        return (
            EvictionReason.LOCAL_QUEUE_STOPPED,
            f"LocalQueue {namespace}/{workload.queue} is stopped by its stopPolicy",
        )
    return None


def _failed(workload: Workload) -> Member | None:
    """Return a member that has failed in this run; one that the kubelet took over before it belongs to another."""
    for member in workload.members():
        if member.pod.phase == "Failed" and not _is_earlier(workload, member) and not member.evicting:
            return member
    return None


def _enforce_times(state: LifecycleState, workload: Workload) -> None:
    if workload.running_since is not None:  # it may be another clock that says so
        workload.running_since = min(workload.running_since, state.now)
    if workload.unready_since is not None:
        workload.unready_since = min(workload.unready_since, state.now)
    end = _execution_ends(workload)
    if end is not None and end <= state.now:
        of = f"the defaultMaximumExecutionTimeSeconds of {workload.limit_by}"
        of = of if workload.limit_by else "its maximumExecutionTimeSeconds"
        of += " as it was when it was admitted" if workload.limit_stands else ""
        then = SET_INACTIVE if workload.key[0] == "Workload" else "; it is not started again"
        text = f"it has run for {workload.limit_seconds} s, {of}{then}"
        deactivate(state, workload, DeactivationCause.MAXIMUM_EXECUTION_TIME_EXCEEDED, text)
        return
    end = _readiness_ends(workload)
    if end is not None and end <= state.now and not workload.ready:
        tally = workload.counts()
        ready, required = tally.ready + tally.succeeded, workload.required
        are = f"{ready} of {counted(required, 'required member')} {agreeing(ready or required, IS)}"
        text = (
            f"{are} ready{' again' if workload.was_ready else ''} after "
            f"{workload.ready_seconds} s (readyTimeoutSeconds){_lost(workload)}"
        )
        evict(state, workload, EvictionReason.PODS_READY_TIMEOUT, text)


def _lost(workload: Workload) -> str:
    """Return which members have failed in this run, as the end of a sentence; "" where none has."""
    return describe_failed(
        [name_of_ended(m) for m in workload.members() if m.pod.phase == "Failed" and not _is_earlier(workload, m)]
    )


def _is_earlier(workload: Workload, member: Member) -> bool:
    """Whether a member belongs to an earlier run: the kubelet took it over before this one began."""
    return member.over or (member.pod.started is not None and member.pod.started < workload.began)


def _execution_ends(workload: Workload) -> float | None:
    if workload.limit_seconds is None or workload.running_since is None:
        return None
    return workload.running_since + workload.limit_seconds - workload.ran


def _readiness_ends(workload: Workload) -> float | None:
    if workload.ready_seconds is None or workload.unready_since is None:
        return None
    return workload.unready_since + workload.ready_seconds
