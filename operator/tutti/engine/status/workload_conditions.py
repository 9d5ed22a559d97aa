"""The conditions of workloads, and the one of a gang that another project's object describes.

Types and reasons of conditions are Kueue's (0.20, apis/kueue/v1beta2) where it has them. `Admitted` is false from the
moment that a workload is taken out, `QuotaReserved` only when its last member has gone: until then it uses quota. The
pod group of another project is told by one condition whether it has been scheduled: that of the native API, by its
rules (Kubernetes 1.36): true for good once the required members have been bound together; before that false with why
not, except while members are still missing, when nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tutti.api import conditions as cond
from tutti.api.conditions import Json, Status, condition_json
from tutti.api.messages import HAS, agreeing
from tutti.engine.lifecycle.member_loss import describe_degraded
from tutti.engine.records.decisions import PatchStatus
from tutti.engine.records.explanation import PASSING, EvictionReason, Gate
from tutti.engine.records.members import MemberCounts
from tutti.engine.records.workloads import ADMITTED, Phase, Workload
from tutti.engine.status import StatusState

AT_ONCE = frozenset(
    {
        EvictionReason.PREEMPTED.value,
        EvictionReason.MEMBER_LOST.value,
        EvictionReason.MOVED.value,
    }
)
"""Reasons after which a workload is queued again without waiting for anything."""


def conditions_of(state: StatusState, workload: Workload) -> list[Json]:
    """Return what the conditions of a workload's object should say now; those that say nothing new may be left out."""
    told = {known["type"]: known for known in workload.status.get("conditions", [])}
    ended = workload.phase is Phase.FINISHED
    if ended and told.get("Finished", {}).get("status") == "True":
        return []  # how it ended stays true when its pods are cleaned up
    is_told = {kind: known["status"] == "True" for kind, known in told.items()}
    said = [*_progress(workload, is_told), *_eviction(state, workload, told)]
    found = [
        condition_json(kind, status, reason, text, generation=workload.generation)
        for kind, status, reason, text in said
    ]
    for one in found:
        if (one["type"], one["status"]) == ("Scheduled", "True") and workload.running_since is not None:
            one[cond.SINCE] = cond.timestamp(workload.running_since)  # its object may be younger than its run
    return found


Said = tuple[str, Status, str, str]
"""Type, status, reason and message."""


def _condition(kind: str, so: bool, reason: str, message: str = "") -> Said:
    return kind, "True" if so else "False", reason, message


def _progress(workload: Workload, told: dict[str, bool]) -> Iterator[Said]:
    tally, ended = workload.counts(), workload.phase is Phase.FINISHED
    admitted = workload.phase in ADMITTED or ended
    if workload.key[0] == "Workload":
        reason, message = ("Admitted", "") if admitted else _reason(workload)
        leaving = workload.phase is Phase.LEAVING
        so = admitted or leaving or workload.held_since is not None
        yield _condition("QuotaReserved", so, "QuotaReserved" if so else reason, "" if so else message)
        yield _condition("Admitted", admitted, reason, message)
    elif workload.round or "QuotaReserved" in told:  # of a gang, where quota may be held without nodes
        so = admitted or workload.phase is Phase.LEAVING or workload.held_since is not None
        reason, message = _reason(workload)
        yield _condition("QuotaReserved", so, "QuotaReserved" if so else reason, "" if so else message)
    scheduled = workload.was_scheduled and workload.phase in (Phase.SCHEDULED, Phase.FINISHED)
    reason, message = ("Scheduled", _together(workload, tally, workload.required)) if scheduled else _reason(workload)
    yield _condition("Scheduled", scheduled, reason, message)
    ready = scheduled and workload.ready
    if workload.degraded_since is not None:
        yield _condition(
            "Degraded", so=True, reason=EvictionReason.MEMBER_LOST.value, message=describe_degraded(workload)
        )
    elif "Degraded" in told:
        whole = workload.phase is Phase.SCHEDULED and workload.complete
        yield _condition("Degraded", so=False, reason="WholeAgain" if whole else "NotRunning")
    waits_for = "WaitForRecovery" if scheduled and workload.was_ready else "WaitForStart"
    yield _condition("PodsReady", ready, "PodsReady" if ready else waits_for)
    if ended:
        text = f"{tally.succeeded} succeeded, {tally.failed} failed"
        yield _condition("Finished", so=True, reason="Succeeded" if workload.has_succeeded else "Failed", message=text)
    elif "Finished" in told:
        yield _condition("Finished", so=False, reason="Revived", message="new members have come")


