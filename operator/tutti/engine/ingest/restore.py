"""A life that this process has not seen, restored from the status of an object."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from tutti.api import resources
from tutti.api.conditions import Condition, find_condition, is_true
from tutti.api.kinds import PodGroup, Workload
from tutti.api.kinds.statuses import HeldAmount, KeptMember
from tutti.engine.ingest import IngestState
from tutti.engine.lifecycle.checks import requeue_at
from tutti.engine.lifecycle.eviction import explain_leaving
from tutti.engine.lifecycle.phases import Transition, transit
from tutti.engine.lifecycle.reservation import release_quota
from tutti.engine.records import workloads
from tutti.engine.records.explanation import PASSED_UP_SINCE, EvictionReason, Explanation, Gate
from tutti.engine.records.members import Charge, HeldQuota, LostMember
from tutti.engine.records.provisioning import Provisioning, ProvisioningStage
from tutti.engine.records.workloads import Phase, WorkloadEviction
from tutti.quota.flavors import VIRTUAL
from tutti.quota.tree import Usage

MOST_LOST = 100_000
"""As many members as a pod group can have, and so can have lost."""


def restore(state: IngestState, workload: workloads.Workload, found: Workload | PodGroup) -> None:
    """Take over from an object that was not known before how far it had come, and an eviction that was under way.

    Quota that it held without nodes it holds again: as much, in the same flavors, since the same time.

    An eviction is known to be unfinished by what its last status said: that quota was still reserved, or, of a
    PodGroup, that it was leaving. One that is finished is remembered for why it waits.
    """
    conditions = found.status.conditions
    if workload.uid:
        _forget(state, workload)
    _restore_run(workload, found)
    evicted = find_condition(conditions, "Evicted")
    workload.began = _since(evicted, "False") or 0.0
    if evicted is not None and evicted.status == "True":
        _restore_eviction(workload, found, evicted)
    else:
        _restore_held(state, workload, found)
    _restore_provisioning(workload, found)
    workload.passed_up_since = _passed_up_since(found)
    if found.status.admission is not None:
        workload.round = max(workload.round, found.status.admission.round)
    if isinstance(found, Workload):
        _restore_requeues(workload, found)
        _restore_inactivity(workload, found)
    workload.degraded_since = _since(find_condition(conditions, "Degraded"), "True")
    workload.losses = [loss for said in found.status.kept for loss in _losses(said)][:MOST_LOST]
    _restore_counts(workload, found)
    _restore_readiness(workload, conditions)


def _restore_run(workload: workloads.Workload, found: Workload | PodGroup) -> None:
    """Take over since when it has run, or how its last run has ended."""
    scheduled = find_condition(found.status.conditions, "Scheduled")
    if scheduled is not None:  # else somebody has made its object anew, and what runs has run for as long as it has
        workload.running_since = _since(scheduled, "True")
    workload.was_scheduled = workload.was_scheduled or (scheduled is not None and scheduled.status == "True")
    finished = find_condition(found.status.conditions, "Finished")
    workload.was_finished = finished is not None and finished.status == "True"
    workload.outcome = finished.reason if finished is not None and workload.was_finished else ""
    workload.ended_before = {one.workload: one.outcome for one in found.status.after}


def _restore_eviction(workload: workloads.Workload, found: Workload | PodGroup, evicted: Condition) -> None:
    """Take over why it was taken out, and go on with that where it is not done."""
    at = _seconds(evicted.last_transition_time)
    preempted = find_condition(found.status.conditions, "Preempted")
    why = preempted.reason if preempted is not None and preempted.status == "True" else ""
    workload.evicted = WorkloadEviction(evicted.reason, evicted.message, at, why)
    if workload.phase is Phase.WAITING and _was_leaving(found):
        transit(workload, Transition.LEAVE_ON)
        explain_leaving(workload, workload.evicted)
    if not isinstance(found, PodGroup):
        return
    if evicted.reason.startswith(EvictionReason.DEACTIVATED):
        cause = evicted.reason.removeprefix(f"{EvictionReason.DEACTIVATED}DueTo")
        workload.given_up = Explanation(Gate.PLACEMENT, cause, evicted.message)
    if evicted.reason == EvictionReason.ADMISSION_CHECK:
        workload.not_before = requeue_at(found.status.admission_checks, at)


def _restore_held(state: IngestState, workload: workloads.Workload, found: Workload | PodGroup) -> None:
    """Have a workload hold the quota again that its status says it holds without nodes."""
    said, since = found.status.admission, find_condition(found.status.conditions, "QuotaReserved")
    if said is None or since is None or since.status != "True" or workload.phase is not Phase.WAITING:
        return
    if workload.held_since is not None or not any(part.held for part in said.pod_groups):
        return
    known = {one.name for one in found.spec.pod_groups} if isinstance(found, Workload) else None
    for part in said.pod_groups:
        usage = {} if known is not None and part.name not in known else _amounts(part.held)
        if usage:
            charge = Charge(said.cluster_queue, dict(part.flavors), usage, workload.name)
            workload.group(part.name).held = HeldQuota(min(max(0, part.count), MOST_LOST), charge)
            state.charge(charge)
            workload.held_since = workload.reserved_at = _seconds(since.last_transition_time)
    if workload.held_since is not None:
        if _had_nodes(found):  # its time to find some has not begun
            workload.held_since = math.inf
        workload.cluster_queue = said.cluster_queue
        transit(workload, Transition.HOLD)


def _had_nodes(found: Workload | PodGroup) -> bool:
    """Whether nodes were reserved for one that holds quota, and not only quota."""
    if isinstance(found, PodGroup):
        return found.status.phase == Phase.RESERVED.value
    return is_true(found.status.conditions, "Admitted")


def _restore_provisioning(workload: workloads.Workload, found: Workload | PodGroup) -> None:
    """Take over which nodes have been asked for; who is to ask again later waits until then."""
    workload.provisioning = [
        Provisioning(
            one.check,
            tuple(one.flavors),
            one.terms,
            one.attempt,
            one.failures,
            ProvisioningStage(one.state),
            one.request,
            one.message,
            _seconds(one.last_transition_time),
            _seconds(one.retry_at),
        )
        for one in found.status.provisioning
    ]
    again = [one.retry_at for one in workload.provisioning if one.stage is ProvisioningStage.FAILED]
    workload.not_before = max([workload.not_before, *again])


def _passed_up_since(found: Workload | PodGroup) -> float | None:
    """Return since when a workload has passed up what it could have had, as its status says; None where it has not."""
    pending = found.status.pending if isinstance(found, Workload) else found.status.pending_reason
    details = [] if pending is None else [one.details for one in pending.reasons]
    return _seconds(next((one[PASSED_UP_SINCE] for one in details if PASSED_UP_SINCE in one), "")) or None


def _amounts(said: Iterable[HeldAmount]) -> Usage:
    """Return quota as a status tells it; nothing where any of it cannot be read."""
    usage: Usage = {}
    for one in said:
        try:
            usage[one.flavor, one.resource] = resources.parse_requests({one.resource: one.amount})[one.resource]
        except resources.AmountError:
            return {}
    return usage


def _forget(state: IngestState, workload: workloads.Workload) -> None:
    """Forget what was its predecessor's: another object has come in its place."""
    if workload.held_since is not None:
        transit(workload, Transition.HOLD)
        release_quota(state, workload)
        transit(workload, Transition.GIVE_BACK)
        workload.deadline = None
    workload.round = workload.checks_round = 0
    workload.checks, workload.checks_told, workload.provisioning = (), (0, ()), ()
    if workload.phase is not Phase.LEAVING:
        workload.evicted = None
    workload.requeues, workload.attempts, workload.not_before, workload.in_vain_at = 0, 0, 0.0, 0.0
    if workload.running_since is None:
        workload.ran = 0.0
    workload.deactivated, workload.inactive_from = "", None


