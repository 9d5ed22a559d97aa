"""The conditions of a workload: how far it has come, whether it was taken out, and whether it is queued again.

Types and reasons are Kueue's (0.20, apis/kueue/v1beta2) where it has them. `Admitted` is false from the moment that
a workload is taken out, `QuotaReserved` only when its last member has gone: until then it uses quota.
"""

from __future__ import annotations

from collections.abc import Iterator

from tutti.api.conditions import Json, Status, condition_json
from tutti.api.messages import HAS, agreeing
from tutti.engine.lifecycle.degraded import describe
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.members import Tally
from tutti.engine.records.reasons import Reason
from tutti.engine.records.workloads import ADMITTED, Phase, Workload
from tutti.engine.state import State

AT_ONCE = (Reason.PREEMPTED.value, Reason.NODE_FAILURES.value, Reason.MEMBER_LOST.value)
"""Reasons after which a workload is queued again without waiting for anything."""


def conditions_of(state: State, workload: Workload) -> list[Json]:
    """Return what the conditions of a workload's object should say now; those that say nothing new may be left out."""
    told = {known["type"]: known for known in workload.status.get("conditions", [])}
    ended = workload.phase is Phase.FINISHED
    if ended and told.get("Finished", {}).get("status") == "True":
        return []  # how it ended stays true when its pods are cleaned up
    is_told = {kind: known["status"] == "True" for kind, known in told.items()}
    said = [*_progress(workload, is_told), *_eviction(state, workload, told)]
    return [
        condition_json(kind, status, reason, text, generation=workload.generation)
        for kind, status, reason, text in said
    ]


Said = tuple[str, Status, str, str]
"""Type, status, reason and message."""


def _said(kind: str, so: bool, reason: str, message: str = "") -> Said:
    return kind, "True" if so else "False", reason, message


def _progress(workload: Workload, told: dict[str, bool]) -> Iterator[Said]:
    why, tally, ended = workload.shown, workload.tally(), workload.phase is Phase.FINISHED
    admitted = workload.phase in ADMITTED or ended
    if workload.key[0] == "Workload":
        reason, message = ("Admitted", "") if admitted else _reason(why)
        leaving = workload.phase is Phase.LEAVING
        so = admitted or leaving
        yield _said("QuotaReserved", so, "QuotaReserved" if so else reason, "" if so else message)
        yield _said("Admitted", admitted, reason, message)
    scheduled = workload.was_scheduled and workload.phase in (Phase.SCHEDULED, Phase.FINISHED)
    reason, message = ("Scheduled", _together(workload, tally, workload.required)) if scheduled else _reason(why)
    yield _said("Scheduled", scheduled, reason, message)
    ready = scheduled and workload.ready
    if workload.degraded_since is not None:
        yield _said("Degraded", so=True, reason=Reason.MEMBER_LOST.value, message=describe(workload))
    elif "Degraded" in told:
        whole = workload.phase is Phase.SCHEDULED and workload.complete
        yield _said("Degraded", so=False, reason="WholeAgain" if whole else "NotRunning")
    waits_for = "WaitForRecovery" if scheduled and workload.was_ready else "WaitForStart"
    yield _said("PodsReady", ready, "PodsReady" if ready else waits_for)
    if ended:
        text = f"{tally.succeeded} succeeded, {tally.failed} failed"
        yield _said("Finished", so=True, reason="Succeeded" if workload.has_succeeded else "Failed", message=text)
    elif "Finished" in told:
        yield _said("Finished", so=False, reason="Revived", message="new members have come")


def _eviction(state: State, workload: Workload, told: dict[str, dict[str, str]]) -> Iterator[Said]:
    """Say why a workload was taken out; once it is admitted again, that it was."""
    why = None if workload.phase in ADMITTED else workload.evicted
    for kind in ("Evicted", "Preempted"):
        before = told.get(kind, {})
        if why is not None and (kind == "Evicted" or why.preempted):
            yield _said(kind, so=True, reason=why.preempted if kind == "Preempted" else why.reason, message=why.message)
        elif before.get("status") == "True":
            yield _said(kind, so=False, reason="QuotaReserved", message=f"Previously: {before.get('message', '')}")
    if workload.deactivated:
        text = why.message if why is not None else ""
        yield _said("DeactivationTarget", so=True, reason=workload.deactivated, message=text)
    elif told.get("DeactivationTarget", {}).get("status") == "True":
        yield _said("DeactivationTarget", so=False, reason="Deactivated", message="spec.active is false")
    if why is not None:
        reason = _requeued_by(state, workload, why.reason)
        yield _said("Requeued", so=bool(reason), reason=reason or why.reason, message="" if reason else why.message)
    elif told.get("Requeued", {}).get("status") == "False":
        yield _said("Requeued", so=True, reason=_requeued_by(state, workload, told["Requeued"]["reason"]) or "Admitted")


def _requeued_by(state: State, workload: Workload, why: str) -> str:
    """Return what has put a workload that was taken out back into its queue; "" while nothing has."""
    if why in AT_ONCE:
        return why
    if workload.phase is Phase.LEAVING or workload.not_before > state.now or not workload.active:
        return ""
    if why == Reason.CLUSTER_QUEUE_STOPPED:
        queue = state.catalog.queues.get(state.leads_to(workload.key[1], workload.queue))
        return "" if queue is not None and queue.hold else "ClusterQueueRestarted"
    if why == Reason.LOCAL_QUEUE_STOPPED:
        local = state.catalog.local_queue(workload.key[1], workload.queue)
        return "" if local is not None and local.hold else "LocalQueueRestarted"
    return "Reactivated" if why.startswith(Reason.DEACTIVATED) else "BackoffFinished"


def _together(workload: Workload, tally: Tally, required: int) -> str:
    if workload.complete or workload.phase is Phase.FINISHED:
        return "all required members have a node"
    have = f"{tally.placed} of {required} {agreeing(tally.placed, HAS)}"
    return f"all required members have had a node; {have} one now"


def _reason(why: Explanation | None) -> tuple[str, str]:
    return ("Binding", "its members are being bound") if why is None else (why.reason, why.message)
