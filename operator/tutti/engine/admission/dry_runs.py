"""What an admission would come to: the same decision as `admission.reserve`, and nothing changes by it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tutti.engine.admission import AdmissionState
from tutti.engine.admission.attempt import AdmissionAttempt, Admitted, Refusal, flavor_chooser
from tutti.engine.admission.growth import with_gain
from tutti.engine.admission.required_pods import take_required, why_limited, within_limits
from tutti.engine.admission.shortages import gang_full, no_gain, no_room_left
from tutti.engine.reading.resolution import queue_of
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.never_admitted import class_never_admitted
from tutti.engine.records.pod_sets import PodSetRequest, PreemptionOption, pending_pod_sets, quota_pod_sets
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Workload
from tutti.quota.flavors import PodSet, Queue


def look(state: AdmissionState, entry: QueueEntry) -> Admitted | Explanation:
    """Return what would be reserved for the required pods of a workload, or why not.

    Of a gang that runs already these are the members that it has too few of.
    """
    needs, pod_sets = [need for need in entry.needs if need.required], entry.equivalence.pod_sets
    if not needs:
        needs = _to_be_whole(entry.workload, entry.needs)
        pod_sets = quota_pod_sets(needs)
    found = _tried(state, entry.workload, entry.queue, needs, pod_sets)
    return found.why if isinstance(found, Refusal) else found


def why_surplus_waits(state: AdmissionState, workload: Workload) -> Explanation | None:
    """Return why the members that are still without a node, beyond the required ones, have none; None if none are."""
    queue = queue_of(state.catalog, workload, is_required=state.configuration.require_queue)
    if isinstance(queue, Explanation):
        return queue
    if not workload.counts().waiting:
        return None
    needs = pending_pod_sets(workload)
    if isinstance(needs, Explanation):
        return needs
    wanting = {member.pod.key: need for need in needs for member in need.members}
    waiting = [m for m in workload.members() if m.pod.placeable]
    first = next((m for m in waiting if m.pod.key in wanting), None)
    if first is None:  # those that wait are more than may run at once, or than it gains from
        return no_gain(workload) or gang_full(workload.groups[state.pod_group_of[waiting[0].pod.key][1]])
    never = class_never_admitted(queue, first.pod.pod_class)
    if never is not None:
        return never
    need = msgspec.structs.replace(wanting[first.pod.key], members=[first], required=1, extra=0, growth=0)
    found = _tried(state, workload, queue, [need], quota_pod_sets([need]))
    return with_gain(workload, queue, found.why if isinstance(found, Refusal) else no_room_left())


def lacking_to_be_whole(state: AdmissionState, entry: QueueEntry) -> Sequence[PreemptionOption]:
    """Return what a gang that runs with fewer members than it needs lacks for those; nothing where it has them.

    Nobody is to leave for such as may not start though there is room.
    """
    needs = _to_be_whole(entry.workload, within_limits(state, entry, entry.needs))
    if not needs:
        return ()
    found = _tried(state, entry.workload, entry.queue, needs, quota_pod_sets(needs))
    return found.options if isinstance(found, Refusal) else ()


def _to_be_whole(workload: Workload, needs: Sequence[PodSetRequest]) -> list[PodSetRequest]:
    """Return those of needs that a gang which runs with fewer members than it needs is short of, as required ones."""
    short: list[PodSetRequest] = []
    missing = {id(group): group.min_count - group.counts().placed for group in workload.groups.values()}
    for need in needs:
        count = min(missing[id(need.group)], need.extra)
        if count > 0:
            missing[id(need.group)] -= count
            short.append(msgspec.structs.replace(need, members=need.members[:count], required=count, extra=0, growth=0))
    return short


def _tried(
    state: AdmissionState,
    workload: Workload,
    queue: Queue | None,
    needs: Sequence[PodSetRequest],
    pod_sets: Sequence[PodSet],
) -> Admitted | Refusal:
    """Return what the required pods of needs would get now, in flavors chosen anew, and give it back.

    Args:
        state: The engine's memory.
        workload: Whose they are.
        queue: Its ClusterQueue; None where it needs none.
        needs: What they want; of extra pods nothing is tried.
        pod_sets: What each of them asks of quota.
    """
    why = why_limited(state, workload, queue, needs)
    if why is not None:
        return Refusal(why)
    choice = None if queue is None or not pod_sets else flavor_chooser(state, queue, workload).assign(pod_sets)
    with state.cluster.transaction() as transaction:
        return take_required(AdmissionAttempt(state, workload, queue, transaction), needs, pod_sets, choice)
