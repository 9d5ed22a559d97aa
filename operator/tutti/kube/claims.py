"""Writes what was chosen for a claim: the node that its volume is made for, or the free volume that it gets.

Each write carries the version that the choice was made by, so that nobody else's choice is written over. Claims change
often in their first moments; where one has changed, it is read, and if that leaves the choice standing it is written
again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
import structlog

from tutti.api.core import ObjectMeta
from tutti.api.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.errors import ApiError, WireError
from tutti.kube.fencing import Fence
from tutti.kube.lanes import Lane
from tutti.kube.reading import object_decoder
from tutti.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from tutti.kube.retry import retrying

log = structlog.get_logger(__name__)

_TRIES = 4


class _Written(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_WRITTEN = msgspec.json.Decoder(_Written)
_CLAIM = object_decoder(PersistentVolumeClaim)
_VOLUME = object_decoder(PersistentVolume)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a write: the version that it stands under now, or why it does not."""

    done: bool
    version: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Write:
    """One write: where, what (without the version), and how an object that has changed meanwhile is judged.

    `judge` returns whether the object says already what was to be written, and its version; it raises `_Overtaken`
    where somebody else has decided.
    """

    path: str
    body: Mapping[str, Any]
    judge: Callable[[bytes], tuple[bool, str]]


class _Overtaken(Exception):  # noqa: N818 - what has happened to the choice
    """Somebody else has decided on the claim or the volume; says what."""


class ClaimWriter:
    """Writes choices, each as often as it takes."""

    def __init__(self, client: Client, *, fence: Fence) -> None:
        self._client = client
        self._fence = fence

    async def select_node(self, namespace: str, name: str, uid: str, node: str, *, version: str) -> Outcome:
        """Write the node that a claim's volume is to be made for.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """

        def judge(body: bytes) -> tuple[bool, str]:
            """Judge a claim that has changed."""
            claim = _CLAIM(body)
            if claim.metadata.uid != uid or claim.metadata.deletion_timestamp is not None:
                raise _Overtaken("it was deleted")
            if claim.spec.volume_name:
                raise _Overtaken(f"it was bound to {claim.spec.volume_name!r}")
            if claim.selected_node not in ("", node):
                raise _Overtaken(f"node {claim.selected_node!r} was chosen for it")
            return claim.selected_node == node, claim.metadata.resource_version

        body = {"metadata": {"uid": uid, "annotations": {SELECTED_NODE: node}}}
        write = _Write(PERSISTENT_VOLUME_CLAIMS.path(namespace, name), body, judge)
        return await self._settle(write, version, what=f"{namespace}/{name}")

    async def reserve_volume(self, namespace: str, name: str, uid: str, volume: str, *, version: str) -> Outcome:
        """Write into a volume that it is for a claim (component-helpers/storage/volume, GetBindVolumeToClaim, 1.36).

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """

        def judge(body: bytes) -> tuple[bool, str]:
            """Judge a volume that has changed."""
            found = _VOLUME(body)
            reference = found.spec.claim_ref
            if found.metadata.deletion_timestamp is not None:
                raise _Overtaken(f"volume {volume!r} is being deleted")
            if reference is not None and (reference.namespace, reference.name) != (namespace, name):
                raise _Overtaken(f"volume {volume!r} is for claim {reference.namespace}/{reference.name}")
            if reference is not None and reference.uid not in ("", uid):
                raise _Overtaken(f"volume {volume!r} is for a claim of that name that is no more")
            return reference is not None and reference.uid == uid, found.metadata.resource_version

        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": name,
            "uid": uid,
        }
        body = {"metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}, "spec": {"claimRef": claim}}
        write = _Write(PERSISTENT_VOLUMES.path(None, volume), body, judge)
        return await self._settle(write, version, what=volume)

    async def _settle(self, write: _Write, version: str, *, what: str) -> Outcome:
        """Write until it stands, or somebody else has decided."""
        try:
            for _ in range(_TRIES):
                try:
                    return Outcome(done=True, version=await self._patch(write, version))
                except ApiError as error:
                    if error.status != HTTPStatus.CONFLICT:
                        raise
                stands, version = write.judge(await retrying(lambda: self._client.request("GET", write.path)))
                if stands:
                    return Outcome(done=True, version=version)
        except (WireError, _Overtaken) as error:
            log.warning("claim_not_written", object=what, error=str(error))
            return Outcome(done=False, message=str(error))
        return Outcome(done=False, message="it changes too often")

    async def _patch(self, write: _Write, version: str) -> str:
        """Write over one version; an answer that was lost is found out about by the conflict that the next try meets.

        Returns:
            The version written.
        """
        metadata = {**write.body["metadata"], "resourceVersion": version}
        body = msgspec.json.encode({**write.body, "metadata": metadata})

        async def attempt() -> bytes:
            return await self._client.write(
                Lane.BIND, "PATCH", write.path, body=body, fence=self._fence, content_type=MERGE_PATCH
            )

        return _WRITTEN.decode(await retrying(attempt)).metadata.resource_version
