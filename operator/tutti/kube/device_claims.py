"""Writes on ResourceClaims which devices they have and which pods use them.

Each write names the version that it was decided by, so that nobody else's is written over. One that was overtaken reads
the claim: where that leaves the decision standing, it is written again; where the claim says already what was to be
written, because an answer was lost, it is done. The finalizer that keeps a claim with devices from vanishing is written
first, where it is not there yet (kube-scheduler 1.36, plugins/dynamicresources, bindClaim); the answer says how the
claim is, so it is read by itself only where something came between.

Decisions about one claim are written one after the other (`ClaimTurns`). Were one that takes devices away quicker than
the one before it that gives them, it would find nothing to take away, and what is written then would stand.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec
import structlog

from tutti.api.devices import DELETE_PROTECTION, ClaimConsumer, ResourceClaim
from tutti.cluster.devices.ledger import held_by
from tutti.engine.records.decisions import WriteDeviceClaim
from tutti.engine.records.observations import DeviceClaimWritten
from tutti.kube.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
from tutti.kube.decoding import Head, object_decoder
from tutti.kube.errors import ApiError, WireError
from tutti.kube.fencing import Fence
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.resources import RESOURCE_CLAIMS
from tutti.kube.retry import retrying

log = structlog.get_logger(__name__)

_TRIES: Final = 5
_GROUPS: Final = "scheduling.k8s.io"
_CLAIM = object_decoder(ResourceClaim)
_WRITTEN = object_decoder(Head)  # of an answer only the version is looked at: to read all takes three times as long


class _Overtaken(Exception):  # noqa: N818 - what has happened to the decision
    """Somebody else has decided on the claim; says what."""


class ClaimTurns:
    """Whose turn it is to write on a claim: who asks first."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def of(self, namespace: str, name: str) -> asyncio.Lock:
        """Return what is held while one writes on a claim, also on one that is yet to be made."""
        return self._locks.setdefault((namespace, name), asyncio.Lock())


class DeviceClaimWriter:
    """Writes decisions, each as often as it takes; `turns` are shared with whoever else writes on claims."""

    def __init__(self, client: Client, *, fence: Fence, turns: ClaimTurns) -> None:
        self._client = client
        self._fence = fence
        self._turns = turns

    async def write(self, decision: WriteDeviceClaim) -> DeviceClaimWritten:
        """Write one decision, after those about the same claim that were begun before.

        Raises:
            LeadershipLost: Before anything, or anything more, was sent.
        """
        async with self._turns.of(decision.namespace, decision.name):
            return await self._write(decision)

    async def _write(self, decision: WriteDeviceClaim) -> DeviceClaimWritten:
        about = (decision.namespace, decision.name, decision.uid, decision.change)
        path, why = RESOURCE_CLAIMS.path(decision.namespace, decision.name), "it changes too often"
        try:
            version = await self._write_at_once(decision, path)
            if version:
                return DeviceClaimWritten(*about, done=True, version=version)
            for attempt in range(_TRIES):
                claim = await self._protect(decision.uid, path) if _gives_first(decision, attempt) else None
                claim = claim or _CLAIM(await retrying(lambda: self._client.request("GET", path)))
                version = claim.metadata.resource_version
                if _stands(decision, claim):
                    return DeviceClaimWritten(*about, done=True, version=version)
                try:
                    version = await self._apply(decision, claim, path)
                except ApiError as error:
                    if error.status != HTTPStatus.CONFLICT:
                        raise
                    continue
                return DeviceClaimWritten(*about, done=True, version=version)
        except (WireError, _Overtaken) as error:
            why = str(error)
        log.warning(
            "device_claim_not_written", claim=f"{decision.namespace}/{decision.name}", change=about[3], error=why
        )
        return DeviceClaimWritten(*about, done=False, message=why)

    async def _protect(self, uid: str, path: str) -> ResourceClaim | None:
        """Put the finalizer on a claim; returns the claim, or None where it cannot have it like this."""
        body = msgspec.json.encode({"metadata": {"uid": uid, "finalizers": [DELETE_PROTECTION]}})
        try:
            return _CLAIM(await self._send(path, body, STRATEGIC_MERGE_PATCH, PriorityLevel.CLAIM))
        except ApiError:
            return None  # gone, made anew or being deleted: reading it tells which

    async def _write_at_once(self, decision: WriteDeviceClaim, path: str) -> str:
        """Write on a claim that is as it was decided by; returns the version written, or "" where it is not."""
        adds, gives = decision.change == "reserve", decision.change == "allocate" and decision.protected
        if not decision.version or not (adds or gives):
            return ""
        meta = {"uid": decision.uid, "resourceVersion": decision.version}
        status = {"reservedFor": _users(decision), **({"allocation": decision.allocation} if gives else {})}
        body = msgspec.json.encode({"metadata": meta, "status": status})
        try:
            answer = await self._send(f"{path}/status", body, STRATEGIC_MERGE_PATCH)
            return _WRITTEN(answer).metadata.resource_version
        except ApiError:
            return ""  # changed, gone, or its users too many: reading it tells which

    async def _apply(self, decision: WriteDeviceClaim, claim: ResourceClaim, path: str) -> str:
        """Write over one version; returns the version written."""
        version = claim.metadata.resource_version
        if decision.change == "allocate" and DELETE_PROTECTION not in claim.metadata.finalizers:
            finalizers = [*claim.metadata.finalizers, DELETE_PROTECTION]
            version = await self._patch(path, decision.uid, version, {"metadata": {"finalizers": finalizers}})
        return await self._patch(f"{path}/status", decision.uid, version, {"status": _status(decision, claim)})

    async def _patch(self, path: str, uid: str, version: str, change: dict[str, Any]) -> str:
        metadata = {**change.get("metadata", {}), "uid": uid, "resourceVersion": version}
        body = msgspec.json.encode({**change, "metadata": metadata})
        return _WRITTEN(await self._send(path, body, MERGE_PATCH)).metadata.resource_version

    async def _send(self, path: str, body: bytes, kind: str, level: PriorityLevel = PriorityLevel.BIND) -> bytes:
        async def attempt() -> bytes:
            return await self._client.write(level, "PATCH", path, body=body, fence=self._fence, content_type=kind)

        return await retrying(attempt)


