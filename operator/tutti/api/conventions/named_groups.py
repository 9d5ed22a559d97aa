"""Conventions by which a pod names an object that says how large its gang is: ours, the native one, and two projects'.

Ours are labels that name a PodGroup or Workload, and a queue. Natively it is `spec.schedulingGroup` of Kubernetes 1.36,
`spec.workloadRef` of 1.35; a server with default gates drops both fields from the pods it stores, so they say something
only where it serves them. kubernetes-sigs/scheduler-plugins (coscheduling) has a label that names a PodGroup, Volcano
an annotation, or one with the size where Volcano's controller would make a PodGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti.api.conventions.after_annotation import AFTER, read_after
from tutti.api.conventions.flavor_seconds import FLAVOR_SECONDS, read_flavor_seconds
from tutti.api.conventions.membership import (
    GangMembership,
    annotation_path,
    existing_name,
    label_path,
    object_name,
    part_name,
    whole_number,
)
from tutti.api.conventions.topology_annotations import OUR_TOPOLOGY, read_topology_request
from tutti.api.model import GROUP

if TYPE_CHECKING:
    from tutti.api.configuration import Conventions
    from tutti.api.core import Pod


QUEUE_NAME = f"{GROUP}/queue-name"
POD_GROUP = f"{GROUP}/pod-group"
WORKLOAD = f"{GROUP}/workload"
PRIORITY_CLASS = f"{GROUP}/priority-class"
_NAMES = (QUEUE_NAME, POD_GROUP, WORKLOAD, PRIORITY_CLASS)
TUTTI_KEYS = (*_NAMES, *OUR_TOPOLOGY, AFTER, FLAVOR_SECONDS)
"""All that is read."""


def read_tutti(pod: Pod, settings: Conventions) -> GangMembership | None:  # noqa: ARG001  all conventions are read the same way
    """What the labels and annotations of ours say; None without any of them."""
    labels = pod.metadata.labels
    queue, group, workload, priority_class = (existing_name(labels.get(key, ""), label_path(key)) for key in _NAMES)
    topology = read_topology_request(pod.metadata.annotations, OUR_TOPOLOGY)
    after = read_after(pod.metadata.annotations.get(AFTER, ""), annotation_path(AFTER))
    seconds = read_flavor_seconds(pod.metadata.annotations.get(FLAVOR_SECONDS, ""), annotation_path(FLAVOR_SECONDS))
    if not (queue or group or workload or priority_class or topology or after or seconds):
        return None
    return GangMembership(
        convention="tutti",
        namespace=pod.metadata.namespace,
        group=group,
        workload=workload,
        queue=queue,
        priority_class=priority_class,
        topology=topology,
        after=after,
        flavor_seconds=seconds,
    )


def read_kubernetes(pod: Pod, settings: Conventions) -> GangMembership | None:  # noqa: ARG001  all conventions are read the same way
    """The PodGroup that the pod's spec names; None without one.

    Kubernetes 1.35 has no PodGroup objects: each replica key of a workload's pod group is a gang of its own, which is
    named after all three here. How large it is, the native Workload says, as its PodGroup does with 1.36.
    """
    namespace = pod.metadata.namespace
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        return GangMembership(convention="kubernetes", namespace=namespace, group=group.pod_group_name)
    reference = pod.spec.workload_ref
    if reference is not None and reference.name and reference.pod_group:
        parts = (reference.name, reference.pod_group, reference.pod_group_replica_key)
        name = "-".join(part for part in parts if part)
        said_by = f"{reference.name}/{reference.pod_group}"
        return GangMembership(convention="kubernetes", namespace=namespace, group=object_name(name), object=said_by)
    return None


SCHEDULER_PLUGINS_KEYS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")
"""The label, and what it was called before; koordinator still uses that."""


def read_scheduler_plugins(pod: Pod, settings: Conventions) -> GangMembership | None:  # noqa: ARG001  all conventions are read the same way
    """The PodGroup that the label names; None without the label."""
    key = next((key for key in SCHEDULER_PLUGINS_KEYS if pod.metadata.labels.get(key)), SCHEDULER_PLUGINS_KEYS[0])
    group = existing_name(pod.metadata.labels.get(key, ""), label_path(key))
    if not group:
        return None
    return GangMembership(convention="schedulerPlugins", namespace=pod.metadata.namespace, group=group)


VOLCANO = "batch.volcano.sh"
"""The group of Volcano's Jobs."""
VOLCANO_GROUP_NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
VOLCANO_MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
VOLCANO_TASK = "volcano.sh/task-spec"
"""The task of a job of Volcano's that the pod belongs to; a PodGroup may give a minimum for each."""
VOLCANO_QUEUE_NAME = "scheduling.volcano.sh/queue-name"
VOLCANO_KEYS = (*VOLCANO_GROUP_NAMES, VOLCANO_MIN_MEMBER, VOLCANO_TASK, VOLCANO_QUEUE_NAME)
"""All that is read."""


def read_volcano(pod: Pod, settings: Conventions) -> GangMembership | None:  # noqa: ARG001  all conventions are read the same way
    """What the annotations say; None without any of them.

    A size without a name means one group per owner, named as Volcano names it: `podgroup-<uid of the owner>`.
    """
    annotations = pod.metadata.annotations
    key = next((key for key in VOLCANO_GROUP_NAMES if annotations.get(key)), VOLCANO_GROUP_NAMES[0])
    group = existing_name(annotations.get(key, ""), annotation_path(key))
    min_count = whole_number(annotations, VOLCANO_MIN_MEMBER, annotation_path(VOLCANO_MIN_MEMBER), least=1)
    queue = existing_name(annotations.get(VOLCANO_QUEUE_NAME, ""), annotation_path(VOLCANO_QUEUE_NAME))
    if min_count is not None and not group:
        group = object_name(f"podgroup-{_controller_uid(pod)}")  # the reference may say anything
    if not group and not queue:
        return None
    return GangMembership(
        convention="volcano",
        namespace=pod.metadata.namespace,
        group=group,
        queue=queue,
        task=part_name(
            annotations.get(VOLCANO_TASK, "") or pod.metadata.labels.get(VOLCANO_TASK, ""),
            annotation_path(VOLCANO_TASK),
        ),
        min_count=min_count,
        implicit=min_count is not None,
    )


def _controller_uid(pod: Pod) -> str:
    """The uid of the pod's controller; without one, the pod stands for itself."""
    return next((owner.uid for owner in pod.metadata.owner_references if owner.controller), pod.metadata.uid)
