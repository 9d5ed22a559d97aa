"""Queues, cohorts, flavors and topologies: v1alpha1 and v1beta1 first become v1beta2, whose fields are ours.

Renames and values: Kueue 0.19, apis/kueue/v1beta1/*_conversion.go.
"""

from __future__ import annotations

from typing import Any

from tutti.cli.migrate.notes import Level, Notes

OLD_FUNGIBILITY = {("whenCanBorrow", "Borrow"): "MayStopSearch", ("whenCanPreempt", "Preempt"): "MayStopSearch"}


def cluster_queue(document: dict[str, Any], notes: Notes) -> None:
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


def cohort(document: dict[str, Any], notes: Notes) -> None:
    """Rewrite the spec of a Cohort."""
    rename(mapping(document, "spec"), "parent", "parentName", notes, path="spec")


def resource_flavor(document: dict[str, Any], notes: Notes) -> None:
    """Say of a ResourceFlavor what its tolerations do not do here."""
    tolerations = mapping(document, "spec").get("tolerations")
    for index, one in enumerate(tolerations if isinstance(tolerations, list) else []):
        if isinstance(one, dict) and one.get("effect") in (None, "", "NoExecute"):
            notes.add(
                Level.CHANGED,
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
