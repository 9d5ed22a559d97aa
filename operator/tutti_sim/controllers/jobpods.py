"""The pods of a Job: made from its template, told apart by index."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

INDEX = "batch.kubernetes.io/job-completion-index"


def template_pod(job: Json, index: int | None) -> Json:
    """A pod of a Job; `index` is its completion index, if the Job has them."""
    template, meta = job["spec"]["template"], job["metadata"]
    labels = dict(template.get("metadata", {}).get("labels", {}))
    annotations = dict(template.get("metadata", {}).get("annotations", {}))
    spec = {**template["spec"]}
    name = {"generateName": f"{meta['name']}-"}
    if index is not None:
        labels[INDEX] = annotations[INDEX] = str(index)
        name = {"generateName": f"{meta['name']}-{index}-"}
        spec["containers"] = [_indexed(one) for one in spec["containers"]]
        spec.setdefault("hostname", f"{meta['name']}-{index}")
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata: Json = {**name, "labels": labels, "ownerReferences": [owner]}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _indexed(container: Json) -> Json:
    """A container that is told its index."""
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    given = [one for one in container.get("env", ()) if one["name"] != variable["name"]]
    return {**container, "env": [*given, variable]}


def index_of(pod: Json) -> int | None:
    """The completion index of a pod."""
    text = pod["metadata"].get("annotations", {}).get(INDEX, "")
    return int(text) if text.isdigit() else None


def indexes(text: str) -> set[int]:
    """The indexes that a Job's status names: `0-2,5`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return found
