"""What the status of each object should say now, and what of it is new.

Everything is worked out from the records; only what differs from what the object last said is written, as a merge
patch on the status subresource.
"""

from __future__ import annotations

from typing import Any

from tutti.api import conditions as cond
from tutti.api.conditions import Condition
from tutti.api.kinds import Object, ObjectError, PodGroup
from tutti.api.resources import describe
from tutti.engine.catalog import ObjectKey
from tutti.engine.conditions import conditions_of
from tutti.engine.counting import Positions
from tutti.engine.decisions import PatchStatus
from tutti.engine.state import State
from tutti.engine.workloads import ADMITTED, Group, Phase, Tally, Workload
from tutti.quota.tree import QuotaNode


def status_of(state: State, workload: Workload, found: Object, positions: Positions) -> dict[str, Any]:
    """Return what is to be changed in the status of a Workload or PodGroup; empty where nothing is."""
    told = workload.status = workload.status or _as_found(found)
    if workload.key[0] == "Workload":
        pending = _pending(workload, positions, told.get("pending"))
        wanted = _workload_status(state, workload, told) | {"pending": pending}
    else:
        pending = _pending(workload, positions, told.get("pendingReason"))
        wanted = _pod_group_status(workload.phase, workload.tally()) | {"pendingReason": pending}
    workload.status, news = _told_anew(state, told, wanted, conditions_of(state, workload))
    return news


def part_status_of(
    state: State, workload: Workload, group: Group, found: PodGroup, positions: Positions
) -> dict[str, Any]:
    """Return what is to be changed in the status of a PodGroup that is a pod group of a Workload.

    It counts its own members; why it waits, and whether it is scheduled, is its Workload's.
    """
    told = workload.group_status.get(found.metadata.uid) or _as_found(found)
    pending = _pending(workload, positions, told.get("pendingReason"))
    wanted = _pod_group_status(workload.phase, group.tally()) | {"pendingReason": pending}
    conditions = [one for one in conditions_of(state, workload) if one.type in ("Scheduled", "PodsReady", "Finished")]
    workload.group_status[found.metadata.uid], news = _told_anew(state, told, wanted, conditions)
    return news


