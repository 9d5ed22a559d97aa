"""The whole answer about one workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tutti.cli.views.asking import Asked, short
from tutti.cli.views.explain.as_told import as_told
from tutti.cli.views.explain.model import Explained, QuotaUse, Remedy, Room
from tutti.cli.views.explain.quota import uses
from tutti.cli.views.explain.remedies import hopeless, remedies
from tutti.cli.views.explain.rooms import rooms
from tutti.cli.views.explain.steps import Way, steps
from tutti.cli.views.explain.trials import Case
from tutti.engine.explanation import Explanation
from tutti.engine.gathering.needs import needs_of
from tutti.engine.state import State
from tutti.engine.waiting.queues import queue_of
from tutti.engine.workloads import ADMITTED, Phase, Workload, WorkloadKey


def explained(asked: Asked, state: State, key: WorkloadKey, *, trying: bool = True) -> Explained:
    """Explain a workload.

    Args:
        asked: Who can be asked.
        state: What is known before anybody is tried (`Asked.stock`).
        key: A workload in it.
        trying: Whether to find out what would unblock it.
    """
    workload = state.workloads[key]
    queue, needs = queue_of(state, workload), needs_of(workload)
    at = None if isinstance(queue, Explanation) else queue
    mine = [] if isinstance(needs, Explanation) else needs
    quota: Sequence[QuotaUse] = () if at is None else uses(state, at, mine)
    room: Sequence[Room] = () if isinstance(queue, Explanation) else rooms(state, workload, at, mine)
    why = asked.what_if(asked.listed.seen, key)
    remedy: Sequence[Remedy] = ()
    without = ""
    if why is not None and trying:
        remedy = remedies(Case(asked, state, workload, at, why, mine, quota, room))
        without = "" if remedy else hopeless(workload, why)
    kind, namespace, name = key
    tally = workload.tally()
    cluster_queue = workload.cluster_queue or state.leads_to(namespace, workload.queue)
    return Explained(
        kind=kind,
        namespace=namespace,
        name=name,
        phase=workload.phase.value,
        summary=_summary(workload, why),
        queue=workload.queue,
        cluster_queue=cluster_queue,
        cohort=at.cohort if at is not None else "",
        priority=workload.priority,
        since=workload.queued_at,
        required=workload.required,
        members=tally.live + tally.succeeded + tally.failed,
        bound=tally.bound,
        position=state.places.of(workload),
        line=state.counts.of(cluster_queue).pending if cluster_queue else 0,
        steps=steps(Way(state, workload, queue, needs, quota, why)),
        quota=tuple(quota),
        rooms=tuple(room),
        remedies=tuple(remedy),
        told=None if (said := as_told(asked.listed, namespace, name)) is None else said.told,
        placed=dict(Counter(member.pod.node for member in workload.members() if member.pod.node)),
        hopeless=without,
    )


def _summary(workload: Workload, why: Explanation | None) -> str:
    if why is not None:
        some = " with some of its members" if workload.phase in ADMITTED and workload.tally().bound else ""
        return f"it waits{some} at the {why.gate.value} gate: {why.reason}"
    match workload.phase:
        case Phase.WAITING | Phase.LEAVING | Phase.RESERVED:
            return "it fits now: Tutti places it as soon as it looks (is the operator running?)"
        case Phase.BINDING:
            return "it has its nodes, and is being bound"
        case Phase.SCHEDULED:
            lost = short(workload)
            return f"it runs, with {lost}" if lost else "it runs"
        case Phase.FINISHED:
            return "it has ended"
