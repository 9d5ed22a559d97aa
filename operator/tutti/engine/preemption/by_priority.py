"""Taking pods of lower priority out, so that a workload that has its quota, or needs none, gets nodes.

It is tried after the quota rules have found nobody (`by_quota.preempt`).

That is kube-scheduler's preemption, for a whole workload at once: nobody is taken out unless all its required pods
fit then (`placement/preemption/victims.py`), and a gang may be a victim as a whole (`lower_priority.py` says who may be
one). Whose quota is used does not matter here; the quota rules take out others for that.

Priorities here are those of pods: the lowest of the pods that want nodes, as the API server has admitted them, or that
of the PriorityClass that their PodGroup names where that is lower. A workload that goes before another in the queues by
its own priority is not taken out for it, whatever their pods say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tutti.api.conditions import timestamp
from tutti.api.kinds import PodGroup
from tutti.api.messages import counted, listed
from tutti.cluster.pods import PodRecord
from tutti.engine.lifecycle.eviction import evict, evict_members
from tutti.engine.preemption import PreemptionState, kept_room, lower_priority, nominated_room, nominations, overdue
from tutti.engine.preemption.kept_room import FreedRoom
from tutti.engine.preemption.nominated_room import would_borrow
from tutti.engine.preemption.surplus import surplus_members
from tutti.engine.reading.resolution import promised_preemption_priority
from tutti.engine.records.decisions import EmitEvent, Evict
from tutti.engine.records.discretion import pod_named, workload_named
from tutti.engine.records.explanation import IN_THEIR_PLACE, EvictionReason, Explanation, Gate, LifecycleStep
from tutti.engine.records.members import Member
from tutti.engine.records.nominations import Nomination
from tutti.engine.records.pod_sets import PodSetRequest, PreemptionOption
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.placement.preemption.units import VictimUnits
from tutti.placement.preemption.victims import ChosenVictims, choose_victims

PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"
PREEMPTED = "ByPodPriority"
"""The reason of condition Preempted of a workload that had to make room for one of higher pod priority."""

MOST_NAMES = 3
"""How many victims are named in a message."""


def priority_of(state: PreemptionState, workload: Workload, needs: Sequence[PodSetRequest]) -> int:
    """Return the priority by which a workload takes out others, and by which room nominated for others is its own.

    That is the lowest of its pods', or that of the PriorityClass which its PodGroup names where that is lower.
    """
    said = [member.pod.priority for need in needs for member in need.members]
    said += [promised_preemption_priority(state.catalog, one.group) for one in needs if one.required > len(one.members)]
    admitted = min(said, default=0)
    named = None if workload.key[0] == "Pod" else _named(state, workload)
    return admitted if named is None else min(named, admitted)


def _named(state: PreemptionState, workload: Workload) -> int | None:
    """Return the priority that an object names for a gang, as a class or as a number; None where none does."""
    kind, namespace, name = workload.key
    if workload.gang is not None and workload.gang.priority is not None:
        return workload.gang.priority
    found = state.catalog.get(PodGroup, namespace, name) if kind == "PodGroup" else None
    return None if found is None else state.catalog.priority_class_value(found.spec.priority_class_name)


def preemption_shape(state: PreemptionState, workload: Workload, needs: Sequence[PodSetRequest]) -> tuple[int, bool]:
    """Return what of a workload decides whom it can take out, and whose nominated room it may have."""
    return priority_of(state, workload, needs), may_preempt(needs)


def may_preempt(needs: Sequence[PodSetRequest]) -> bool:
    """Whether none of the pods says that it takes out nobody (preemptionPolicy Never)."""
    for need in needs:
        for member in need.members:
            if member.never_preempts:
                return False
        if need.required > len(need.members) and not need.group.promised_preempts:
            return False
    return True


def preempt_by_priority(
    state: PreemptionState, entry: QueueEntry, why: Explanation, options: Sequence[PreemptionOption], priority: int
) -> Explanation | None:
    """Take others out for a workload that has found no nodes, and hold the room for it.

    Args:
        state: The engine's memory.
        entry: The workload.
        why: Why it found no nodes.
        options: What it could have if others were gone, the best first.
        priority: That of its pods.

    Returns:
        What it waits for from now on; None where nobody is taken out.
    """
    workload = entry.workload
    if why.gate is not Gate.PLACEMENT or why.reason != "Unschedulable" or not may_preempt(entry.needs):
        return None
    if not lower_priority.is_anybody_below(state, priority):
        return None  # of a gang that keeps room some pods run
    borrowing = entry.queue if entry.queue and would_borrow(state, entry.queue, entry.needs) else None
    units = lower_priority.victim_units(state, workload, priority, borrowing)
    may_do = [one for one in options if one.asks and not one.contested]  # else that is for the quota rules
    found = _first_choice(state, may_do, units)
    if found is not None:
        return _nominate(state, entry, priority, _in_the_place_of_overdue(state, workload, may_do, units, found))
    freed = None
    if state.keeping_room and borrowing is None:
        freed = kept_room.find_kept_room(state, workload, options, priority)
    return None if freed is None else _take_kept_room(state, entry, priority, freed)


class _Choice(NamedTuple):
    """What a workload could have, who has to go for it, and in the place of which overdue pods that is."""

    option: PreemptionOption
    chosen: ChosenVictims
    overdue: Sequence[PodRecord] = ()


def _first_choice(state: PreemptionState, options: Iterable[PreemptionOption], units: VictimUnits) -> _Choice | None:
    """Return the first of some options that can be had if some of the units go; None where none can."""
    budgets = list(state.budgets.values())
    for one in options:
        with state.cluster.transaction() as transaction:
            nominated_room.take_covered(state, transaction)
            chosen = choose_victims(state.cluster, one.asks, units, profile=one.profile, budgets=budgets)
        if chosen is not None and len(chosen.units):
            return _Choice(one, chosen)
    return None


def _in_the_place_of_overdue(
    state: PreemptionState,
    workload: Workload,
    options: Iterable[PreemptionOption],
    units: VictimUnits,
    found: _Choice,
) -> _Choice:
    """Return whom to take out where the pods are overdue on whose leaving a choice rests; else that choice.

    A workload that has had others taken out in their place stays with these.
    """
    late = overdue.overdue_among(state, found.chosen.victims)
    if not late:
        return found
    if workload.key in state.nominations.chose_again:
        return _first_choice(state, options, overdue.units_waited_for(state, workload, units)) or found
    other = _first_choice(state, options, overdue.units_elsewhere(state, units))
    return found if other is None else other._replace(overdue=late)


def _nominate(state: PreemptionState, entry: QueueEntry, priority: int, choice: _Choice) -> Explanation:
    """Hold the room for a workload, and ask its victims to leave."""
    workload, (lacking, chosen, late) = entry.workload, choice
    until = state.now + state.configuration.victims_timeout_seconds
    asked = np.isin([pod.slot for pod in chosen.victims], lower_priority.asked_slots(state)).tolist()
    fresh = [pod for pod, again in zip(chosen.victims, asked, strict=True) if not (pod.deleting or again)]
    if late and fresh:
        state.nominations.chose_again[workload.key] = None
    in_place_of = late or overdue.in_whose_place(state, workload, entry.needs, priority, chosen.victims)
    pods = sum(need.required for need in lacking.needs)
    nomination = Nomination(
        priority=priority,
        spots=list(nominations.spots_of(state, lacking.needs, chosen.rows)),
        wants=nominations.wants_of(entry.needs),
        victims={pod.key: pod.uid for pod in chosen.victims},
        charges=lacking.charged,
        until=until,
        why=wait_for_victims(state, workload, chosen.victims, pods, until, in_place_of),
        in_place_of=[pod.key for pod in in_place_of],
    )
    lower_priority.begin_asking(state, workload, nomination, list({pod.key: pod for pod in chosen.victims}.values()))
    if len(fresh) < len(chosen.victims):  # else nobody can be waiting for any of them
        nominations.overtake_nominations(state, nomination)
    queue = "" if entry.queue is None else entry.queue.name
    if fresh:
        state.reached(workload, LifecycleStep.MAKES_ROOM, pods=len(fresh))
    _take_out(state, workload, queue, priority, victims=fresh, instead=bool(late))
    return nomination.why


def _take_kept_room(state: PreemptionState, entry: QueueEntry, priority: int, freed: FreedRoom) -> Explanation:
    """Hold the room that some gangs keep for members yet to be made for a workload, and have these gangs leave."""
    workload, until = entry.workload, state.now + state.configuration.victims_timeout_seconds
    pods, again = sum(need.required for need in freed.option.needs), timestamp(until)
    names = (workload_named(one, workload.key[1], discreet=state.discreet) for one in freed.gangs)
    text = f"has the room that {counted(len(freed.gangs), 'gang')} of lower priority kept for members yet to be made "
    text += f"({listed(names, len(freed.gangs), MOST_NAMES)}); "
    text += f"the room for its {counted(pods, 'pod')} is held until {again}"
    nomination = Nomination(
        priority=priority,
        spots=list(nominations.spots_of(state, freed.option.needs, freed.rows)),
        wants=nominations.wants_of(entry.needs),
        victims={pod.key: pod.uid for pod in freed.awaited},
        charges=freed.option.charged,
        until=until,
        why=Explanation(Gate.VICTIMS, "WaitingForVictims", text, {"victims": str(len(freed.gangs)), "until": again}),
    )
    for other in freed.gangs:
        for_whom = _for_whom(state, workload, priority, other.key[1])
        queue = "" if entry.queue is None else entry.queue.name
        text = f"it makes room for {for_whom}"
        evict(state, other, EvictionReason.PREEMPTED, text, preempted=PREEMPTED, for_queue=queue)
    nominations.begin_nomination(state, workload.key, nomination)
    nominations.overtake_nominations(state, nomination)
    state.reached(workload, LifecycleStep.MAKES_ROOM, pods=sum(one.counts().bound for one in freed.gangs))
    if not nomination.victims:
        state.touch(workload.key)  # there is nobody to wait for
    return nomination.why


def wait_for_victims(
    state: PreemptionState,
    workload: Workload,
    victims: Sequence[PodRecord],
    pods: int,
    until: float,
    instead_of: Sequence[PodRecord] = (),
) -> Explanation:
    """Return what a workload waits for whose victims are leaving, some perhaps in the place of overdue pods.

    Args:
        state: The engine's memory.
        workload: Who waits.
        victims: Who is leaving.
        pods: For how many pods of it.
        until: How long their room is held, Unix seconds.
        instead_of: The overdue pods.
    """
    again = timestamp(until)
    text = (
        f"waits for {counted(len(victims), 'pod')} of lower priority to leave ({_named_pods(state, workload, victims)})"
    )
    if instead_of:
        text += f", in the place of {_named_pods(state, workload, instead_of)}"
    text += f"; the room for its {counted(pods, 'pod')} is held until {again}"
    details = {"victims": str(len(victims)), "nodes": str(len({pod.place for pod in victims})), "until": again}
    late = len(overdue.overdue_among(state, victims)) + len(instead_of)
    if late:
        details["overdue"] = str(late)
    chose_again = workload.key in state.nominations.chose_again
    return Explanation(Gate.VICTIMS, IN_THEIR_PLACE if chose_again else "WaitingForVictims", text, details)


def _named_pods(state: PreemptionState, workload: Workload, victims: Sequence[PodRecord]) -> str:
    """Name some victims of a workload for its namespace, with where they are, those that are overdue first."""
    late = overdue.overdue_among(state, victims)
    names = [
        f"{_named_pod(state, workload, pod)}, which should have left by {timestamp(pod.leaves_by)}" for pod in late
    ]
    names += [_named_pod(state, workload, pod) for pod in victims if pod not in late]
    return listed(names, len(names), MOST_NAMES)


def _named_pod(state: PreemptionState, workload: Workload, pod: PodRecord) -> str:
    return f"{pod_named(pod, workload.key[1], discreet=state.discreet)} on {pod.place}"


def _take_out(
    state: PreemptionState,
    workload: Workload,
    queue: str,
    priority: int,
    *,
    victims: Iterable[PodRecord],
    instead: bool,
) -> None:
    """Ask victims to leave: workloads of ours as a whole where they leave so, everybody else pod by pod.

    Each is told for whom, and whether that is `instead` of others that have not left in time.
    """
    why = ", in the place of what should have left by now" if instead else ""
    ours: dict[WorkloadKey, list[Member]] = {}
    for pod in victims:
        member = state.members.get(pod.key)
        if member is not None and member.pod is pod:
            ours.setdefault(state.pod_group_of[pod.key][0], []).append(member)
        else:
            for_whom = _for_whom(state, workload, priority, pod.namespace)
            message = f"it makes room for {for_whom} (its own is {pod.priority}){why}"
            state.out.append(Evict(pod.namespace, pod.name, pod.uid, PREEMPTION_BY_SCHEDULER, message))
            report_preempted(state, pod, for_whom)
    for key, members in ours.items():
        other, for_whom = state.workloads[key], _for_whom(state, workload, priority, key[1])
        if key[0] == "Pod" or _are_needed(other, members):
            text = f"it makes room for {for_whom}{why}"
            evict(state, other, EvictionReason.PREEMPTED, text, preempted=PREEMPTED, for_queue=queue)
        else:
            evict_members(state, other, members, PREEMPTION_BY_SCHEDULER, f"it makes room for {for_whom}{why}")
        if key[0] != "Pod":
            for member in members:
                report_preempted(state, member.pod, for_whom)


def _for_whom(state: PreemptionState, workload: Workload, priority: int, reader: str) -> str:
    return f"{workload_named(workload, reader, discreet=state.discreet)}, whose pods have priority {priority}"


def _are_needed(workload: Workload, members: Iterable[Member]) -> bool:
    """Whether a gang that leaves whole cannot do without some of its members."""
    surplus = {member.pod.key for member in surplus_members(workload)}
    return lower_priority.leaves_whole(workload) and any(member.pod.key not in surplus for member in members)


def report_preempted(state: PreemptionState, pod: PodRecord, for_whom: str) -> None:
    """Record an event on a pod that leaves for somebody."""
    note = f"Preempted on node {pod.place} by {for_whom} (its own priority is {pod.priority})"
    state.out.append(
        EmitEvent("v1", "Pod", pod.namespace, pod.name, pod.uid, "Normal", "Preempted", "Preempting", note)
    )
