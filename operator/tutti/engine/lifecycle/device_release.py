"""Devices of reservations that are given back: what was written on claims for them is taken off again.

Devices that may have been written on a claim by then stay held until it is known that they are off it: whoever was
given one of them before could have it together with the claim.

A claim of a PodGroup is the group's as long as that exists. A gang that is taken out, or that waits and fits nowhere,
gives its devices back all the same once none of its pods has a node: others may need them meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tutti.api.devices import ResourceClaim
from tutti.cluster.devices.asks import ClaimKey
from tutti.cluster.pods import PodKey, PodRecord
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.decisions import WriteDeviceClaim
from tutti.engine.records.device_writes import DeviceWrite
from tutti.engine.records.observations import DeviceClaimWritten
from tutti.engine.records.workloads import Phase, Workload


def free_claims_of_ended(state: LifecycleState) -> None:
    """Take off claims what was written on them for reservations, and gangs, that are no more."""
    for key, gang in list(state.given_up.items()):
        if not _has_placed_users(state, key):
            del state.given_up[key]
            _free_of_group(state, key, gang)
        elif not _has_leaving_users(state, key):
            del state.given_up[key]  # it was placed again meanwhile
    for key, (uid, promise) in state.cluster.device_users.take_ended().items():
        claim = state.cluster.nodes.devices.book.claims.get(key)
        if claim is not None and is_being_freed(state, claim):
            continue
        write = state.device_writes.pop(key, None)
        if write is None or write.change != "allocate" or claim is None or claim.metadata.uid != write.uid:
            continue
        if write.failure:
            continue  # what stands there is somebody else's
        if _has_placed_users(state, key):
            continue
        given = write.in_hand(state.out)
        if given is None or given.change != "allocate":
            state.cluster.device_users.holders.keep_returning(promise, write.uid, uid)
        if claim.is_extended:
            continue  # it is taken away as a whole
        version = _later(write.version, claim.metadata.resource_version)
        free_claim(state, key, write.uid, version, [*write.pods, *write.groups, ("", uid)], given_by=write)


def free_group_claims(state: LifecycleState, workload: Workload) -> None:
    """Have the claims of a PodGroup lose their devices, where none of its pods has a node and nobody else uses them.

    Rule: kube-scheduler 1.36, plugins/dynamicresources (unreservePodGroupClaims), which only takes off the group.
    """
    gang = workload.gang
    for key in _claims_of(state, workload):
        if gang is not None and not _has_placed_users(state, key):
            _free_of_group(state, key, gang.uid)


def give_up_group_claims(state: LifecycleState, workload: Workload) -> None:
    """Have the claims of a PodGroup lose their devices with the last pod of a gang that is being taken out."""
    if workload.gang is not None:
        state.given_up.update(dict.fromkeys(_claims_of(state, workload), workload.gang.uid))


def is_free_of_others(state: LifecycleState, claim: ResourceClaim, pod: PodRecord) -> bool:
    """Whether only a pod uses a claim, or its PodGroup of which no pod has a node."""
    user = state.cluster.nodes.devices.book.groups.consumer(pod.key, pod.uid, pod.device_uses, claim.key)
    if any(one.uid not in (pod.uid, user.uid) for one in claim.status.reserved_for):
        return False
    return not (user.is_group and _has_placed_users(state, claim.key))


def is_being_freed(state: LifecycleState, claim: ResourceClaim) -> bool:
    """Whether a claim has been asked to lose its devices, and what is seen of it is from before that."""
    write = state.device_writes.get(claim.key)
    if write is None or write.change != "free" or write.uid != claim.metadata.uid:
        return False
    return not (write.answered and is_since(claim, write))


def is_returned(state: LifecycleState, result: DeviceClaimWritten) -> bool:
    """Whether devices that were being taken off a claim are known to be off it.

    A claim for extended resources is removed only while its pod waits; of one that has ended, nobody is asked to.
    """
    key = (result.namespace, result.name)
    if not state.cluster.device_users.holders.is_returning(key, result.uid):
        return False
    claim = state.cluster.nodes.devices.book.claims.get(key)
    never_given = result.change == "allocate" and not result.done and claim is not None and claim.is_extended
    return never_given or result.change in ("free", "remove")


def is_since(claim: ResourceClaim, write: DeviceWrite) -> bool:
    """Whether what is seen of a claim is not older than what was written."""
    seen = claim.metadata.resource_version
    return write.version.isdecimal() and seen.isdecimal() and int(seen) >= int(write.version)


def free_claim(
    state: LifecycleState,
    key: ClaimKey,
    uid: str,
    version: str,
    pods: Iterable[tuple[str, str]],
    *,
    given_by: DeviceWrite | None = None,
) -> None:
    """Have the devices of a claim taken away that only these pods and PodGroups, name and uid, use.

    What gave them, if that is said and was decided in this turn, is not written: others may have them meanwhile.
    """
    freeing = WriteDeviceClaim(*key, uid, "free", version, pods=tuple(pods))
    state.device_writes[key] = DeviceWrite(uid, "free", "free")
    state.cluster.device_users.holders.give_up(key)
    if given_by is not None and given_by.in_hand(state.out) is not None:
        state.out[given_by.place] = freeing
    else:
        state.out.append(freeing)


def _free_of_group(state: LifecycleState, key: ClaimKey, gang: str) -> None:
    """Have a claim that only a PodGroup uses lose its devices, once."""
    claim = state.cluster.nodes.devices.book.claims.get(key)
    if claim is None or claim.status.allocation is None or is_being_freed(state, claim):
        return
    if all(one.uid == gang for one in claim.status.reserved_for):
        free_claim(state, key, claim.metadata.uid, claim.metadata.resource_version, [("", gang)])


def _claims_of(state: LifecycleState, workload: Workload) -> Sequence[ClaimKey]:
    """Return the claims with devices that say that the PodGroup of a gang uses them."""
    gang = workload.gang
    return () if gang is None or not gang.claims else state.cluster.device_users.holders.claims_of(gang.uid)


def _has_leaving_users(state: LifecycleState, key: ClaimKey) -> bool:
    """Whether a pod that uses a claim belongs to a gang that is being taken out."""
    groups = map(state.pod_group_of.get, state.cluster.nodes.devices.book.users(key))
    workloads = (state.workloads.get(one[0]) for one in groups if one is not None)
    return any(one is not None and one.phase is Phase.LEAVING for one in workloads)


def _has_placed_users(state: LifecycleState, key: ClaimKey) -> bool:
    """Whether a pod that uses a claim has a node, or may have got one by a bind that is under way."""
    return any(_may_have_node(state, pod) for pod in state.cluster.nodes.devices.book.users(key))


def _may_have_node(state: LifecycleState, pod: PodKey) -> bool:
    record, member = state.cluster.pods.get(pod), state.members.get(pod)
    return bool(record is not None and record.place) or (member is not None and member.sent)


def _later(one: str, other: str) -> str:
    if one.isdecimal() and other.isdecimal():
        return max(one, other, key=int)
    return one or other
