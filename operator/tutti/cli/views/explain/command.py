"""`tutti explain workload`: why it waits, gate by gate, and what would unblock it.

Of a gang that runs with fewer members than it needs: what becomes of its successors, and what would end its window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import click
import msgspec

from tutti.api.messages import counted
from tutti.cli.grouping import CommandGroup
from tutti.cli.views.command_line import NO, ViewOptions, fail, names, read_manifest, view
from tutti.cli.views.degraded import DegradedGang, degraded_of, waiting_for
from tutti.cli.views.explain.autoscaling import what_autoscalers_see
from tutti.cli.views.explain.changes import UnplacedWorkload
from tutti.cli.views.explain.drawing import draw_explained
from tutti.cli.views.explain.elsewhere import UnfindableError, compare_clusters, draw_compared
from tutti.cli.views.explain.gates import GateContext, gate_steps, node_rooms, quota_uses
from tutti.cli.views.explain.leaving import leaving_pods
from tutti.cli.views.explain.lookup import PLACES, explained_by_status, find_workload, waits_at
from tutti.cli.views.explain.model import (
    ExplainedWorkload,
    GateOutcome,
    GateStep,
    NodeRoom,
    OperatorStatus,
    QuotaUse,
    Remedy,
    Successors,
)
from tutti.cli.views.explain.remedies import remedies, why_no_remedy
from tutti.cli.views.explain.wanted import WantedError
from tutti.cli.views.order_texts import order_said
from tutti.cli.views.other_settings import is_by_other_settings
from tutti.cli.views.pod_copies import with_claims
from tutti.cli.views.what_if import ObservedCluster, pod_of, successors, waits_for
from tutti.cluster.pods import PodPhase
from tutti.engine.admission.energy import energy_of
from tutti.engine.cycle.state import State
from tutti.engine.lifecycle.checks import lending_held
from tutti.engine.lifecycle.member_loss import is_restarting, restarts_at, short_groups
from tutti.engine.preemption.moves import lending_own
from tutti.engine.reading.resolution import queue_of
from tutti.engine.records.explanation import EvictionReason, Explanation
from tutti.engine.records.observations import AnyObservation
from tutti.engine.records.pod_sets import PodSetRequest, pending_pod_sets
from tutti.engine.records.workloads import ADMITTED, Phase, Workload, WorkloadKey
from tutti.quota.flavors import Queue


def with_successors(asked: ObservedCluster, workload: Workload, lacks: DegradedGang) -> ObservedCluster | None:
    """Return who is asked as if all members were there again that a degraded gang lacks.

    Each is made like one that is left; None where none is left of a group to be like.
    """
    seen = asked.listed.seen
    more: list[AnyObservation] = []
    for group in short_groups(workload) if lacks.missing else ():
        tally = group.counts()
        missing = group.lacking - tally.waiting - tally.gated - tally.reserved
        if missing <= 0:
            continue
        model = next(iter(group.members), None)
        if model is None:
            return None
        first = pod_of(seen, model)
        more += with_claims(seen, first, successors(first, missing))
    return replace(asked, listed=replace(asked.listed, seen=[*seen, *more])) if more else asked


def successors_outcome(asked: ObservedCluster, key: WorkloadKey) -> tuple[Successors, Explanation | None]:
    """Return what becomes of the members of a degraded gang that wait, and what it waits for then."""
    state, _ = asked.decided(asked.listed.seen)
    workload = state.workloads[key]
    places = [member.pod.place for member in workload.members() if member.pod.place and not member.pod.node]
    why = waits_for(workload)
    return Successors(dict(sorted(Counter(places).items())), "" if why is None else why.plain), why


def as_required(needs: Sequence[PodSetRequest]) -> list[PodSetRequest]:
    """Return what is needed for a gang to be whole again where its members are placed as they come (Keep)."""
    out = []
    for need in needs:
        least = 0 if need.required else min(need.extra, need.group.missing)
        out.append(msgspec.structs.replace(need, required=need.required + least, extra=need.extra - least))
    return out


def early_restarts(workload: Workload) -> Iterator[str]:
    """Yield what would have a degraded gang restarted at once, because its window could not help any more."""
    if restarts_at(workload) is None:
        return
    if workload.queue:
        yield f"ClusterQueue {workload.cluster_queue} can never have as much as all of it needs"
    near = [group.topology for group in workload.groups.values()] + [member.topology for member in workload.members()]
    for level in dict.fromkeys(one.required[-1] for one in near if one is not None and one.required):
        yield f"the {level} of the others has no room for successors that are there, and a node of theirs is gone"


_LEAVES = "it is taken out at once, and starts again whole"


@dataclass(frozen=True, slots=True)
class _Look:
    """How a workload fares at the gates, in numbers, and what would help it."""

    steps: Sequence[GateStep]
    quota: Sequence[QuotaUse] = ()
    rooms: Sequence[NodeRoom] = ()
    remedies: Sequence[Remedy] = ()
    hopeless: str = ""
    successors: Successors | None = None
    autoscaler: Sequence[str] = ()


def explanation_of(asked: ObservedCluster, state: State, key: WorkloadKey, *, trying: bool = True) -> ExplainedWorkload:
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
    leaves = "" if why is None or why.reason != EvictionReason.MEMBER_LOST else why.message
    lacks = lacks if lacks is None or leaves else waiting_for(lacks, why)
    found = _look_at(asked, state, key, why, None if leaves else lacks, trying=trying)
    queue = queue_of(state.catalog, workload, is_required=state.configuration.require_queue)
    kind, namespace, name = key
    tally = workload.counts()
    said = explained_by_status(asked.listed, namespace, name)
    told = None if said is None else said.told
    energy = energy_of(state, workload)
    cluster_queue = workload.cluster_queue or state.leads_to(namespace, workload.queue)
    return ExplainedWorkload(
        kind=kind,
        namespace=namespace,
        name=name,
        phase=workload.phase.value,
        reason="" if why is None else why.reason,
        summary=_LEAVES if leaves else _summary(workload, why, lacks, restarts=restarts),
        queue=workload.queue,
        cluster_queue=cluster_queue,
        cohort=queue.cohort if isinstance(queue, Queue) else "",
        shard=asked.shard_of("Namespace", namespace),
        priority=workload.priority,
        since=workload.queued_at,
        required=workload.required,
        members=tally.live + tally.succeeded + tally.failed,
        bound=tally.bound,
        position=state.queue_positions.of(workload),
        line=state.counts.of(cluster_queue).pending if cluster_queue else 0,
        steps=tuple(found.steps),
        quota=tuple(found.quota),
        rooms=tuple(found.rooms),
        remedies=tuple(found.remedies),
        told=told,
        placed=_on_nodes(workload, lost=False),
        hopeless=found.hopeless,
        degraded=lacks,
        successors=found.successors,
        early=() if lacks is None else tuple(early_restarts(workload)),
        leaves_now=leaves,
        autoscaler=tuple(found.autoscaler),
        lost=_on_nodes(workload, lost=True),
        leaving=leaving_pods(asked, state, key),
        notes=(*workload.notes, *_notes(asked, state, workload, why, told)),
        watts=None if energy is None else round(energy.watts, 1),
        kwh=None if energy is None else round(energy.kwh, 3),
    )


def _notes(
    asked: ObservedCluster, state: State, workload: Workload, why: Explanation | None, told: OperatorStatus | None
) -> Iterator[str]:
    """Yield what is to be known beside the gates: that its status has other settings, and how its queue is ordered."""
    where = ("", "") if why is None else (why.gate.value, why.reason)
    if asked.assumed and told is not None and is_by_other_settings(told, *where):
        yield asked.assumed
    order = order_said(state, workload) if why is not None else ""
    if order:
        yield f"The order of its queue: {order}"


def _on_nodes(workload: Workload, *, lost: bool) -> dict[str, int]:
    """Return how many of its pods are on each node: those that are lost to it, or the others."""
    pods = (member.pod for member in workload.members() if member.pod.node)
    return dict(Counter(pod.node for pod in pods if (pod.counted is PodPhase.LOST) is lost))


def _look(asked: ObservedCluster, state: State, key: WorkloadKey, why: Explanation | None, *, trying: bool) -> _Look:
    """Look at the gates of a workload; what is kept for it in case that it lost members is free for it."""
    workload = state.workloads[key]
    with lending_own(state, workload), lending_held(state, workload):
        queue = queue_of(state.catalog, workload, is_required=state.configuration.require_queue)
        needs = pending_pod_sets(workload)
        at = None if isinstance(queue, Explanation) else queue
        needs = needs if isinstance(needs, Explanation) else _required(workload, needs)
        mine = [] if isinstance(needs, Explanation) else needs
        quota: Sequence[QuotaUse] = () if at is None else quota_uses(state, at, mine)
        room: Sequence[NodeRoom] = () if isinstance(queue, Explanation) else node_rooms(state, workload, at, mine)
        told = gate_steps(GateContext(state, workload, queue, needs, quota, why))
        seen = () if why is None else what_autoscalers_see(state, at, mine, why)
        if why is None or not trying:
            return _Look(told, quota, room, autoscaler=seen)
        remedy = remedies(UnplacedWorkload(asked, state, workload, at, why, mine, quota, room))
    hopeless = "" if remedy else why_no_remedy(workload, why, _unused_groups(state, key[1]))
    return _Look(told, quota, room, remedy, hopeless, autoscaler=seen)


def _unused_groups(state: State, namespace: str) -> list[str]:
    """Return the names of the PodGroups of a namespace that no pods name."""
    return [
        name
        for (kind, where, name), workload in state.workloads.items()
        if kind == "PodGroup" and where == namespace and not any(group.members for group in workload.groups.values())
    ]


def _required(workload: Workload, needs: list[PodSetRequest]) -> list[PodSetRequest]:
    return needs if workload.degraded_since is None else as_required(needs)


def _look_at(
    asked: ObservedCluster,
    state: State,
    key: WorkloadKey,
    why: Explanation | None,
    lacks: DegradedGang | None,
    *,
    trying: bool,
) -> _Look:
    """Look at the gates of a workload; of one that lacks members, at theirs, as if those existed that do not yet."""
    if lacks is None:
        return _look(asked, state, key, why, trying=trying)
    then = with_successors(asked, state.workloads[key], lacks)
    if then is None or then is asked:
        found = _look(asked, state, key, why, trying=trying)
        return found if then is None else replace(found, successors=successors_outcome(asked, key)[0])
    gather, *_ = _look(asked, state, key, why, trying=False).steps
    coming, would = successors_outcome(then, key)
    found = _look(then, then.stock().state, key, would, trying=trying)
    ahead = [GateStep(one.gate, _AHEAD.get(one.verdict, one.verdict), one.message) for one in found.steps[1:]]
    return replace(found, steps=[gather, *ahead], successors=coming)


_AHEAD = {GateOutcome.PASSED: GateOutcome.WOULD_PASS, GateOutcome.WAITS: GateOutcome.WOULD_WAIT}


def _summary(workload: Workload, why: Explanation | None, lacks: DegradedGang | None, *, restarts: bool) -> str:
    if lacks is not None:
        waits = lacks.waits_for.partition(":")[0]
        return f"it runs with {lacks.has} of {counted(lacks.required, 'required member')}, and {waits}"
    again = "; it starts again whole, after it had lost members" if restarts else ""
    if why is not None:
        some = "some of its members run; " if workload.phase in ADMITTED and workload.counts().bound else ""
        return f"{some}{waits_at(why.gate.value, why.reason)}{again}"
    match workload.phase:
        case Phase.WAITING | Phase.LEAVING | Phase.RESERVED:
            return f"it fits now: Tutti places it as soon as it looks (is the operator running?){again}"
        case Phase.CHECKING:
            return "it holds quota, and its admission checks are asked"
        case Phase.BINDING:
            return "it has its nodes, and is being bound"
        case Phase.SCHEDULED:
            return "it runs"
        case Phase.FINISHED:
            return "it has ended"


_WORKLOADS = ("workloads", "wl", "podgroup", "podgroups", "pg", "gang", "gangs", "pod", "pods", "po", "job", "jobs")
_INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(_WORKLOADS, ""),
        **dict.fromkeys(("clusterqueue", "clusterqueues", "cq", "queue", "queues"), "queue {}"),
        **dict.fromkeys(("node", "nodes", "no"), "drain-check {}"),
    }
)
"""What is called for a kind that somebody may name after `explain`; "" where that is `explain workload` itself."""


def _advice(called: str, words: Sequence[str]) -> str:
    """Say how to ask for what somebody may have meant who gave a kind or a name in place of `workload`."""
    rest = [word for word in words[1:] if not word.startswith("-")]
    kind, _, joined = words[0].lower().partition("/")
    kind = kind.partition(".")[0]
    name = joined or (rest[0] if rest else "NAME") if kind in _INSTEAD else words[0]
    if _INSTEAD.get(kind):
        return f"say `{called.rpartition(' ')[0]} {_INSTEAD[kind].format(name)}` for that: {called} is about workloads"
    return f"say `{called} workload {name}`: it explains a Workload, a gang and a pod, whichever has that name"


@click.group("explain", cls=CommandGroup, advice=_advice)
def command() -> None:
    """Say why something is as it is."""


@command.command("workload")
@click.argument("name", metavar="[NAMESPACE/]NAME", default="", shell_complete=names("Workload", "PodGroup"))
@click.option("-n", "--namespace", help="Its namespace, where NAME has none; that of the context if not given.")
@click.option("--what-if/--no-what-if", default=True, help="Whether to try out what would unblock it.")
@click.option("-f", "--filename", metavar="FILE", help="Ask about a manifest that is not submitted yet; - for stdin.")
@view
def explain_workload(
    way: ViewOptions, *, name: str, namespace: str | None, what_if: bool, filename: str | None
) -> None:
    """Say gate by gate, with numbers, why a Workload, gang or pod waits, and what would unblock it.

    With --context A,B,... say in which of these clusters it would start first.
    """
    space, _, own = name.rpartition("/")
    if not own and filename is None:
        fail("say which workload, or give a manifest with -f")
    contexts = [one.strip() for one in (way.context or "").split(",") if one.strip()]
    if filename is not None or len(contexts) > 1:
        _compare(way, dict.fromkeys(contexts) or (None,), space or namespace, own, filename)
        return
    asked = way.ask(space or namespace)
    space = space or namespace or asked.listed.namespace
    missing = way.lacks(asked)
    if missing:
        _tell(way, asked, space, own, missing)
        return
    asked = asked.around("Namespace", space)
    state = asked.stock().state
    key = find_workload(state, asked.listed, space, own)
    if isinstance(key, str):
        fail(f"{key} ({asked.assumed})" if asked.assumed and PLACES in key else key, NO)
    with way.busy("trying what would help ..."):
        found = explanation_of(asked, state, key, trying=what_if)
    way.show(found, lambda page: draw_explained(found, asked.at, page))


def _compare(
    way: ViewOptions, contexts: Iterable[str | None], namespace: str | None, name: str, filename: str | None
) -> None:
    """Answer in which cluster a workload would start first; one that cannot be asked costs a line."""
    manifest = None if filename is None else read_manifest(filename)
    answers: list[tuple[str, ObservedCluster | str]] = []
    for context, one in way.ask_each(list(contexts), namespace):
        lacking = "" if isinstance(one, str) else way.lacks(one)
        answers.append((context or "this cluster", lacking or one))
    try:
        with way.busy("asking each cluster ..."):
            found = compare_clusters(answers, namespace, name, manifest)
    except WantedError as error:
        fail(str(error))
    except UnfindableError as error:
        fail(str(error), NO)
    now = max(one.at for _, one in answers if isinstance(one, ObservedCluster))
    way.show(found, lambda page: draw_compared(found, now, page))


def _tell(way: ViewOptions, asked: ObservedCluster, namespace: str, name: str, missing: str) -> None:
    """Answer with what the operator has written, since there is no answer of one's own."""
    found = explained_by_status(asked.listed, namespace, name)
    if found is None:
        fail(f"there is no Workload, PodGroup or pod {namespace}/{name} that you may see, and {missing}", NO)
    told = msgspec.structs.replace(found, limits=missing)
    way.show(told, lambda page: draw_explained(told, asked.at, page))
