"""The volumes of createPods: each pod gets a claim that is bound already, since nobody else may be there to bind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tutti.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from tutti_bench.operations.pods import CreatePods
from tutti_bench.run import Run, fill
from tutti_bench.templates import Template

Object = dict[str, Any]

_BOUND: Final = {"pv.kubernetes.io/bind-completed": "true"}
_VOLUME: Final = "vol"


@dataclass(frozen=True, slots=True)
class Volumes:
    """Makes the persistent volume and the claim of each pod."""

    run: Run
    namespace: str
    volume: Template
    claim: Template
    operation: CreatePods

    async def attach(self, pod: Object, i: int) -> Object:
        """Create the volume `<namespace>-vol-<i>` and the claim `pvc-<i>`, bound to each other; return the pod with it.

        Raises:
            Refused: The API server does not take them.
            TemplateError: A template cannot be filled in.
        """
        objects, params, count = self.run.objects, self.operation.template_params, self.operation.number
        volume_name, claim_name = f"{self.namespace}-vol-{i}", f"pvc-{i}"
        claim = _named(fill(self.claim, params, i, count), "PersistentVolumeClaim", claim_name)
        claim["metadata"]["annotations"] = {**(claim["metadata"].get("annotations") or {}), **_BOUND}
        claim["spec"] = {**(claim.get("spec") or {}), "volumeName": volume_name}
        made = await objects.create(claim, self.namespace)
        volume = _named(fill(self.volume, params, i, count), "PersistentVolume", volume_name)
        of = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": self.namespace, "name": claim_name}
        volume["spec"] = {**(volume.get("spec") or {}), "claimRef": {**of, "uid": made.uid}}
        await objects.create(volume)
        await objects.patch(PERSISTENT_VOLUMES, volume_name, {"status": {"phase": "Bound"}}, subresource="status")
        modes = volume["spec"].get("accessModes") or []
        status = {"phase": "Bound", "accessModes": modes, "capacity": volume["spec"].get("capacity") or {}}
        await objects.patch(PERSISTENT_VOLUME_CLAIMS, claim_name, {"status": status}, self.namespace, "status")
        spec = pod.get("spec") or {}
        mount = {"name": _VOLUME, "persistentVolumeClaim": {"claimName": claim_name}}
        return {**pod, "spec": {**spec, "volumes": [*(spec.get("volumes") or []), mount]}}


def volumes_of(operation: CreatePods, run: Run, namespace: str) -> Volumes | None:
    """Return what makes the volumes of an operation's pods; None where they have none.

    Raises:
        TemplateError: A template cannot be read.
    """
    if not operation.persistent_volume_template_path:
        return None
    volume = run.template(operation.persistent_volume_template_path)
    claim = run.template(operation.persistent_volume_claim_template_path)
    return Volumes(run, namespace, volume, claim, operation)


def _named(document: Object, kind: str, name: str) -> Object:
    meta = {key: value for key, value in (document.get("metadata") or {}).items() if key != "generateName"}
    return {"apiVersion": "v1", "kind": kind, **document, "metadata": {**meta, "name": name}}
