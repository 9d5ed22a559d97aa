"""The kinds that the engine is told about: where each is served, how it is read, and what is observed for it.

All pods of the cluster come in one watch. Those of other schedulers hold room on nodes, and while they wait they may
belong to a group of ours by mistake or be promised a node; ends of ours must be seen. So only others' finished pods
could be left out: at most 12,500, as many as a control plane keeps, which is not worth a second watch for every event
to be matched against (docs/performance/in-vain.md).

Kinds of other projects, which say how large gangs are or own pods, are watched where and while they are served.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from tutti.api import network as network_api
from tutti.api import numa
from tutti.api import throttles as throttles_api
from tutti.api.configuration import TuttiConfiguration
from tutti.api.conventions.gang_objects import GANG_KINDS, GangKind
from tutti.api.core import Namespace, Node, Pod, PriorityClass
from tutti.api.framework_kind import FrameworkKind
from tutti.api.frameworks import KindTable, projected
from tutti.api.frameworks.table import ignored_keys
from tutti.api.kinds import Workload
from tutti.api.limits import PodDisruptionBudget, ResourceQuota
from tutti.api.owners import (
    BUILT_IN,
    REPLICATION_CONTROLLER,
    SERVICE,
    LabelsSelecting,
    SelectingObject,
    SelectorSelecting,
)
from tutti.api.provisioning import AUTOSCALING_GROUP, REQUEST_VERSION, REQUESTS, read_request
from tutti.api.templates import prune_workload
from tutti.cluster.devices.state import DeviceKind
from tutti.cluster.label_index import PodSelecting
from tutti.cluster.storage import StorageKind
from tutti.controller.discovery import OUR_RESOURCES
from tutti.engine.records.device_observations import (
    ClaimTemplateSeen,
    DeviceClaimSeen,
    DeviceClassSeen,
    DeviceObjectGone,
    DeviceObjectSeen,
    DeviceTaintRuleSeen,
    SliceSeen,
)
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
    GangObjectGone,
    GangObjectSeen,
    NamespaceGone,
    NamespaceSeen,
    NetworkObjectGone,
    NetworkObjectSeen,
    NodeGone,
    NodeSeen,
    NodeTopologyGone,
    NodeTopologySeen,
    ObjectGone,
    ObjectSeen,
    OwnerGone,
    OwnerKindFollowed,
    OwnerSeen,
    PodGone,
    PodSeen,
    PriorityClassGone,
    PriorityClassSeen,
    SelectingGone,
    SelectingSeen,
    StorageClassSeen,
    StorageGone,
    StorageSeen,
    ThrottleGone,
    ThrottleSeen,
    VolumeSeen,
)
from tutti.engine.records.provisioning import ProvisioningFollowed, ProvisioningGone, ProvisioningSeen
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
    APIResource,
)
from tutti.kube.store import Deletion


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """A kind of object: where it is served, as what it is read, and what to observe of one that is there or gone.

    `trim` leaves of one what is to be kept of it.
    """

    kind: str
    resource: APIResource
    view: Any
    seen: Callable[[Any], AnyObservation]
    gone: Callable[[Deletion], AnyObservation]
    trim: Callable[[Any], Any] = lambda found: found


def _selects(kind: str, resource: APIResource, view: type[SelectingObject]) -> WatchedKind:
    """The stream of a kind that selects pods; an object that selects none is as good as gone."""

    def seen(found: SelectingObject) -> AnyObservation:
        meta, selector = found.metadata, found.selector
        if selector is None:
            return SelectingGone(kind, meta.namespace, meta.name)
        return SelectingSeen(PodSelecting(kind, meta.namespace, meta.name, selector))

    return WatchedKind(kind, resource, view, seen, lambda gone: SelectingGone(kind, gone.key.namespace, gone.key.name))


_CORE = (
    WatchedKind("Pod", PODS, Pod, PodSeen, lambda gone: PodGone(gone.key.namespace, gone.key.name, gone.uid)),
    WatchedKind("Node", NODES, Node, NodeSeen, lambda gone: NodeGone(gone.key.name)),
    WatchedKind("Namespace", NAMESPACES, Namespace, NamespaceSeen, lambda gone: NamespaceGone(gone.key.name)),
    WatchedKind(
        "PriorityClass",
        PRIORITY_CLASSES,
        PriorityClass,
        PriorityClassSeen,
        lambda gone: PriorityClassGone(gone.key.name),
    ),
    WatchedKind(
        "PodDisruptionBudget",
        POD_DISRUPTION_BUDGETS,
        PodDisruptionBudget,
        BudgetSeen,
        lambda gone: BudgetGone(gone.key.namespace, gone.key.name),
    ),
    WatchedKind(
        "ResourceQuota",
        RESOURCE_QUOTAS,
        ResourceQuota,
        AllowanceSeen,
        lambda gone: AllowanceGone(gone.key.namespace, gone.key.name),
    ),
    _selects(SERVICE, SERVICES, LabelsSelecting),
    _selects(REPLICATION_CONTROLLER, REPLICATION_CONTROLLERS, LabelsSelecting),
    _selects("ReplicaSet", REPLICA_SETS, SelectorSelecting),
    _selects("StatefulSet", STATEFUL_SETS, SelectorSelecting),
)


def _storage(kind: StorageKind, resource: APIResource, seen: type[StorageSeen]) -> WatchedKind:
    """The stream of a kind of storage object."""
    view = get_type_hints(seen)["found"]
    return WatchedKind(kind, resource, view, seen, lambda gone: StorageGone(kind, gone.key.namespace, gone.key.name))


_STORAGE = (
    _storage("StorageClass", STORAGE_CLASSES, StorageClassSeen),
    _storage("CSIDriver", CSI_DRIVERS, CSIDriverSeen),
    _storage("CSINode", CSI_NODES, CSINodeSeen),
    _storage("CSIStorageCapacity", CSI_STORAGE_CAPACITIES, CapacitySeen),
    _storage("PersistentVolume", PERSISTENT_VOLUMES, VolumeSeen),
    _storage("PersistentVolumeClaim", PERSISTENT_VOLUME_CLAIMS, ClaimSeen),
    _storage("VolumeAttachment", VOLUME_ATTACHMENTS, AttachmentSeen),
)


def _ours(kind: str, resource: APIResource) -> WatchedKind:
    return WatchedKind(
        kind,
        resource,
        dict[str, Any],
        lambda raw: ObjectSeen(kind, raw),
        lambda gone: ObjectGone(kind, gone.key.namespace, gone.key.name),
        *((prune_workload,) if kind == Workload.KIND else ()),
    )


WATCH_LIST = (*_CORE[1:], *_STORAGE, *(_ours(kind, resource) for kind, resource in OUR_RESOURCES.items()), _CORE[0])
"""Every kind, what others refer to first: that is the order of a restart's explanations."""


