"""What is kept of a pod to tell its gang from its owners, and which of its owners is followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tutti.api.conventions import kueue, named_groups
from tutti.api.core import ObjectMeta, OwnerReference
from tutti.api.frameworks.fields import FieldReader
from tutti.api.frameworks.records import PodMarks, ProjectedOwner

OWNER_QUEUE_LABELS: Final = (named_groups.QUEUE_NAME, kueue.QUEUE_NAME)
"""Labels that name the queue, ours first."""
PRIORITY_LABELS: Final = (named_groups.PRIORITY_CLASS, kueue.PRIORITY_CLASS)
"""Labels that name the priority class, ours first."""
_ALWAYS_READ: Final = frozenset({*OWNER_QUEUE_LABELS, *PRIORITY_LABELS})
MOST_OWNERS: Final = 64
"""Owner references of one object that are looked at."""
_NOT_OWNERS: Final = frozenset({"scheduling.k8s.io"})


def projected_pod(pod: PodMarks) -> ProjectedOwner:
    """Return a pod that owns pods, as a step on the way up: a leader of LeaderWorkerSet, a driver of Spark."""
    labels = {key: pod.labels[key] for key in (*OWNER_QUEUE_LABELS, *PRIORITY_LABELS) if key in pod.labels}
    return ProjectedOwner(
        "", "Pod", pod.namespace, pod.name, pod.uid, owner=pod.owner, owners=pod.owners, labels=labels
    )


def marked(meta: ObjectMeta, scheduler: str, keys: frozenset[str], *, says_group: bool) -> PodMarks:
    """Return what is kept of a pod.

    Args:
        meta: Its metadata.
        scheduler: The scheduler that it names.
        keys: The labels and annotations that are read (`KindTable.pod_keys`); an annotation counts where there is no
            label of that name.
        says_group: Whether it says itself which gang it is in, or that it is in none.
    """
    owner, owners = next_owner(meta.owner_references)
    read = frozenset([key for key in meta.labels if key in keys or key in _ALWAYS_READ])
    beside = frozenset([key for key in meta.annotations if key in keys])
    labels: dict[str, str] = {}
    if read or beside:
        said = FieldReader({"labels": meta.labels, "annotations": meta.annotations})
        labels = {**said.texts("annotations", beside), **said.texts("labels", read)}
    return PodMarks(meta.namespace, meta.name, meta.uid, owner, owners, scheduler, labels, says_group=says_group)


def next_owner(references: Sequence[OwnerReference]) -> tuple[OwnerReference | None, int]:
    """Return the owner to go on with, and how many there are where nobody can tell which; else 0.

    The controller; where there is none, the only owner. Pod groups and workloads of Kubernetes are none: from 1.37 on
    they stand beside the Job that makes the pods.
    """
    if not references:
        return None, 0
    owners = [one for one in references[:MOST_OWNERS] if one.api_version.partition("/")[0] not in _NOT_OWNERS]
    controller = next((one for one in owners if one.controller), None)
    if controller is not None or len(owners) == 1:
        return controller or owners[0], 0
    return None, len(owners)
