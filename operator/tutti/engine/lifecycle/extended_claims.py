"""Claims for extended resources that devices stand in for: made for members that have a node, and taken away again.

Rules: kube-scheduler 1.36, plugins/dynamicresources/extendeddynamicresources.go. Such a claim is made for one pod when
it is known where it goes; it gets its devices as any other, and the status of the pod says which it is before the pod
is bound. Of a pod that waits it is of no use: what it has belongs to a reservation that was given back, or was another
process's. It is taken away, and its pod waits for that.
"""

from __future__ import annotations

from typing import Final

from tutti.api.devices import ResourceClaim
from tutti.cluster.devices.asks import ClaimAsk, ClaimKey
from tutti.cluster.devices.claims import extended_owner
from tutti.cluster.devices.extended import mappings_of
from tutti.cluster.devices.promises import DevicePromise
from tutti.cluster.pledges import BindingProgress, BindingStage
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.decisions import WriteExtendedClaim
from tutti.engine.records.device_writes import DeviceWrite
from tutti.engine.records.members import Member

AGAIN_SECONDS: Final = 30.0
"""After so long a claim is removed again that could not be."""


def making_progress(state: LifecycleState, member: Member, promise: DevicePromise) -> BindingProgress | None:
    """Return how far the claim of a member has come to exist; None where it does, and may be given its devices."""
    name, write = "/".join(promise.claim), state.device_writes.get(promise.claim)
    claim = state.cluster.nodes.devices.book.claims.get(promise.claim)
    if claim is None:
        if write is None:
            return BindingProgress(BindingStage.UNASKED)
        why = f"claim {name} could not be made: {write.failure}"
        return BindingProgress(BindingStage.FAILED, why) if write.failure else BindingProgress(BindingStage.UNDER_WAY)
    owner = extended_owner(claim)
    if owner is None or owner.uid != member.pod.uid or asked_by(claim) != asked_of(promise.allotment.ask):
        return BindingProgress(BindingStage.FAILED, f"claim {name} is there already, and is another's")
    return BindingProgress(BindingStage.UNASKED) if write is None or write.change == "make" else None


def telling_progress(state: LifecycleState, key: ClaimKey) -> BindingProgress:
    """Return how far the status of a pod has come to say which claim it has, which has its devices."""
    write = state.device_writes[key]
    if write.failure:
        why = f"the status of its pod could not say that it has claim {'/'.join(key)}: {write.failure}"
        return BindingProgress(BindingStage.FAILED, why)
    stages = {"": BindingStage.UNASKED, "asked": BindingStage.UNDER_WAY, "done": BindingStage.BOUND}
    return BindingProgress(stages[write.told])


def ask_to_make(state: LifecycleState, key: ClaimKey, member: Member, ask: ClaimAsk) -> None:
    """Have the claim of a member made."""
    state.device_writes[key] = DeviceWrite("", "make", "make")
    state.out.append(WriteExtendedClaim(*key, "", "make", (member.pod.name, member.pod.uid), requests=asked_of(ask)))


def ask_to_tell(state: LifecycleState, key: ClaimKey, member: Member, ask: ClaimAsk) -> None:
    """Have the status of a member say which claim it has."""
    write = state.device_writes[key]
    write.told = "asked"
    record = member.pod
    mappings, pod = mappings_of(record.pod_class.devices.extended, ask), (record.name, record.uid)
    told = WriteExtendedClaim(*key, write.uid, "tell", pod, mappings=mappings, containers=record.containers)
    state.out.append(told)


def removed(state: LifecycleState, key: ClaimKey, why: str) -> None:
    """Take in whether a claim was removed; why not, or ""."""
    del state.device_writes[key]
    if why:
        state.removals[key] = state.now + AGAIN_SECONDS


def remove_left_over(state: LifecycleState) -> None:
    """Have claims taken away that were made for pods which wait, and are not what these are to get."""
    for key in [key for key, at in state.removals.items() if at <= state.now]:
        del state.removals[key]
        state.cluster.device_users.left_over[key] = None
    for key in state.cluster.device_users.take_left_over():
        if key in state.removals:
            continue
        claim, write = state.cluster.nodes.devices.book.claims.get(key), state.device_writes.get(key)
        if claim is None or (write is not None and write.change == "remove"):
            continue
        owner = extended_owner(claim)
        member = state.members.get((key[0], owner.name)) if owner is not None else None
        if owner is None or member is None or member.pod.uid != owner.uid or member.pod.node or member.pod.terminated:
            continue  # whoever looks after claims takes them from pods that have ended or are gone
        if state.cluster.nodes.devices.promises.of(key) is None:
            state.device_writes[key] = DeviceWrite(claim.metadata.uid, "remove", "remove")
            pod = member.pod.name, member.pod.uid
            state.out.append(WriteExtendedClaim(*key, claim.metadata.uid, "remove", pod))


def asked_of(ask: ClaimAsk) -> list[tuple[str, str, int]]:
    """Return the requests of the claim for what is asked for: name, class and count."""
    return [(one.name, one.ways[0].device_class, one.ways[0].count) for one in ask.requests]


def asked_by(claim: ResourceClaim) -> list[tuple[str, str, int]]:
    """Return the same of a claim that exists."""
    return [
        (one.name, one.exactly.device_class_name, one.exactly.count)
        for one in claim.spec.devices.requests
        if one.exactly is not None
    ]
