"""The kinds that the engine is told about: where each is served, how it is read, and what is observed for it.

All pods of the cluster come in one stream. Those of other schedulers hold room on nodes, and while they wait they may
belong to a group of ours by mistake or be promised a node; ends of ours must be seen. So only others' finished pods
could be left out: at most 12,500, as many as a control plane keeps, which is not worth a second stream for every event
to be matched against (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

from tutti.api.allowances import ResourceQuota
from tutti.api.core import Namespace, Node, Pod, PriorityClass
from tutti.api.disruption import PodDisruptionBudget
from tutti.api.kinds import Workload
from tutti.api.selecting import REPLICATION_CONTROLLER, SERVICE, PlainSelecting, SelectingObject, SelectorSelecting
from tutti.api.templates import prune_workload
from tutti.cluster.label_index import PodSelecting
from tutti.cluster.storage import StorageKind
from tutti.controller.crds import RESOURCES
from tutti.engine.records.observations import (
    AllowanceGone,
    AllowanceSeen,
    AnyObservation,
    AttachmentSeen,
    BudgetGone,
    BudgetSeen,
    CapacitySeen,
    ClaimSeen,
    CSIDriverSeen,
    CSINodeSeen,
    NamespaceGone,
    NamespaceSeen,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
    PriorityClassGone,
    PriorityClassSeen,
    SelectingGone,
    SelectingSeen,
    StorageClassSeen,
    StorageGone,
    StorageSeen,
    VolumeSeen,
)
from tutti.kube.changes import Gone
from tutti.kube.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Resource,
)


@dataclass(frozen=True, slots=True)
class Stream:
    """A kind of object: where it is served, as what it is read, and what to observe of one that is there or gone.

    `trim` leaves of one what is to be kept of it.
    """

    kind: str
    resource: Resource
    view: Any
    seen: Callable[[Any], AnyObservation]
    gone: Callable[[Gone], AnyObservation]
    trim: Callable[[Any], Any] = lambda found: found


def _selects(kind: str, resource: Resource, view: type[SelectingObject]) -> Stream:
    """The stream of a kind that selects pods; an object that selects none is as good as gone."""

    def seen(found: SelectingObject) -> AnyObservation:
        meta, selector = found.metadata, found.selector
        if selector is None:
            return SelectingGone(kind, meta.namespace, meta.name)
        return SelectingSeen(PodSelecting(kind, meta.namespace, meta.name, selector))

    return Stream(kind, resource, view, seen, lambda gone: SelectingGone(kind, gone.key.namespace, gone.key.name))


_CORE = (
    Stream("Pod", PODS, Pod, PodSeen, lambda gone: PodGone(gone.key.namespace, gone.key.name, gone.uid)),
    Stream("Node", NODES, Node, NodeSeen, lambda gone: NodeGone(gone.key.name)),
    Stream("Namespace", NAMESPACES, Namespace, NamespaceSeen, lambda gone: NamespaceGone(gone.key.name)),
    Stream(
        "PriorityClass",
        PRIORITY_CLASSES,
        PriorityClass,
        PriorityClassSeen,
        lambda gone: PriorityClassGone(gone.key.name),
    ),
    Stream(
        "PodDisruptionBudget",
        POD_DISRUPTION_BUDGETS,
        PodDisruptionBudget,
        BudgetSeen,
        lambda gone: BudgetGone(gone.key.namespace, gone.key.name),
    ),
    Stream(
        "ResourceQuota",
        RESOURCE_QUOTAS,
        ResourceQuota,
        AllowanceSeen,
        lambda gone: AllowanceGone(gone.key.namespace, gone.key.name),
    ),
    _selects(SERVICE, SERVICES, PlainSelecting),
    _selects(REPLICATION_CONTROLLER, REPLICATION_CONTROLLERS, PlainSelecting),
    _selects("ReplicaSet", REPLICA_SETS, SelectorSelecting),
    _selects("StatefulSet", STATEFUL_SETS, SelectorSelecting),
)


def _storage(kind: StorageKind, resource: Resource, seen: type[StorageSeen]) -> Stream:
    """The stream of a kind of storage object."""
    view = get_type_hints(seen)["found"]
    return Stream(kind, resource, view, seen, lambda gone: StorageGone(kind, gone.key.namespace, gone.key.name))


_STORAGE = (
    _storage("StorageClass", STORAGE_CLASSES, StorageClassSeen),
    _storage("CSIDriver", CSI_DRIVERS, CSIDriverSeen),
    _storage("CSINode", CSI_NODES, CSINodeSeen),
    _storage("CSIStorageCapacity", CSI_STORAGE_CAPACITIES, CapacitySeen),
    _storage("PersistentVolume", PERSISTENT_VOLUMES, VolumeSeen),
    _storage("PersistentVolumeClaim", PERSISTENT_VOLUME_CLAIMS, ClaimSeen),
    _storage("VolumeAttachment", VOLUME_ATTACHMENTS, AttachmentSeen),
)


def _ours(kind: str, resource: Resource) -> Stream:
    return Stream(
        kind,
        resource,
        dict[str, Any],
        lambda raw: ObjectSeen(kind, raw),
        lambda gone: ObjectGone(kind, gone.key.namespace, gone.key.name),
        *((prune_workload,) if kind == Workload.KIND else ()),
    )


STREAMS = (*_CORE[1:], *_STORAGE, *(_ours(kind, resource) for kind, resource in RESOURCES.items()), _CORE[0])
"""Every kind, what others refer to first: that is the order of a restart's explanations."""
