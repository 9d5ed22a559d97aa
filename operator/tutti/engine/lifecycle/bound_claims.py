"""Tells who runs with devices that its claim no longer says are its own: somebody has changed or removed the claim.

What runs is left alone: a kubelet does not look at claims again, and whose devices they are nobody can tell any more.
Lists of claims and pods come apart, so that only what stays so for a while is told.
"""

from __future__ import annotations

from typing import Final

from tutti.api.devices import ResourceClaim
from tutti.cluster.devices.asks import ClaimKey
from tutti.cluster.devices.ledger import held_by
from tutti.cluster.pods import PodKey, PodRecord
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.lifecycle.device_pools import GRACE_SECONDS
from tutti.engine.records.decisions import EmitEvent

_MOST_PODS: Final = 16


def claim_changed(state: LifecycleState, key: ClaimKey) -> None:
    """Note that a claim that bound pods use is to be looked at again in a while, if something is the matter with it."""
    if _concerned(state, key):
        state.bound_claims.setdefault(key, state.now)
    else:
        state.bound_claims.pop(key, None)


def watch_bound_claims(state: LifecycleState) -> None:
    """Tell the pods concerned of what has been the matter with their claims for long enough, once.

    In the first turn all are looked at: of what befell them while nobody was there no change is seen.
    """
    if not state.claims_looked_at:
        state.claims_looked_at = True
        for key in state.cluster.nodes.devices.book.used():
            claim_changed(state, key)
    due = [key for key, since in state.bound_claims.items() if since + GRACE_SECONDS <= state.now]
    for key in due:
        del state.bound_claims[key]
        for record, text in _concerned(state, key)[:_MOST_PODS]:
            about = ("v1", "Pod", *record.key, record.uid)
            note = f"{text}. It runs on; others may be given its devices"
            state.out.append(EmitEvent(*about, "Warning", "DeviceClaimLost", "Scheduling", note, lasting=True))


def next_claim_due(state: LifecycleState) -> float | None:
    """Return when a claim is to be looked at again, Unix seconds; None where none is."""
    return min((since + GRACE_SECONDS for since in state.bound_claims.values()), default=None)


def _concerned(state: LifecycleState, key: ClaimKey) -> list[tuple[PodRecord, str]]:
    """Return the pods that run with a claim which is not, or no longer, as it has to be for them, and what is wrong."""
    devices = state.cluster.nodes.devices
    claim, out = devices.book.claims.get(key), []
    for pod in devices.book.users(key):
        record = _running(state, pod)
        if record is not None and (text := _trouble(state, key, claim, record)):
            out.append((record, text))
    return out


def _running(state: LifecycleState, pod: PodKey) -> PodRecord | None:
    record = state.cluster.pods.get(pod)
    if record is None or pod not in state.members or not record.node or record.terminated or record.deleting:
        return None
    return record


def _trouble(state: LifecycleState, key: ClaimKey, claim: ResourceClaim | None, record: PodRecord) -> str:
    named = f"ResourceClaim {key[1]}, with whose devices it runs,"
    if claim is None:
        return f"{named} does not exist any more"
    if claim.status.allocation is None:
        return f"{named} has no devices any more"
    devices = state.cluster.nodes.devices
    consumer = devices.book.groups.consumer(record.key, record.uid, record.device_uses, key)
    if not {record.uid, consumer.uid} & {one.uid for one in claim.status.reserved_for}:
        return f"{named} is not reserved for it any more"
    whole = (one for one in held_by(claim.status.allocation) if one.consumed is None)
    twice = next((one for one in whole if devices.ledger.holders(one.pool, one.name) > 1), None)
    return f"{named} has device {'/'.join(twice.pool)}/{twice.name}, as another claim has" if twice is not None else ""
