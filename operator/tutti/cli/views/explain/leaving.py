"""Whose end would help: workloads, and pods of other schedulers, that have what is lacking.

A quick look at quota or nodes finds who is worth trying; the engine says whether it would do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tutti.api.messages import agreeing
from tutti.api.resources import format_amount
from tutti.cli.views.changing import without_pods
from tutti.cli.views.explain.model import Remedy
from tutti.cli.views.explain.rooms import by_nodes
from tutti.cli.views.explain.trials import Case, Idea, helping
from tutti.cluster.pods import PodRecord
from tutti.engine.records.workloads import WorkloadKey
from tutti.placement.preemption.lifting import Lifting

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
        with Lifting(state.cluster, slots, seen=True):
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
    amounts = ", ".join(f"{format_amount(resource, units)} {resource}" for resource, units in held.items() if units)
    return f"{'/'.join(name)} ({amounts})"


def _insufficient(case: Case) -> list[str]:
    reasons = (one.reason for room in case.rooms for one in room.ruled)
    found = (reason.removeprefix(_INSUFFICIENT) for reason in reasons if reason.startswith(_INSUFFICIENT))
    return list(dict.fromkeys(found))
