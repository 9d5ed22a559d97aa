"""Pods that should have left by now and are there still, and whom others leave in place of.

A pod that is being deleted is room that comes (`lower_priority.py`). It is overdue when its grace period has been over
for longer than `victimsOverdueSeconds`: its processes hang, or its kubelet does, and nobody knows whether it ever goes.
Its kubelet has as long to say that it has ended after nothing could be written.
One that only a finalizer holds is not among them: its kubelet has said that it has ended, so that it has no room.

A workload whose choice of victims rests on an overdue pod may make another one, as if such pods stayed and could not be
taken out. That is bounded, or a cluster in which ends hang would be emptied pod by pod:

- once for each workload while it waits. Whoever has made such a choice stays with it, and counts on all that leaves, as
  at first; whichever of both leaves first is its room.
- only elsewhere. On nodes where a pod is overdue nobody else is taken out for it: they might hang as well.
- no more than it needs: what leaves in time is room then, too, and gangs leave whole.
- only where it is certain that none of its victims can be spared: all of them are leaving or have gone.

That it has been made is said in the reason of the pods' conditions, which tells the next process (`restore_choice`).
In the place of which pods that was is said in the message alone. Later it is told of all that might have been among
them (`in_whose_place`): they are room as well, whenever they leave.
Victims by the rules of queues are waited for as Kueue does: they hold quota until they have ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PodKey, PodRecord
from tutti.engine.preemption import PreemptionState
from tutti.engine.records.explanation import IN_THEIR_PLACE
from tutti.engine.records.nominations import Nomination
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.placement.framework import NO_FLAVOR, Mask
from tutti.placement.preemption.units import VictimUnits
from tutti.placement.profile import static_filter_result


def is_overdue(state: PreemptionState, pod: PodRecord) -> bool:
    """Whether a pod should have left by now."""
    return _overdue_at(state, pod) <= state.now


def overdue_among(state: PreemptionState, pods: Iterable[PodRecord]) -> list[PodRecord]:
    """Return those of some pods that should have left by now."""
    return [pod for pod in pods if is_overdue(state, pod)]


def leaves_or_left(state: PreemptionState, key: PodKey) -> bool:
    """Whether a pod is being deleted, or has gone."""
    record = state.cluster.pods.get(key)
    return record is None or record.deleting


def replaceable_at(state: PreemptionState, key: WorkloadKey, nomination: Nomination) -> float:
    """Return when others may be looked for in the place of a workload's victims, Unix seconds.

    That is when the first of them is overdue that was not when they were chosen; infinity where that is not known, or
    where nobody is looked for.
    """
    if nomination.moves or nomination.leaving or not nomination.asked or key in state.nominations.chose_again:
        return math.inf
    if not all(leaves_or_left(state, victim) for victim in nomination.victims):
        return math.inf
    there = (state.cluster.pods.get(victim) for victim in nomination.victims)
    times = (_overdue_at(state, pod) for pod in there if pod is not None)
    return min((time for time in times if time > nomination.began), default=math.inf)


def units_elsewhere(state: PreemptionState, units: VictimUnits) -> VictimUnits:
    """Return those of some units whose leaving can be counted on: none is overdue, or on a node where a pod is.

    Those that are leaving already, in time so far, are room wherever they are.
    """
    columns = state.cluster.pod_columns
    leaving = np.flatnonzero(columns.leaving & (columns.row >= 0))
    late = leaving[[is_overdue(state, pod) for pod in columns.at(leaving)]]
    hanging = np.zeros(len(state.cluster.nodes), dtype=np.bool_)
    hanging[columns.row[late]] = True
    stays = hanging[columns.row] & ~columns.leaving
    stays[late] = True
    some = np.ones(len(units), dtype=np.bool_)
    some[units.of[stays[units.slots]]] = False
    return units.some(some)


def units_waited_for(state: PreemptionState, workload: Workload, units: VictimUnits) -> VictimUnits:
    """Return those of some units that are leaving where a workload's pods are nominated."""
    columns, rows = state.cluster.pod_columns, state.cluster.nodes.rows
    mine = np.zeros(len(state.cluster.nodes), dtype=np.bool_)
    mine[[rows[one.nominated] for one in workload.members() if one.nominated in rows]] = True
    goes = columns.leaving & mine[columns.row]
    some = np.zeros(len(units), dtype=np.bool_)
    some[units.of[goes[units.slots]]] = True
    return units.some(some)


def in_whose_place(
    state: PreemptionState,
    workload: Workload,
    needs: Sequence[PodSetRequest],
    priority: int,
    victims: Iterable[PodRecord],
) -> list[PodRecord]:
    """Return the overdue pods in whose place others leave, or may have been told to, for a workload.

    Args:
        state: The engine's memory.
        workload: Who waits; nobody leaves so for it where it has not made another choice.
        needs: Its pods that wait.
        priority: That of its pods.
        victims: Who leaves for it, and is not among them.

    Returns:
        Those of lower priority where one of its pods could run if the node were empty, those first that should have
        left the longest.
    """
    if workload.key not in state.nominations.chose_again:
        return []
    columns, waited_for = state.cluster.pod_columns, {pod.key for pod in victims}
    could_run = np.zeros(len(state.cluster.nodes), dtype=np.bool_)
    for need in needs:
        could_run |= _could_run(state, workload, need.pod_class)
    leaving = columns.leaving & (columns.row >= 0) & (columns.priority < priority) & could_run[columns.row]
    late = overdue_among(state, columns.at(np.flatnonzero(leaving)))
    return sorted((pod for pod in late if pod.key not in waited_for), key=lambda pod: (pod.leaves_by, pod.key))


def _could_run(state: PreemptionState, workload: Workload, pod_class: PodClass) -> Mask:
    """Return bool[rows]: the nodes where a pod could run if nobody else did, as far as the node itself tells."""
    nodes = state.cluster.nodes
    profile = state.profiles.get(workload.scheduler) or next(iter(state.profiles.values()))
    room = (nodes.allocatable >= nodes.vector(pod_class.requests)).all(axis=1)
    return np.asarray(static_filter_result(pod_class, nodes, NO_FLAVOR, profile).mask & room, dtype=np.bool_)


def restore_choice(state: PreemptionState, workload: Workload) -> None:
    """Note that an earlier process has made another choice for a workload that waits, where its pods were told so."""
    waiting = (member for member in workload.members() if member.pod.placeable)
    if any(member.reported[0] == IN_THEIR_PLACE for member in waiting):
        state.nominations.chose_again[workload.key] = None


def _overdue_at(state: PreemptionState, pod: PodRecord) -> float:
    seconds = state.configuration.victims_overdue_seconds
    since, until = state.interruption
    if pod.leaves_by < until and pod.leaves_by + seconds > since:
        return until + seconds
    return pod.leaves_by + seconds
