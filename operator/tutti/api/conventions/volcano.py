"""Volcano: annotations that name a PodGroup, or give its size where its controller would make one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti.api.conventions.claim import Claim, annotation, existing_name
from tutti.api.conventions.texts import integer, part_name

if TYPE_CHECKING:
    from tutti.api.configuration import Conventions
    from tutti.api.core import Pod

GROUP_NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
TASK = "volcano.sh/task-spec"
"""The task of a job of Volcano's that the pod belongs to; a PodGroup may give a minimum for each."""
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
KEYS = (*GROUP_NAMES, MIN_MEMBER, TASK, QUEUE_NAME)
"""All that is read."""


def read(pod: Pod, settings: Conventions) -> Claim | None:  # noqa: ARG001  all conventions are read the same way
    """What the annotations say; None without any of them.

    A size without a name means one group per owner, named as Volcano names it: `podgroup-<uid of the owner>`.
    """
    annotations = pod.metadata.annotations
    key = next((key for key in GROUP_NAMES if annotations.get(key)), GROUP_NAMES[0])
    group = existing_name(annotations.get(key, ""), annotation(key))
    min_count = integer(annotations, MIN_MEMBER, annotation(MIN_MEMBER), least=1)
    queue = existing_name(annotations.get(QUEUE_NAME, ""), annotation(QUEUE_NAME))
    if min_count is not None and not group:
        group = f"podgroup-{_owner(pod)}"
    if not group and not queue:
        return None
    return Claim(
        convention="volcano",
        namespace=pod.metadata.namespace,
        group=group,
        queue=queue,
        task=part_name(annotations.get(TASK, "") or pod.metadata.labels.get(TASK, ""), annotation(TASK)),
        min_count=min_count,
        implicit=min_count is not None,
    )


def _owner(pod: Pod) -> str:
    """The uid of the pod's controller; without one, the pod stands for itself."""
    return next((owner.uid for owner in pod.metadata.owner_references if owner.controller), pod.metadata.uid)
