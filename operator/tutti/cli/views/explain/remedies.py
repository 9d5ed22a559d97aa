"""What would unblock a workload, by the gate that it waits at; everything that is told has been tried.

Whose end would help: workloads, and pods of other schedulers, that have what is lacking. A quick look at quota or nodes
finds who is worth trying; the engine says whether it would do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tutti.api.resources import describe
from tutti.api.wording import agreeing
from tutti.cli.views.explain import changes, node_changes
from tutti.cli.views.explain.changes import Case, Idea, helping, tried
from tutti.cli.views.explain.gates import by_nodes
from tutti.cli.views.explain.model import Remedy
from tutti.cli.views.what_if import without_pods
from tutti.cluster.pods import PodRecord
from tutti.engine.records.explanation import LACKS_NODE, Explanation, Gate
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.placement.preemption.units import SimulatedRemoval

_SINGLES = 2
"""So many are told of whose end alone would do."""
_TRIED = 6
_LOOKED_AT = 200
_TOGETHER = 12
"""At most so many are told of who would have to end together."""
_INSUFFICIENT = "Insufficient "


@dataclass(frozen=True, slots=True)
class Leaver:
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


Enough = Callable[[Sequence[Leaver]], bool]
"""Whether what is lacking would be there without some, as a quick look says."""


def by_leaving(case: Case, leavers: Sequence[Leaver], enough: Enough) -> list[Remedy]:
    """Return whose end would help: some whose end alone would do, the least of them first, else several together."""
    order = sorted(leavers, key=_order)[:_LOOKED_AT]
    singles = (_idea(case, [one]) for one in order if enough([one]))
    found = helping(case, singles, good=_SINGLES, most=_TRIED)
    together = [] if found else _fewest(order, enough)
    return found or helping(case, [_idea(case, together)] if together else [], good=1, most=1)


def _order(one: Leaver) -> tuple[bool, int, float]:
    return one.part < 1, one.rank, one.part if one.part >= 1 else -one.part


def of_quota(case: Case) -> tuple[list[Leaver], Enough]:
    """Return those in the same quota tree who hold what is lacking."""
    state, queue = case.state, case.queue
    assert queue is not None  # it lacks quota
    holdings = state.holdings
    short = {(one.flavor, one.resource): one for one in case.quota if one.missing}
    root = holdings.root_of(queue.name)
    leavers = []
    for other in state.workloads.values():
        held = {what: units for what, units in holdings.held_by(other.name).items() if what in short and units}
        if held and other is not case.workload and holdings.root_of(other.cluster_queue) == root:
            part = max(units / short[what].missing for what, units in held.items())
            pods = [member.pod for member in other.members() if member.pod.place]
            told = _told(other.key[1:], {resource: units for (_, resource), units in held.items()})
            # What a queue gives back of its own, others of its cohort may have first.
            borrows = holdings.tree.queues[other.cluster_queue].borrows_any(held)
            rank = 0 if other.cluster_queue == queue.name else 1 if borrows else 2
            leavers.append(Leaver(told, pods, part, other.name, rank))

    def enough(some: Sequence[Leaver]) -> bool:
        node = holdings.tree.queues[queue.name]
        with holdings.snapshot.trial():
            for one in some:
                for where, usage in holdings.used_by(one.holder):
                    holdings.snapshot.refund(where, usage)
            lacking = {one.flavor for one in case.quota if node.available((one.flavor, one.resource)) < one.needs}
        return any(one.flavor not in lacking for one in case.quota)

    return leavers, enough


def of_nodes(case: Case) -> tuple[list[Leaver], Enough]:
    """Return those on nodes who have a resource that is lacking on some node, whichever scheduler placed them."""
    state = case.state
    wanted = {
        resource: max(1, sum(need.klass.requests.get(resource, 0) * need.required for need in case.needs))
        for resource in _insufficient(case)
    }
    parties: dict[WorkloadKey, list[PodRecord]] = {}
    for record in state.cluster.pods.values():
        home = state.home[record.key][0] if record.key in state.home else ("Pod", *record.key)
        if record.slot >= 0 and home != case.workload.key and any(record.held.get(name) for name in wanted):
            parties.setdefault(home, []).append(record)
    leavers = []
    for home, pods in parties.items():
        held = {name: sum(pod.held.get(name, 0) for pod in pods) for name in wanted}
        part = max(held[name] / wanted[name] for name in wanted)
        leavers.append(Leaver(_told(home[1:], held), pods, part))

    def enough(some: Sequence[Leaver]) -> bool:
        slots = np.array([pod.slot for one in some for pod in one.pods], dtype=np.int64)
        with SimulatedRemoval(state.cluster, slots, seen=True):
            return by_nodes(state, case.workload, case.queue, case.needs) is None

    return leavers, enough


def _fewest(order: Sequence[Leaver], enough: Enough) -> list[Leaver]:
    """Return some who together would do, none of whom can be left out; nobody where too many would be needed."""
    some: list[Leaver] = []
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


def _idea(case: Case, leavers: Sequence[Leaver]) -> Idea:
    gone = {pod.key for one in leavers for pod in one.pods}
    verb = agreeing(len(leavers), ("ends", "end"))
    return Idea(f"{' and '.join(one.what for one in leavers)} {verb}", without_pods(case.seen, gone))


def _told(name: Sequence[str], held: Mapping[str, int]) -> str:
    amounts = ", ".join(f"{describe(resource, units)} {resource}" for resource, units in held.items() if units)
    return f"{'/'.join(name)} ({amounts})"


def _insufficient(case: Case) -> list[str]:
    reasons = (one.reason for room in case.rooms for one in room.ruled)
    found = (reason.removeprefix(_INSUFFICIENT) for reason in reasons if reason.startswith(_INSUFFICIENT))
    return list(dict.fromkeys(found))


_GOOD = 2
_MOST = 6


def remedies(case: Case) -> tuple[Remedy, ...]:
    """Return what would have the workload placed, or, where nothing is known to, how far the first steps would lead."""
    match case.why.gate:
        case Gate.GATHER:
            return _first_steps(case, changes.members(case))
        case Gate.QUEUE:
            return _first_steps(case, changes.queues(case))
        case Gate.QUOTA if case.why.reason == "ResourceNotCovered":
            return _first_steps(case, changes.covered(case))
        case Gate.QUOTA:
            found = [
                *by_leaving(case, *of_quota(case)),
                *helping(case, changes.reclaiming(case), good=1, most=1),
                *helping(case, changes.more_quota(case), good=_GOOD, most=_MOST),
            ]
            return tuple(found) or _first_steps(case, changes.more_quota(case))
        case Gate.PLACEMENT:
            return tuple(_about_nodes(case))
        case Gate.VICTIMS | Gate.PERMIT:
            return ()


def hopeless(workload: Workload, why: Explanation) -> str:
    """Return what is said where there is no remedy; "" where none is needed, since time or others will tell."""
    tried = "no cordon or taint taken off, no flavor's label, nobody's end, and no more nodes, larger ones included"
    match why.gate:
        case Gate.VICTIMS | Gate.PERMIT:
            return ""
        case Gate.GATHER if not any(group.members for group in workload.groups.values()):
            return (
                "Its pods have to be created: none of them is there that names it and has Tutti's schedulerName. Where "
                "what makes them is there, its events say what keeps it from that, such as a full ResourceQuota: "
                f"kubectl get events -n {workload.key[1]} --field-selector reason=FailedCreate"
            )
        case Gate.PLACEMENT if why.reason in LACKS_NODE:
            first = "" if why.reason == "Impossible" else ", or who goes before it has to have left"
            return f"Nothing that was tried would help: {tried}. What the line with ✗ says has to be changed{first}."
        case _:
            return "Nothing could be tried that is known to help. What the line with ✗ says has to be changed."


def _about_nodes(case: Case) -> Iterable[Remedy]:
    yield from helping(case, node_changes.uncordoned(case), good=_GOOD, most=_MOST)
    yield from helping(case, node_changes.untainted(case), good=_GOOD, most=_MOST)
    yield from helping(case, node_changes.labelled(case), good=1, most=_MOST)
    yield from by_leaving(case, *of_nodes(case))
    yield from helping(case, node_changes.more(case), good=1, most=_MOST)
    yield from _first_steps(case, changes.smaller(case))


def _first_steps(case: Case, ideas: Iterable[Idea]) -> tuple[Remedy, ...]:
    """Try a few things that have to be done anyway, and tell of each what would come then."""
    return tuple(tried(case, idea) for idea in list(ideas)[:_MOST])
