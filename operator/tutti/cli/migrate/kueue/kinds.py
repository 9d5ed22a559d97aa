"""Kueue's own kinds rewritten: queues, cohorts, flavors, and Workloads with what their pods say of topology.

v1alpha1 and v1beta1 first become v1beta2, whose fields are ours. Renames and values: Kueue 0.19,
apis/kueue/v1beta1/*_conversion.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tutti.api.conventions import ConventionError
from tutti.api.conventions.named_groups import WORKLOAD
from tutti.api.conventions.topology_annotations import KUEUE_TOPOLOGY, read_topology_request
from tutti.api.model import GROUP
from tutti.api.problems import path_of
from tutti.cli.migrate.kueue import words
from tutti.cli.migrate.kueue.provisioning import OF_KUEUE, KnownProvisioning, provisioning_check
from tutti.cli.migrate.kueue.words import RANKED_BY_NAME
from tutti.cli.migrate.report import NoteLevel, Notes

OLD_FUNGIBILITY = {("whenCanBorrow", "Borrow"): "MayStopSearch", ("whenCanPreempt", "Preempt"): "MayStopSearch"}


def cluster_queue(document: dict[str, Any], notes: Notes, known: KnownProvisioning) -> None:
    """Rewrite the spec of a ClusterQueue."""
    spec = mapping(document, "spec")
    rename(spec, "cohort", "cohortName", notes, path="spec")
    fungibility = mapping(spec, "flavorFungibility")
    for field, value in fungibility.items():
        fungibility[field] = OLD_FUNGIBILITY.get((field, str(value)), value)
    checks = spec.get("admissionChecks")
    if isinstance(checks, list):
        rename(spec, "admissionChecks", "admissionChecksStrategy", notes, path="spec")
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    if not spec.get("admissionChecksStrategy", True):
        del spec["admissionChecksStrategy"]
    elif "admissionChecksStrategy" in spec and not known.covers(_check_names(spec)):
        notes.add(
            NoteLevel.CHANGED,
            "spec.admissionChecksStrategy",
            "the queue is inactive until controllers answer for these checks on Tutti's Workloads and PodGroups",
            "move their controllers to group scheduling.tutti.dev; take out checks that are left out here",
        )


def _check_names(spec: dict[str, Any]) -> list[str]:
    """The checks that the spec of a ClusterQueue names."""
    listed = mapping(spec, "admissionChecksStrategy").get("admissionChecks")
    return [str(one.get("name")) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


OF_KUEUES_OWN: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "kueue.x-k8s.io/multikueue": ("work is not sent to other clusters", "keep Kueue's manager for that"),
    }
)
"""Controllers of checks that are part of Kueue: what is not done here, and what to do instead."""


def admission_check(document: dict[str, Any], notes: Notes, known: KnownProvisioning) -> None:
    """Say of an AdmissionCheck that its controller has to look elsewhere, or that there is none."""
    spec = mapping(document, "spec")
    if spec.get("controllerName") == OF_KUEUE:
        provisioning_check(spec, str(mapping(document, "metadata").get("name", "")), known, notes)
        return
    own = OF_KUEUES_OWN.get(str(spec.get("controllerName")))
    if own is not None:
        why, do = own
        notes.add(NoteLevel.LOST, "spec.controllerName", f"nobody answers for it: {why}", do)
        return
    notes.add(
        NoteLevel.CHANGED,
        "spec.controllerName",
        "its controller answers on Kueue's Workloads, and is asked here on Tutti's Workloads and PodGroups",
        "have it watch group scheduling.tutti.dev; states and fields are the same (docs/howto/checks.md)",
    )


def cohort(document: dict[str, Any], notes: Notes) -> None:
    """Rewrite the spec of a Cohort."""
    rename(mapping(document, "spec"), "parent", "parentName", notes, path="spec")


def resource_flavor(document: dict[str, Any], notes: Notes) -> None:
    """Say of a ResourceFlavor what its tolerations do not do here."""
    tolerations = mapping(document, "spec").get("tolerations")
    for index, one in enumerate(tolerations if isinstance(tolerations, list) else []):
        if isinstance(one, dict) and one.get("effect") in (None, "", "NoExecute"):
            notes.add(
                NoteLevel.CHANGED,
                f"spec.tolerations[{index}]",
                "counts when nodes are chosen, but is not written into pods, which a NoExecute taint would evict",
                "where nodes of this flavor have NoExecute taints, give the pods this toleration",
            )


def as_it_is(document: dict[str, Any], notes: Notes) -> None:
    """Leave a kind whose fields are the same."""


def mapping(holder: dict[str, Any], field: str) -> dict[str, Any]:
    """A field that is a mapping; a new one where it is not given, for reading."""
    found = holder.get(field)
    return found if isinstance(found, dict) else {}


def rename(holder: dict[str, Any], old: str, new: str, notes: Notes, *, path: str) -> None:
    """Give a field another name where it stands, unless that is taken or there is no such field."""
    if old not in holder or new in holder:
        return
    items = [(new if key == old else key, value) for key, value in holder.items()]
    holder.clear()
    holder.update(items)
    notes.moved[f"{path}.{new}"] = notes.origin(f"{path}.{old}")


def topology_request(
    modes: Mapping[str, Any], *, unconstrained: bool, slices: Sequence[tuple[Any, Any]], group: Any
) -> dict[str, Any] | None:
    """The topology of a pod group.

    Args:
        modes: The node label that each mode speaks of, if any.
        unconstrained: Whether any nodes will do.
        slices: Node label and size of the slices, the widest first; pairs of nothing are passed over.
        group: Pod groups with the same one go to one domain.

    Returns:
        The topology; None where nothing is asked.
    """
    level = next(({"mode": mode, "level": level} for mode, level in modes.items() if level), None)
    layers = [(level, size) for level, size in slices if level or size]
    if level is None and not unconstrained and not layers:
        return None
    wanted: dict[str, Any] = level or {"mode": "Unconstrained"}
    if layers:
        wanted |= {"sliceLevel": layers[0][0], "sliceSize": layers[0][1]}
    if layers[1:]:
        wanted["innerSlices"] = [{"level": level, "size": size} for level, size in layers[1:]]
    if group:
        wanted["groupName"] = group
    return wanted


def of_template(template: Any, path: str, notes: Notes) -> dict[str, Any] | None:
    """What the annotations of a pod template ask for; what cannot be read is told, and left out."""
    annotations = {str(key): str(value) for key, value in words.texts(template, of="annotations").items()}
    try:
        said = read_topology_request(annotations, KUEUE_TOPOLOGY)
    except ConventionError as error:
        notes.add(
            NoteLevel.INVALID, f"{path}.{error.where}" if path else error.where, error.message, "correct it by hand"
        )
        return None
    if said is None:
        return None
    modes = {said.mode: said.level}
    return topology_request(modes, unconstrained=said.mode == "Unconstrained", slices=said.slices, group=said.group)


def topology_path(template: Any, path: str) -> str:
    """Where a pod template asks for topology: the first annotation that does."""
    said = words.texts(template, of="annotations")
    step = path_of([next((key for key in words.TOPOLOGY if key in said), words.TOPOLOGY[0])])
    return f"{path}.metadata.annotations{step}" if path else f"metadata.annotations{step}"


OLD_PRIORITY_SOURCES = {
    "kueue.x-k8s.io/workloadpriorityclass": {"group": GROUP, "kind": "WorkloadPriorityClass"},
    "scheduling.k8s.io/priorityclass": {"group": "scheduling.k8s.io", "kind": "PriorityClass"},
}
"""v1beta1's priorityClassSource (Kueue 0.19, apis/kueue/v1beta1/workload_types.go)."""

