"""Makes the claims of pods for extended resources that devices stand in for, tells these pods, removes them again.

A claim is called alike for a pod that asks for the same (`extended_claim_name`), so that one that was made although its
answer was lost is found by its name (kube-scheduler 1.36, plugins/dynamicresources/extendeddynamicresources.go, makes
another). It is made with the finalizer that protects its devices, which saves the write that adds it there. A claim is
removed as there: the finalizer goes first. A pod that somebody has bound keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog

from tutti.api.core import Pod
from tutti.api.devices import DELETE_PROTECTION, EXTENDED_CLAIM, ResourceClaim
from tutti.cluster.devices.claims import extended_owner
from tutti.engine.records.decisions import WriteExtendedClaim
from tutti.engine.records.observations import DeviceClaimWritten
from tutti.kube.client import JSON, MERGE_PATCH, Client
from tutti.kube.decoding import object_decoder
from tutti.kube.device_claims import ClaimTurns
from tutti.kube.errors import ApiError, WireError
from tutti.kube.fencing import Fence
from tutti.kube.fetching import fetch_object, read_pod
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import PODS, RESOURCE_CLAIMS
from tutti.kube.retry import retrying

log = structlog.get_logger(__name__)

_TRIES: Final = 5
_CLAIM = object_decoder(ResourceClaim)
_POD = object_decoder(Pod)


class ExtendedClaimWriter:
    """Writes decisions, each as often as it takes; `turns` are shared with whoever else writes on claims."""

    def __init__(self, client: Client, *, fence: Fence, turns: ClaimTurns) -> None:
        self._client = client
        self._fence = fence
        self._turns = turns

    async def write(self, decision: WriteExtendedClaim) -> DeviceClaimWritten:
        """Write one decision, after those about the same claim that were begun before.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        about = (decision.namespace, decision.name, decision.uid, decision.change)
        writes = {"make": self._make, "tell": self._tell, "remove": self._remove}
        try:
            async with self._turns.of(decision.namespace, decision.name):
                why = await writes[decision.change](decision)
        except WireError as error:
            why = str(error)
        if why:
            claim = f"{decision.namespace}/{decision.name}"
            log.warning("extended_claim_not_written", claim=claim, change=decision.change, error=why)
        return DeviceClaimWritten(*about, done=not why, message=why)

    async def _make(self, wanted: WriteExtendedClaim) -> str:
        """Create the claim; returns why it is not there, or ""."""
        try:
            document = claim_document(wanted)
            await self._send("POST", RESOURCE_CLAIMS.path(wanted.namespace), document, PriorityLevel.CLAIM)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            found = await self._read(wanted)
            owner = extended_owner(found) if found is not None else None
            if owner is None or owner.uid != wanted.pod[1]:
                return "another claim has its name"
        return ""

    async def _tell(self, wanted: WriteExtendedClaim) -> str:
        """Have the status of the pod say which claim it has; returns why it does not, or ""."""
        name, uid = wanted.pod
        path = PODS.path(wanted.namespace, name)
        containers = wanted.containers
        if not containers:
            spec = _POD(await retrying(lambda: self._client.request("GET", path))).spec
            containers = tuple(one.name for one in (*spec.init_containers, *spec.containers))
        mappings = [
            {"containerName": containers[at], "resourceName": resource, "requestName": request}
            for at, resource, request in wanted.mappings
            if at < len(containers)  # else it is another pod, of another uid
        ]
        status = {"resourceClaimName": wanted.name, "requestMappings": mappings}
        body = {"metadata": {"uid": uid}, "status": {"extendedResourceClaimStatus": status}}
        await self._send("PATCH", f"{path}/status", body)
        return ""

    async def _remove(self, wanted: WriteExtendedClaim) -> str:
        """Remove the claim, unless its pod is bound; returns why it is still there, or ""."""
        name, uid = wanted.pod
        pod = await read_pod(self._client, wanted.namespace, name, uid=uid)
        if pod is not None and pod.spec.node_name:
            return f"pod {name} is bound, and uses it"
        for _ in range(_TRIES):
            claim = await self._read(wanted)
            if claim is None or claim.metadata.uid != wanted.uid:
                return ""
            meta = {"uid": wanted.uid, "resourceVersion": claim.metadata.resource_version}
            path = RESOURCE_CLAIMS.path(wanted.namespace, wanted.name)
            try:
                if DELETE_PROTECTION in claim.metadata.finalizers:
                    left = [one for one in claim.metadata.finalizers if one != DELETE_PROTECTION]
                    await self._send("PATCH", path, {"metadata": {**meta, "finalizers": left}})
                if claim.metadata.deletion_timestamp is None:
                    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": wanted.uid}}
                    await self._send("DELETE", path, options)
            except ApiError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    return ""
                if error.status != HTTPStatus.CONFLICT:
                    raise
                continue
            return ""
        return "it changes too often"

    async def _read(self, wanted: WriteExtendedClaim) -> ResourceClaim | None:
        """Return the claim; None where there is none of its name."""
        body = await fetch_object(self._client, RESOURCE_CLAIMS.path(wanted.namespace, wanted.name))
        return None if body is None else _CLAIM(body)

    async def _send(
        self, method: str, path: str, document: Mapping[str, Any], level: PriorityLevel = PriorityLevel.BIND
    ) -> None:
        body = msgspec.json.encode(document)
        kind = MERGE_PATCH if method == "PATCH" else JSON

        async def attempt() -> bytes:
            return await self._client.write(level, method, path, body=body, fence=self._fence, content_type=kind)

        await retrying(attempt)


def claim_document(wanted: WriteExtendedClaim) -> dict[str, Any]:
    """Return the claim as it is created."""
    pod, uid = wanted.pod
    requests = [
        {"name": name, "exactly": {"deviceClassName": of, "allocationMode": "ExactCount", "count": count}}
        for name, of, count in wanted.requests
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": wanted.name,
            "generateName": f"{pod}-extended-resources-",
            "namespace": wanted.namespace,
            "annotations": {EXTENDED_CLAIM: "true"},
            "finalizers": [DELETE_PROTECTION],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": True}],
        },
        "spec": {"devices": {"requests": requests}},
    }
