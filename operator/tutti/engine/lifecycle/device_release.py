"""Devices of reservations that are given back: what was written on claims for them is taken off again."""

from __future__ import annotations

from collections.abc import Iterable

from tutti.cluster.devices.asks import ClaimKey
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.decisions import WriteDeviceClaim


def free_claims_of_ended(state: LifecycleState) -> None:
    """Take off claims what was written on them for reservations that have been given back."""
    for key, uid in state.cluster.device_users.take_ended().items():
        write = state.device_writes.pop(key, None)
        claim = state.cluster.nodes.devices.book.claims.get(key)
        if write is None or write.change != "allocate" or claim is None or claim.metadata.uid != write.uid:
            continue
        if write.failure or claim.is_extended:
            continue  # what stands there is somebody else's, or taken away as a whole
        version = _later(write.version, claim.metadata.resource_version)
        free_claim(state, key, write.uid, version, [*write.pods, ("", uid)])


def free_claim(state: LifecycleState, key: ClaimKey, uid: str, version: str, pods: Iterable[tuple[str, str]]) -> None:
    """Have the devices of a claim taken away that only these pods, name and uid, use."""
    state.out.append(WriteDeviceClaim(*key, uid, "free", version, pods=list(pods)))


def _later(one: str, other: str) -> str:
    if one.isdecimal() and other.isdecimal():
        return max(one, other, key=int)
    return one or other
