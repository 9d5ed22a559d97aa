"""The owners of pods that are read, and the objects that select pods: which kinds, and what of each.

People label the Job that they submit; the label never reaches its pods. So queues are read from whatever controls a
pod, and what controls that. Kinds and names: Kubernetes 1.36 and the projects' own CRDs, at the versions that Kueue
0.20 has integrations for. Default spreading counts by what selects a pod (kube-scheduler 1.36, helper/spread.go): a
Service or a ReplicationController by plain labels, a ReplicaSet or a StatefulSet by a selector.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

import msgspec

from tutti.api.conventions import kueue, named_groups
from tutti.api.core import ObjectMeta, ObjectName, OwnerReference, View
from tutti.api.selectors import LabelSelector


class OwnerKind(NamedTuple):
    """A kind that owns pods, or owns what does: where it may be served, newest version first."""

    group: str
    kind: str
    plural: str
    versions: tuple[str, ...]


OWNER_KINDS: Final = (
    OwnerKind("apps", "DaemonSet", "daemonsets", ("v1",)),
    OwnerKind("apps", "Deployment", "deployments", ("v1",)),
    OwnerKind("apps", "ReplicaSet", "replicasets", ("v1",)),
    OwnerKind("apps", "StatefulSet", "statefulsets", ("v1",)),
    OwnerKind("batch", "CronJob", "cronjobs", ("v1",)),
    OwnerKind("batch", "Job", "jobs", ("v1",)),
    OwnerKind("argoproj.io", "Workflow", "workflows", ("v1alpha1",)),
    OwnerKind("batch.volcano.sh", "Job", "jobs", ("v1alpha1",)),
    OwnerKind("jobset.x-k8s.io", "JobSet", "jobsets", ("v1", "v1alpha2")),
    OwnerKind("kubeflow.org", "JAXJob", "jaxjobs", ("v1",)),
    OwnerKind("kubeflow.org", "MPIJob", "mpijobs", ("v2beta1", "v1")),
    OwnerKind("kubeflow.org", "PaddleJob", "paddlejobs", ("v1",)),
    OwnerKind("kubeflow.org", "PyTorchJob", "pytorchjobs", ("v1",)),
    OwnerKind("kubeflow.org", "TFJob", "tfjobs", ("v1",)),
    OwnerKind("kubeflow.org", "XGBoostJob", "xgboostjobs", ("v1",)),
    OwnerKind("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets", ("v1",)),
    OwnerKind("ray.io", "RayCluster", "rayclusters", ("v1",)),
    OwnerKind("ray.io", "RayJob", "rayjobs", ("v1",)),
    OwnerKind("ray.io", "RayService", "rayservices", ("v1",)),
    OwnerKind("sparkoperator.k8s.io", "SparkApplication", "sparkapplications", ("v1beta2",)),
    OwnerKind("trainer.kubeflow.org", "TrainJob", "trainjobs", ("v1alpha1",)),
    OwnerKind("workload.codeflare.dev", "AppWrapper", "appwrappers", ("v1beta2",)),
)
"""Every kind that is read, by whichever of its versions the server has."""

BUILT_IN: Final = frozenset({"apps", "batch"})
"""The groups of these that a server has without a CustomResourceDefinition."""

QUEUE_LABELS: Final = (named_groups.QUEUE_NAME, kueue.QUEUE_NAME)
"""Labels by which an owner names the queue of its pods, ours first."""


class OwnerView(View, frozen=True):
    """An object of any kind, of which only the metadata is read."""

    metadata: ObjectMeta = ObjectMeta()


class OwnerObject(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of an owner.

    Attributes:
        group: API group of its kind.
        labels: Those of its labels that name a queue.
        controller: What controls it in its turn.
    """

    group: str
    kind: str
    namespace: str
    name: str
    uid: str
    labels: dict[str, str] = {}
    controller: OwnerReference | None = None


def owner_object(group: str, kind: str, meta: ObjectMeta) -> OwnerObject:
    """Return what is kept of an object that may own pods."""
    labels = {name: meta.labels[name] for name in QUEUE_LABELS if name in meta.labels}
    return OwnerObject(group, kind, meta.namespace, meta.name, meta.uid, labels, controller_of(meta.owner_references))


def controller_of(owners: Iterable[OwnerReference]) -> OwnerReference | None:
    """Return the one owner that controls an object; None where none does."""
    return next((one for one in owners if one.controller), None)


SERVICE = "Service"
REPLICATION_CONTROLLER = "ReplicationController"

OWNERS = {REPLICATION_CONTROLLER: "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}
"""The kinds of owners whose selector counts, with the apiVersion that an owner reference must have."""

Owner = tuple[str, str]
"""Kind and name of an owner whose selector counts."""


class LabelsSpec(View, frozen=True):
    """A selector of labels that must be equal; null where the object selects nothing."""

    selector: dict[str, str] | None = None


class SelectorSpec(View, frozen=True):
    """A selector."""

    selector: LabelSelector | None = None


class LabelsSelecting(View, frozen=True):
    """A Service or a ReplicationController."""

    metadata: ObjectName = ObjectName()
    spec: LabelsSpec = LabelsSpec()

    @property
    def selector(self) -> LabelSelector | None:
        """Which pods it selects; None selects none."""
        return LabelSelector(match_labels=self.spec.selector) if self.spec.selector else None


class SelectorSelecting(View, frozen=True):
    """A ReplicaSet or a StatefulSet."""

    metadata: ObjectName = ObjectName()
    spec: SelectorSpec = SelectorSpec()

    @property
    def selector(self) -> LabelSelector | None:
        """Which pods it selects; None selects none."""
        return self.spec.selector


class SelectingObject(Protocol):
    """Either of them."""

    @property
    def metadata(self) -> ObjectName:
        """Its name."""
        ...

    @property
    def selector(self) -> LabelSelector | None:
        """Which pods it selects; None selects none."""
        ...


def owner_of(references: list[OwnerReference]) -> Owner | None:
    """Return a pod's controller, where its selector counts for spreading."""
    for one in references:
        if one.controller:
            return (one.kind, one.name) if OWNERS.get(one.kind) == one.api_version else None
    return None
