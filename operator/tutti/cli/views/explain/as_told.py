"""What the operator has written of a workload, for those who may not list what an answer of one's own is made of."""

from __future__ import annotations

from typing import Any

from tutti.api.core import Pod
from tutti.cli.views.changing import key_of
from tutti.cli.views.explain.model import Explained, Step, Told, Verdict
from tutti.cli.views.explain.naming import KINDS
from tutti.cli.views.explain.steps import ALWAYS
from tutti.cli.views.listing import Listed
from tutti.engine.records.explanation import Gate
from tutti.engine.records.observations import ObjectSeen, PodSeen


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
        return [Step("PodScheduled", Verdict.WAITS, told.message)]
    steps: list[Step] = []
    for gate in Gate:
        if gate.value == told.gate:
            return [*steps, Step(told.gate, Verdict.WAITS, told.message)]
        if gate in ALWAYS:
            steps.append(Step(gate.value, Verdict.PASSED, ""))
    return [Step(told.gate, Verdict.WAITS, told.message)]


def _is(raw: dict[str, Any], namespace: str, name: str) -> bool:
    meta = raw.get("metadata") or {}
    return (str(meta.get("namespace", "")), meta.get("name")) == (namespace, name)
