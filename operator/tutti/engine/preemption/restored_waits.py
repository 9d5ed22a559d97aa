"""Going on, after a restart, with waiting for victims that an earlier process has asked to leave.

Which room is held for whom is in the status of the pods that wait (`nominatedNodeName`), and who leaves for it is told
by pods of lower priority that are being deleted there. The process may have been killed before it had asked all. So
where the room would not do when those have left who are leaving, its workload chooses at once who else has to go,
while what is held for it stays held.
"""

from __future__ import annotations

import math

import numpy as np

from tutti.engine.preemption import PreemptionState, nominations, overdue
from tutti.engine.preemption.by_priority import priority_of, wait_for_victims
from tutti.engine.preemption.moves import restored_wait, victims_of_moves
from tutti.engine.preemption.nominated_columns import NominatedColumns
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.nominations import Nomination, Spot
from tutti.engine.records.pod_sets import pending_pod_sets
from tutti.engine.records.workloads import Workload
from tutti.placement.framework import Mask


def restore_nomination(state: PreemptionState, workload: Workload) -> None:
    """Hold room again, after a restart, for a workload whose pods are nominated and whose victims are leaving still."""
    needs = pending_pod_sets(workload)
    if isinstance(needs, Explanation):
        return
    overdue.restore_choice(state, workload)
    waiting = [(need.pod_class, member) for need in needs for member in need.members if member.nominated]
    spots = [Spot(pod_class, member.nominated, member.pod.key) for pod_class, member in waiting]
    priority = priority_of(state, workload, needs)
    there = (pod for node in dict.fromkeys(spot.node for spot in spots) for pod in state.cluster.on_node(node))
    victims = [pod for pod in there if pod.deleting and pod.priority < priority]
    moved = {place.pod: place.uid for place in victims_of_moves(state, workload.key)}
    until = state.now + state.configuration.victims_timeout_seconds
    if moved and spots:
        why = restored_wait(state, workload.key, len(moved))
        nomination = Nomination(priority, spots, nominations.wants_of(needs), moved, [], until, why, moves=True)
        nominations.begin_nomination(state, workload.key, nomination)
    elif victims:
        leaving = {pod.key: pod.uid for pod in victims}
        late = overdue.in_whose_place(state, workload, needs, priority, victims)
        why = wait_for_victims(state, workload, victims, len(spots), until, late)
        found = Nomination(priority, spots, nominations.wants_of(needs), leaving, [], until, why)
        found.in_place_of = [pod.key for pod in late]
        nominations.begin_nomination(state, workload.key, found, began=-math.inf)  # who knows which victim hung then


def choose_anew_where_short(state: PreemptionState) -> None:
    """Have those choose anew for whom too few are leaving; all nominations have been restored by now."""
    ours = [one for one in state.nominations.ours.values() if one.victims and not one.moves]
    if not ours:
        return
    short, rows = _short_nodes(state, ours), state.cluster.nodes.rows
    for one in ours:
        one.anew = any(short[rows[node]] for node in one.nodes if node in rows)


def _short_nodes(state: PreemptionState, ours: list[Nomination]) -> Mask:
    """Return bool[rows]: where nominated pods would not all have room, by amounts, if all victims there had left."""
    nodes, columns, held = state.cluster.nodes, state.cluster.pod_columns, NominatedColumns()
    room, wanted = nodes.allocatable - nodes.requested, np.zeros_like(nodes.allocatable)
    held.follow(ours, state.cluster)
    for pod_class, where in held.rows(moves=False):
        vector = nodes.vector(pod_class.requests)
        np.add.at(wanted[:, : len(vector)], where, vector)
    victims = (state.cluster.pods.get(victim) for one in ours for victim in one.victims)
    slots = np.array(sorted({pod.slot for pod in victims if pod is not None and pod.slot >= 0}), dtype=np.int64)
    leaves = columns.held(slots, nodes.resource_index)[:, : room.shape[1]]
    np.add.at(room[:, : leaves.shape[1]], columns.row[slots], leaves)
    return np.asarray(((wanted > room) & (wanted > 0)).any(axis=1), dtype=np.bool_)
