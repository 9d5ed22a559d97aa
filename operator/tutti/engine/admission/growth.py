"""How elastic gangs grow: which extra pods get nodes, and, where a queue goes by speed, whose are next.

A ClusterQueue with `surplusOrder: BySpeed` gives the next member, of gangs of one priority, to the one that gains most
from it for what it takes of the queue (`tutti.quota.speed_curves`). Gangs start with the members that they require, in
flavors with quota for more of them; the others compete afterwards. Of a gang whose turn it is as many members are taken
as gain more than the next one's of another gang, and then it stands in line again, with what it would gain then. Who
does not say how fast it is grows after those who do.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tutti.engine.admission import AdmissionState, extenders, quota_holdback
from tutti.engine.admission.attempt import (
    AdmissionAttempt,
    Taken,
    ask_for,
    charge_for,
    query_of,
    ways_of,
    widest_assignment,
)
from tutti.engine.admission.expected_starts import members_of
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.never_admitted import class_never_admitted
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Phase, Workload
from tutti.placement.gang import place_ask
from tutti.quota.assignment import AssignmentMode, WorkloadAssignment
from tutti.quota.flavors import FlavorByResource, Queue
from tutti.quota.speed_curves import NOTHING, step_of


def growth_step(workload: Workload, queue: Queue | None, needs: Sequence[PodSetRequest], more: int = 0) -> int:
    """Return the step of what the next member of a running gang gains; higher goes first, 0 where none counts.

    Args:
        workload: The gang.
        queue: The ClusterQueue that it stands at.
        needs: Its members that want nodes.
        more: How many more than it has it is taken to have.
    """
    if queue is None or not queue.by_speed or workload.phase is Phase.WAITING:
        return 0
    if workload.speed is None or not needs:
        return NOTHING
    return step_of(workload.speed.gain(members_of(workload) + more), _share(queue, needs[0]))


def _share(queue: Queue, need: PodSetRequest) -> float:
    """Return which part of all quota of a queue one member takes, of the resource of which that is largest."""
    whole: dict[str, int] = {}
    for (_, resource), quota in queue.quotas.items():
        whole[resource] = whole.get(resource, 0) + quota.nominal
    charged = need.pod_class.charged
    return max((charged.get(one, 0) / total for one, total in whole.items() if total > 0), default=0.0)


def as_it_starts(
    state: AdmissionState, entry: QueueEntry, choice: WorkloadAssignment | None
) -> WorkloadAssignment | None:
    """Return the flavors in which a workload starts, of which it was found what its required pods could have now.

    Of a gang that competes for its surplus later they are those with quota for as many of its members as possible, if
    its required ones come as cheap there.
    """
    if entry.queue is None or not entry.queue.by_speed or choice is None or choice.mode is not AssignmentMode.FIT:
        return choice
    if entry.workload.phase is not Phase.WAITING or not any(need.extra for need in entry.needs):
        return choice
    wide = widest_assignment(state, entry, choice, starts=True)
    if wide is None or wide.level > choice.level or len(wide.pod_sets) != len(choice.pod_sets):
        return choice
    return wide


def in_its_turn(entry: QueueEntry, needs: Sequence[PodSetRequest]) -> Sequence[PodSetRequest]:
    """Return needs with as many extra pods as are to be taken before another gang's next one is; itself: all."""
    workload, queue = entry.workload, entry.queue
    if queue is None or not queue.by_speed or not any(need.extra for need in needs):
        return needs
    if workload.phase is Phase.WAITING:
        return [msgspec.structs.replace(need, extra=0) for need in needs]
    rival = entry.equivalence.line.rival(entry)
    if rival is None or workload.speed is None:
        return needs
    rank, head, traits = entry.key
    most, left = sum(need.extra for need in needs), 1
    while left < most:  # gains never rise, so that the first that comes too late is the end
        later = head._replace(less_gain=-growth_step(workload, queue, needs, left))
        if (rank, later, traits) > rival.key:
            break
        left += 1
    if left == most:
        return needs
    cut: list[PodSetRequest] = []
    for need in needs:
        cut.append(msgspec.structs.replace(need, extra=min(left, need.extra)))
        left -= cut[-1].extra
    return cut


def with_gain(workload: Workload, queue: Queue | None, why: Explanation) -> Explanation:
    """Say beside why a member of a running gang waits what it would gain, where members go by that."""
    if queue is None or not queue.by_speed:
        return why
    if workload.speed is None:
        told = "it does not say what it gains from one more, so that it grows after those that do"
    else:
        had = max(1, members_of(workload))
        faster = 100 * workload.speed.gain(had) / workload.speed.speed(had)
        told = f"one more makes it {faster:.2g} % faster{learned_from(workload)}"
    text = f"{why.message}; members go to the gang that gains most from them, and {told}"
    return Explanation(why.gate, why.reason, text, why.details)


def learned_from(workload: Workload) -> str:
    """Return what is told of where its speed is from that was learned, and how far it was wrong; "" of one said."""
    known = workload.speed_learned
    if known is None:
        return ""
    members = f"{known.fewest} to {known.most} members"
    return f" (by {known.runs} runs of its kind with {members}, ± {100 * known.error:.2g} %)"


def has_all(taken: Sequence[Taken], needs: Sequence[PodSetRequest]) -> bool:
    """Whether nodes were taken for all pods of needs."""
    return sum(len(one.rows) for one in taken) == sum(need.required + need.extra for need in needs)


def take_extra(attempt: AdmissionAttempt, need: PodSetRequest, taken: Sequence[Taken]) -> list[Taken]:
    """Take quota and nodes for as many extra pods of a need as there is room for, in the flavors of those like them.

    Args:
        attempt: The try at the workload; what they use of quota is charged in it.
        need: Whose they are.
        taken: What the attempt has taken before.

    Returns:
        What has been taken now.
    """
    state, queue = attempt.state, attempt.queue
    if class_never_admitted(queue, need.pod_class) is not None:
        return []
    found: list[FlavorByResource] = [{}] if queue is None else ways_of(attempt, queue, need, taken)
    left, start = need.extra, need.required
    more: list[Taken] = []
    for assignment in found:
        charge = charge_for(attempt, need, assignment)
        most = left
        if charge is not None and queue is not None:
            most = min(left, quota_holdback.room_beside_holdbacks(state, queue, charge.usage, attempt.workload))
        ask = ask_for(state, need, assignment, extra=most, taken=[*taken, *more])
        if extenders.consult(state, [query_of(ask, need)], attempt.profile) is not None:
            break
        rows = place_ask(state.cluster.nodes, attempt.transaction, ask, attempt.profile)
        if rows is None or not len(rows):
            continue
        if charge is not None:
            attempt.charge(charge, len(rows))
        more.append(Taken(need, start, rows, charge))
        left, start = left - len(rows), start + len(rows)
        if not left:
            break
    return more
