"""Storage objects as observed, and how many volumes of each CSI driver are attached to each node.

A volume counts once per node however many pods use it there (kube-scheduler 1.36, plugins/nodevolumelimits/csi.go).
What is observed of nodes is kept by name, because an attachment may be seen before its node; a driver's columns are
brought up to date when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

from tutti.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tutti.cluster.volumes import ClaimKey, VolumeName
from tutti.cluster.volumes_of_class import NO_VOLUMES_OF_CLASS, VolumesOfClass

UNLIMITED = np.iinfo(np.int64).max // 2
"""The limit of a node that has none."""


@dataclass(slots=True)
class _Driver:
    """One driver: counts and limits by node, and the columns made of them for one set of nodes."""

    counts: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    stale: dict[str, None] = field(default_factory=dict)
    stamp: tuple[int, int] = (-1, -1)
    used: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    most: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class Attachments:
    """What is attached where."""

    def __init__(self) -> None:
        self._by_pods: dict[VolumeName, dict[str, int]] = {}
        self._observed: dict[VolumeName, dict[str, int]] = {}
        self._drivers: dict[str, _Driver] = {}
        self._limited: dict[str, Mapping[str, int]] = {}

    def use(self, node: str, volume: VolumeName, count: int = 1) -> None:
        """Note one more pod that uses a volume on a node; a negative count takes pods away."""
        self._note(self._by_pods, node, volume, count)

    def observe(self, node: str, volume: VolumeName, count: int = 1) -> None:
        """Note that a volume is attached to a node, whoever uses it; a negative count takes that back."""
        self._note(self._observed, node, volume, count)

    def _note(self, book: dict[VolumeName, dict[str, int]], node: str, volume: VolumeName, count: int) -> None:
        before = self._is_on(node, volume)
        nodes = book.setdefault(volume, {})
        nodes[node] = nodes.get(node, 0) + count
        if not nodes[node]:
            del nodes[node]
            if not nodes:
                del book[volume]
        self.add(node, volume[0], self._is_on(node, volume) - before)

    def _is_on(self, node: str, volume: VolumeName) -> bool:
        return node in self._by_pods.get(volume, ()) or node in self._observed.get(volume, ())

    def add(self, node: str, driver: str, count: int) -> None:
        """Count so many volumes more on a node, each of them used by one pod; a negative count takes them away."""
        if not count:
            return
        known = self._drivers.setdefault(driver, _Driver())
        known.counts[node] = known.counts.get(node, 0) + count
        if not known.counts[node]:
            del known.counts[node]
        known.stale[node] = None

    def limit(self, node: str, limits: Mapping[str, int]) -> None:
        """Take over how many volumes of which driver a node can have; it has no limit for other drivers."""
        for driver in {**self._limited.pop(node, {}), **limits}:
            known = self._drivers.setdefault(driver, _Driver())
            known.limits.pop(node, None)
            if driver in limits:
                known.limits[node] = limits[driver]
            known.stale[node] = None
        if limits:
            self._limited[node] = limits

    def limits(self, node: str) -> Mapping[str, int]:
        """Return how many volumes of which driver a node can have."""
        return self._limited.get(node, {})

    def where(self, volume: VolumeName) -> Mapping[str, int]:
        """Return the nodes where pods use a volume, and how many."""
        return self._by_pods.get(volume, {})

    def count(self, node: str, driver: str) -> int:
        """Return how many volumes of a driver are on a node."""
        known = self._drivers.get(driver)
        return known.counts.get(node, 0) if known else 0

    def columns(
        self, driver: str, rows: Mapping[str, int], stamp: tuple[int, int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return how many volumes of a driver each node has, and may have: int64[rows] each; None without any limit.

        Args:
            driver: The driver.
            rows: The row of each node.
            stamp: What changes whenever `rows` does, and how many rows there are.
        """
        known = self._drivers.get(driver)
        if known is None or not known.limits:
            return None
        if known.stamp != stamp:
            known.used = np.zeros(stamp[1], dtype=np.int64)
            known.most = np.full(stamp[1], UNLIMITED, dtype=np.int64)
            known.stamp = stamp
            known.stale = dict.fromkeys((*known.counts, *known.limits))
        for node in known.stale:
            row = rows.get(node)
            if row is not None:
                known.used[row] = known.counts.get(node, 0)
                known.most[row] = known.limits.get(node, UNLIMITED)
        known.stale = {}
        return known.used, known.most


StorageObject = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)

StorageKind = Literal[
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
]


