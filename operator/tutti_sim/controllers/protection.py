"""Volume protection: a claim stays while a pod on a node uses it, a volume while it is bound.

Source: pkg/controller/volume/pvcprotection and pvprotection, 1.36.
"""

from __future__ import annotations

from tutti_sim.controllers.worker import Place, Tended, Worker
from tutti_sim.kinds.resource import Resource
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.version import Key, Version

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


class VolumeProtection:
    """Takes the protecting finalizers off what is being deleted and no longer used."""

    def __init__(self, backend: Backend) -> None:
        self._local = Local(backend, "volume-protection")
        self._claims = Tended(backend, "", "v1", "persistentvolumeclaims")
        self._volumes = Tended(backend, "", "v1", "persistentvolumes")
        self._pods = Tended(backend, "", "v1", "pods")
        self._leaving: dict[str, dict[Key, None]] = {}
        self._worker = Worker("volume-protection", self._sync)

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note claims and volumes that are being deleted, and pods that may have kept a claim."""
        version = new or old
        if version is None:
            return
        if resource.storage == self._pods.storage:
            for key in self._leaving.get(version.key[0], ()):
                self._worker.note((self._claims.storage, key))
        elif resource.storage in (self._claims.storage, self._volumes.storage):
            if new is None:
                self._leaving.get(version.key[0], {}).pop(version.key, None)
            elif new.obj["metadata"].get("deletionTimestamp"):
                if resource.storage == self._claims.storage:
                    self._leaving.setdefault(new.key[0], {})[new.key] = None
                self._worker.note((resource.storage, new.key))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    async def _sync(self, place: Place) -> None:
        storage, key = place
        is_claim = storage == self._claims.storage
        kind, finalizer = (self._claims, CLAIM_FINALIZER) if is_claim else (self._volumes, VOLUME_FINALIZER)
        current = kind.get(key)
        if current is None or finalizer not in current.obj["metadata"].get("finalizers", ()):
            return
        used = self._claim_in_use(key) if is_claim else current.obj.get("status", {}).get("phase") == "Bound"
        if current.obj["metadata"].get("deletionTimestamp") and not used:
            self._local.without_finalizer(kind.resource, current, finalizer)

    def _claim_in_use(self, key: Key) -> bool:
        """Whether a pod that has a node and has not ended uses a claim."""
        for version in self._pods.scan(key[0]):
            pod = version.obj
            if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                continue
            for volume in pod["spec"].get("volumes", ()):
                if claim_name(pod["metadata"]["name"], volume) == key[1]:
                    return True
        return False


def claim_name(pod: str, volume: dict[str, object]) -> str:
    """The claim that a pod's volume uses, of its own making for an ephemeral one; empty where it uses none."""
    claim = volume.get("persistentVolumeClaim")
    if isinstance(claim, dict):
        return str(claim.get("claimName", ""))
    return f"{pod}-{volume['name']}" if "ephemeral" in volume else ""