RANKED = ("podIndexLabel", "subGroupIndexLabel", "subGroupCount")
"""Fields of a topology request that say by which index Kueue orders pods along a topology."""


def workload(document: dict[str, Any], notes: Notes, *, scheduler: str) -> None:
    """Rewrite the spec of a Workload that somebody wrote."""
    spec = mapping(document, "spec")
    rename(spec, "podSets", "podGroups", notes, path="spec")
    _priority(spec, notes)
    if "preemptionGates" in spec:
        del spec["preemptionGates"]
        happens = "left out: preemption cannot be held back for one workload"
        notes.add(NoteLevel.LOST, "spec.preemptionGates", happens, "set active: false until it may preempt")
    pod_groups = spec.get("podGroups")
    if isinstance(pod_groups, list):
        spec["podGroups"] = [
            one for index, one in enumerate(pod_groups) if _pod_group(one, index, notes, scheduler=scheduler)
        ]
    name = mapping(document, "metadata").get("name", "")
    happens = f"its pods must say that they belong to it: schedulerName {scheduler} and label {WORKLOAD}: {name}"
    notes.add(NoteLevel.NOTE, "metadata.name", happens, "add both to whatever makes the pods")


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
        notes.add(NoteLevel.CHANGED, path, "left out: a pod group of no pods", "nothing, if it was meant to be empty")
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
            notes.add(RANKED_BY_NAME.level, f"{path}.topology.{field}", RANKED_BY_NAME.happens, RANKED_BY_NAME.do)
    layers = request.get("podsetSliceRequiredTopologyConstraints")
    size, level = request.get("podSetSliceSize"), request.get("podSetSliceRequiredTopology")
    wanted = topology_request(
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
    name_scheduler(spec, f"{path}.spec" if path else "spec", notes, scheduler=scheduler)
    gates = spec.get("schedulingGates")
    if isinstance(gates, list):
        spec["schedulingGates"] = [g for g in gates if not (isinstance(g, dict) and g.get("name") in words.GATES)]
        if not spec["schedulingGates"]:
            del spec["schedulingGates"]


def name_scheduler(holder: dict[str, Any], path: str, notes: Notes, *, scheduler: str) -> None:
    """Write our scheduler into the field schedulerName of a mapping that stands at a path."""
    before = holder.get("schedulerName")
    if before not in (None, "", "default-scheduler", scheduler):
        happens = f"{scheduler} takes the place of {before}"
        notes.add(NoteLevel.CHANGED, f"{path}.schedulerName", happens, "check that it may")
    holder["schedulerName"] = scheduler
