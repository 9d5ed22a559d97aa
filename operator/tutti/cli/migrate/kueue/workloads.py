"""Workload objects: pod sets become pod groups; and what pods say of topology becomes a request."""

from __future__ import annotations

from typing import Any

from tutti.api.conventions.named_groups import WORKLOAD
from tutti.api.model import GROUP
from tutti.cli.migrate.kueue import topology, words
from tutti.cli.migrate.kueue.quotas import mapping, rename
from tutti.cli.migrate.notes import Level, Notes

OLD_PRIORITY_SOURCES = {
    "kueue.x-k8s.io/workloadpriorityclass": {"group": GROUP, "kind": "WorkloadPriorityClass"},
    "scheduling.k8s.io/priorityclass": {"group": "scheduling.k8s.io", "kind": "PriorityClass"},
}
"""v1beta1's priorityClassSource (Kueue 0.19, apis/kueue/v1beta1/workload_types.go)."""

RANKED = ("podIndexLabel", "subGroupIndexLabel", "subGroupCount")
"""Fields of a topology request by which Kueue places pods in order of rank."""


def workload(document: dict[str, Any], notes: Notes, *, scheduler: str) -> None:
    """Rewrite the spec of a Workload that somebody wrote."""
    spec = mapping(document, "spec")
    rename(spec, "podSets", "podGroups", notes, path="spec")
    _priority(spec, notes)
    if "preemptionGates" in spec:
        del spec["preemptionGates"]
        happens = "left out: preemption cannot be held back for one workload"
        notes.add(Level.LOST, "spec.preemptionGates", happens, "set active: false until it may preempt")
    pod_groups = spec.get("podGroups")
    if isinstance(pod_groups, list):
        spec["podGroups"] = [
            one for index, one in enumerate(pod_groups) if _pod_group(one, index, notes, scheduler=scheduler)
        ]
    name = mapping(document, "metadata").get("name", "")
    happens = f"its pods must say that they belong to it: schedulerName {scheduler} and label {WORKLOAD}: {name}"
    notes.add(Level.NOTE, "metadata.name", happens, "add both to whatever makes the pods")


def made_by_kueue(document: dict[str, Any]) -> str:
    """The object that Kueue made a Workload for; empty for one that somebody wrote."""
    owners = mapping(document, "metadata").get("ownerReferences")
    for owner in owners if isinstance(owners, list) else []:
        if isinstance(owner, dict) and owner.get("controller"):
            return f"{owner.get('kind', '')} {owner.get('name', '')}"
    return ""


def _priority(spec: dict[str, Any], notes: Notes) -> None:
    source = OLD_PRIORITY_SOURCES.get(str(spec.get("priorityClassSource", "")))
    if source is not None and spec.get("priorityClassName"):
        rename(spec, "priorityClassName", "priorityClassRef", notes, path="spec")
        spec["priorityClassRef"] = {**source, "name": spec["priorityClassRef"]}
    spec.pop("priorityClassSource", None)
    spec.pop("priorityClassName", None)  # without a source it is the name of a class that gave spec.priority
    ref = mapping(spec, "priorityClassRef")
    if ref.get("group") == "kueue.x-k8s.io":
        ref["group"] = GROUP


def _pod_group(one: Any, index: int, notes: Notes, *, scheduler: str) -> bool:
    """Rewrite a pod set in place; False where it is to be left out."""
    if not isinstance(one, dict):
        return True
    path = f"spec.podGroups[{index}]"
    if one.get("count") == 0:
        notes.add(Level.CHANGED, path, "left out: a pod group of no pods", "nothing, if it was meant to be empty")
        return False
    one.setdefault("count", 1)
    request = one.get("topologyRequest")
    if isinstance(request, dict):
        _topology(one, request, path, notes)
    template = one.get("template")
    if isinstance(template, dict):
        take_over(template, f"{path}.template", notes, scheduler=scheduler)
    return True


def _topology(one: dict[str, Any], request: dict[str, Any], path: str, notes: Notes) -> None:
    rename(one, "topologyRequest", "topology", notes, path=path)
    for field in RANKED:
        if request.get(field) is not None:
            happens = "left out: pods are not placed in order of rank"
            notes.add(Level.LOST, f"{path}.topology.{field}", happens, "nothing, if any order of ranks will do")
    layers = request.get("podsetSliceRequiredTopologyConstraints")
    size, level = request.get("podSetSliceSize"), request.get("podSetSliceRequiredTopology")
    wanted = topology.request(
        {"Required": request.get("required"), "Preferred": request.get("preferred")},
        unconstrained=bool(request.get("unconstrained")),
        slices=_layers(layers) if layers else [(level, size)],
        group=request.get("podSetGroupName"),
    )
    if wanted is None:
        del one["topology"]
    else:
        one["topology"] = wanted


def _layers(value: Any) -> list[tuple[Any, Any]]:
    layers = value if isinstance(value, list) else []
    return [(layer.get("topology"), layer.get("size")) for layer in layers if isinstance(layer, dict)]


def take_over(
    template: dict[str, Any],
    path: str,
    notes: Notes,
    *,
    scheduler: str,
    read_too: frozenset[str] = frozenset(),
) -> None:
    """Make the pods of a template ours: scheduler, no gates of Kueue's, no words of Kueue's but those with an equal."""
    words.clean(template, path, notes, read_too=read_too)
    spec = template.setdefault("spec", {})
    if not isinstance(spec, dict):
        return
    before = spec.get("schedulerName")
    if before not in (None, "", "default-scheduler", scheduler):
        where = f"{path}.spec.schedulerName" if path else "spec.schedulerName"
        notes.add(Level.CHANGED, where, f"{scheduler} takes the place of {before}", "check that it may")
    spec["schedulerName"] = scheduler
    gates = spec.get("schedulingGates")
    if isinstance(gates, list):
        spec["schedulingGates"] = [g for g in gates if not (isinstance(g, dict) and g.get("name") in words.GATES)]
        if not spec["schedulingGates"]:
            del spec["schedulingGates"]
