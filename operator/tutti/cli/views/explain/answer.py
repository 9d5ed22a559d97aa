"""The whole answer about one workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tutti.api.messages import counted
from tutti.cli.views.asking import Asked
from tutti.cli.views.degraded import Degraded, degraded_of, waiting_for
from tutti.cli.views.explain import losing
from tutti.cli.views.explain.as_told import as_told
from tutti.cli.views.explain.model import Explained, QuotaUse, Remedy, Room, Step, Successors, Verdict
from tutti.cli.views.explain.quota import uses
from tutti.cli.views.explain.remedies import hopeless, remedies
from tutti.cli.views.explain.rooms import rooms
from tutti.cli.views.explain.steps import Way, steps
from tutti.cli.views.explain.trials import Case
from tutti.cluster.muster import Doing
from tutti.engine.lifecycle.degraded import is_restarting
from tutti.engine.lifecycle.replacement import lent
from tutti.engine.reading.queues import queue_of
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.needs import Need, needs_of
from tutti.engine.records.reasons import Reason
from tutti.engine.records.workloads import ADMITTED, Phase, Workload, WorkloadKey
from tutti.engine.state import State
from tutti.quota.flavors import Queue

_LEAVES = "it is taken out at once, and starts again whole"


@dataclass(frozen=True, slots=True)
class _Look:
    """How a workload fares at the gates, in numbers, and what would help it."""

    steps: Sequence[Step]
    quota: Sequence[QuotaUse] = ()
    rooms: Sequence[Room] = ()
    remedies: Sequence[Remedy] = ()
    hopeless: str = ""
    successors: Successors | None = None


def explained(asked: Asked, state: State, key: WorkloadKey, *, trying: bool = True) -> Explained:
    """Explain a workload.

    Args:
        asked: Who can be asked.
        state: What is known before anybody is tried (`Asked.stock`).
        key: A workload in it.
        trying: Whether to find out what would unblock it.
    """
    workload = state.workloads[key]
    why = asked.what_if(asked.listed.seen, key)
    lacks, restarts = degraded_of(state, workload), is_restarting(workload)
    leaves = "" if why is None or why.reason != Reason.MEMBER_LOST else why.message
    if lacks is None or leaves:
        found = _look(asked, state, key, why, trying=trying)
    else:
        lacks = waiting_for(lacks, why)
        found = _look_at_degraded(asked, state, key, why, lacks, trying=trying)
    queue = queue_of(state.catalog, workload, is_required=state.configuration.require_queue)
    kind, namespace, name = key
    tally = workload.tally()
    cluster_queue = workload.cluster_queue or state.leads_to(namespace, workload.queue)
    return Explained(
        kind=kind,
        namespace=namespace,
        name=name,
        phase=workload.phase.value,
        summary="it is taken out at once, and starts again whole"
        if leaves
        else _summary(workload, why, lacks, restarts=restarts),
        queue=workload.queue,
        cluster_queue=cluster_queue,
        cohort=queue.cohort if isinstance(queue, Queue) else "",
        priority=workload.priority,
        since=workload.queued_at,
        required=workload.required,
        members=tally.live + tally.succeeded + tally.failed,
        bound=tally.bound,
        position=state.places.of(workload),
        line=state.counts.of(cluster_queue).pending if cluster_queue else 0,
        steps=tuple(found.steps),
        quota=tuple(found.quota),
        rooms=tuple(found.rooms),
        remedies=tuple(found.remedies),
        told=None if (said := as_told(asked.listed, namespace, name)) is None else said.told,
        placed=_on_nodes(workload, lost=False),
        hopeless=found.hopeless,
        degraded=lacks,
        successors=found.successors,
        early=() if lacks is None else tuple(losing.early(workload)),
        leaves_now=leaves,
        lost=_on_nodes(workload, lost=True),
    )


def _on_nodes(workload: Workload, *, lost: bool) -> dict[str, int]:
    """Return how many of its pods are on each node: those that are lost to it, or the others."""
    pods = (member.pod for member in workload.members() if member.pod.node)
    return dict(Counter(pod.node for pod in pods if (pod.counted is Doing.LOST) is lost))


def _look(asked: Asked, state: State, key: WorkloadKey, why: Explanation | None, *, trying: bool) -> _Look:
    """Look at the gates of a workload; what is kept for it in case that it lost members is free for it."""
    workload = state.workloads[key]
    with lent(state, workload):
        queue = queue_of(state.catalog, workload, is_required=state.configuration.require_queue)
        needs = needs_of(workload)
        at = None if isinstance(queue, Explanation) else queue
        needs = needs if isinstance(needs, Explanation) else _required(workload, needs)
        mine = [] if isinstance(needs, Explanation) else needs
        quota: Sequence[QuotaUse] = () if at is None else uses(state, at, mine)
        room: Sequence[Room] = () if isinstance(queue, Explanation) else rooms(state, workload, at, mine)
        told = steps(Way(state, workload, queue, needs, quota, why))
        if why is None or not trying:
            return _Look(told, quota, room)
        remedy = remedies(Case(asked, state, workload, at, why, mine, quota, room))
    return _Look(told, quota, room, remedy, "" if remedy else hopeless(workload, why))


def _required(workload: Workload, needs: list[Need]) -> list[Need]:
    return needs if workload.degraded_since is None else losing.as_required(needs)


def _look_at_degraded(
    asked: Asked, state: State, key: WorkloadKey, why: Explanation | None, lacks: Degraded, *, trying: bool
) -> _Look:
    """Look at the gates of the members that a gang lacks; where some do not exist yet, as if they did."""
    then = losing.with_successors(asked, state.workloads[key], lacks)
    if then is None or then is asked:
        found = _look(asked, state, key, why, trying=trying)
        return found if then is None else replace(found, successors=losing.outcome(asked, key)[0])
    gather, *_ = _look(asked, state, key, why, trying=False).steps
    coming, would = losing.outcome(then, key)
    found = _look(then, then.stock().state, key, would, trying=trying)
    ahead = [Step(one.gate, _AHEAD.get(one.verdict, one.verdict), one.message) for one in found.steps[1:]]
    return replace(found, steps=[gather, *ahead], successors=coming)


_AHEAD = {Verdict.PASSED: Verdict.WOULD_PASS, Verdict.WAITS: Verdict.WOULD_WAIT}


def _summary(workload: Workload, why: Explanation | None, lacks: Degraded | None, *, restarts: bool) -> str:
    if lacks is not None:
        waits = lacks.waits_for.partition(":")[0]
        return f"it runs with {lacks.has} of {counted(lacks.required, 'required member')}, and {waits}"
    again = "; it starts again whole, after it had lost members" if restarts else ""
    if why is not None:
        some = " with some of its members" if workload.phase in ADMITTED and workload.tally().bound else ""
        return f"it waits{some} at the {why.gate.value} gate: {why.reason}{again}"
    match workload.phase:
        case Phase.WAITING | Phase.LEAVING | Phase.RESERVED:
            return f"it fits now: Tutti places it as soon as it looks (is the operator running?){again}"
        case Phase.BINDING:
            return "it has its nodes, and is being bound"
        case Phase.SCHEDULED:
            return "it runs"
        case Phase.FINISHED:
            return "it has ended"