def _gives_first(decision: WriteDeviceClaim, attempt: int) -> bool:
    """Whether a claim is to be given devices and nothing has come between yet."""
    return decision.change == "allocate" and not attempt


def _status(decision: WriteDeviceClaim, claim: ResourceClaim) -> dict[str, Any]:
    if decision.change == "free":
        return {"allocation": None, "reservedFor": None, "devices": None}
    users = {"reservedFor": users_after(decision, claim)}
    return {"allocation": decision.allocation, **users} if decision.change == "allocate" else users


def users_after(decision: WriteDeviceClaim, claim: ResourceClaim) -> list[ClaimConsumer]:
    """Return who uses a claim once a decision about it is written."""
    known = {one.uid for one in claim.status.reserved_for}
    return [*claim.status.reserved_for, *(one for one in _users(decision) if one.uid not in known)]


def _users(decision: WriteDeviceClaim) -> list[ClaimConsumer]:
    """Return who is to use a claim, as it is written on it."""
    pods = [ClaimConsumer("", "pods", name, uid) for name, uid in decision.pods]
    return pods + [ClaimConsumer(_GROUPS, "podgroups", name, uid) for name, uid in decision.groups]


def _stands(decision: WriteDeviceClaim, claim: ResourceClaim) -> bool:
    """Whether a claim says already what is to be written.

    Raises:
        _Overtaken: Somebody else has decided on it.
    """
    allocation, users = claim.status.allocation, {one.uid for one in claim.status.reserved_for}
    wanted = {uid for _, uid in (*decision.pods, *decision.groups)}
    if claim.metadata.uid != decision.uid or claim.metadata.deletion_timestamp is not None:
        raise _Overtaken("it was deleted")
    if decision.change == "free":
        if allocation is not None and not users <= wanted:
            raise _Overtaken("somebody else uses it")
        if allocation is not None and not users and claim.metadata.resource_version != decision.version:
            raise _Overtaken("somebody else has given it devices")
        return allocation is None
    if decision.change == "reserve":
        if allocation is None:
            raise _Overtaken("it has lost its devices")
        return wanted <= users
    if allocation is None:
        return False
    assert decision.allocation is not None  # that is what is to be written
    if held_by(allocation) != held_by(decision.allocation) or not wanted & users:
        raise _Overtaken("it got allocated elsewhere in the meantime")
    return wanted <= users
