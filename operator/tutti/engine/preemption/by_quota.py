"""Taking workloads out by the quota rules, so that one that waits gets quota and nodes.

Whom a queue may preempt, and in which order, are Kueue's rules (`quota/reclaim.py`, `quota/fair_reclaim.py`). What is
ours: victims are chosen only such that all required pods of the preemptor have nodes once these are gone, by all the
rules of placement; and the quota and the nodes are held for it from then on, so that nobody else is admitted to them,
the victims themselves among them, while it waits for the last of them to leave.

A member that leaves by itself, deleted by whoever made it, is no quota that comes, and its gang counts whole: the quota
is kept for the successor (`lifecycle/member_loss.py`), so that who counted on it would wait in vain. Kueue counts so,
too (0.20, cache/scheduler): a workload holds all of its quota until it is evicted or has finished, whatever becomes of
its pods. One that is evicted already goes first of all, and costs nobody anything, however long its pods take to end;
nobody else is taken out in its place, as is done where nodes are short (`overdue.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tutti.api.conditions import timestamp
from tutti.api.messages import counted
from tutti.engine.lifecycle import quota_usage
from tutti.engine.lifecycle.eviction import evict, evict_members
from tutti.engine.lifecycle.quota_usage import protected_until
from tutti.engine.preemption import PreemptionState, nominations
from tutti.engine.preemption.by_priority import (
    PREEMPTION_BY_SCHEDULER,
    may_preempt,
    preempt_by_priority,
    report_preempted,
)
from tutti.engine.preemption.consolidation import consolidate
from tutti.engine.preemption.departing_devices import wait_for_devices
from tutti.engine.preemption.moves import is_coming
from tutti.engine.preemption.nominated_room import minding_domains, precedence_of
from tutti.engine.preemption.quota_victims import HeldBack, QuotaVictims, choose_by_quota, demanded_by
from tutti.engine.records.discretion import workload_named
from tutti.engine.records.explanation import PATIENT, EvictionReason, Explanation, Gate, LifecycleStep
from tutti.engine.records.members import Member
from tutti.engine.records.nominations import Nomination
from tutti.engine.records.pod_sets import PreemptionOption
from tutti.engine.records.queue_entries import QueueEntry
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.quota.flavors import Queue
from tutti.quota.policy import NOBODY
from tutti.quota.reclaim import PreemptionReason, Victim
from tutti.quota.tree import Usage, add_to

MOST_NAMES = 3
"""How many victims are named in a message."""

_BY = {
    PreemptionReason.IN_CLUSTER_QUEUE: "it is in the same ClusterQueue {queue} (preemption.withinClusterQueue)",
    PreemptionReason.IN_COHORT_RECLAMATION: "ClusterQueue {queue} takes back what is its own",
    PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING: "ClusterQueue {queue} may borrow in its place",
    PreemptionReason.IN_COHORT_FAIR_SHARING: "ClusterQueue {queue} has less than its fair share",
}


class Preemption(NamedTuple):
    """What came of looking for others to take out.

    Attributes:
        waits: What the workload waits for from now on; None where nobody is taken out.
        lacks_nodes: Whether others could have been taken out for its quota, so that it may be nodes that it lacks.
    """

    waits: Explanation | None = None
    lacks_nodes: bool = False


NOBODY_LEAVES = Preemption()


def _is_nowhere_held_back(_: Usage) -> bool:
    return False


def preempt(
    state: PreemptionState,
    entry: QueueEntry,
    why: Explanation,
    options: Sequence[PreemptionOption],
    *,
    priority: int,
    moving: bool = False,
    held_back: HeldBack = _is_nowhere_held_back,
) -> Preemption:
    """Have others moved for a workload, or take them out, by the rules of its queue or else its pods' priority.

    Their room is held. Those for whom a place is kept, because they are being moved, have nobody go.

    Args:
        state: The engine's memory.
        entry: The workload.
        why: Why it could not be admitted.
        options: What it could have if others were gone, the best first.
        priority: That of its pods.
        moving: Whether others may be moved for it.
        held_back: Asked with those gone who would leave for it.
    """
    if is_coming(state, entry.workload) or why.reason in PATIENT:
        return NOBODY_LEAVES
    if any(need.pod_class.devices.full for need in entry.needs):
        return NOBODY_LEAVES  # room is of no use to a pod whose claim takes no more users
    with minding_domains(state):
        waits = wait_for_devices(state, entry, why, options, priority) if may_preempt(entry.needs) else None
        if waits is not None:
            return Preemption(waits)
        waits = consolidate(state, entry, why, options, priority) if moving else None
        if waits is not None:
            return Preemption(waits)
        by_quota = preempt_by_quota(state, entry, options, priority, held_back)
        if by_quota.waits is not None:
            return by_quota
        return by_quota._replace(waits=preempt_by_priority(state, entry, why, options, priority))


def preempt_by_quota(
    state: PreemptionState,
    entry: QueueEntry,
    options: Sequence[PreemptionOption],
    priority: int,
    held_back: HeldBack = _is_nowhere_held_back,
) -> Preemption:
    """Take others out for a workload by what its queue allows, and hold quota and room for it."""
    queue, workload = entry.queue, entry.workload
    if queue is None or queue.policy == NOBODY or not may_preempt(entry.needs):
        return NOBODY_LEAVES
    if not any(need.required for need in entry.needs):
        return NOBODY_LEAVES  # nobody leaves for members that a gang can do without
    behind = precedence_of(state, entry).lesser
    for yielding in ([], behind) if behind else ([],):
        for option in options:
            found = choose_by_quota(state, workload, queue, option, yielding, held_back)
            if found is not None:
                for key in yielding:
                    nominations.give_up_nomination(state, key)
                return Preemption(_take_out(state, entry, queue, option, found, priority))
    demands = (demanded_by(workload, queue, option) for option in options)
    lacks_nodes = any(state.rules.has_candidates(state.ledger.snapshot, demand) for demand in demands)
    _look_again(state, queue)
    return Preemption(lacks_nodes=lacks_nodes)


def _take_out(
    state: PreemptionState,
    entry: QueueEntry,
    queue: Queue,
    lacking: PreemptionOption,
    found: QuotaVictims,
    priority: int,
) -> Explanation:
    """Have the victims leave, and hold what they leave for the preemptor."""
    workload = entry.workload
    leaving, fewer = _who_leaves(state, found)
    for victim, other in leaving:
        _have_leave(state, other, victim.reason, workload, queue)
    for key, members in fewer.items():
        for_whom = f"{workload_named(workload, key[1], discreet=state.discreet)} of ClusterQueue {queue.name}"
        text = f"it makes room for {for_whom}; its gang does without it"
        evict_members(state, state.workloads[key], members, PREEMPTION_BY_SCHEDULER, text)
        for member in members:
            report_preempted(state, member.pod, for_whom)
    going = [one for _, other in leaving for one in other.members() if one.pod.place]
    pods = {one.pod.key: one.pod.uid for one in [*going, *(one for some in fewer.values() for one in some)]}
    until = state.now + state.configuration.victims_timeout_seconds
    why = _waiting_for(state, workload, found.victims, sum(need.required for need in lacking.needs), until)
    nomination = Nomination(
        priority=priority,
        spots=list(nominations.spots_of(state, lacking.needs, found.rows)),
        wants=nominations.wants_of(entry.needs),
        victims=pods,
        charges=lacking.charged,
        until=until,
        why=why,
        leaving=[*((other.name, None) for _, other in leaving), *_of_members(state, fewer)],
    )
    nominations.begin_nomination(state, workload.key, nomination)
    workload.cluster_queue = queue.name
    if pods:
        state.reached(workload, LifecycleStep.MAKES_ROOM, pods=len(pods))
    quota_usage.describe_holder(state, workload)
    if not pods:
        state.touch(workload.key)  # there is nobody to wait for
    return why


def _who_leaves(
    state: PreemptionState, found: QuotaVictims
) -> tuple[list[tuple[Victim, Workload]], dict[WorkloadKey, list[Member]]]:
    """Return which workloads leave as a whole, and which members of those that do not leave alone."""
    leaving: list[tuple[Victim, Workload]] = []
    fewer: dict[WorkloadKey, list[Member]] = {}
    whole = {victim.holder.name for victim in found.victims if victim.holder.name not in found.apart}
    for victim in found.victims:
        other = quota_usage.workload_of(state, victim.holder)
        assert other is not None  # else it would have been spared
        member = found.apart.get(victim.holder.name)
        if member is None:
            leaving.append((victim, other))
        elif other.name not in whole:
            fewer.setdefault(other.key, []).append(member)
    return leaving, fewer


def _have_leave(
    state: PreemptionState, other: Workload, reason: PreemptionReason, workload: Workload, queue: Queue
) -> None:
    """Have a workload leave for another one of a ClusterQueue; who only waits gives up what is held for it."""
    if other.phase is Phase.WAITING and other.held_since is None:  # it holds what others have left for it
        nominations.give_up_nomination(state, other.key)
        state.touch(other.key)
        return
    preemptor = workload_named(workload, other.key[1], discreet=state.discreet)
    text = f"it makes room for {preemptor}: {_BY[reason].format(queue=queue.name)}"
    evict(state, other, EvictionReason.PREEMPTED, text, preempted=reason.value, for_queue=queue.name)
    quota_usage.describe_holder(state, other)  # who comes next in this turn counts on what it leaves besides


def _of_members(state: PreemptionState, fewer: dict[WorkloadKey, list[Member]]) -> Iterator[tuple[str, Usage]]:
    """Yield whose quota becomes free with some members that leave alone, and how much of it."""
    for key, members in fewer.items():
        usage: Usage = {}
        for member in members:
            if member.charge is not None:
                add_to(usage, member.charge.usage)
        yield state.workloads[key].name, usage


def _waiting_for(
    state: PreemptionState, workload: Workload, victims: Sequence[Victim], pods: int, until: float
) -> Explanation:
    names = []
    for one in victims[:MOST_NAMES]:
        other = quota_usage.workload_of(state, one.holder)
        name = one.holder.name if other is None else workload_named(other, workload.key[1], discreet=state.discreet)
        names.append(f"{name} of {one.holder.queue}, {one.reason}")
    more = f"; and {len(victims) - MOST_NAMES} more" if len(victims) > MOST_NAMES else ""
    again = timestamp(until)
    text = f"waits for {counted(len(victims), 'workload')} to leave ({'; '.join(names)}{more})"
    if not victims:
        text = "takes over what was held for workloads that go after it"
    text += f"; the quota and the room for its {counted(pods, 'pod')} are held until {again}"
    return Explanation(Gate.VICTIMS, "WaitingForVictims", text, {"victims": str(len(victims)), "until": again})


def _look_again(state: PreemptionState, queue: Queue) -> None:
    """Have those that found no victims tried again when the first of those that are spared may go."""
    snapshot = state.ledger.snapshot
    if not state.catalog.protects_anybody:
        return
    for leaf in snapshot.queue(queue.name).root().leaves():
        for holder in snapshot.holders(leaf.name):
            other = quota_usage.workload_of(state, holder)
            until = 0.0 if other is None else protected_until(state, other)
            if until > state.now:
                state.nominations.look_again(until)
