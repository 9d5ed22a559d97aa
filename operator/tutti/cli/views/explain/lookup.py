"""What there is by a name: the workload that is meant, and what the operator has written of it.

The latter is for those who may not list what an answer of one's own is made of.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from tutti.api.conditions import legible_conditions
from tutti.api.core import Pod
from tutti.api.frameworks import KNOWN_KINDS, ProjectedOwner
from tutti.api.frameworks.fields import FieldReader
from tutti.api.frameworks.marks import OWNER_QUEUE_LABELS
from tutti.api.messages import in_plain_words
from tutti.api.pod_scheduler import DEFAULT_SCHEDULER
from tutti.cli.views.drawing import first_few
from tutti.cli.views.explain.gates import ALWAYS
from tutti.cli.views.explain.model import ExplainedWorkload, GateOutcome, GateStep, OperatorStatus
from tutti.cli.views.listing import Listed
from tutti.cli.views.what_if import key_of
from tutti.engine.cycle.state import State
from tutti.engine.records.explanation import Gate
from tutti.engine.records.observations import ObjectSeen, PodSeen
from tutti.engine.records.workloads import Workload, WorkloadKey

KINDS = ("Workload", "PodGroup", "Pod")
"""What is queued and admitted together, the largest first."""
PLACES = "Tutti places those with"
"""Begins which schedulers' pods are ours, in answers that go by the operator's configuration."""
_KIND_WORDS = {one.lower() for one in (*KINDS, *(known.kind for known in KNOWN_KINDS))}
"""What people write before a name for kubectl."""
_MOST_POD_GROUPS = 18  # as the definition of Workload has it
MOST_NEAR = 3
"""How many others are named that may have been meant."""


def find_workload(state: State, listed: Listed, namespace: str, name: str) -> WorkloadKey | str:
    """Return the workload of a name, or why there is none: a Workload, else a gang, else a pod or the gang it is in."""
    for kind in KINDS:
        if (kind, namespace, name) in state.workloads:
            return kind, namespace, name
    group = state.pod_group_of.get((namespace, name))
    if group is not None:
        return group[0]
    part = next(
        (key for key in state.workloads if key[1] == namespace and name in state.catalog.referring(*key[1:])), None
    )
    if part is not None:
        return part
    made = next((key for key, one in state.workloads.items() if key[1] == namespace and _is_of(one, name)), None)
    if made is not None:
        return made
    owned = [
        key
        for one, (key, _) in state.pod_group_of.items()
        if one[0] == namespace and (owner := state.members[one].marks.owner) is not None and owner.name == name
    ]
    groups = list(dict.fromkeys(owned))
    if len(groups) > 1:
        names = first_few(["/".join(key[1:]) for key in groups])
        return f"the pods of {namespace}/{name} wait and run each for itself: give the name of one, such as {names}"
    return groups[0] if groups else _unknown(state, listed, namespace, name)


def _is_of(workload: Workload, name: str) -> bool:
    """Whether a workload is of an object of a name that is started and suspended by its queue."""
    return workload.managed is not None and workload.managed.found.name == name


def _unknown(state: State, listed: Listed, namespace: str, name: str) -> str:
    for one in listed.seen:
        if isinstance(one, PodSeen) and key_of(one.pod) == (namespace, name):
            ours = " or ".join(state.profiles)
            return (
                f"pod {namespace}/{name} has schedulerName {one.pod.spec.scheduler_name}, so Tutti has nothing to say "
                f"of it; {PLACES} {ours}"
            )
    made_of = state.owner_graph.named(namespace, name)
    if made_of:
        return "; ".join(_why_no_pods(state, one) for one in made_of)
    known = [f"{key[1]}/{key[2]}" for key in state.workloads]
    namesakes = [one for one in known if one.endswith(f"/{name}")][:MOST_NEAR]
    near = namesakes or difflib.get_close_matches(f"{namespace}/{name}", known, n=MOST_NEAR, cutoff=0.5)
    hints = [f"there is {', '.join(near)}"] if near else []
    if namespace.lower().removesuffix("s") in _KIND_WORDS:
        hints.append(f"{namespace} is taken for a namespace: write NAMESPACE/{name}, without a kind")
    if name in state.catalog.queues:
        hints.append(f"`tutti queue {name}` shows the ClusterQueue of that name")
    if name in state.cluster.nodes.rows:
        hints.append(f"`tutti drain-check {name}` shows what is on the node of that name")
    return "; ".join([f"there is no Workload, pod group or pod {namespace}/{name} that Tutti places", *hints])


def _why_no_pods(state: State, found: ProjectedOwner) -> str:
    """Say why nothing waits or runs of an object that makes pods, and what would change that."""
    who, ours = f"{found.kind} {found.namespace}/{found.name}", " or ".join(state.profiles)
    schedulers = dict.fromkeys(role.scheduler for role in found.roles)
    if found.ended or (found.start is not None and found.start.finished):
        return f"{who} has ended, and has no pods"
    if found.suspended and found.uid in state.told_owners:
        return f"{who} is suspended, and is not started: {state.told_owners[found.uid]}"
    if schedulers and schedulers.keys().isdisjoint(state.profiles):
        named = " and ".join(one for one in schedulers if one)
        said = f"name schedulerName {named}" if named else f"name no schedulerName, so they are for {DEFAULT_SCHEDULER}"
        return f"the pod templates of {who} {said}; {PLACES} {ours}: write schedulerName: {next(iter(state.profiles))}"
    if not found.suspended:
        return f"{who} has no pods (yet): ask the controller that makes them (kubectl describe)"
    text = f"{who} is suspended, and only what is in a queue with manage: Suspend is started by Tutti"
    queue = next((found.labels[key] for key in OWNER_QUEUE_LABELS if found.labels.get(key)), found.queue)
    if not queue:
        return f"{text}: give it the label {OWNER_QUEUE_LABELS[0]} of one, or set spec.suspend to false"
    return f"{text}, which {queue} is not: set spec.suspend to false, and its pods wait in that queue"


def explained_by_status(listed: Listed, namespace: str, name: str) -> ExplainedWorkload | None:
    """Return what the status of a Workload, PodGroup or pod of ours tells; None where there is none to be seen."""
    for kind in KINDS[:2]:
        for one in listed.seen:
            if isinstance(one, ObjectSeen) and one.kind == kind and _is(one.raw, namespace, name):
                return _of_object(kind, namespace, name, one.raw)
    for one in listed.seen:
        if isinstance(one, PodSeen) and key_of(one.pod) == (namespace, name):
            return _of_pod(one.pod)
    return None


def status_of_object(kind: str, raw: dict[str, Any]) -> OperatorStatus | None:
    """Return why the status of a Workload or PodGroup says that it waits; None where it says nothing."""
    said = FieldReader(raw).below("status.pending" if kind == "Workload" else "status.pendingReason")
    first = None if said is None else next(said.entries("reasons", 1), None)
    if said is None or first is None:
        return None
    return OperatorStatus(
        first.text("gate"), first.text("reason"), _text(first, "message"), said.count("position"),
        said.text("estimatedStart"),
    )  # fmt: skip


def _text(part: FieldReader, field: str) -> str:
    """Return a text however long it is."""
    found = part.value(field)
    return found if isinstance(found, str) else ""


def status_of_pod(pod: Pod) -> OperatorStatus | None:
    """Return why the condition of a pod says that it has no node; None where it says nothing."""
    found = (one for one in pod.status.conditions if one.type == "PodScheduled" and one.status == "False")
    return next((OperatorStatus("", one.reason, in_plain_words(one.message)) for one in found), None)


def _of_object(kind: str, namespace: str, name: str, raw: dict[str, Any]) -> ExplainedWorkload:
    said = FieldReader(raw)
    told, bound = status_of_object(kind, raw), said.number("status.bound")
    counts = [one.number("count") for one in said.entries("spec.podGroups", _MOST_POD_GROUPS)]
    degraded = _degraded(raw.get("status"))
    return ExplainedWorkload(
        kind=kind,
        namespace=namespace,
        name=name,
        phase=said.text("status.phase") or ("Waiting" if told else ""),
        summary=f"it is degraded: {degraded}" if degraded else _summary(told, bound),
        queue=said.text("spec.queueName"),
        required=said.number("spec.schedulingPolicy.gang.minCount") or sum(counts),
        members=said.number("status.members"),
        bound=bound,
        position=None if told is None else told.position,
        reason="" if told is None else told.reason,
        steps=tuple(_steps(told)),
        told=told,
    )


def _degraded(status: object) -> str:
    """Return what condition Degraded says while it is true, or ""."""
    found = (one for one in legible_conditions(status) if (one["type"], one["status"]) == ("Degraded", "True"))
    return next((_text(FieldReader(one), "message") for one in found), "")


def _of_pod(pod: Pod) -> ExplainedWorkload:
    told, bound = status_of_pod(pod), int(bool(pod.spec.node_name))
    return ExplainedWorkload(
        kind="Pod",
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        phase=pod.status.phase,
        summary=_summary(told, bound),
        required=1,
        members=1,
        bound=bound,
        position=None if told is None else told.position,
        reason="" if told is None else told.reason,
        steps=tuple(_steps(told)),
        told=told,
    )


def _summary(told: OperatorStatus | None, bound: int) -> str:
    if told is None:
        return "it has its nodes" if bound else "the operator says nothing of it"
    return waits_at(told.gate, told.reason)


_WAITING_FOR = "WaitingFor"
_WORDS = re.compile("[A-Z]+(?![a-z])|[A-Z][a-z]*")
_OF_THE_GATE = ("Throttled", "UserLimit", "ChecksPending", "AdmissionCheck")
"""Reasons that say no more than the name of their gate does."""


def waits_at(gate: str, reason: str) -> str:
    """Return in a sentence where a workload waits, and for what; no word of it is said twice."""
    if reason.startswith(_WAITING_FOR):
        return f"it waits for {' '.join(_WORDS.findall(reason.removeprefix(_WAITING_FOR))).lower()}"
    if not gate:
        return f"it waits: {reason}"
    said = "" if reason in _OF_THE_GATE else f": {reason}"
    return f"it waits at the {gate} gate{said}"


def _steps(told: OperatorStatus | None) -> list[GateStep]:
    if told is None:
        return []
    if not told.gate:
        return [GateStep("PodScheduled", GateOutcome.WAITS, told.message)]
    steps: list[GateStep] = []
    for gate in Gate:
        if gate.value == told.gate:
            return [*steps, GateStep(told.gate, GateOutcome.WAITS, told.message)]
        if gate in ALWAYS:
            steps.append(GateStep(gate.value, GateOutcome.PASSED, ""))
    return [GateStep(told.gate, GateOutcome.WAITS, told.message)]


def _is(raw: dict[str, Any], namespace: str, name: str) -> bool:
    meta = raw.get("metadata") or {}
    return (str(meta.get("namespace", "")), meta.get("name")) == (namespace, name)
