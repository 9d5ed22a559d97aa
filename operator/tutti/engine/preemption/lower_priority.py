"""Who is of lower priority than a workload and may be taken out for it, alone or with the gang that it is in.

Many preemptors of one turn ask in vain for the same: what is found for one holds for all of its priorities until a pod
comes, goes or moves (`candidates.py`). Those who have been asked to leave already hurt nobody by it.

Nor do pods that are being deleted, for whatever reason. They leave by themselves, also out of a gang and where their
workload could not be taken out yet: their room is as good as free. Not so where a preemptor could not have it then:
what takes the place of a pod, or workload, that is not below it goes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from tutti.cluster.placed_pods import Slots
from tutti.cluster.pods import PodRecord
from tutti.engine.lifecycle.quota_usage import protected_until
from tutti.engine.preemption import PreemptionState, nominations
from tutti.engine.preemption.candidates import Candidates
from tutti.engine.preemption.nominated_room import is_entitled
from tutti.engine.preemption.surplus import surplus_of
from tutti.engine.records.nominations import Nomination
from tutti.engine.records.workloads import ADMITTED, Phase, Workload
from tutti.placement.preemption.units import GangUnit, VictimUnits
from tutti.quota.flavors import Queue


def is_anybody_below(state: PreemptionState, priority: int) -> bool:
    """Whether any pod on a node is of lower priority."""
    columns = state.cluster.pod_columns
    return bool(((columns.row >= 0) & (columns.priority < priority)).any())


def victim_units(state: PreemptionState, workload: Workload, priority: int, borrowing: Queue | None) -> VictimUnits:
    """Return everybody who may be taken out; the same for all of these priorities that have no pods on nodes.

    Args:
        state: The engine's memory.
        workload: For whom.
        priority: That of its pods.
        borrowing: Its queue, if it would borrow.
    """
    if any(member.pod.slot >= 0 for member in workload.members()):
        return _without_leaving(state, _candidates(state, workload, priority, borrowing))
    name = "" if borrowing is None else borrowing.name
    kept, key = state.nominations.kept, (state.cluster.pod_columns.version, priority, workload.priority, name)
    if key not in kept:
        if key not in state.candidates.of:
            state.candidates.of[key] = _candidates(state, workload, priority, borrowing)
        kept[key] = _without_leaving(state, state.candidates.of[key])
    return kept[key]


def _without_leaving(state: PreemptionState, candidates: Candidates) -> VictimUnits:
    """Return who may be taken out; those who have been asked to leave already hurt nobody by it."""
    singles, leaving = candidates.singles.copy(), asked_slots(state)
    leaving = leaving[singles[leaving]]
    singles[leaving] = False
    return VictimUnits.among(state.cluster, np.flatnonzero(singles), candidates.gangs, leaving)


def _candidates(state: PreemptionState, workload: Workload, priority: int, borrowing: Queue | None) -> Candidates:
    """Return everybody who may be taken out for a workload, as they leave together; its queue, if it would borrow."""
    columns = state.cluster.pod_columns
    singles = (columns.row >= 0) & (columns.priority < priority)
    gangs: list[GangUnit] = []
    for member in workload.members():
        if member.pod.slot >= 0:
            singles[member.pod.slot] = False
    for other in _looked_at_one_by_one(state, workload, priority):
        below = other.priority < workload.priority
        if (below and not other.queue and other.key[0] == "Pod") or other is workload or other.phase not in ADMITTED:
            continue
        protected = protected_until(state, other)
        if not below or (borrowing is not None and is_entitled(state, other, borrowing, workload.priority)):
            singles[_slots(member.pod for member in other.members())] = False
        elif protected > state.now:
            singles[_slots(member.pod for member in other.members() if not member.pod.deleting)] = False
            state.nominations.look_again(protected)
        elif other.key[0] != "Pod":
            for gang in _gang_units(other):
                singles[_slots(gang.pods)] = False
                if all(pod.priority < priority for pod in gang.pods):
                    gangs.append(gang)
    return Candidates(singles, gangs)


def _looked_at_one_by_one(state: PreemptionState, workload: Workload, priority: int) -> Iterable[Workload]:
    """Return the workloads of which more than the priority of their pods tells whether a workload may take them out.

    Of nearly all single pods it tells that: those that are as important as the workload are as important as its pods.
    """
    if priority > workload.priority:
        return state.workloads.values()
    return chain(state.gangs.values(), state.unlike_singles.values())


def _slots(pods: Iterable[PodRecord]) -> list[int]:
    """Return where those pods stand in the columns that stand there."""
    return [pod.slot for pod in pods if pod.slot >= 0]


def _gang_units(workload: Workload) -> Iterator[GangUnit]:
    """Yield the pods of a workload that do not count one by one: those beyond its need, those that leave together."""
    together: list[PodRecord] = []
    for group in workload.groups.values():
        surplus = surplus_of(workload, group)
        yield from (GangUnit([pod], pod.priority, harmless=True) for pod in surplus)
        if leaves_whole(workload):
            apart = {pod.key for pod in surplus}
            there = (member.pod for member in group.members.values() if member.pod.place)
            together += [pod for pod in there if not (pod.deleting or pod.key in apart)]
    if together:
        only_reserved = workload.phase is Phase.RESERVED
        yield GangUnit(together, max(pod.priority for pod in together), harmless=only_reserved)


def leaves_whole(workload: Workload) -> bool:
    """Whether the required members of each group leave together.

    They do: fewer could not run. But for a gang that runs and whose PodGroup says otherwise (disruptionMode: Pod).
    """
    return not (workload.leaves_by_pod and workload.phase is Phase.SCHEDULED)


def _asked_to_leave(state: PreemptionState) -> Iterator[PodRecord]:
    """Yield the pods that have been asked to leave for somebody, of which it has not been seen yet that they do."""
    for nomination in state.nominations.ours.values():
        for key, uid in nomination.victims.items() if nomination.asked else ():
            pod = state.cluster.pods.get(key)
            if pod is not None and pod.uid == uid and not pod.deleting:
                yield pod


def asked_slots(state: PreemptionState) -> Slots:
    """Return the slots of those who have been asked to leave and have places, in the order in which they first were.

    Each is there once, however many wait for it.
    """
    version = state.cluster.pod_columns.version
    if state.candidates.asked is None or state.candidates.asked[0] != version:
        slots = dict.fromkeys(pod.slot for pod in _asked_to_leave(state) if pod.slot >= 0)
        state.candidates.asked = version, np.array(list(slots), dtype=np.int64)
    return state.candidates.asked[1]


def begin_asking(
    state: PreemptionState, workload: Workload, nomination: Nomination, victims: Sequence[PodRecord]
) -> None:
    """Begin a nomination, keeping what is known of whom others of the same priority may take out as far as it holds.

    Pods that leave by themselves and are in no queue are candidates whatever their phase, for everybody above them.
    """
    asked, of = asked_slots(state), state.candidates.of
    nominations.begin_nomination(state, workload.key, nomination)
    slots = np.array([pod.slot for pod in victims if not pod.deleting], dtype=np.int64)
    more = slots[~np.isin(slots, asked)]
    state.candidates.asked = state.cluster.pod_columns.version, np.append(asked, more)
    if all(_counts_by_itself(state, pod) for pod in victims):
        state.candidates.of = {key: one for key, one in of.items() if key[2] >= workload.priority}


def _counts_by_itself(state: PreemptionState, pod: PodRecord) -> bool:
    """Whether a victim is of no gang and no queue of ours."""
    member = state.members.get(pod.key)
    if member is None or member.pod is not pod:
        return True
    key = state.pod_group_of[pod.key][0]
    return key[0] == "Pod" and not state.workloads[key].queue
