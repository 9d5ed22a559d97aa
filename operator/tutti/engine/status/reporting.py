"""What is told to people and machines: conditions, statuses and events, each written only when it changes.

A message with numbers in it changes with everything that happens in the cluster, so a newer text under the same
reason is written at most every `RETELL_SECONDS`; a new reason is written at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from tutti.api.kinds import PodGroup
from tutti.api.model import API_VERSION
from tutti.engine.admission import past_use
from tutti.engine.ingest.implicit_gangs import keep_pod_group
from tutti.engine.records.decisions import EmitEvent, PatchStatus, SetPodCondition
from tutti.engine.records.explanation import ASKING, IN_LINE, REFRESH_SECONDS, Explanation, Gate
from tutti.engine.records.members import Member, Reported
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.engine.state import State
from tutti.engine.status import gang_conditions, overuse, queue_statuses, statuses

PASSING = (ASKING, IN_LINE)
"""Reasons that are not written: they last for a moment."""

Guard = Callable[[State, Workload, str, dict[WorkloadKey, Workload]], AbstractContextManager[None]]
"""Keeps what one workload raises from the others, and adds that to the workloads that have raised."""

SILENT = ("WaitingForMembers", "SchedulingGated")
"""Reasons that are told in the status only: a gang that is still gathering has not failed at anything."""


def report(state: State, changed: dict[WorkloadKey, Workload], *, guard: Guard) -> None:
    """Tell what has become of the workloads that something happened to, and of their queues.

    Args:
        state: The engine's memory.
        changed: Those workloads.
        guard: What keeps one of which nothing can be told from the others.
    """
    living = [workload for workload in changed.values() if workload.key in state.workloads]
    failed: dict[WorkloadKey, Workload] = {}
    for workload in living:
        with guard(state, workload, "counting", failed):
            statuses.count(state, workload)
            state.places.put(workload, past_use.door_of(state, workload))
            state.waiting.put(workload)
    for workload in living:
        with guard(state, workload, "telling", failed):
            _tell_all(state, workload)
    for workload in failed.values():
        if workload.explanation is not None:
            state.announce(workload, "Warning", "SetAside", workload.explanation.message)
    _tell_broken(state)
    moved = dict.fromkeys(name for name in state.changed_queues if "/" not in name)
    state.places.moved.update(moved)
    overuse.tell(state, moved)
    queue_statuses.tell(state)


def _tell_all(state: State, workload: Workload) -> None:
    """Tell what has become of one workload, wherever it is told."""
    if workload.key[0] == "Pod":
        _tell_why(state, workload)  # and it has no object that says more
        return
    keep_pod_group(state, workload)
    _tell_why(state, workload)
    tell_status(state, workload)
    gang_conditions.tell(state, workload)


def _tell_why(state: State, workload: Workload) -> None:
    why = workload.explanation
    if why is None:
        workload.told, workload.tell_at, workload.shown = ("", "", 0.0), None, None
        return
    if why.reason in PASSING:
        return  # it lasts as long as a call, or a round of tries; what was told before stands until then
    gathering = why.gate is Gate.GATHER and why.reason in SILENT
    announced = why.gate is Gate.PERMIT  # by whoever gave the reservation back
    if why.reason != workload.told[0] and not gathering and not announced:
        state.announce(workload, "Warning", "FailedScheduling", why.message)
    if not _is_news(state, why.reason, why.message, workload.told):
        _put_off(state, workload, why)
        _tell_newcomers(state, workload, why)
        return
    workload.told, workload.shown = (why.reason, why.message, state.now), why
    if not gathering:
        for member in workload.members():
            _tell_pod(state, member, why)


def tells_later(state: State, workload: Workload) -> bool:
    """Whether all that is new about a workload is the text of why it waits, which is then told when its time comes."""
    why = workload.explanation
    if why is None or why.reason != workload.told[0]:
        return False
    _put_off(state, workload, why)
    return True


def _put_off(state: State, workload: Workload, why: Explanation) -> None:
    if why.message != workload.told[1]:
        state.tell_in_time(workload)


def _tell_newcomers(state: State, workload: Workload, why: Explanation) -> None:
    """Tell members that have come since what the others were told, where that is still the reason."""
    shown = workload.shown
    if shown is None or shown.reason != why.reason or shown.reason in SILENT:
        return
    for member in workload.members():
        if not member.told[0]:
            _tell_pod(state, member, shown)


def _tell_pod(state: State, member: Member, why: Explanation) -> None:
    pod, node = member.pod, state.nominations.nodes.get(member.pod.key, "")
    if not pod.placeable or (member.told[:2] == (why.pod_reason, why.message) and member.nominated == node):
        return
    nominated = node if node or member.nominated else None
    member.told, member.nominated = (why.pod_reason, why.message, state.now), node
    told = (pod.namespace, pod.name, pod.uid, why.pod_reason, why.message, pod.generation)
    state.out.append(SetPodCondition(*told, nominated_node=nominated))


def _is_news(state: State, reason: str, message: str, told: Reported) -> bool:
    return reason != told[0] or (message != told[1] and state.now >= told[2] + REFRESH_SECONDS)


def tell_status(state: State, workload: Workload, place: statuses.Place | None = None) -> None:
    """Write what is new in the statuses of a workload's objects; where it stands, if that is given, is told anew."""
    kind, namespace, name = workload.key
    parts = state.catalog.referring(namespace, name) if kind == "Workload" else {}
    for pod_group, group in parts.items():
        part = state.catalog.get(PodGroup, namespace, pod_group)
        if part is not None and group in workload.groups:
            news = statuses.part_status_of(state, workload, workload.groups[group], part, place)
            if news:
                state.out.append(PatchStatus("PodGroup", namespace, pod_group, part.metadata.uid, news))
    found = state.catalog.find(workload.key)
    if found is None or not workload.uid:
        return
    status = statuses.status_of(state, workload, found, place)
    if status:
        state.out.append(PatchStatus(*workload.key, workload.uid, status))


def _tell_broken(state: State) -> None:
    """Tell each object that cannot be read what is wrong with it, once.

    The conditions of queues, cohorts and flavors are the controller's, which says the same there.
    """
    for spoilt in state.catalog.news():
        about = (*spoilt.key, spoilt.uid)
        state.out.append(EmitEvent(API_VERSION, *about, "Warning", "Invalid", "Validating", str(spoilt.error)))
        news = statuses.invalid(state, spoilt) if spoilt.key[0] in ("Workload", "PodGroup") else {}
        if news:
            state.out.append(PatchStatus(*about, news))