@dataclass(frozen=True, slots=True)
class OptionalKind:
    """A kind that is followed from when the server has it.

    Attributes:
        versions: In which it is read, the newest first.
        view: As what its objects are read.
        seen: What to observe of one that is there, given where its kind is served.
        gone: The same of one that is gone.
        following: What to observe when its objects begin to be followed, or no longer can be; None: nothing.
        may_be_built_in: Whether the server may have it without a CustomResourceDefinition.
        awaited: Whether decisions wait for its first list also where that fails, for a while.
        told: Whether its status is written here.
        namespaced: Whether its objects are in namespaces.
        lost: What people are told where the operator may not read it.
    """

    group: str
    plural: str
    versions: tuple[str, ...]
    view: Any
    seen: Callable[[APIResource, Any], AnyObservation]
    gone: Callable[[APIResource, Deletion], AnyObservation]
    following: Callable[[bool], AnyObservation] | None = None
    may_be_built_in: bool = True
    awaited: bool = True
    told: bool = True
    namespaced: bool = True
    lost: str = "queues that owners name are not known"

    @property
    def name(self) -> str:
        """Its name in the API, that of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"


def optional_kinds(configuration: TuttiConfiguration) -> Sequence[OptionalKind]:
    """Return every kind that is read under these settings."""
    conventions = configuration.conventions
    gangs = [_gang(one) for one in GANG_KINDS if getattr(conventions, one.convention)]
    table = KindTable(configuration.frameworks, ignored_keys(conventions))
    aligned = any(one.node_resource_topology_match is not None for one in configuration.profiles)
    zones = [_NODE_TOPOLOGY] if aligned else []
    throttles = map(_throttle, throttles_api.PLURALS) if configuration.throttles is not None else ()
    network = map(_network, network_api.PLURALS) if configuration.network is not None else ()
    owners = (_owner(one, table.ignored) for one in table)
    return [*_DEVICES, _PROVISIONING, *gangs, *zones, *owners, *throttles, *network]


_NODE_TOPOLOGY = OptionalKind(
    numa.GROUP,
    numa.PLURAL,
    numa.VERSIONS,
    numa.NodeResourceTopology,
    seen=lambda resource, found: NodeTopologySeen(numa.read_topology(found, resource.api_version)),
    gone=lambda _, gone: NodeTopologyGone(gone.key.name),
    may_be_built_in=False,
    told=False,
)


_PROVISIONING = OptionalKind(
    AUTOSCALING_GROUP,
    REQUESTS,
    (REQUEST_VERSION,),
    dict[str, Any],
    seen=lambda _, raw: ProvisioningSeen(read_request(raw)),
    gone=lambda _, gone: ProvisioningGone(gone.key.namespace, gone.key.name),
    following=ProvisioningFollowed,
    may_be_built_in=False,
    awaited=False,
    told=False,
    lost="no nodes are asked for",
)


def _device_kind(
    kind: DeviceKind, plural: str, seen: type[DeviceObjectSeen], versions: tuple[str, ...] = ("v1",)
) -> OptionalKind:
    """A kind of dynamic resource allocation; followed while the server has it in the version that is read."""
    return OptionalKind(
        "resource.k8s.io",
        plural,
        versions,
        get_type_hints(seen)["found"],
        seen=lambda _, found: seen(found),
        gone=lambda _, gone: DeviceObjectGone(kind, gone.key.namespace, gone.key.name),
        told=False,
    )


_DEVICES = (
    _device_kind("DeviceClass", "deviceclasses", DeviceClassSeen),
    _device_kind("ResourceSlice", "resourceslices", SliceSeen),
    _device_kind("ResourceClaim", "resourceclaims", DeviceClaimSeen),
    _device_kind("ResourceClaimTemplate", "resourceclaimtemplates", ClaimTemplateSeen),
    _device_kind("DeviceTaintRule", "devicetaintrules", DeviceTaintRuleSeen, ("v1", "v1beta2", "v1alpha3")),
)


def _gang(kind: GangKind) -> OptionalKind:
    return OptionalKind(
        kind.group,
        kind.plural,
        kind.versions,
        dict[str, Any],
        seen=lambda resource, raw: GangObjectSeen(resource.api_version, kind.kind, raw),
        gone=lambda resource, gone: GangObjectGone(resource.api_version, kind.kind, gone.key.namespace, gone.key.name),
    )


def _throttle(kind: str) -> OptionalKind:
    return OptionalKind(
        throttles_api.GROUP,
        throttles_api.PLURALS[kind],
        (throttles_api.VERSION,),
        dict[str, Any],
        seen=lambda _, raw: ThrottleSeen(kind, raw),
        gone=lambda _, gone: ThrottleGone(kind, gone.key.namespace, gone.key.name),
        may_be_built_in=False,
        namespaced=kind == throttles_api.NAMESPACED_KIND,
    )


def _network(kind: str) -> OptionalKind:
    return OptionalKind(
        network_api.GROUPS[kind],
        network_api.PLURALS[kind],
        (network_api.VERSION,),
        dict[str, Any],
        seen=lambda _, raw: NetworkObjectSeen(kind, raw),
        gone=lambda _, gone: NetworkObjectGone(kind, gone.key.namespace, gone.key.name),
        may_be_built_in=False,
        told=False,
        lost="what the network costs is not known",
    )


def _owner(kind: FrameworkKind, ignored: frozenset[str]) -> OptionalKind:
    return OptionalKind(
        kind.group,
        kind.plural,
        tuple(kind.versions),
        dict[str, Any],
        seen=lambda resource, raw: OwnerSeen(projected(raw, kind, ignored, resource.version)),
        gone=lambda _, gone: OwnerGone(gone.uid),
        following=lambda followed: OwnerKindFollowed(kind.group, kind.kind, followed),
        may_be_built_in=kind.group in BUILT_IN,
        awaited=False,
        told=False,
    )
