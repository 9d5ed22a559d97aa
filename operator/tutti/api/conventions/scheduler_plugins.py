"""kubernetes-sigs/scheduler-plugins coscheduling: a label that names a PodGroup, which says the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti.api.conventions.claim import Claim, existing_name, label

if TYPE_CHECKING:
    from tutti.api.configuration import Conventions
    from tutti.api.core import Pod

POD_GROUP = "scheduling.x-k8s.io/pod-group"


def read(pod: Pod, settings: Conventions) -> Claim | None:  # noqa: ARG001  all conventions are read the same way
    """The PodGroup that the label names; None without the label."""
    group = existing_name(pod.metadata.labels.get(POD_GROUP, ""), label(POD_GROUP))
    if not group:
        return None
    return Claim(convention="schedulerPlugins", namespace=pod.metadata.namespace, group=group)
