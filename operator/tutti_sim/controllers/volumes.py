"""The persistent volume binder: claims get volumes, volumes get a phase (pkg/controller/volume/persistentvolume, 1.36).

A claim of a class that waits for its first consumer is left alone until a scheduler has reserved a volume for it, or
has written the node of its pod into the annotation `volume.kubernetes.io/selected-node`.
"""

from __future__ import annotations

from typing import Any

import structlog

from tutti_sim.controllers import volumematch as match
from tutti_sim.controllers.worker import Place, Tended, Worker
from tutti_sim.kinds.resource import Resource
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.version import Key, Version

log = structlog.get_logger()

Json = dict[str, Any]

CLASSES = "storageclasses.storage.k8s.io"


class VolumeBinder:
    """Follows claims, volumes and storage classes.

    Args:
        provision_seconds: how long a provisioner takes to make a volume.
    """

    def __init__(self, backend: Backend, provision_seconds: float = 0.0) -> None:
        self._backend = backend
        self._local = Local(backend, "persistentvolume-binder")
        self._claims = Tended(backend, "", "v1", "persistentvolumeclaims")
        self._volumes = Tended(backend, "", "v1", "persistentvolumes")
        self._provision_seconds = provision_seconds
        self._waiting: dict[Key, None] = {}
        self._ordered: set[str] = set()
        self._worker = Worker("persistentvolume-binder", self._sync)

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note what a write concerns: the object itself, its other half, and claims that still wait."""
        version = new or old
        if version is None:
            return
        if resource.storage == self._claims.storage:
            self._note_claim(version.key)
            volume = version.obj["spec"].get("volumeName")
            if volume:
                self._worker.note((self._volumes.storage, ("", volume)))
            if new is None:
                self._waiting.pop(version.key, None)
        elif resource.storage == self._volumes.storage:
            self._worker.note((self._volumes.storage, version.key))
            reference = version.obj["spec"].get("claimRef")
            if reference:
                self._note_claim((reference["namespace"], reference["name"]))
        if resource.storage in (self._volumes.storage, CLASSES):
            for key in self._waiting:
                self._note_claim(key)

    def _note_claim(self, key: Key) -> None:
        self._worker.note((self._claims.storage, key))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    async def _sync(self, place: Place) -> None:
        storage, key = place
        if storage == self._volumes.storage:
            self._sync_volume(key)
        else:
            await self._sync_claim(key)

    def _sync_volume(self, key: Key) -> None:
        """Give a volume the phase that its claim implies, and do with it what is to be done when the claim is gone."""
        current = self._volumes.get(key)
        if current is None or current.obj["metadata"].get("deletionTimestamp"):
            return
        volume = current.obj
        reference = volume["spec"].get("claimRef")
        if reference is None or not reference.get("uid"):
            self._set_phase(current, "Available")
            return
        claim = self._claims.get((reference["namespace"], reference["name"]))
        if claim is not None and claim.obj["metadata"]["uid"] == reference["uid"]:
            if claim.obj["spec"].get("volumeName") == key[1]:
                self._set_phase(current, "Bound")
            return
        current = self._set_phase(current, "Released")
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self._local.remove(self._volumes.resource, current)

    def _set_phase(self, current: Version, phase: str) -> Version:
        if current.obj.get("status", {}).get("phase") == phase:
            return current
        return self._local.set_status(self._volumes.resource, current, {"phase": phase})

    async def _sync_claim(self, key: Key) -> None:
        current = self._claims.get(key)
        if current is None or current.obj["metadata"].get("deletionTimestamp"):
            self._waiting.pop(key, None)
            return
        name = current.obj["spec"].get("volumeName")
        if not name:
            await self._find(current)
            return
        volume = self._volumes.get(("", name))
        if (volume is not None and match.meant_for(volume.obj, current.obj)) or (
            volume is not None and "claimRef" not in volume.obj["spec"]
        ):
            self._bind(current, volume)
        elif match.annotation(current.obj, match.BIND_COMPLETED):
            if current.obj["status"].get("phase") != "Lost":
                self._local.set_status(self._claims.resource, current, {"phase": "Lost"})
        else:
            self._waiting[key] = None

    async def _find(self, current: Version) -> None:
        """Bind a claim to the volume that suits it best, have one made, or let it wait."""
        claim = current.obj
        storage_class = self._backend.find(CLASSES, "", match.class_of(claim)) if match.class_of(claim) else None
        selected = match.annotation(claim, match.SELECTED_NODE)
        late = storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        node = self._backend.find("nodes", "", selected) if selected else None
        volumes = [version.obj for version in self._volumes.scan()]
        if late and not selected:
            volumes = [one for one in volumes if match.meant_for(one, claim)]
        found = match.best(claim, volumes, node)
        if found is not None:
            version = self._volumes.get(("", found["metadata"]["name"]))
            if version is not None:
                self._bind(current, version)
            return
        self._waiting[current.key] = None
        provisioner = storage_class.get("provisioner") if storage_class is not None else None
        if storage_class is None or provisioner == match.NO_PROVISIONER or (late and node is None):
            return
        if node is not None and not match.allows(storage_class.get("allowedTopologies") or (), node):
            self._unselect(current)
            return
        await self._provision(current, storage_class, node if late else None)

    def _unselect(self, current: Version) -> None:
        """Take the chosen node off a claim that cannot be served there, so that the scheduler chooses again."""
        log.info("node_out_of_topology", claim="/".join(current.key))
        meta = dict(current.obj["metadata"])
        meta["annotations"] = {k: v for k, v in meta["annotations"].items() if k != match.SELECTED_NODE}
        self._local.write(self._claims.resource, current, {**current.obj, "metadata": meta})

    async def _provision(self, current: Version, storage_class: Json, node: Json | None) -> None:
        """Make a volume, once the time that it takes is over."""
        uid = current.obj["metadata"]["uid"]
        if self._provision_seconds and uid not in self._ordered:
            self._ordered.add(uid)
            self._worker.later(self._provision_seconds, (self._claims.storage, current.key))
            return
        self._ordered.discard(uid)
        await self._local.create(self._volumes.resource, "", match.provisioned(current.obj, storage_class, node))

    def _bind(self, claim: Version, volume: Version) -> None:
        """Write both halves of a binding, each only where it is not written yet."""
        meta, reference = claim.obj["metadata"], volume.obj["spec"].get("claimRef") or {}
        if not reference.get("uid"):
            volume = self._claim_volume(claim, volume, reserved=bool(reference))
        if claim.obj["spec"].get("volumeName") != volume.key[1] or not match.annotation(
            claim.obj, match.BIND_COMPLETED
        ):
            chosen = not claim.obj["spec"].get("volumeName")
            marks = {match.BIND_COMPLETED: "yes"} | ({match.BOUND_BY_CONTROLLER: "yes"} if chosen else {})
            changed = {**meta, "annotations": {**(meta.get("annotations") or {}), **marks}}
            spec = {**claim.obj["spec"], "volumeName": volume.key[1]}
            claim = self._local.write(self._claims.resource, claim, {**claim.obj, "metadata": changed, "spec": spec})
            log.info("volume_bound", claim="/".join(claim.key), volume=volume.key[1])
        held = volume.obj["spec"]
        status = {"phase": "Bound", "accessModes": held["accessModes"], "capacity": held["capacity"]}
        if claim.obj.get("status") != status:
            self._local.set_status(self._claims.resource, claim, status)
        self._waiting.pop(claim.key, None)

    def _claim_volume(self, claim: Version, volume: Version, *, reserved: bool) -> Version:
        """Write a claim into a volume."""
        meta = claim.obj["metadata"]
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"} | {
            key: meta[key] for key in ("namespace", "name", "uid", "resourceVersion")
        }
        own = dict(volume.obj["metadata"])
        if not reserved:
            own["annotations"] = {**(own.get("annotations") or {}), match.BOUND_BY_CONTROLLER: "yes"}
        spec = {**volume.obj["spec"], "claimRef": reference}
        changed = {**volume.obj, "metadata": own, "spec": spec, "status": {"phase": "Bound"}}
        return self._local.write(self._volumes.resource, volume, changed)
