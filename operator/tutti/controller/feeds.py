"""What the operator watches, and how each change becomes an observation.

All pods of the cluster come in one stream: those of other schedulers hold room on nodes, and one stream cannot show a
pod as gone from one selection before it shows up in another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

import msgspec

from tutti.api.core import Namespace, Node, Pod, PriorityClass
from tutti.api.disruption import PodDisruptionBudget
from tutti.api.selecting import REPLICATION_CONTROLLER, SERVICE, PlainSelecting, SelectingObject, SelectorSelecting
from tutti.cluster.storage import StorageKind
from tutti.cluster.surroundings import Selecting
from tutti.controller.catalogue import Catalogue
from tutti.controller.crds import RESOURCES
from tutti.controller.health import Check, Health
from tutti.engine.observations import (
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
from tutti.kube.changes import Change, Gone
from tutti.kube.client import Client
from tutti.kube.informer import Informer
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
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Resource,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Stream:
    """A kind of object: where it is served, how it is read, and what to observe for it."""

    kind: str
    resource: Resource
    view: Any
    seen: Callable[[Any], AnyObservation]
    gone: Callable[[Gone], AnyObservation]


def _selects(kind: str, resource: Resource, view: type[SelectingObject]) -> _Stream:
    """The stream of a kind that selects pods; an object that selects none is as good as gone."""

    def seen(found: SelectingObject) -> AnyObservation:
        meta, selector = found.metadata, found.selector
        if selector is None:
            return SelectingGone(kind, meta.namespace, meta.name)
        return SelectingSeen(Selecting(kind, meta.namespace, meta.name, selector))

    return _Stream(kind, resource, view, seen, lambda gone: SelectingGone(kind, gone.key.namespace, gone.key.name))


_CORE = (
    _Stream("Pod", PODS, Pod, PodSeen, lambda gone: PodGone(gone.key.namespace, gone.key.name, gone.uid)),
    _Stream("Node", NODES, Node, NodeSeen, lambda gone: NodeGone(gone.key.name)),
    _Stream("Namespace", NAMESPACES, Namespace, NamespaceSeen, lambda gone: NamespaceGone(gone.key.name)),
    _Stream(
        "PriorityClass",
        PRIORITY_CLASSES,
        PriorityClass,
        PriorityClassSeen,
        lambda gone: PriorityClassGone(gone.key.name),
    ),
    _Stream(
        "PodDisruptionBudget",
        POD_DISRUPTION_BUDGETS,
        PodDisruptionBudget,
        BudgetSeen,
        lambda gone: BudgetGone(gone.key.namespace, gone.key.name),
    ),
    _selects(SERVICE, SERVICES, PlainSelecting),
    _selects(REPLICATION_CONTROLLER, REPLICATION_CONTROLLERS, PlainSelecting),
    _selects("ReplicaSet", REPLICA_SETS, SelectorSelecting),
    _selects("StatefulSet", STATEFUL_SETS, SelectorSelecting),
)


def _storage(kind: StorageKind, resource: Resource, seen: type[StorageSeen]) -> _Stream:
    """The stream of a kind of storage object."""
    view = get_type_hints(seen)["found"]
    return _Stream(kind, resource, view, seen, lambda gone: StorageGone(kind, gone.key.namespace, gone.key.name))


_STORAGE = (
    _storage("StorageClass", STORAGE_CLASSES, StorageClassSeen),
    _storage("CSIDriver", CSI_DRIVERS, CSIDriverSeen),
    _storage("CSINode", CSI_NODES, CSINodeSeen),
    _storage("CSIStorageCapacity", CSI_STORAGE_CAPACITIES, CapacitySeen),
    _storage("PersistentVolume", PERSISTENT_VOLUMES, VolumeSeen),
    _storage("PersistentVolumeClaim", PERSISTENT_VOLUME_CLAIMS, ClaimSeen),
    _storage("VolumeAttachment", VOLUME_ATTACHMENTS, AttachmentSeen),
)


def _ours(kind: str, resource: Resource) -> _Stream:
    return _Stream(
        kind,
        resource,
        dict[str, Any],
        lambda raw: ObjectSeen(kind, raw),
        lambda gone: ObjectGone(kind, gone.key.namespace, gone.key.name),
    )


class Feeds:
    """All informers of the operator: they tell the engine everything, and the catalogue what is ours.

    `forget` is given the resource, namespace, name and uid of each pod and object of ours that is gone.
    """

    def __init__(
        self,
        client: Client,
        *,
        observe: Callable[[AnyObservation], None],
        forget: Callable[[Resource, str, str, str], None],
        catalogue: Catalogue,
        health: Health,
    ) -> None:
        self._observe = observe
        self._forget = forget
        self._catalogue = catalogue
        self.synced = asyncio.Event()
        # The order is that of a restart's explanations: what others refer to first.
        streams = [*_CORE[1:], *_STORAGE, *(_ours(kind, resource) for kind, resource in RESOURCES.items()), _CORE[0]]
        self._informers = [self._informer(client, stream, health) for stream in streams]

    def _informer(self, client: Client, stream: _Stream, health: Health) -> Informer[Any]:
        informer: Informer[Any] = Informer(
            client,
            stream.resource,
            decode=msgspec.json.Decoder(stream.view).decode,
            deliver=lambda changes: self._deliver(stream, changes),
        )
        health.ready[f"informer/{stream.resource.plural}"] = lambda: _check(informer)
        return informer

    def _deliver(self, stream: _Stream, changes: Sequence[Change[Any]]) -> None:
        ours = stream.kind in RESOURCES
        for change in changes:
            if isinstance(change, Gone):
                self._observe(stream.gone(change))
                if ours:
                    self._catalogue.gone(stream.kind, *change.key)
                if ours or stream.kind == "Pod":
                    self._forget(stream.resource, *change.key, change.uid)
            else:
                self._observe(stream.seen(change.obj))
                if ours:
                    self._catalogue.seen(stream.kind, change.obj)

    async def run(self) -> None:
        """List and watch everything until cancelled; `synced` is set once each kind was listed in full."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run(), name=f"informer {informer.resource.label}")
            for informer in self._informers:
                await informer.synced.wait()
            self.synced.set()


def _check(informer: Informer[Any]) -> Check:
    if informer.synced.is_set():
        return Check(ok=True, detail=f"interrupted: {informer.problem}" if informer.problem else "ok")
    return Check(ok=False, detail=informer.problem or "not listed yet")
