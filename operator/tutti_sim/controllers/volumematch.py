"""Which volume a claim gets: the rules of static binding, and the volume that a provisioner would make.

Source: component-helpers/storage/volume/pv_helpers.go and pkg/controller/volume/persistentvolume, 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from tutti.api.labels import NodeSelector
from tutti_sim.meta import labels
from tutti_sim.meta.amounts import amount

Json = dict[str, Any]

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ZONE = "topology.kubernetes.io/zone"


def class_of(obj: Json) -> str:
    """The storage class of a claim or volume; empty for none."""
    return str(obj["spec"].get("storageClassName") or "")


def annotation(obj: Json, key: str) -> str:
    """An annotation; empty where there is none."""
    return str((obj["metadata"].get("annotations") or {}).get(key, ""))


def asked(claim: Json) -> Fraction:
    """How much storage a claim asks for."""
    return amount(claim["spec"]["resources"]["requests"]["storage"])


def offered(volume: Json) -> Fraction:
    """How much storage a volume has."""
    return amount(volume["spec"]["capacity"].get("storage", "0"))


def meant_for(volume: Json, claim: Json) -> bool:
    """Whether a volume is bound, or reserved by name, for a claim."""
    reference = volume["spec"].get("claimRef")
    meta = claim["metadata"]
    return (
        reference is not None
        and (reference.get("namespace"), reference.get("name")) == (meta["namespace"], meta["name"])
        and reference.get("uid", "") in ("", meta["uid"])
    )


def suits(volume: Json, claim: Json) -> bool:
    """Whether a volume has what a claim asks for, wherever it is and whoever has it."""
    spec, wanted = volume["spec"], claim["spec"]
    selector = wanted.get("selector")
    return (
        not volume["metadata"].get("deletionTimestamp")
        and class_of(volume) == class_of(claim)
        and set(wanted["accessModes"]) <= set(spec["accessModes"])
        and spec.get("volumeMode", "Filesystem") == wanted.get("volumeMode", "Filesystem")
        and offered(volume) >= asked(claim)
        and (selector is None or labels.from_object(selector)(volume["metadata"].get("labels") or {}))
    )


def reachable(volume: Json, node: Json | None) -> bool:
    """Whether a volume can be used on a node; without a node, anywhere."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if node is None or required is None:
        return True
    selector = msgspec.convert(required, NodeSelector)
    return selector.matches(node["metadata"].get("labels") or {}, node["metadata"]["name"])


def best(claim: Json, volumes: Iterable[Json], node: Json | None) -> Json | None:
    """The volume for a claim: one that is reserved for it, else the smallest that is free and suits.

    A volume reserved by name has to suit too, but where it is is the business of whoever reserved it.
    """
    found: list[Json] = []
    for volume in volumes:
        if not suits(volume, claim):
            continue
        if meant_for(volume, claim):
            return volume
        free = "claimRef" not in volume["spec"] and volume.get("status", {}).get("phase") == "Available"
        if free and reachable(volume, node):
            found.append(volume)
    return min(found, key=lambda one: (offered(one), one["metadata"]["name"]), default=None)


def allows(terms: Iterable[Json], node: Json) -> bool:
    """Whether a storage class may make volumes for a node: one of its topology terms holds, or it has none."""
    own = node["metadata"].get("labels") or {}
    given = list(terms)
    return not given or any(
        all(own.get(one["key"]) in one["values"] for one in term.get("matchLabelExpressions", ())) for term in given
    )


def provisioned(claim: Json, storage_class: Json, node: Json | None) -> Json:
    """The volume that a class's provisioner makes for a claim, reachable from the zone of the node it was made for."""
    meta = claim["metadata"]
    name = f"pvc-{meta['uid']}"
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"} | {
        key: meta[key] for key in ("namespace", "name", "uid")
    }
    spec: Json = {
        "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
        "accessModes": list(claim["spec"]["accessModes"]),
        "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
        "storageClassName": class_of(claim),
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
        "claimRef": reference,
        "csi": {"driver": storage_class["provisioner"], "volumeHandle": name},
    }
    terms = _terms(storage_class, node)
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    annotations = {PROVISIONED_BY: storage_class["provisioner"]}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


def _terms(storage_class: Mapping[str, Any], node: Json | None) -> list[Json]:
    if node is not None:
        zone = (node["metadata"].get("labels") or {}).get(ZONE)
        return [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}] if zone else []
    return [
        {
            "matchExpressions": [
                {"key": one["key"], "operator": "In", "values": list(one["values"])}
                for one in term.get("matchLabelExpressions", ())
            ]
        }
        for term in storage_class.get("allowedTopologies") or ()
    ]
