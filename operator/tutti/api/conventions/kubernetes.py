"""The native way: `spec.schedulingGroup` of Kubernetes 1.36, `spec.workloadRef` of 1.35.

A server with default gates drops both fields from the pods it stores, so they say something only where it serves them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti.api.conventions.claim import Claim, object_name

if TYPE_CHECKING:
    from tutti.api.configuration import Conventions
    from tutti.api.core import Pod


def read(pod: Pod, settings: Conventions) -> Claim | None:  # noqa: ARG001  all conventions are read the same way
    """The PodGroup that the pod's spec names; None without one.

    Kubernetes 1.35 has no PodGroup objects: each replica key of a workload's pod group is a gang of its own, which is
    named after all three here. How large it is, the native Workload says, as its PodGroup does with 1.36.
    """
    namespace = pod.metadata.namespace
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        return Claim(convention="kubernetes", namespace=namespace, group=group.pod_group_name)
    reference = pod.spec.workload_ref
    if reference is not None and reference.name and reference.pod_group:
        parts = (reference.name, reference.pod_group, reference.pod_group_replica_key)
        name = "-".join(part for part in parts if part)
        said_by = f"{reference.name}/{reference.pod_group}"
        return Claim(convention="kubernetes", namespace=namespace, group=object_name(name), object=said_by)
    return None