def _losses(said: KeptMember) -> list[LostMember]:
    """Return what a status says is kept for successors; nothing where that cannot be read."""
    try:
        amounts = resources.parse_requests(said.requests)
    except resources.AmountError:
        return []
    loss = LostMember(
        said.pod_group, said.node, {**amounts, VIRTUAL: 1}, said.flavors, said.cluster_queue, recalled=True
    )
    return [loss] * min(max(0, said.count), MOST_LOST)


def _restore_counts(workload: workloads.Workload, found: Workload | PodGroup) -> None:
    """Take over how many members have succeeded and do not exist any more: in this run, or the one before."""
    if workload.was_finished or not (workload.was_scheduled or workload.evicted is not None):
        return
    said: dict[str, tuple[int, int]] = {}
    if isinstance(found, PodGroup):
        status = found.status
        placed = max(0, status.succeeded) + max(0, status.bound) + len(workload.losses)  # as older versions tell it
        workload.had_in_all = min(max(0, status.started or placed), MOST_LOST)
        said[workload.key[2]] = (status.succeeded, workload.had_in_all - max(0, status.succeeded))
    elif found.status.admission is not None:
        said = {one.name: (one.succeeded, one.count) for one in found.status.admission.pod_groups}
    missed = Counter(loss.group for loss in workload.losses)
    known = {one.name for one in found.spec.pod_groups} if isinstance(found, Workload) else workload.groups.keys()
    for name, (succeeded, others) in said.items():
        if name in known:
            group = workload.group(name)  # perhaps none of its members is there any more
            group.ended = max(0, min(succeeded, MOST_LOST) - group.counts().succeeded)
            lost = 0 if isinstance(found, PodGroup) else missed[name]  # which its admission does not count any more
            group.had = min(max(0, succeeded) + max(0, others) + lost, MOST_LOST)


