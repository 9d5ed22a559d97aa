"""The gates on a workload's way: what it has passed, what it waits at, and how it would fare behind that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.api.messages import all_of, counted
from tutti.api.resources import format_amount
from tutti.cli.views.asking import missing
from tutti.cli.views.explain.model import QuotaUse, Step, Verdict
from tutti.cli.views.explain.quota import by_quota
from tutti.cli.views.explain.rooms import by_nodes
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.needs import Need, never_admitted
from tutti.engine.records.reasons import Reason
from tutti.engine.records.workloads import Workload
from tutti.engine.state import State
from tutti.quota.flavors import Queue

ALWAYS = (Gate.GATHER, Gate.QUEUE, Gate.QUOTA, Gate.PLACEMENT)
"""The gates that every workload passes; it waits for victims or a permit only where there is reason to."""


@dataclass(frozen=True, slots=True)
class Way:
    """A workload on its way.

    Attributes:
        queue: Its ClusterQueue, None where it needs none, or why it has none.
        needs: The pods that want nodes, or why none may have one yet.
        quota: What it asks of its queue.
        why: What it waits for; None where it has passed all gates.
    """

    state: State
    workload: Workload
    queue: Queue | Explanation | None
    needs: Sequence[Need] | Explanation
    quota: Sequence[QuotaUse]
    why: Explanation | None


def steps(way: Way) -> tuple[Step, ...]:
    """Return how a workload fares at each gate."""
    told = []
    passed = True
    for gate in Gate:
        if way.why is not None and gate is way.why.gate:
            told.append(Step(gate.value, Verdict.WAITS, way.why.message))
            passed = False
        elif gate in ALWAYS and passed:
            told.append(_behind(way, gate))
        elif gate in ALWAYS:
            told.append(_ahead(way, gate))
    return tuple(told)


def _behind(way: Way, gate: Gate) -> Step:
    """Return how a workload has passed a gate, or what it lacks of what it had passed with."""
    if gate is Gate.GATHER and missing(way.workload) > 0:
        return Step(gate.value, Verdict.SHORT, _passed(way, gate))
    leaves = way.why is not None and way.why.reason == Reason.MEMBER_LOST
    if gate is Gate.PLACEMENT and leaves and not isinstance(way.needs, Explanation):
        queue = way.queue if isinstance(way.queue, Queue) else None
        why = by_nodes(way.state, way.workload, queue, way.needs)
        if why is not None:
            return Step(gate.value, Verdict.SHORT, why.message)
    return Step(gate.value, Verdict.PASSED, _passed(way, gate))


def _ahead(way: Way, gate: Gate) -> Step:
    """Return how a workload would fare at a gate that it has not come to."""
    queue, needs = way.queue, way.needs
    if gate is Gate.QUEUE and isinstance(queue, Explanation):
        return Step(gate.value, Verdict.WOULD_WAIT, queue.message)
    if gate is Gate.QUEUE:
        return Step(gate.value, Verdict.WOULD_PASS, _passed(way, gate))
    if isinstance(needs, Explanation) or isinstance(queue, Explanation):
        what = "all members are" if isinstance(needs, Explanation) else "its queue is"
        return Step(gate.value, Verdict.UNKNOWN, f"known once {what} there")
    why = never_admitted(queue, needs)
    if why is not None and why.gate is not gate:
        why = None  # what keeps it from one gate says nothing of another
    if why is None and gate is Gate.QUOTA and queue is not None:
        why = by_quota(way.state, way.workload, queue, needs)
    elif why is None and gate is Gate.PLACEMENT:
        why = by_nodes(way.state, way.workload, queue, needs)
    if why is not None:
        return Step(gate.value, Verdict.WOULD_WAIT, why.message)
    return Step(gate.value, Verdict.WOULD_PASS, _passed(way, gate))


def _passed(way: Way, gate: Gate) -> str:
    required = 0 if isinstance(way.needs, Explanation) else sum(need.required for need in way.needs)
    if gate is Gate.GATHER:
        return _gathered(way.workload)
    if gate is Gate.QUEUE:
        return _queued(way.workload, way.queue)
    if gate is Gate.QUOTA and way.queue is None:
        return "it needs none"
    if not required:
        return "all required pods have theirs"
    if gate is Gate.QUOTA:
        return _has_quota(way.quota) or "there is enough once others have left"
    if way.why is not None and way.why.gate is Gate.VICTIMS:
        return "there is room once others have left"
    return f"nodes have room for {all_of(required, 'pod')}"


def _has_quota(quota: Sequence[QuotaUse]) -> str:
    """Return what is free, in the flavors of which there is enough."""
    short = {one.flavor for one in quota if one.missing}
    return ", ".join(_had(one) for one in quota if one.flavor not in short)


def _had(one: QuotaUse) -> str:
    needs, free = format_amount(one.resource, one.needs), format_amount(one.resource, one.free)
    return f"{needs} of {free} free {one.resource} in {one.flavor}"


def _gathered(workload: Workload) -> str:
    if workload.key[0] == "Pod":
        return "it is a pod by itself"
    tally = workload.tally()
    there, wanted = tally.live + tally.succeeded, workload.required
    groups = f" of {len(workload.groups)} pod groups" if len(workload.groups) > 1 else ""
    promised = 0 if missing(workload) > 0 else wanted - there
    more = f", {promised} promised" if promised > 0 else ""
    return f"{counted(there, 'member')}{groups} there{more}, {wanted} needed"


def _queued(workload: Workload, queue: Queue | Explanation | None) -> str:
    if not isinstance(queue, Queue):
        return "it names no queue, so it needs no quota"
    cohort = f", in cohort {queue.cohort}" if queue.cohort else ""
    return f"LocalQueue {workload.key[1]}/{workload.queue} leads to ClusterQueue {queue.name}{cohort}"
