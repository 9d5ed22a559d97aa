"""What there is by a name: the workload that is meant, and what the operator has written of it.

The latter is for those who may not list what an answer of one's own is made of.
"""

from __future__ import annotations

import difflib
from typing import Any

from tutti.api.core import Pod
from tutti.cli.views.drawing import first_few
from tutti.cli.views.explain.gates import ALWAYS
from tutti.cli.views.explain.model import Explained, GateOutcome, Step, Told
from tutti.cli.views.listing import Listed
from tutti.cli.views.what_if import key_of
from tutti.engine.records.explanation import Gate
from tutti.engine.records.observations import ObjectSeen, PodSeen
from tutti.engine.records.workloads import WorkloadKey
from tutti.engine.state import State

KINDS = ("Workload", "PodGroup", "Pod")
"""What is queued and admitted together, the largest first."""
MOST_NEAR = 3
"""How many others are named that may have been meant."""


def named(state: State, listed: Listed, namespace: str, name: str) -> WorkloadKey | str:
    """Return the workload of a name, or why there is none: a Workload, else a gang, else a pod or the gang it is in."""
    for kind in KINDS:
        if (kind, namespace, name) in state.workloads:
            return kind, namespace, name
    home = state.home.get((namespace, name))
    if home is not None:
        return home[0]
    part = next(
        (key for key in state.workloads if key[1] == namespace and name in state.catalog.referring(*key[1:])), None
    )
    if part is not None:
        return part
    owned = [
        key
        for one, (key, _) in state.home.items()
        if one[0] == namespace and (owner := state.members[one].owner) is not None and owner.name == name
    ]
    homes = list(dict.fromkeys(owned))
    if len(homes) > 1:
        names = first_few(["/".join(key[1:]) for key in homes])
        return f"the pods of {namespace}/{name} wait and run each for itself: give the name of one, such as {names}"
    return homes[0] if homes else _unknown(state, listed, namespace, name)


def _unknown(state: State, listed: Listed, namespace: str, name: str) -> str:
    for one in listed.seen:
        if isinstance(one, PodSeen) and key_of(one.pod) == (namespace, name):
            ours = " or ".join(state.profiles)
            return (
                f"pod {namespace}/{name} has schedulerName {one.pod.spec.scheduler_name}, so Tutti has nothing to say "
                f"of it; Tutti places those with {ours}"
            )
    known = [f"{key[1]}/{key[2]}" for key in state.workloads]
    namesakes = [one for one in known if one.endswith(f"/{name}")][:MOST_NEAR]
    near = namesakes or difflib.get_close_matches(f"{namespace}/{name}", known, n=MOST_NEAR, cutoff=0.5)
    hints = [f"there is {', '.join(near)}"] if near else []
    if name in state.catalog.queues:
        hints.append(f"`tutti queue {name}` shows the ClusterQueue of that name")
    if name in state.cluster.nodes.rows:
        hints.append(f"`tutti drain-check {name}` shows what is on the node of that name")
    return "; ".join([f"there is no Workload, pod group or pod {namespace}/{name} that Tutti places", *hints])


def as_told(listed: Listed, namespace: str, name: str) -> Explained | None:
    """Return what the status of a Workload, PodGroup or pod of ours tells; None where there is none to be seen."""
    for kind in KINDS[:2]:
        for one in listed.seen:
            if isinstance(one, ObjectSeen) and one.kind == kind and _is(one.raw, namespace, name):
                return _of_object(kind, namespace, name, one.raw)
    for one in listed.seen:
        if isinstance(one, PodSeen) and key_of(one.pod) == (namespace, name):
            return _of_pod(one.pod)
    return None


def told_of_object(kind: str, raw: dict[str, Any]) -> Told | None:
    """Return why the status of a Workload or PodGroup says that it waits; None where it says nothing."""
    said = (raw.get("status") or {}).get("pending" if kind == "Workload" else "pendingReason")
    reasons = said.get("reasons") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not reasons:
        return None
    first = reasons[0]
    where, why, text = (str(first.get(field, "")) for field in ("gate", "reason", "message"))
    return Told(where, why, text, said.get("position"), said.get("estimatedStart") or "")


def told_of_pod(pod: Pod) -> Told | None:
    """Return why the condition of a pod says that it has no node; None where it says nothing."""
    found = (one for one in pod.status.conditions if one.type == "PodScheduled" and one.status == "False")
    return next((Told("", one.reason, one.message) for one in found), None)


def _of_object(kind: str, namespace: str, name: str, raw: dict[str, Any]) -> Explained:
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    told = told_of_object(kind, raw)
    gang = (spec.get("schedulingPolicy") or {}).get("gang") or {}
    parts = spec.get("podGroups") or []
    return _explained(
        kind,
        namespace,
        name,
        told,
        phase=str(status.get("phase") or ("Waiting" if told else "")),
        queue=str(spec.get("queueName") or ""),
        required=int(gang.get("minCount") or sum(int(one.get("count") or 0) for one in parts)),
        members=int(status.get("members") or 0),
        bound=int(status.get("bound") or 0),
        degraded=_degraded(status),
    )


def _degraded(status: dict[str, Any]) -> str:
    """Return what condition Degraded says while it is true, or ""."""
    found = (one for one in status.get("conditions") or [] if isinstance(one, dict) and one.get("type") == "Degraded")
    return next((str(one.get("message", "")) for one in found if one.get("status") == "True"), "")


def _of_pod(pod: Pod) -> Explained:
    meta, told = pod.metadata, told_of_pod(pod)
    bound = int(bool(pod.spec.node_name))
    return _explained(
        "Pod", meta.namespace, meta.name, told, phase=pod.status.phase, required=1, members=1, bound=bound
    )


def _explained(
    kind: str,
    namespace: str,
    name: str,
    told: Told | None,
    *,
    phase: str,
    required: int,
    members: int,
    bound: int,
    queue: str = "",
    degraded: str = "",
) -> Explained:
    if degraded:
        summary = f"it is degraded: {degraded}"
    elif told is None:
        summary = "the operator says nothing of it" if not bound else "it has its nodes"
    else:
        summary = f"it waits{f' at the {told.gate} gate' if told.gate else ''}: {told.reason}"
    return Explained(
        kind=kind,
        namespace=namespace,
        name=name,
        phase=phase,
        summary=summary,
        queue=queue,
        cluster_queue="",
        cohort="",
        priority=None,
        since=None,
        required=required,
        members=members,
        bound=bound,
        position=told.position if told is not None else None,
        line=0,
        steps=tuple(_steps(told)),
        quota=(),
        rooms=(),
        remedies=(),
        told=told,
        placed={},
    )


def _steps(told: Told | None) -> list[Step]:
    if told is None:
        return []
    if not told.gate:
        return [Step("PodScheduled", GateOutcome.WAITS, told.message)]
    steps: list[Step] = []
    for gate in Gate:
        if gate.value == told.gate:
            return [*steps, Step(told.gate, GateOutcome.WAITS, told.message)]
        if gate in ALWAYS:
            steps.append(Step(gate.value, GateOutcome.PASSED, ""))
    return [Step(told.gate, GateOutcome.WAITS, told.message)]


def _is(raw: dict[str, Any], namespace: str, name: str) -> bool:
    meta = raw.get("metadata") or {}
    return (str(meta.get("namespace", "")), meta.get("name")) == (namespace, name)
