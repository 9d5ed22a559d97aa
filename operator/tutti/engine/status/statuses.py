"""What the status of each object should say now, and what of it is new.

Everything is worked out from the records; only what differs from what the object last said is written, as a merge
patch on the status subresource.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from tutti.api import conditions as cond
from tutti.api.kinds import Object, PodGroup
from tutti.api.kinds.provisioning import MOST_TOLD
from tutti.api.resources import format_amount
from tutti.engine.reading.objects import InvalidObject
from tutti.engine.records.counters import NOT_COUNTED
from tutti.engine.records.explanation import HELD_UNTIL, PASSED_UP_SINCE
from tutti.engine.records.members import Charge, HeldQuota, LostMember, MemberCounts, MemberGroup
from tutti.engine.records.workloads import ADMITTED, FENCE, Phase, Workload
from tutti.engine.status import StatusState
from tutti.engine.status.workload_conditions import conditions_of
from tutti.quota.flavors import VIRTUAL
from tutti.quota.tree import Usage, add_to

MOST_KEPT = 128
"""How many entries `status.kept` has at most, as the CRDs have it."""
MOST_HELD = 64
"""How many flavors and resources are told of the quota that a group holds without nodes, likewise."""
MOST_PARTS = 18
"""How many groups are told of."""
OF_A_PART = ("Scheduled", "PodsReady", "Degraded", "Finished")
"""The conditions that a PodGroup of a Workload has, too."""


class PositionReport(NamedTuple):
    """What a workload is told anew of its place: its position, and when to expect its start, Unix seconds."""

    position: int | None
    starts: float | None


def status_of(
    state: StatusState, workload: Workload, found: Object, place: PositionReport | None = None
) -> dict[str, Any]:
    """Return what is to be changed in the status of a Workload or PodGroup; empty where nothing is.

    Its place is told anew where one is given, or where it waits for another reason than it was told.
    """
    told = workload.status = workload.status or as_found(found)
    if workload.key[0] == "Workload":
        pending = _pending(state, workload, told.get("pending"), place)
        wanted = _workload_status(state, workload, told) | {"pending": pending}
    else:
        pending = _pending(state, workload, told.get("pendingReason"), place)
        wanted = _pod_group_status(workload.phase, workload.counts(), workload.losses, told) | {
            "pendingReason": pending,
            **_started(workload, told),
            **_group_admission(workload, told),
            **_queue(workload, told),
        }
    wanted |= _ended_before(workload, told) | _provisioning(workload, told)
    state.queue_positions.note(workload, pending)
    workload.status, news = _changed_status(state, told, wanted, conditions_of(state, workload))
    return news


def part_status_of(
    state: StatusState, workload: Workload, group: MemberGroup, found: PodGroup, place: PositionReport | None = None
) -> dict[str, Any]:
    """Return what is to be changed in the status of a PodGroup that is a pod group of a Workload.

    It counts its own members; why it waits, and whether it is scheduled, is its Workload's.
    """
    told = workload.group_status.get(found.metadata.uid) or as_found(found)
    pending = _pending(state, workload, told.get("pendingReason"), place)
    wanted = _pod_group_status(workload.phase, group.counts(), (), told) | _queue(workload, told)
    wanted["pendingReason"] = pending
    conditions = [one for one in conditions_of(state, workload) if one["type"] in OF_A_PART]
    workload.group_status[found.metadata.uid], news = _changed_status(state, told, wanted, conditions)
    return news


def _changed_status(
    state: StatusState, told: dict[str, Any], wanted: dict[str, Any], conditions: list[cond.Json]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the whole status with what is wanted in it, and the part that is new."""
    merged = cond.merge_conditions(told.get("conditions", []), conditions, now=state.now)
    return news_of(told, {**wanted, "conditions": merged})


