"""The claims, and the volumes, that come to be with a copy of a pod: those of its ephemeral volumes.

Source: kube-controller-manager 1.36, pkg/controller/volume/ephemeral (a claim for each, named after pod and volume) and
pkg/controller/volume/persistentvolume (a claim whose class binds at once is given a volume before its pod has a node).
"""

from __future__ import annotations

from collections.abc import Iterator

from tutti.api.core import ObjectMeta, Pod
from tutti.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tutti.api.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    ClaimReference,
    CSISource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
    VolumeNodeAffinity,
    VolumePhase,
)
from tutti.cli.views.changing import Seen, changed
from tutti.engine.records.observations import AnyObservation, ClaimSeen, StorageClassSeen, VolumeSeen

_OF_BINDING = (BIND_COMPLETED, SELECTED_NODE)


def claims_of(seen: Seen, pod: Pod, copy_of_it: Pod) -> list[AnyObservation]:
    """Return the claims that a copy of a pod is given for its ephemeral volumes: like the pod's own, but new.

    A new claim is unbound; where its class makes volumes at once, it comes with one that was made for it.
    """
    old, new = pod.metadata, copy_of_it.metadata
    named = {(old.namespace, f"{old.name}-{one.name}"): one.name for one in pod.spec.volumes if one.ephemeral}
    if not named:
        return []
    made: list[AnyObservation] = []
    for claim in (one.found for one in seen if isinstance(one, ClaimSeen) and one.found.key in named):
        owners = [changed(one, name=new.name, uid=new.uid) for one in claim.metadata.owner_references]
        said = {name: text for name, text in claim.metadata.annotations.items() if name not in _OF_BINDING}
        name = f"{new.name}-{named[claim.key]}"
        meta = changed(claim.metadata, name=name, uid=f"{new.uid}-{name}", annotations=said, owner_references=owners)
        spec = changed(claim.spec, volume_name="")
        unbound = changed(claim, metadata=meta, spec=spec, status=VolumePhase("Pending"))
        made += _bound_at_once(seen, claim, unbound)
    return made


def _bound_at_once(seen: Seen, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> Iterator[AnyObservation]:
    """Yield a new claim, and before it the volume that is made for it where its class does not wait for a pod."""
    classes = (one.found for one in seen if isinstance(one, StorageClassSeen))
    kind = next((one for one in classes if one.metadata.name == new.storage_class), None)
    if kind is None or kind.waits or not kind.provisions:
        yield ClaimSeen(new)
        return
    volumes = (one.found for one in seen if isinstance(one, VolumeSeen))
    before = next((one for one in volumes if one.metadata.name == old.spec.volume_name), None)
    volume = _made(new, kind, "" if before is None or before.spec.csi is None else before.spec.csi.driver)
    yield VolumeSeen(volume)
    annotations = {**new.metadata.annotations, BIND_COMPLETED: "yes"}
    meta, spec = changed(new.metadata, annotations=annotations), changed(new.spec, volume_name=volume.metadata.name)
    yield ClaimSeen(changed(new, metadata=meta, spec=spec, status=VolumePhase("Bound")))


def _made(claim: PersistentVolumeClaim, kind: StorageClass, driver: str) -> PersistentVolume:
    """Return the volume that is made for a claim: it can be used wherever its class may make volumes."""
    name = f"pvc-{claim.metadata.uid}"
    terms = [
        NodeSelectorTerm([NodeSelectorRequirement(one.key, "In", one.values) for one in term.match_label_expressions])
        for term in kind.allowed_topologies
    ]
    spec = PersistentVolumeSpec(
        capacity={"storage": claim.asks},
        access_modes=claim.spec.access_modes,
        volume_mode=claim.spec.volume_mode,
        storage_class_name=kind.metadata.name,
        claim_ref=ClaimReference(*claim.key, claim.metadata.uid),
        csi=CSISource(driver, name) if driver else None,
        node_affinity=VolumeNodeAffinity(NodeSelector(terms)) if terms else None,
    )
    return PersistentVolume(ObjectMeta(name=name, uid=name), spec, VolumePhase("Bound"))
