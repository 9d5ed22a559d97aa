"""The plain way: labels of ours, naming a PodGroup or Workload that exists, and a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti.api.conventions.claim import Claim, existing_name, label
from tutti.api.model import GROUP

if TYPE_CHECKING:
    from tutti.api.configuration import Conventions
    from tutti.api.core import Pod

QUEUE_NAME = f"{GROUP}/queue-name"
POD_GROUP = f"{GROUP}/pod-group"
WORKLOAD = f"{GROUP}/workload"
PRIORITY_CLASS = f"{GROUP}/priority-class"
KEYS = (QUEUE_NAME, POD_GROUP, WORKLOAD, PRIORITY_CLASS)
"""All that is read."""


def read(pod: Pod, settings: Conventions) -> Claim | None:  # noqa: ARG001  all conventions are read the same way
    """What the labels of ours say; None without any of them."""
    labels = pod.metadata.labels
    queue, group, workload, priority_class = (existing_name(labels.get(key, ""), label(key)) for key in KEYS)
    if not (queue or group or workload or priority_class):
        return None
    return Claim(
        convention="tutti",
        namespace=pod.metadata.namespace,
        group=group,
        workload=workload,
        queue=queue,
        priority_class=priority_class,
    )
