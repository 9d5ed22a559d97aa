"""What an engine decides about claims on devices, done as the API server would: else who comes next counts them free.

An engine that is only asked writes nothing. Who is asked next, about the same cluster, is told of the claims as they
would have been written by then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from tutti.api.devices import ResourceClaim, ResourceClaimStatus
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import AnyDecision, WriteDeviceClaim, WriteExtendedClaim
from tutti.engine.records.device_observations import DeviceClaimSeen, DeviceObjectGone
from tutti.engine.records.observations import AnyObservation, DeviceClaimWritten
from tutti.kube.device_claims import users_after
from tutti.kube.extended_claims import claim_document

_MOST_TURNS: Final = 16
"""A claim is made, given its devices, and its pod told of it: three writes, and as many again where one is freed."""
_changed = msgspec.structs.replace


def decide_and_carry_out(engine: Engine, at: float) -> list[AnyDecision]:
    """Have an engine decide, and what it decides about claims done, until nothing of that is left to do."""
    out = [*engine.decide(at)]
    turn = out
    for _ in range(_MOST_TURNS):
        writes = [one for one in turn if isinstance(one, WriteDeviceClaim | WriteExtendedClaim)]
        if not writes:
            break
        for one in writes:
            for told in _what_comes_of(engine, one):
                engine.observe(told)
        turn = [*engine.decide(at)]
        out += turn
    return out


def _what_comes_of(engine: Engine, write: WriteDeviceClaim | WriteExtendedClaim) -> Iterable[AnyObservation]:
    about = (write.namespace, write.name)
    claim = engine.state.cluster.nodes.devices.book.claims.get(about)
    if isinstance(write, WriteExtendedClaim):
        return _of_extended(write, claim)
    if claim is None or claim.metadata.uid != write.uid:
        return [DeviceClaimWritten(*about, write.uid, write.change, done=False, message="it is gone")]
    after = _written(write, claim)
    version = after.metadata.resource_version
    return [DeviceClaimSeen(after), DeviceClaimWritten(*about, write.uid, write.change, done=True, version=version)]


def _of_extended(write: WriteExtendedClaim, claim: ResourceClaim | None) -> Iterable[AnyObservation]:
    answer = DeviceClaimWritten(write.namespace, write.name, write.uid, write.change, done=True)
    if write.change == "make":
        return [DeviceClaimSeen(_made(write)), answer]
    if write.change == "remove" and claim is not None:
        return [DeviceObjectGone("ResourceClaim", write.namespace, write.name), answer]
    return [answer]


def _made(write: WriteExtendedClaim) -> ResourceClaim:
    claim = msgspec.convert(claim_document(write), ResourceClaim)
    meta = _changed(claim.metadata, uid=f"{write.pod[1]}-extended", resource_version="1")
    return _changed(claim, metadata=meta)


def _written(write: WriteDeviceClaim, claim: ResourceClaim) -> ResourceClaim:
    before = claim.metadata.resource_version
    version = str(int(before) + 1) if before.isdecimal() else "1"
    meta = _changed(claim.metadata, resource_version=version)
    if write.change == "free":
        return _changed(claim, metadata=meta, status=ResourceClaimStatus())
    allocation = write.allocation or claim.status.allocation
    status = _changed(claim.status, allocation=allocation, reserved_for=users_after(write, claim))
    return _changed(claim, metadata=meta, status=status)