def _eviction(state: StatusState, workload: Workload, told: dict[str, dict[str, str]]) -> Iterator[Said]:
    """Say why a workload was taken out; once it is admitted again, that it was."""
    holds = workload.phase in ADMITTED or workload.held_since is not None
    why = None if holds else workload.evicted
    for kind in ("Evicted", "Preempted"):
        before = told.get(kind, {})
        if why is not None and (kind == "Evicted" or why.preempted):
            yield _condition(
                kind, so=True, reason=why.preempted if kind == "Preempted" else why.reason, message=why.message
            )
        elif before.get("status") == "True":
            yield _condition(kind, so=False, reason="QuotaReserved", message=f"Previously: {before.get('message', '')}")
    if workload.deactivated:
        text = why.message if why is not None else ""
        yield _condition("DeactivationTarget", so=True, reason=workload.deactivated, message=text)
    elif told.get("DeactivationTarget", {}).get("status") == "True":
        yield _condition("DeactivationTarget", so=False, reason="Deactivated", message="spec.active is false")
    if why is not None:
        reason = _requeued_by(state, workload, why.reason)
        yield _condition(
            "Requeued", so=bool(reason), reason=reason or why.reason, message="" if reason else why.message
        )
    elif told.get("Requeued", {}).get("status") == "False":
        yield _condition(
            "Requeued", so=True, reason=_requeued_by(state, workload, told["Requeued"]["reason"]) or "Admitted"
        )


def _requeued_by(state: StatusState, workload: Workload, why: str) -> str:
    """Return what has put a workload that was taken out back into its queue; "" while nothing has."""
    if why in AT_ONCE:
        return why
    if workload.phase is Phase.LEAVING or workload.not_before > state.now or not workload.active:
        return ""
    if why == EvictionReason.CLUSTER_QUEUE_STOPPED:
        queue = state.catalog.queues.get(state.leads_to(workload.key[1], workload.queue))
        return "" if queue is not None and queue.hold else "ClusterQueueRestarted"
    if why == EvictionReason.LOCAL_QUEUE_STOPPED:
        local = state.catalog.local_queue(workload.key[1], workload.queue)
        return "" if local is not None and local.hold else "LocalQueueRestarted"
    return "Reactivated" if why.startswith(EvictionReason.DEACTIVATED) else "BackoffFinished"


def _together(workload: Workload, tally: MemberCounts, required: int) -> str:
    if workload.complete or workload.phase is Phase.FINISHED:
        return "all required members have a node"
    have = f"{tally.placed} of {required} {agreeing(tally.placed, HAS)}"
    return f"all required members have had a node; {have} one now"


def _reason(workload: Workload) -> tuple[str, str]:
    """Return why a workload is not admitted or scheduled: what it was told, or where that is nothing yet, its state.

    What is over in a moment is said without numbers: these would be written again with each try.
    """
    why, now = workload.reported_explanation, workload.explanation
    if why is not None:
        return why.reason, why.plain
    if workload.phase is Phase.LEAVING:
        evicted = workload.evicted
        return ("Leaving", "its members are leaving") if evicted is None else (evicted.reason, evicted.message)
    if now is not None and now.reason in PASSING:
        return now.reason, PASSING[now.reason]
    return "Binding", "its members are being bound"


SCHEDULED = (Phase.SCHEDULED, Phase.FINISHED)


def report_gang_condition(state: StatusState, workload: Workload) -> None:
    """Write the condition of the object that a gang is described by, where it has one and says otherwise."""
    gang = workload.gang
    if gang is None or not gang.condition:
        return
    told: Mapping[str, Any] = next((one for one in gang.conditions if one.get("type") == gang.condition), {})
    if workload.gang_told is not None and workload.gang_told[0] == gang.uid:
        told = workload.gang_told[1]  # what was written may not have been seen yet
    said = _gang_condition(workload, gang.condition, gang.generation)
    if said is None or told.get("status") == "True" or {**told, cond.SINCE: ""} == said:
        return
    others = [one for one in gang.conditions if one.get("type") != gang.condition]
    conditions = cond.merge_conditions([*others, *([told] if told else [])], [said], now=state.now)
    workload.gang_told = (gang.uid, conditions[-1])
    about = (gang.namespace, gang.name, gang.uid)
    state.out.append(PatchStatus("PodGroup", *about, {"conditions": conditions}, api_version=gang.api_version))


def _gang_condition(workload: Workload, kind: str, generation: int) -> cond.Json | None:
    if workload.was_scheduled and workload.phase in SCHEDULED:
        text = "all required members have a node"
        return cond.condition_json(kind, "True", "Scheduled", text, generation=generation)
    why = workload.reported_explanation
    if why is None or why.gate is Gate.GATHER:
        return None
    note = f" ({workload.gang.note})" if workload.gang is not None and workload.gang.note else ""
    text = f"{why.reason}: {why.plain}{note}"
    return cond.condition_json(kind, "False", "Unschedulable", text, generation=generation)
