"""Going on, after a restart, with waiting for victims that an earlier process has asked to leave.

Which room is held for whom is in the status of the pods that wait (`nominatedNodeName`), and who leaves for it is told
by pods that are being deleted there: those of lower priority, or all where the workload was told that it waits for
victims. The quota that goes with it follows from both (`restored_quota.py`). The process may have been killed before it
had asked all. So where the room or the quota would not do when those have left who are leaving, its workload chooses at
once who else has to go, while what is held for it stays held.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from tutti.cluster.pods import PodKey
from tutti.engine.lifecycle import quota_usage
from tutti.engine.lifecycle.told_before import told_before
from tutti.engine.preemption import PreemptionState, nominations, overdue
from tutti.engine.preemption.by_priority import priority_of, wait_for_victims
from tutti.engine.preemption.moves import restored_wait, victims_of_moves
from tutti.engine.preemption.nominated_columns import NominatedColumns
from tutti.engine.preemption.restored_quota import LeavingTree, waiting_quota
from tutti.engine.records.explanation import BEHIND_HEAD, IN_THEIR_PLACE, Explanation, Gate
from tutti.engine.records.nominations import Nomination, Spot
from tutti.engine.records.pod_sets import PodSetRequest, pending_pod_sets
from tutti.engine.records.workloads import Workload
from tutti.placement.framework import Mask

_WAITS = ("WaitingForVictims", IN_THEIR_PLACE)
"""What those are told who wait for victims."""
_BY_RULE = re.compile(r"waits for (\d+) workloads? to leave")
_HELD = re.compile(r"held until (\S+)")


def restore_nomination(state: PreemptionState, workload: Workload, leaving: Mapping[str, LeavingTree]) -> None:
    """Hold room and quota again, after a restart, for a workload that waits for others to leave, or to be moved.

    Args:
        state: The engine's memory.
        workload: Who may wait.
        leaving: Who is leaving of each tree of queues.
    """
    needs = pending_pod_sets(workload)
    if isinstance(needs, Explanation):
        return
    overdue.restore_choice(state, workload)
    waiting = [(need.pod_class, member) for need in needs for member in need.members if member.nominated]
    spots = [Spot(pod_class, member.nominated, member.pod.key) for pod_class, member in waiting]
    moved = {place.pod: place.uid for place in victims_of_moves(state, workload.key)}
    if moved and spots:
        _begin_for_moves(state, workload, needs, spots, moved, leaving)
    else:
        _begin_for_victims(state, workload, needs, spots, leaving)


def _begin_for_moves(
    state: PreemptionState,
    workload: Workload,
    needs: Sequence[PodSetRequest],
    spots: list[Spot],
    moved: dict[PodKey, str],
    leaving: Mapping[str, LeavingTree],
) -> None:
    until = state.now + state.configuration.victims_timeout_seconds
    why = restored_wait(state, workload.key, len(moved))
    charges = waiting_quota(state, workload, needs, (), leaving).charges
    priority, wants = priority_of(state, workload, needs), nominations.wants_of(needs)
    found = Nomination(priority, spots, wants, moved, charges, until, why, moves=True)
    nominations.begin_nomination(state, workload.key, found)
    _use_quota(state, workload, found)


def _begin_for_victims(
    state: PreemptionState,
    workload: Workload,
    needs: Sequence[PodSetRequest],
    spots: list[Spot],
    leaving: Mapping[str, LeavingTree],
) -> None:
    told, priority = told_before(state, workload), priority_of(state, workload, needs)
    was_told = told.reason in _WAITS
    waits = was_told or (told.reason == BEHIND_HEAD and bool(spots))  # its queue is strict, and it is told of that
    there = (pod for node in dict.fromkeys(spot.node for spot in spots) for pod in state.cluster.on_node(node))
    own = {member.pod.key for member in workload.members()}
    theirs = (pod for pod in there if pod.deleting and pod.key not in own)
    victims = [pod for pod in theirs if waits or pod.priority < priority]
    if not (victims or waits):
        return
    quota = waiting_quota(state, workload, needs, victims, leaving, told.number_in(_BY_RULE))
    going = {pod.key: pod.uid for pod in [*victims, *quota.pods]}
    if not (spots or quota.charges):
        return
    until = told.time_in(_HELD) or 0.0
    if until <= state.now:  # it may have chosen anew since it was told
        until = state.now + state.configuration.victims_timeout_seconds
    late = overdue.in_whose_place(state, workload, needs, priority, victims)
    why = Explanation(Gate.VICTIMS, told.reason, told.message, dict(told.details))
    if not was_told or late:
        why = wait_for_victims(state, workload, victims, len(spots), until, late)
    found = Nomination(priority, spots, nominations.wants_of(needs), going, quota.charges, until, why)
    found.in_place_of, found.leaving = [pod.key for pod in late], quota.handed
    found.anew = quota.short or len(spots) < sum(need.required for need in needs if spots)
    nominations.begin_nomination(state, workload.key, found, began=-math.inf)  # who knows which victim hung then
    _use_quota(state, workload, found)


def _use_quota(state: PreemptionState, workload: Workload, nomination: Nomination) -> None:
    """Have a workload described as one that uses the quota that is held for it."""
    if nomination.charges:
        workload.cluster_queue = nomination.charges[0][0].queue
        quota_usage.describe_holder(state, workload)


def choose_anew_where_short(state: PreemptionState) -> None:
    """Have those choose anew for whom too few are leaving; all nominations have been restored by now."""
    ours = [one for one in state.nominations.ours.values() if one.victims and not one.moves]
    if not ours:
        return
    short, rows = _short_nodes(state, ours), state.cluster.nodes.rows
    for one in ours:
        one.anew |= any(short[rows[node]] for node in one.nodes if node in rows)


def _short_nodes(state: PreemptionState, ours: list[Nomination]) -> Mask:
    """Return bool[rows]: where nominated pods would not all have room, by amounts, if all victims there had left."""
    nodes, columns, held = state.cluster.nodes, state.cluster.pod_columns, NominatedColumns()
    room, wanted = nodes.allocatable - nodes.requested, np.zeros_like(nodes.allocatable)
    held.follow(ours, state.cluster)
    _, asked = held.nominated(state.cluster, moves=False)
    wanted[asked.rows, : asked.amounts.shape[1]] = asked.amounts
    victims = (state.cluster.pods.get(victim) for one in ours for victim in one.victims)
    slots = np.array(sorted({pod.slot for pod in victims if pod is not None and pod.slot >= 0}), dtype=np.int64)
    leaves = columns.held(slots, nodes.resource_index)[:, : room.shape[1]]
    np.add.at(room[:, : leaves.shape[1]], columns.row[slots], leaves)
    return np.asarray(((wanted > room) & (wanted > 0)).any(axis=1), dtype=np.bool_)
