"""Kueue: a queue label, and pod groups of a fixed size; its admission gates are not needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti.api.conventions import kueue_topology
from tutti.api.conventions.claim import Claim, ConventionError, annotation, existing_name, label, object_name
from tutti.api.conventions.texts import integer

if TYPE_CHECKING:
    from tutti.api.configuration import Conventions
    from tutti.api.core import Pod

_PREFIX = "kueue.x-k8s.io/"
QUEUE_NAME = f"{_PREFIX}queue-name"
PRIORITY_CLASS = f"{_PREFIX}priority-class"
GROUP_NAME = f"{_PREFIX}pod-group-name"
TOTAL_COUNT = f"{_PREFIX}pod-group-total-count"
KEYS = (QUEUE_NAME, PRIORITY_CLASS, GROUP_NAME, TOTAL_COUNT, *kueue_topology.KEYS)
"""All that is read."""


def read(pod: Pod, settings: Conventions) -> Claim | None:  # noqa: ARG001  all conventions are read the same way
    """What the labels and annotations say; None for a pod without a queue or group of Kueue's."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    queue = existing_name(labels.get(QUEUE_NAME, ""), label(QUEUE_NAME))
    group = labels.get(GROUP_NAME) or annotations.get(GROUP_NAME, "")
    if not queue and not group:
        return None
    total = integer(annotations, TOTAL_COUNT, annotation(TOTAL_COUNT), least=1)
    if group and total is None:
        raise ConventionError(f"must be given, because {GROUP_NAME} makes the pod a member", annotation(TOTAL_COUNT))
    if not group and total is not None:
        raise ConventionError(f"must be given, because {TOTAL_COUNT} makes the pod a member", label(GROUP_NAME))
    return Claim(
        convention="kueue",
        namespace=pod.metadata.namespace,
        group=object_name(group) if group else "",
        queue=queue,
        priority_class=existing_name(labels.get(PRIORITY_CLASS, ""), label(PRIORITY_CLASS)),
        min_count=total,
        count=total,
        most=total,
        implicit=bool(group),
        topology=kueue_topology.read(annotations),
    )