class StorageBook:
    """All storage objects.

    Attributes:
        changes: Grows whenever an object comes, changes or goes.
        version: Grows whenever a class, driver or capacity does, or what a driver says of itself on a node.
    """

    def __init__(self, attachments: Attachments) -> None:
        self.changes = 0
        self.version = 0
        self.claims: dict[ClaimKey, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self._attachments = attachments
        self._drivers: dict[str, CSIDriver] = {}
        self._topologies: dict[str, dict[str, tuple[str, ...]]] = {}
        self._capacities: dict[str, dict[tuple[str, str], CSIStorageCapacity]] = {}
        self._class_of_capacity: dict[tuple[str, str], str] = {}
        self._of_class: dict[str, VolumesOfClass] = {}
        self._meant_for: dict[ClaimKey, dict[str, None]] = {}
        self._named_by: dict[str, dict[ClaimKey, None]] = {}
        self._by_handle: dict[VolumeName, dict[str, None]] = {}
        self._observed: dict[str, VolumeAttachment] = {}
        self._counted: dict[str, tuple[str, VolumeName]] = {}
        self._attached_as: dict[str, dict[str, None]] = {}

    def put(self, seen: StorageObject) -> list[ClaimKey]:
        """Add or change an object; returns the claims that it makes a difference to, apart from those of a class."""
        match seen:
            case PersistentVolumeClaim():
                return self._put_claim(seen)
            case PersistentVolume():
                return self._put_volume(seen)
            case StorageClass():
                self._put_class(seen)
            case CSIDriver():
                self._put_driver(seen)
            case CSIStorageCapacity():
                self._put_capacity(seen)
            case CSINode():
                self._put_node(seen.metadata.name, seen.limits, seen.topologies)
            case VolumeAttachment():
                self._put_attachment(seen)
            case _:
                assert_never(seen)
        return []

    def drop(self, kind: StorageKind, namespace: str, name: str) -> list[ClaimKey]:
        """Forget an object; returns the claims that it made a difference to, apart from those of a class."""
        self.changes += 1
        match kind:
            case "PersistentVolumeClaim":
                return [(namespace, name)] if self._remove_claim((namespace, name)) else []
            case "PersistentVolume":
                return list(self._remove_volume(name))
            case "StorageClass":
                self.classes.pop(name, None)
                self._rules_changed()
            case "CSIDriver":
                self._drivers.pop(name, None)
                self._rules_changed()
            case "CSIStorageCapacity":
                self._drop_capacity((namespace, name))
            case "CSINode":
                self._put_node(name, {}, {})
            case "VolumeAttachment":
                self._drop_attachment(name)
            case _:
                assert_never(kind)
        return []

    def of_class(self, storage_class: str) -> VolumesOfClass:
        """Return the volumes of a class."""
        return self._of_class.get(storage_class, NO_VOLUMES_OF_CLASS)

    def meant_for(self, claim: PersistentVolumeClaim) -> Iterator[PersistentVolume]:
        """Yield the volumes of its class that name a claim."""
        for name in self._meant_for.get(claim.key, ()):
            volume = self.volumes[name]
            reference = volume.spec.claim_ref
            uids = ("", claim.metadata.uid)
            if reference is not None and reference.uid in uids and volume.storage_class == claim.storage_class:
                yield volume

    def volume_of(self, key: ClaimKey) -> VolumeName | None:
        """Return the CSI volume of a claim; of one that has none yet a name of its own with its future driver."""
        claim = self.claims.get(key)
        if claim is None:
            return None
        volume = self.volumes.get(claim.spec.volume_name)
        if volume is not None:
            return (volume.spec.csi.driver, volume.spec.csi.volume_handle) if volume.spec.csi is not None else None
        found = self.classes.get(claim.storage_class)
        return (found.provisioner, f"claim {'/'.join(key)}") if found is not None else None

    def is_twofold(self, volume: VolumeName) -> bool:
        """Whether several volumes are the same thing to their driver."""
        return len(self._by_handle.get(volume, ())) > 1

    def topology_keys(self, provisioner: str) -> tuple[str, ...] | None:
        """Return the node labels that say where a driver's volumes can be used; None where no node has the driver."""
        said = [topologies[provisioner] for topologies in self._topologies.values() if provisioner in topologies]
        return tuple(sorted({key for keys in said for key in keys})) if said else None

    def tracks_capacity(self, provisioner: str) -> bool:
        """Whether a provisioner says how much storage is left where."""
        driver = self._drivers.get(provisioner)
        return driver is not None and driver.spec.storage_capacity

    def capacities(self, storage_class: str) -> Iterable[CSIStorageCapacity]:
        """Return what is left of a storage class, place by place."""
        return self._capacities.get(storage_class, {}).values()

    def _rules_changed(self) -> None:
        self.version += 1
        self.changes += 1

    def _put_claim(self, claim: PersistentVolumeClaim) -> list[ClaimKey]:
        if self.claims.get(claim.key) == claim:
            return []
        self._remove_claim(claim.key)
        self.claims[claim.key] = claim
        if claim.spec.volume_name:
            self._named_by.setdefault(claim.spec.volume_name, {})[claim.key] = None
        self.changes += 1
        return [claim.key]

    def _remove_claim(self, key: ClaimKey) -> bool:
        """Take a claim out of everything; returns whether there was one."""
        claim = self.claims.pop(key, None)
        if claim is not None and claim.spec.volume_name:
            del self._named_by[claim.spec.volume_name][key]
            if not self._named_by[claim.spec.volume_name]:
                del self._named_by[claim.spec.volume_name]
        return claim is not None

    def _put_class(self, storage_class: StorageClass) -> None:
        if self.classes.get(storage_class.metadata.name) != storage_class:
            self.classes[storage_class.metadata.name] = storage_class
            self._rules_changed()

    def _put_node(self, name: str, limits: Mapping[str, int], topologies: dict[str, tuple[str, ...]]) -> None:
        if self._attachments.limits(name) != limits:
            self._attachments.limit(name, limits)
            self.changes += 1
        if self._topologies.get(name, {}) != topologies:
            self._topologies[name] = topologies
            if not topologies:
                del self._topologies[name]
            self._rules_changed()

    def _put_driver(self, driver: CSIDriver) -> None:
        before = self._drivers.get(driver.metadata.name)
        self._drivers[driver.metadata.name] = driver
        if before is None or before.spec != driver.spec:
            self._rules_changed()

    def _put_capacity(self, capacity: CSIStorageCapacity) -> None:
        key = (capacity.metadata.namespace, capacity.metadata.name)
        self._drop_capacity(key)
        self._class_of_capacity[key] = capacity.storage_class_name
        self._capacities.setdefault(capacity.storage_class_name, {})[key] = capacity

    def _drop_capacity(self, key: tuple[str, str]) -> None:
        of_class = self._class_of_capacity.pop(key, None)
        if of_class is not None:
            del self._capacities[of_class][key]
        self._rules_changed()

    def _put_volume(self, volume: PersistentVolume) -> list[ClaimKey]:
        name, csi = volume.metadata.name, volume.spec.csi
        if self.volumes.get(name) == volume:
            return []
        concerned = self._remove_volume(name)
        self.volumes[name] = volume
        concerned |= dict.fromkeys(self._claims_of((name,)))
        self._of_class.setdefault(volume.storage_class, VolumesOfClass()).put(volume)
        if csi is not None:
            same = self._by_handle.setdefault((csi.driver, csi.volume_handle), {})
            same[name] = None
            concerned |= dict.fromkeys(self._claims_of(same))
        reference = volume.spec.claim_ref
        if reference is not None:
            self._meant_for.setdefault((reference.namespace, reference.name), {})[name] = None
        self._recount(name)
        self.changes += 1
        return list(concerned)

    def _remove_volume(self, name: str) -> dict[ClaimKey, None]:
        """Take a volume out of everything; returns the claims that it concerned."""
        volume = self.volumes.get(name)
        if volume is None:
            return {}
        concerned = dict.fromkeys(self._claims_of((name,)))
        reference = volume.spec.claim_ref
        if reference is not None:
            meant = self._meant_for[reference.namespace, reference.name]
            del meant[name]
            if not meant:
                del self._meant_for[reference.namespace, reference.name]
        self._of_class[volume.storage_class].drop(name)
        if volume.spec.csi is not None:
            handle = (volume.spec.csi.driver, volume.spec.csi.volume_handle)
            concerned |= dict.fromkeys(self._claims_of(self._by_handle[handle]))
            del self._by_handle[handle][name]
            if not self._by_handle[handle]:
                del self._by_handle[handle]
        del self.volumes[name]
        self._recount(name)
        return concerned

    def _claims_of(self, volumes: Iterable[str]) -> Iterator[ClaimKey]:
        """Yield the claims that volumes name, and those that name them."""
        for name in volumes:
            yield from self._named_by.get(name, ())
            reference = self.volumes[name].spec.claim_ref
            if reference is not None:
                yield reference.namespace, reference.name

    def _put_attachment(self, attachment: VolumeAttachment) -> None:
        name, volume = attachment.metadata.name, attachment.spec.source.persistent_volume_name
        known = self._observed.get(name)
        if known is not None and known.spec == attachment.spec:
            return
        self._drop_attachment(name)
        self._observed[name] = attachment
        self._attached_as.setdefault(volume, {})[name] = None
        self._recount(volume)

    def _drop_attachment(self, name: str) -> None:
        known = self._observed.get(name)
        self.changes += 1
        if known is not None:
            volume = known.spec.source.persistent_volume_name
            self._uncount(name)
            del self._observed[name], self._attached_as[volume][name]
            if not self._attached_as[volume]:
                del self._attached_as[volume]

    def _recount(self, volume: str) -> None:
        """Count the attachments of a volume as what they are known to be now."""
        found = self.volumes.get(volume)
        for name in self._attached_as.get(volume, ()):
            spec = self._observed[name].spec
            self._uncount(name)
            if spec.attacher and found is not None and found.spec.csi is not None:
                self._counted[name] = (spec.node_name, (spec.attacher, found.spec.csi.volume_handle))
                self._attachments.observe(*self._counted[name])

    def _uncount(self, name: str) -> None:
        counted = self._counted.pop(name, None)
        if counted is not None:
            self._attachments.observe(*counted, count=-1)