def _restore_requeues(workload: workloads.Workload, found: Workload) -> None:
    """Take over how long it has run in all, and how often and until when it was put off, or given up on."""
    workload.ran = max(workload.ran, float(found.status.accumulated_past_execution_time_seconds))
    if found.status.requeue is not None:
        workload.requeues, workload.attempts = found.status.requeue.count, found.status.requeue.attempts
        workload.not_before = _seconds(found.status.requeue.at)


def _restore_inactivity(workload: workloads.Workload, found: Workload) -> None:
    """Take over that it is yet to be set inactive, or that it has been set active again while nobody looked."""
    target = find_condition(found.status.conditions, "DeactivationTarget")
    if target is not None and target.status == "True":
        workload.deactivated, workload.inactive_from = target.reason, None
    elif found.spec.active and workload.evicted is not None and workload.evicted.reason.startswith("Deactivated"):
        workload.requeues, workload.attempts, workload.ran, workload.not_before = 0, 0, 0.0, 0.0


def _restore_readiness(workload: workloads.Workload, conditions: Iterable[Condition]) -> None:
    """Take over whether it has been ready in this run, and since when it is not."""
    ready = find_condition(conditions, "PodsReady")
    unready = _since(ready, "False")
    if workload.running_since is not None and unready is not None:
        workload.unready_since = max(workload.running_since, unready)
    workload.was_ready = ready is not None and (ready.status == "True" or ready.reason == "WaitForRecovery")


def _was_leaving(found: Workload | PodGroup) -> bool:
    if isinstance(found, PodGroup):
        return found.status.phase == Phase.LEAVING.value
    return is_true(found.status.conditions, "QuotaReserved")


def _since(condition: Condition | None, status: str) -> float | None:
    if condition is None or condition.status != status:
        return None
    return _seconds(condition.last_transition_time)


def _seconds(text: str) -> float:
    """Return a time of the API as Unix seconds; 0 where there is none, or none that can be read."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except ValueError:
        return 0.0
