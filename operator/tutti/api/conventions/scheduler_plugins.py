"""kubernetes-sigs/scheduler-plugins coscheduling: a label that names a PodGroup, which says the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti.api.conventions.claim import Claim, existing_name, label

if TYPE_CHECKING:
    from tutti.api.configuration import Conventions
    from tutti.api.core import Pod

POD_GROUPS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
"""The label, and what it was called before; koordinator still uses that."""


def read(pod: Pod, settings: Conventions) -> Claim | None:  # noqa: ARG001  all conventions are read the same way
    """The PodGroup that the label names; None without the label."""
    key = next((key for key in POD_GROUPS if pod.metadata.labels.get(key)), POD_GROUPS[0])
    group = existing_name(pod.metadata.labels.get(key, ""), label(key))
    if not group:
        return None
    return Claim(convention="schedulerPlugins", namespace=pod.metadata.namespace, group=group)
