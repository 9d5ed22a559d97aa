"""The ephemeral volume controller: each generic ephemeral volume of a pod gets a claim of its own.

Source: pkg/controller/volume/ephemeral, 1.36. The claim goes with its pod, by the garbage collector.
"""

from __future__ import annotations

from typing import Any

import structlog

from tutti_sim.controllers.protection import claim_name
from tutti_sim.controllers.worker import Place, Tended, Worker
from tutti_sim.kinds.resource import Resource
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.version import Key, Version

log = structlog.get_logger()

Json = dict[str, Any]


class EphemeralVolumes:
    """Follows pods, and claims that are gone."""

    def __init__(self, backend: Backend) -> None:
        self._local = Local(backend, "ephemeral-volume")
        self._claims = Tended(backend, "", "v1", "persistentvolumeclaims")
        self._pods = Tended(backend, "", "v1", "pods")
        self._worker = Worker("ephemeral-volume", self._sync)

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """Note pods that have ephemeral volumes, and the owners of claims that are gone."""
        if resource.storage == self._pods.storage and new is not None:
            if any("ephemeral" in volume for volume in new.obj["spec"].get("volumes", ())):
                self._worker.note((self._pods.storage, new.key))
        elif resource.storage == self._claims.storage and new is None and old is not None:
            for owner in old.obj["metadata"].get("ownerReferences", ()):
                if owner.get("controller") and owner["kind"] == "Pod":
                    self._worker.note((self._pods.storage, (old.key[0], owner["name"])))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    async def _sync(self, place: Place) -> None:
        current = self._pods.get(place[1])
        if current is None or current.obj["metadata"].get("deletionTimestamp"):
            return
        for volume in current.obj["spec"].get("volumes", ()):
            if "ephemeral" in volume:
                await self._make(current, volume)

    async def _make(self, pod: Version, volume: Json) -> None:
        meta = pod.obj["metadata"]
        key: Key = (meta["namespace"], claim_name(meta["name"], volume))
        if self._claims.get(key) is not None:
            return  # whoever owns it; a pod that does not own it waits for ever, as on a real cluster
        template = volume["ephemeral"].get("volumeClaimTemplate") or {}
        given = template.get("metadata") or {}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        claim = {
            "metadata": {
                "name": key[1],
                **{field: dict(given[field]) for field in ("labels", "annotations") if given.get(field)},
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": dict(template.get("spec") or {}),
        }
        await self._local.create(self._claims.resource, key[0], claim)
        log.info("ephemeral_claim_made", claim="/".join(key))
