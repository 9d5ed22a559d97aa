"""Kueue: a queue label, pod groups of a fixed size, and how near one another pods must be; its gates are not needed.

Annotations on topology count on any pod: the queue may be named by what owns it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti.api.conventions.membership import (
    ConventionError,
    GangMembership,
    annotation_path,
    existing_name,
    label_path,
    object_name,
    whole_number,
)
from tutti.api.conventions.topology_annotations import KUEUE_TOPOLOGY, read_topology_request

if TYPE_CHECKING:
    from tutti.api.configuration import Conventions
    from tutti.api.core import Pod


_PREFIX = "kueue.x-k8s.io/"
QUEUE_NAME = f"{_PREFIX}queue-name"
PRIORITY_CLASS = f"{_PREFIX}priority-class"
GROUP_NAME = f"{_PREFIX}pod-group-name"
TOTAL_COUNT = f"{_PREFIX}pod-group-total-count"
KEYS = (QUEUE_NAME, PRIORITY_CLASS, GROUP_NAME, TOTAL_COUNT, *KUEUE_TOPOLOGY)
"""All that is read."""


def read_kueue(pod: Pod, settings: Conventions) -> GangMembership | None:  # noqa: ARG001  all conventions are read the same way
    """What the labels and annotations say; None for a pod of which they say no queue, group or topology."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    queue = existing_name(labels.get(QUEUE_NAME, ""), label_path(QUEUE_NAME))
    group = labels.get(GROUP_NAME) or annotations.get(GROUP_NAME, "")
    topology = read_topology_request(annotations, KUEUE_TOPOLOGY)
    if not queue and not group and topology is None:
        return None
    total = whole_number(annotations, TOTAL_COUNT, annotation_path(TOTAL_COUNT), least=1)
    if group and total is None:
        raise ConventionError(
            f"must be given, because {GROUP_NAME} makes the pod a member", annotation_path(TOTAL_COUNT)
        )
    if not group and total is not None:
        raise ConventionError(f"must be given, because {TOTAL_COUNT} makes the pod a member", label_path(GROUP_NAME))
    return GangMembership(
        convention="kueue",
        namespace=pod.metadata.namespace,
        group=object_name(group) if group else "",
        queue=queue,
        priority_class=existing_name(labels.get(PRIORITY_CLASS, ""), label_path(PRIORITY_CLASS)),
        min_count=total,
        count=total,
        most=total,
        implicit=bool(group),
        topology=topology,
    )
