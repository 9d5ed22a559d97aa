"""What would unblock a workload, by the gate that it waits at; everything that is told has been tried.

Whose end would help: workloads, and pods of other schedulers, that have what is lacking. A quick look at quota or nodes
finds who is worth trying; the engine says whether it would do.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tutti.api.conventions.named_groups import POD_GROUP
from tutti.api.messages import agreeing, counted, escape_controls, shortened
from tutti.api.network import GROUP_LABEL
from tutti.api.resources import format_amount
from tutti.cli.views.explain import changes, node_changes
from tutti.cli.views.explain.changes import (
    Change,
    UnplacedWorkload,
    helpful,
    helpful_changes,
    tried_changes,
    try_change,
)
from tutti.cli.views.explain.gates import node_shortage
from tutti.cli.views.explain.model import Remedy
from tutti.cli.views.explain.moves import helpful_moves
from tutti.cli.views.what_if import without_pods
from tutti.cluster.devices.offers import CANNOT_ALLOCATE
from tutti.cluster.pods import PodRecord
from tutti.engine.records.explanation import LACKS_NODE, PATIENT, WAITING_FOR_OTHERS, Explanation, Gate
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.placement.plugins.network_overhead import NO_BANDWIDTH
from tutti.placement.preemption.units import SimulatedRemoval

_SINGLES = 2
"""So many are told of whose end alone would do."""
_TRIED = 6
_LOOKED_AT = 200
_TOGETHER = 12
"""At most so many are told of who would have to end together."""
_INSUFFICIENT = "Insufficient "


@dataclass(frozen=True, slots=True)
class PossibleEnd:
    """Somebody who could end.

    Attributes:
        what: Who they are and what they have, in words.
        pods: Theirs that are on nodes.
        part: How much of what is lacking they have; 1 or more is all of it.
        holder: What they hold quota as, or "".
        rank: Those of lower rank are tried first.
    """

    what: str
    pods: Sequence[PodRecord]
    part: float
    holder: str = ""
    rank: int = 0


Enough = Callable[[Sequence[PossibleEnd]], bool]
"""Whether what is lacking would be there without some, as a quick look says."""


def remedies_by_ends(case: UnplacedWorkload, leavers: Sequence[PossibleEnd], enough: Enough) -> list[Remedy]:
    """Return whose end would help: some whose end alone would do, the least of them first, else several together."""
    order = sorted(leavers, key=_order)[:_LOOKED_AT]
    singles = (_idea(case, [one]) for one in order if enough([one]))
    found = helpful_changes(case, singles, good=_SINGLES, most=_TRIED)
    together = [] if found else _fewest(order, enough)
    return found or helpful_changes(case, [_idea(case, together)] if together else [], good=1, most=1)


def _order(one: PossibleEnd) -> tuple[bool, int, float]:
    return one.part < 1, one.rank, one.part if one.part >= 1 else -one.part


def users_of_quota(case: UnplacedWorkload) -> tuple[list[PossibleEnd], Enough]:
    """Return those in the same quota tree who hold what is lacking."""
    state, queue = case.state, case.queue
    assert queue is not None  # it lacks quota
    ledger = state.ledger
    short = {(one.flavor, one.resource): one for one in case.quota if one.missing}
    root = ledger.root_of(queue.name)
    leavers = []
    for other in state.workloads.values():
        held = {what: units for what, units in ledger.held_by(other.name).items() if what in short and units}
        if held and other is not case.workload and ledger.root_of(other.cluster_queue) == root:
            part = max(units / short[what].missing for what, units in held.items())
            pods = [member.pod for member in other.members() if member.pod.place]
            told = _told(other.key[1:], {resource: units for (_, resource), units in held.items()})
            # What a queue gives back of its own, others of its cohort may have first.
            borrows = ledger.tree.queues[other.cluster_queue].borrows_any(held)
            rank = 0 if other.cluster_queue == queue.name else 1 if borrows else 2
            leavers.append(PossibleEnd(told, pods, part, other.name, rank))

    def enough(some: Sequence[PossibleEnd]) -> bool:
        node = ledger.tree.queues[queue.name]
        with ledger.snapshot.trial():
            for one in some:
                for where, usage in ledger.used_by(one.holder):
                    ledger.snapshot.refund(where, usage)
            lacking = {one.flavor for one in case.quota if node.available((one.flavor, one.resource)) < one.needs}
        return any(one.flavor not in lacking for one in case.quota)

    return leavers, enough


def users_of_nodes(case: UnplacedWorkload) -> tuple[list[PossibleEnd], Enough]:
    """Return those on nodes who have a resource that is lacking on some node, whichever scheduler placed them."""
    state = case.state
    wanted = {
        resource: max(1, sum(need.pod_class.requests.get(resource, 0) * need.required for need in case.needs))
        for resource in _insufficient(case)
    }
    by_workload: dict[WorkloadKey, list[PodRecord]] = {}
    for record in state.cluster.pods.values():
        group = state.pod_group_of[record.key][0] if record.key in state.pod_group_of else ("Pod", *record.key)
        if record.slot >= 0 and group != case.workload.key and any(record.held.get(name) for name in wanted):
            by_workload.setdefault(group, []).append(record)
    leavers = []
    for group, pods in by_workload.items():
        held = {name: sum(pod.held.get(name, 0) for pod in pods) for name in wanted}
        part = max(held[name] / wanted[name] for name in wanted)
        leavers.append(PossibleEnd(_told(group[1:], held), pods, part))

    def enough(some: Sequence[PossibleEnd]) -> bool:
        slots = np.array([pod.slot for one in some for pod in one.pods], dtype=np.int64)
        with SimulatedRemoval(state.cluster, slots, seen=True):
            return node_shortage(state, case.workload, case.queue, case.needs) is None

    return leavers, enough


def users_of_links(case: UnplacedWorkload) -> tuple[list[PossibleEnd], Enough]:
    """Return the parts of applications that may have the bandwidth which is lacking, those of its own first."""
    reasons = (one.reason for room in case.rooms for one in room.ruled)
    if not any(reason.startswith(NO_BANDWIDTH) for reason in reasons):
        return [], lambda _: False
    mine = {need.pod_class.labels.get(GROUP_LABEL) for need in case.needs}
    state, parts = case.state, dict[WorkloadKey, list[PodRecord]]()
    for record in state.cluster.pods.values():
        if record.slot >= 0 and GROUP_LABEL in record.pod_signature.labels:
            group = state.pod_group_of[record.key][0] if record.key in state.pod_group_of else ("Pod", *record.key)
            parts.setdefault(group, []).append(record)
    parts.pop(case.workload.key, None)
    leavers = []
    for group, pods in parts.items():
        application = pods[0].pod_signature.labels[GROUP_LABEL]
        told = f"{'/'.join(group[1:])} (of AppGroup {escape_controls(shortened(application))})"
        leavers.append(PossibleEnd(told, pods, 1.0, rank=application not in mine))
    return leavers, lambda _: True  # the engine tells


def users_of_devices(case: UnplacedWorkload) -> tuple[list[PossibleEnd], Enough]:
    """Return those on nodes who have devices that claims asked for, where claims find none on some node."""
    if not any(one.reason == CANNOT_ALLOCATE for room in case.rooms for one in room.ruled):
        return [], lambda _: False
    state, wanted = case.state, sum(need.required for need in case.needs)
    held, pods = Counter[WorkloadKey](), dict[WorkloadKey, list[PodRecord]]()
    for record in state.cluster.pods.values():
        claims = state.cluster.nodes.devices.book.claims_of(record.device_uses) if record.place else []
        count = sum(len(one.status.allocation.devices.results) for one in claims if one.status.allocation is not None)
        if count:
            group = state.pod_group_of[record.key][0] if record.key in state.pod_group_of else ("Pod", *record.key)
            held[group] += count
            pods.setdefault(group, []).append(record)
    pods.pop(case.workload.key, None)
    leavers = [
        PossibleEnd(f"{'/'.join(key[1:])} ({counted(held[key], 'device')})", theirs, held[key] / max(1, wanted))
        for key, theirs in pods.items()
    ]
    return leavers, lambda _: True  # the engine tells


def _fewest(order: Sequence[PossibleEnd], enough: Enough) -> list[PossibleEnd]:
    """Return some who together would do, none of whom can be left out; nobody where too many would be needed."""
    some: list[PossibleEnd] = []
    for one in order[:_TOGETHER]:
        some.append(one)
        if enough(some):
            break
    else:
        return []
    for one in list(some):
        fewer = [other for other in some if other is not one]
        if fewer and enough(fewer):
            some = fewer
    return some


def _idea(case: UnplacedWorkload, leavers: Sequence[PossibleEnd]) -> Change:
    gone = {pod.key for one in leavers for pod in one.pods}
    verb = agreeing(len(leavers), ("ends", "end"))
    return Change(f"{' and '.join(one.what for one in leavers)} {verb}", without_pods(case.seen, gone))


def _told(name: Sequence[str], held: Mapping[str, int]) -> str:
    amounts = ", ".join(f"{format_amount(resource, units)} {resource}" for resource, units in held.items() if units)
    return f"{'/'.join(name)} ({amounts})"


def _insufficient(case: UnplacedWorkload) -> list[str]:
    reasons = (one.reason for room in case.rooms for one in room.ruled)
    found = (reason.removeprefix(_INSUFFICIENT) for reason in reasons if reason.startswith(_INSUFFICIENT))
    return list(dict.fromkeys(found))


_GOOD = 2
_MOST = 6


def remedies(case: UnplacedWorkload) -> tuple[Remedy, ...]:
    """Return what would have the workload placed, or, where nothing is known to, how far the first steps would lead."""
    match case.why.gate:
        case Gate.GATHER:
            return _first_steps(case, changes.complete_gang(case))
        case Gate.QUEUE:
            return _first_steps(case, changes.enter_queue(case))
        case Gate.QUOTA if case.why.reason == "ResourceNotCovered":
            return _first_steps(case, changes.cover_resources(case))
        case Gate.QUOTA:
            found = [
                *remedies_by_ends(case, *users_of_quota(case)),
                *helpful_changes(case, changes.reclaim_lent_quota(case), good=1, most=1),
            ]
            raised = tried_changes(case, changes.raise_quota(case), good=_GOOD, most=_MOST)
            return tuple([*found, *helpful(raised)] or raised)
        case Gate.PLACEMENT:
            return tuple(_about_nodes(case))
        case Gate.THROTTLE | Gate.USER_LIMIT | Gate.VICTIMS | Gate.PERMIT | Gate.CHECKS:
            return ()


def why_no_remedy(workload: Workload, why: Explanation, unused: Collection[str] = ()) -> str:
    """Return what is said where there is no remedy; "" where none is needed, since time or others will tell.

    Args:
        workload: Who waits.
        why: At which gate.
        unused: The names of PodGroups of its namespace that no pods name: one of them may be meant by its pods.
    """
    tried = (
        "no cordon or taint taken off, no flavor's label, no other nodeSelector, nobody's end, and no more nodes, "
        "larger ones included"
    )
    match why.gate:
        case Gate.THROTTLE | Gate.USER_LIMIT | Gate.VICTIMS | Gate.PERMIT | Gate.CHECKS:
            return ""
        case Gate.QUEUE | Gate.PLACEMENT if why.reason in (*PATIENT, WAITING_FOR_OTHERS):
            return ""
        case Gate.GATHER if why.reason == "PodGroupNotFound":
            near = difflib.get_close_matches(workload.key[2], unused, n=1)
            meant = f": no pods name PodGroup {near[0]}, which may be the one" if near else ""
            return f"The PodGroup that its pods name has to be created, or their label has to name another{meant}."
        case Gate.GATHER if not any(group.members for group in workload.groups.values()):
            label = f"label {POD_GROUP}: {workload.key[2]}" if workload.key[0] == "PodGroup" else "its labels"
            return (
                f"Its pods have to be created: none is there that names it ({label}) and has Tutti's schedulerName. "
                "Where what makes them is there, its events say what keeps it from that, such as a full ResourceQuota: "
                f"kubectl get events -n {workload.key[1]} --field-selector reason=FailedCreate"
            )
        case Gate.PLACEMENT if why.reason in LACKS_NODE:
            first = "" if why.reason == "Impossible" else ", or who goes before it has to have left"
            return f"Nothing that was tried would help: {tried}. What the line with ✗ says has to be changed{first}."
        case _:
            return "Nothing could be tried that is known to help. What the line with ✗ says has to be changed."


def _about_nodes(case: UnplacedWorkload) -> Iterable[Remedy]:
    yield from helpful_changes(case, changes.select_other_nodes(case), good=1, most=_MOST)
    yield from helpful_changes(case, node_changes.uncordon(case), good=_GOOD, most=_MOST)
    yield from helpful_changes(case, node_changes.tolerate_taints(case), good=_GOOD, most=_MOST)
    yield from helpful_changes(case, node_changes.label_nodes(case), good=1, most=_MOST)
    yield from helpful_moves(case)
    yield from remedies_by_ends(case, *users_of_nodes(case))
    yield from remedies_by_ends(case, *users_of_links(case))
    yield from remedies_by_ends(case, *users_of_devices(case))
    yield from helpful_changes(case, node_changes.add_nodes(case), good=1, most=_MOST)
    yield from _first_steps(case, changes.smaller_requests(case))


def _first_steps(case: UnplacedWorkload, ideas: Iterable[Change]) -> tuple[Remedy, ...]:
    """Try a few things that have to be done anyway, and tell of each what would come then."""
    return tuple(try_change(case, idea) for idea in list(ideas)[:_MOST])
