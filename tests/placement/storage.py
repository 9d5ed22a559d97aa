"""Storage objects for scenes."""

from __future__ import annotations

from typing import Any

import msgspec

from tutti.api.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"


def at(key: str, *values: str) -> dict[str, Any]:
    """The node affinity of a volume that is where a label has one of these values."""
    expression = {"key": key, "operator": "In", "values": list(values)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def claim(
    name: str,
    *,
    size: str = "1Gi",
    storage_class: str = "late",
    volume: str = "",
    selected: str = "",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    owner: str = "",
    namespace: str = "default",
    phase: str = "Pending",
    deleting: bool = False,
    version: str = "",
    **spec: Any,
) -> PersistentVolumeClaim:
    annotations = {SELECTED_NODE: selected} if selected else {}
    if volume:
        annotations[BIND_COMPLETED] = "yes"
        spec["volumeName"] = volume
        phase = "Bound" if phase == "Pending" else phase
    meta: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "annotations": annotations,
        "resourceVersion": version,
        "ownerReferences": [{"uid": owner, "controller": True}] if owner else [],
    }
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    raw = {
        "metadata": meta,
        "spec": {
            "accessModes": list(modes),
            "resources": {"requests": {"storage": size}},
            "storageClassName": storage_class,
            **spec,
        },
        "status": {"phase": phase},
    }
    return msgspec.convert(raw, PersistentVolumeClaim)


def volume(
    name: str,
    *,
    size: str = "1Gi",
    storage_class: str = "late",
    where: dict[str, Any] | None = None,
    driver: str = "",
    handle: str = "",
    labels: dict[str, str] | None = None,
    phase: str = "Available",
    claim: str = "",
    uid: str = "",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    deleting: bool = False,
    version: str = "",
    **spec: Any,
) -> PersistentVolume:
    if where is not None:
        spec["nodeAffinity"] = where
    if driver:
        spec["csi"] = {"driver": driver, "volumeHandle": handle or name}
    if claim:
        spec["claimRef"] = {"namespace": "default", "name": claim, "uid": uid}
    meta: dict[str, Any] = {"name": name, "labels": labels or {}, "resourceVersion": version}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    raw = {
        "metadata": meta,
        "spec": {
            "capacity": {"storage": size},
            "accessModes": list(modes),
            "storageClassName": storage_class,
            **spec,
        },
        "status": {"phase": phase},
    }
    return msgspec.convert(raw, PersistentVolume)


def storage_class(
    name: str = "late", *, provisioner: str = "csi.example.com", late: bool = True, topologies: Any = ()
) -> StorageClass:
    raw = {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer" if late else "Immediate",
        "allowedTopologies": [
            {"matchLabelExpressions": [{"key": key, "values": list(values)} for key, values in term.items()]}
            for term in topologies
        ],
    }
    return msgspec.convert(raw, StorageClass)


def csi_node(name: str, /, *, keys: tuple[str, ...] = (), **limits: int | None) -> CSINode:
    """Limits by driver, whose dots are written as underscores here; `keys` are the topology keys of all of them."""
    drivers = [
        {
            "name": driver.replace("_", "."),
            "allocatable": {"count": count} if count is not None else None,
            "topologyKeys": list(keys),
        }
        for driver, count in limits.items()
    ]
    return msgspec.convert({"metadata": {"name": name}, "spec": {"drivers": drivers}}, CSINode)


def csi_driver(name: str = "csi.example.com", *, tracks: bool = True) -> CSIDriver:
    return msgspec.convert({"metadata": {"name": name}, "spec": {"storageCapacity": tracks}}, CSIDriver)


def capacity(
    name: str, *, storage_class: str = "late", topology: dict[str, Any] | None = None, **amounts: str
) -> CSIStorageCapacity:
    raw = {
        "metadata": {"name": name, "namespace": "storage"},
        "storageClassName": storage_class,
        "nodeTopology": topology,
        **amounts,
    }
    return msgspec.convert(raw, CSIStorageCapacity)


def attachment(name: str, node: str, volume: str, driver: str = "csi.example.com") -> VolumeAttachment:
    spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, VolumeAttachment)


def using(*claims: str, **ephemeral: Any) -> dict[str, Any]:
    """The volumes of a pod that uses these claims."""
    named = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    made = [{"name": name, "ephemeral": {"volumeClaimTemplate": {}}} for name in ephemeral]
    return {"volumes": [*named, *made]}
