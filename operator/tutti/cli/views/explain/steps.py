"""The gates on a workload's way: what it has passed, what it waits at, and how it would fare behind that."""

from __future__ import annotations

from collections.abc import Sequence

from tutti.api.resources import describe
from tutti.cli.views.drawing import count
from tutti.cli.views.explain.model import QuotaUse, Step, Verdict
from tutti.cli.views.explain.quota import by_quota
from tutti.cli.views.explain.rooms import by_nodes
from tutti.engine.explanation import Explanation, Gate
from tutti.engine.gathering.needs import Need, never_admitted
from tutti.engine.state import State
from tutti.engine.workloads import Workload
from tutti.quota.flavors import Queue

ALWAYS = (Gate.GATHER, Gate.QUEUE, Gate.QUOTA, Gate.PLACEMENT)
"""The gates that every workload passes; it waits for victims or a permit only where there is reason to."""


def steps(
    state: State,
    workload: Workload,
    queue: Queue | Explanation | None,
    needs: Sequence[Need] | Explanation,
    quota: Sequence[QuotaUse],
    why: Explanation | None,
) -> tuple[Step, ...]:
    """Return how a workload fares at each gate; `why` is what it waits for, None where it has passed all."""
    told = []
    passed = True
    for gate in Gate:
        if why is not None and gate is why.gate:
            told.append(Step(gate.value, Verdict.WAITS, why.message))
            passed = False
        elif gate in ALWAYS and passed:
            told.append(Step(gate.value, Verdict.PASSED, _passed(gate, workload, queue, needs, quota)))
        elif gate in ALWAYS:
            told.append(_ahead(gate, state, workload, queue, needs, quota))
    return tuple(told)


def _ahead(
    gate: Gate,
    state: State,
    workload: Workload,
    queue: Queue | Explanation | None,
    needs: Sequence[Need] | Explanation,
    quota: Sequence[QuotaUse],
) -> Step:
    """Return how a workload would fare at a gate that it has not come to."""
    if gate is Gate.QUEUE and isinstance(queue, Explanation):
        return Step(gate.value, Verdict.WOULD_WAIT, queue.message)
    if gate is Gate.QUEUE:
        return Step(gate.value, Verdict.WOULD_PASS, _passed(gate, workload, queue, needs, quota))
    if isinstance(needs, Explanation) or isinstance(queue, Explanation):
        what = "all members are" if isinstance(needs, Explanation) else "its queue is"
        return Step(gate.value, Verdict.UNKNOWN, f"known once {what} there")
    why = never_admitted(queue, needs)
    if why is None and gate is Gate.QUOTA and queue is not None:
        why = by_quota(state, workload, queue, needs)
    elif why is None and gate is Gate.PLACEMENT:
        why = by_nodes(state, workload, queue, needs)
    if why is not None:
        return Step(gate.value, Verdict.WOULD_WAIT, why.message)
    return Step(gate.value, Verdict.WOULD_PASS, _passed(gate, workload, queue, needs, quota))


def _passed(
    gate: Gate,
    workload: Workload,
    queue: Queue | Explanation | None,
    needs: Sequence[Need] | Explanation,
    quota: Sequence[QuotaUse],
) -> str:
    if gate is Gate.GATHER:
        return _gathered(workload)
    if gate is Gate.QUEUE:
        return _queued(workload, queue)
    if not isinstance(needs, Explanation) and not any(need.required for need in needs):
        return "all required pods have theirs"
    if gate is Gate.QUOTA:
        return ", ".join(_had(one) for one in quota if not one.missing) if queue is not None else "it needs none"
    pods = 0 if isinstance(needs, Explanation) else sum(need.required for need in needs)
    return f"nodes have room for {'the pod' if pods == 1 else f'all {pods} pods'}"


def _had(one: QuotaUse) -> str:
    needs, free = describe(one.resource, one.needs), describe(one.resource, one.free)
    return f"{needs} of {free} free {one.resource} in {one.flavor}"


def _gathered(workload: Workload) -> str:
    if workload.key[0] == "Pod":
        return "it is a pod by itself"
    tally = workload.tally()
    there = tally.live + tally.succeeded
    wanted = sum(group.min_count for group in workload.groups.values())
    groups = f" of {len(workload.groups)} pod groups" if len(workload.groups) > 1 else ""
    return f"{count(there, 'member')}{groups} there, {wanted} needed"


def _queued(workload: Workload, queue: Queue | Explanation | None) -> str:
    if not isinstance(queue, Queue):
        return "it names no queue, so it needs no quota"
    cohort = f", in cohort {queue.cohort}" if queue.cohort else ""
    return f"LocalQueue {workload.key[1]}/{workload.queue} leads to ClusterQueue {queue.name}{cohort}"