def _told_anew(
    state: State, told: dict[str, Any], wanted: dict[str, Any], conditions: list[Condition]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the whole status with what is wanted in it, and the part that is new."""
    before = [Condition.model_validate(c) for c in told.get("conditions", [])]
    wanted["conditions"] = cond.to_json(cond.merge(before, conditions, now=state.now))
    news = {key: value for key, value in wanted.items() if told.get(key) != value}
    return {**told, **wanted}, news


def invalid(state: State, key: ObjectKey, error: ObjectError) -> dict[str, Any]:
    """Return the status of a Workload or PodGroup that cannot be read."""
    kind = "Scheduled" if key[0] == "PodGroup" else "Admitted"
    news = Condition(type=kind, status="False", reason="Invalid", message=str(error))
    return {"conditions": cond.to_json(cond.merge([], [news], now=state.now))}


def count(state: State, workload: Workload) -> None:
    """Count a workload in the queues it waits or runs in, and note which queues that changes."""
    bucket = ""
    if workload.phase is Phase.WAITING and workload.queue and (workload.key[0] == "Workload" or workload.tally().live):
        bucket = "pending"
    elif workload.phase in ADMITTED and workload.queue:
        bucket = "admitted"
    local = f"{workload.key[1]}/{workload.queue}" if workload.queue else ""
    cluster = workload.cluster_queue or state.leads_to(workload.key[1], workload.queue)
    state.counts.move(workload, (local, cluster, bucket), state.changed_queues)


def tell_queues(state: State) -> None:
    """Write the counts and usage of the queues that something happened in."""
    changed, state.changed_queues = state.changed_queues, {}
    for name in changed:
        if "/" in name:
            namespace, local = name.split("/", 1)
            _tell_queue(state, ("LocalQueue", namespace, local), {})
        else:
            node = state.holdings.tree.queues.get(name)
            usage = _usage(node) if node is not None else []
            _tell_queue(state, ("ClusterQueue", "", name), {"flavorsReservation": usage, "flavorsUsage": usage})


def _tell_queue(state: State, key: ObjectKey, more: dict[str, Any]) -> None:
    found = state.catalog.find(key)
    if found is None:
        return
    name = f"{key[1]}/{key[2]}" if key[1] else key[2]
    pending, admitted = state.counts.of(name)
    wanted = {
        "pendingWorkloads": pending,
        "reservingWorkloads": admitted,
        "admittedWorkloads": admitted,
        **more,
    }
    told = state.counts.told.setdefault(found.metadata.uid, _as_found(found))
    news = {field: value for field, value in wanted.items() if told.get(field) != value}
    if news:
        state.counts.told[found.metadata.uid] = {**told, **wanted}
        state.out.append(PatchStatus(*key, found.metadata.uid, news))


def _usage(node: QuotaNode) -> list[dict[str, Any]]:
    by_flavor: dict[str, list[dict[str, Any]]] = {}
    for flavor, resource in node.quotas:
        what = (flavor, resource)
        by_flavor.setdefault(flavor, []).append(
            {
                "name": resource,
                "total": describe(resource, node.usage.get(what, 0)),
                "borrowed": describe(resource, node.borrowed(what)),
            }
        )
    return [{"name": flavor, "resources": resources} for flavor, resources in by_flavor.items()]


def _workload_status(state: State, workload: Workload, told: dict[str, Any]) -> dict[str, Any]:
    admission = None
    if workload.phase in ADMITTED and workload.cluster_queue:
        groups = []
        for group in workload.groups.values():
            charges = [m.charge for m in group.members.values() if m.charge] + [
                h.charge for h in group.holds if h.charge
            ]
            if charges:
                groups.append({"name": group.name, "count": len(charges), "flavors": charges[0].flavors})
        admission = {"clusterQueue": workload.cluster_queue, "podGroups": groups}
    requeue: dict[str, Any] | None = None
    if workload.attempts or workload.requeues:
        requeue = {"count": workload.requeues, "attempts": workload.attempts}
    if requeue and workload.not_before > state.now:
        requeue["at"] = cond.timestamp(workload.not_before)
    elif requeue and "at" in (told.get("requeue") or {}):
        requeue["at"] = None  # a merge patch removes only what it names
    ran = int(workload.ran) or (0 if told.get("accumulatedPastExecutionTimeSeconds") else None)
    return {"admission": admission, "requeue": requeue, "accumulatedPastExecutionTimeSeconds": ran}


def _pod_group_status(phase: Phase, tally: Tally) -> dict[str, Any]:
    return {
        "phase": phase.value,
        "members": tally.live + tally.succeeded + tally.failed,
        "pending": tally.waiting + tally.gated,
        "reserved": tally.reserved,
        "bound": tally.bound,
        "ready": tally.ready,
        "succeeded": tally.succeeded,
        "failed": tally.failed,
    }


def _pending(workload: Workload, positions: Positions, told: dict[str, Any] | None) -> dict[str, Any] | None:
    why = workload.shown
    if why is None:
        return None
    reason = {"gate": why.gate.value, "reason": why.reason, "message": why.message, "details": why.details}
    said: dict[str, Any] = {"since": cond.timestamp(workload.created), "reasons": [reason]}
    before = told or {}
    # A position moves with every admission; it is written along with a new reason, not for its own sake.
    position = before.get("position") if before.get("reasons") == said["reasons"] else positions.of(workload)
    if position is None and "position" not in before:
        return said
    return {"position": position, **said}  # a merge patch removes only what it names


def _as_found(found: Object) -> dict[str, Any]:
    """Return an object's status as it was found, to compare with; what it does not say is None."""
    status = getattr(found, "status", None)
    if status is None:
        return {}
    said: dict[str, Any] = status.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    return said