def news_of(told: dict[str, Any], wanted: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the whole status with what is wanted in it, and what is to be written of that.

    What this process writes first to an object is all of it: a former leader may have written after it was read here.
    """
    news = {key: value for key, value in wanted.items() if told.get(key) != value}
    if news and FENCE in told:
        return {key: value for key, value in {**told, **wanted}.items() if key != FENCE}, wanted
    return {**told, **wanted}, news


def invalid_status(state: StatusState, spoilt: InvalidObject) -> dict[str, Any]:
    """Return what is to be changed in the status of a Workload or PodGroup that cannot be read.

    Conditions are replaced as a whole, so those of before are in it. What has finished says nothing else any more.
    """
    kind = "Scheduled" if spoilt.key[0] == "PodGroup" else "Admitted"
    news = [cond.condition_json(kind, "False", "Invalid", str(spoilt.error))]
    workload = state.workloads.get(spoilt.whose)
    told = workload.reported_to(spoilt.uid) if workload is not None else {}
    before = told.get("conditions", spoilt.conditions)
    if any(one["type"] == "Finished" and one["status"] == "True" for one in before):
        return {}
    conditions = cond.merge_conditions(before, news, now=state.now)
    if told:
        told["conditions"] = conditions  # what is said again once it can be read is compared with this
    return {"conditions": conditions}


def count_in_queues(state: StatusState, workload: Workload) -> None:
    """Count a workload in the queues it waits or runs in, and note which queues that changes."""
    if workload.counted == NOT_COUNTED and not (workload.queue or workload.cluster_queue):
        return  # no queue counts it, and none is to
    bucket = ""
    if workload.held_since is not None and workload.queue:
        bucket = "checking"
    elif workload.phase is Phase.WAITING and workload.queue:
        wanted = workload.waits_without_members or workload.counts().live
        bucket = "pending" if workload.active and wanted else ""  # who is set inactive does not wait for anything
    elif workload.phase in ADMITTED and workload.queue:
        bucket = "admitted"
    elif workload.phase is Phase.LEAVING and workload.queue:
        bucket = "leaving"
    local = f"{workload.key[1]}/{workload.queue}" if workload.queue else ""
    usage = state.ledger.held_by(workload.name)
    # One that was about to be admitted through a queue stands there no longer than its LocalQueue leads to it.
    holds = workload.phase is not Phase.WAITING or bool(usage)
    cluster = (workload.cluster_queue if holds else "") or state.leads_to(workload.key[1], workload.queue)
    state.counts.move(workload, (local, cluster, bucket), usage, state.changed_queues)


def _workload_status(state: StatusState, workload: Workload, told: dict[str, Any]) -> dict[str, Any]:
    admission = None
    admitted = (workload.phase in ADMITTED or workload.held_since is not None) and workload.cluster_queue
    # Without a queue, or when it was taken out, it says what nothing else tells: who succeeded and is there no more.
    if admitted or any(group.ended for group in workload.groups.values()):
        groups = []
        for group in workload.groups.values():
            charges = [m.charge for m in group.members.values() if m.charge] + [
                h.charge for h in group.holds if h.charge
            ]
            if charges or group.ended or group.held is not None:
                said: dict[str, Any] = {
                    "name": group.name,
                    "count": len(charges),
                    "flavors": charges[0].flavors if charges else {},
                }
                said |= _held(workload, group)
                groups.append(said | ({"succeeded": group.counts().succeeded} if group.counts().succeeded else {}))
        admission = {"clusterQueue": workload.cluster_queue if admitted else "", "podGroups": groups}
        admission |= _round(workload, told)
    requeue: dict[str, Any] | None = None
    if workload.attempts or workload.requeues:
        requeue = {"count": workload.requeues, "attempts": workload.attempts}
    if requeue and workload.not_before > state.now:
        requeue["at"] = cond.timestamp(workload.not_before)
    elif requeue and "at" in (told.get("requeue") or {}):
        requeue["at"] = None  # a merge patch removes only what it names
    ran = int(workload.ran) or (0 if told.get("accumulatedPastExecutionTimeSeconds") else None)
    said = {"admission": admission, "requeue": requeue, "accumulatedPastExecutionTimeSeconds": ran}
    return said | _kept(workload.losses, told)


def _queue(workload: Workload, told: dict[str, Any]) -> dict[str, Any]:
    """Return what a PodGroup says of its queue, whoever named it."""
    return {"queueName": workload.queue or None} if workload.queue or told.get("queueName") else {}


def _ended_before(workload: Workload, told: dict[str, Any]) -> dict[str, Any]:
    """Return what is said of those that a workload need not wait for any more; nothing where none are, or were."""
    if not (workload.ended_before or told.get("after")):
        return {}
    ended = [{"workload": name, "outcome": how} for name, how in workload.ended_before.items()]
    return {"after": ended or None}


def _provisioning(workload: Workload, told: dict[str, Any]) -> dict[str, Any]:
    """Return what is said of nodes that have been asked for; nothing where none are, or were."""
    if not (workload.provisioning or told.get("provisioning")):
        return {}
    return {"provisioning": [one.described() for one in workload.provisioning[-MOST_TOLD:]] or None}


def _held(workload: Workload, group: MemberGroup) -> dict[str, Any]:
    """Return what the status of a workload says of the quota that a group holds without nodes, in place of charges.

    It says so as well while nodes are reserved for one that has passed its checks: it need not pass them again after a
    restart.
    """
    held = group.held
    if held is None and workload.round and workload.phase is Phase.RESERVED:
        held = _reserved(group)
    if held is None:
        return {}
    charge = held.charge
    amounts = [
        {"flavor": flavor, "resource": resource, "amount": format_amount(resource, amount)}
        for (flavor, resource), amount in sorted(charge.usage.items())
    ]
    return {"count": held.pods, "flavors": charge.flavors, "held": amounts[:MOST_HELD]}


def _reserved(group: MemberGroup) -> HeldQuota | None:
    """Return the quota that is reserved for a group together with nodes, as if it were held without."""
    charges = [one.charge for one in group.members.values() if one.charge is not None]
    charges += [one.charge for one in group.holds if one.charge is not None]
    if not charges:
        return None
    usage: Usage = {}
    for charge in charges:
        add_to(usage, charge.usage)
    return HeldQuota(len(charges), Charge(charges[0].queue, charges[0].flavors, usage, charges[0].holder))


def _round(workload: Workload, told: dict[str, Any]) -> dict[str, Any]:
    said = (told.get("admission") or {}).get("round")
    return {"round": workload.round} if workload.round or said else {}


def _group_admission(workload: Workload, told: dict[str, Any]) -> dict[str, Any]:
    """Return what the status of a gang without a Workload says of quota, where admission checks have to be passed."""
    if not workload.round and not told.get("admission"):
        return {}
    holds = workload.phase in ADMITTED or workload.held_since is not None
    if not holds:
        return {"admission": None}
    said = [(group.name, _held(workload, group)) for group in workload.groups.values()]
    parts = [{"name": name, **held} for name, held in said if held]
    return {
        "admission": {
            "clusterQueue": workload.cluster_queue,
            "podGroups": parts[:MOST_PARTS],
            **_round(workload, told),
        }
    }


def _kept(losses: Iterable[LostMember], told: dict[str, Any]) -> dict[str, Any]:
    """Return what is said of what a gang keeps for successors; nothing where nothing is, or was, kept."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for loss in losses:
        requests = {
            name: format_amount(name, amount) for name, amount in sorted(loss.amounts.items()) if name != VIRTUAL
        }
        which = (loss.group, loss.node, loss.queue, *requests.items(), *sorted(loss.flavors.items()))
        said = {"podGroup": loss.group, "node": loss.node, "count": 0, "requests": requests, "flavors": loss.flavors}
        said |= {"clusterQueue": loss.queue} if loss.queue else {}
        found.setdefault(which, said)["count"] += 1
    if not found:
        return {"kept": None} if told.get("kept") else {}
    return {"kept": list(found.values())[:MOST_KEPT]}


def _started(workload: Workload, told: dict[str, Any]) -> dict[str, Any]:
    """Return what the status of a gang says of how many members it has had; nothing of one that never ran."""
    if workload.phase is Phase.SCHEDULED:
        return {"started": sum([group.had for group in workload.groups.values()])}
    return {"started": None} if told.get("started") and not workload.was_scheduled else {}


def _pod_group_status(
    phase: Phase, tally: MemberCounts, losses: Iterable[LostMember], told: dict[str, Any]
) -> dict[str, Any]:
    return {
        "phase": phase.value,
        "members": tally.live + tally.succeeded + tally.failed,
        "pending": tally.waiting + tally.gated,
        "reserved": tally.reserved,
        "bound": tally.bound,
        "ready": tally.ready,
        "succeeded": tally.succeeded,
        "failed": tally.failed,
        **({"lost": tally.lost} if tally.lost or told.get("lost") else {}),
        **_kept(losses, told),
    }


def reported_start(workload: Workload) -> float | None:
    """Return when the object of a workload says that it starts, Unix seconds; None where it does not say."""
    said = workload.status.get("pending" if workload.key[0] == "Workload" else "pendingReason")
    start = said.get("estimatedStart") if said else None
    return datetime.fromisoformat(start).timestamp() if start else None


def _pending(
    state: StatusState, workload: Workload, told: dict[str, Any] | None, place: PositionReport | None
) -> dict[str, Any] | None:
    why = workload.reported_explanation
    if why is None:
        return None
    details = why.details
    if workload.passed_up_since is not None:  # which a restarted operator goes on from
        details = details | {PASSED_UP_SINCE: cond.timestamp(workload.passed_up_since)}
    if workload.phase is Phase.RESERVED and workload.deadline is not None:  # likewise
        details = details | {HELD_UNTIL: cond.timestamp(workload.deadline)}
    reason = {"gate": why.gate.value, "reason": why.reason, "message": why.plain, "details": details}
    said: dict[str, Any] = {"since": cond.timestamp(workload.created), "reasons": [reason]}
    before = told or {}
    position, starts = before.get("position"), before.get("estimatedStart")
    if place is not None:
        position, starts = place.position, None if place.starts is None else cond.timestamp(place.starts)
    elif before.get("reasons") != said["reasons"]:
        position = state.queue_positions.of(workload)
    places = {"position": position, "estimatedStart": starts}
    # A merge patch removes only what it names.
    return said | {name: value for name, value in places.items() if value is not None or name in before}


def as_found(found: Object) -> dict[str, Any]:
    """Return an object's status as it was found, to compare with; what it does not say is None."""
    status = getattr(found, "status", None)
    if status is None:
        return {FENCE: None}
    said: dict[str, Any] = status.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    return {FENCE: None, **said}
