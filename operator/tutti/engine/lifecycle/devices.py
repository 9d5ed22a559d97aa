"""Claims on devices: what is written on them before their pods are bound, and given back where that fails.

A claim says which devices it has and which pods use it before any of these is bound (kube-scheduler 1.36,
plugins/dynamicresources, PreBind); of a gang, before the first. What is written counts once it is seen: by then nobody
can have been overlooked who took the same device before. Who finds that somebody did takes another.

What was written for a reservation that is given back is taken off the claims again. Where that could not be done, a pod
that waits uses the devices that its claim has; if it could go nowhere with them, they are taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from tutti.api.devices import DELETE_PROTECTION
from tutti.api.messages import IS, agreeing, counted, listed
from tutti.cluster.devices.allocation import allocation_of
from tutti.cluster.devices.asks import ClaimKey
from tutti.cluster.pods import PodKey
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.lifecycle.claim_progress import (
    DeviceProgress,
    Untouched,
    claims_of_member,
    device_progress_of,
    user_of,
)
from tutti.engine.lifecycle.device_release import free_claim, free_group_claims, is_being_freed, is_free_of_others
from tutti.engine.lifecycle.extended_claims import ask_to_make, ask_to_tell
from tutti.engine.lifecycle.phases import Transition, explain, transit
from tutti.engine.lifecycle.reservation import CLAIMS_NAMED, break_up, claim_seconds, give_back, wait_for_claims
from tutti.engine.records.decisions import DeviceClaimChange, UserName, WriteDeviceClaim
from tutti.engine.records.device_writes import DeviceWrite
from tutti.engine.records.explanation import RESERVED_TEXT, Explanation, Gate
from tutti.engine.records.members import Member
from tutti.engine.records.workloads import Phase, Workload
from tutti.placement.diagnosis import claims_in_the_way

# Looked up once: to reach a member through its enum takes ten times as long (Python 3.11), and this runs for each pod.
_WAITING: Final = Phase.WAITING
_RESERVED: Final = Phase.RESERVED


def prepare_devices(state: LifecycleState, workload: Workload) -> dict[PodKey, None] | None:
    """Have the claims of reserved members given their devices.

    Returns:
        The members that cannot be bound before their devices are there; None where none of them can: the reservation is
        held until then, or was given back because a claim cannot be used like this.
    """
    if not state.cluster.nodes.devices.promises:
        return {}
    starts = workload.phase in (_WAITING, _RESERVED)
    progress = device_progress_of(state, workload)
    if progress.failed:
        _give_up_devices(state, workload, list(progress.failed), next(iter(progress.failed.values())))
        return None if starts else progress.unready
    now = datetime.fromtimestamp(int(state.now), UTC)
    _ask_all(state, progress, now)
    progress.waiting.update(dict.fromkeys(progress.unasked))
    if progress.unasked:
        wait_for_claims(state, workload)
        if state.cluster.nodes.devices.quota:
            state.touch(workload.key)  # it is known now which of several ways is charged
    if progress.unready and starts:
        if workload.deadline is None:  # it waits for what another has asked for
            wait_for_claims(state, workload)
        transit(workload, Transition.RESERVE)
        explain(workload, _waits_for_devices(state, workload, progress))
        return None
    return progress.unready


def awaits_devices(state: LifecycleState, workload: Workload) -> bool:
    """Whether something has been asked for the claims of a workload that is not there yet."""
    return bool(state.cluster.nodes.devices.promises) and bool(device_progress_of(state, workload).waiting)


def time_out_devices(state: LifecycleState, workload: Workload) -> None:
    """Give back what is reserved for members whose devices did not get ready in time, and try again later."""
    progress = device_progress_of(state, workload)
    late = len(progress.waiting)
    why = f"the devices of {counted(late, 'claim')} were not ready in time: {_named(progress)}"
    _give_up_devices(state, workload, list(progress.unready), why)


def free_unavailable(state: LifecycleState, workload: Workload) -> None:
    """Take devices away from claims that keep waiting members off nodes, where only these use them.

    Rule: kube-scheduler 1.36, plugins/dynamicresources (PostFilter), for each member: the first such claim.
    """
    book = state.cluster.nodes.devices.book
    if not book.claims:
        return
    free_group_claims(state, workload)
    profile = state.profiles.get(workload.scheduler) or next(iter(state.profiles.values()))
    for member in workload.members():
        record = member.pod
        if not record.placeable or not record.pod_class.devices.held:
            continue
        held = [one for one in book.claims_of(record.device_uses) if one.status.allocation is not None]
        for at in claims_in_the_way(state.cluster.nodes, record.pod_class, profile):
            claim = held[at]
            if is_free_of_others(state, claim, record) and not is_being_freed(state, claim):
                users = [("", one.uid) for one in claim.status.reserved_for]
                free_claim(state, claim.key, claim.metadata.uid, claim.metadata.resource_version, users)
                break


def _ask_all(state: LifecycleState, progress: DeviceProgress, now: datetime) -> None:
    """Have claims of which nothing was asked given their devices, as of now, or used by more pods, in their order."""
    book, writes, out = state.cluster.nodes.devices.book, state.device_writes, state.out
    telling = book.telling
    for key, what in progress.unasked.items():
        if not isinstance(what, Untouched):
            _ask(state, key, what, now)
            continue
        (namespace, name), pod, claim = key, what.member.pod, what.claim
        metadata = claim.metadata
        uid, version, protected = metadata.uid, metadata.resource_version, DELETE_PROTECTION in metadata.finalizers
        allocation = allocation_of(what.promise.allotment, claim.spec, telling, (uid, version), now)
        pods = ((pod.name, pod.uid),)
        decision = WriteDeviceClaim(namespace, name, uid, "allocate", version, allocation, pods, (), protected)
        writes[key] = DeviceWrite(uid, "allocate", "allocate", pods, sent=decision, place=len(out))
        out.append(decision)


def _ask(state: LifecycleState, key: ClaimKey, members: list[Member], now: datetime) -> None:
    """Have a claim given its devices, as of now, or have more pods use those that it has."""
    devices = state.cluster.nodes.devices
    seen, promise = devices.book.claims.get(key), devices.promises.of(key)
    if promise is not None and promise.allotment.is_extended:
        if seen is None:
            ask_to_make(state, key, members[0], promise.allotment.ask)
            return
        if seen.status.allocation is not None:
            ask_to_tell(state, key, members[0], promise.allotment.ask)
            return
    claim = devices.book.claims[key]
    pods, groups = _users(state, members, key)
    write = state.device_writes.get(key)
    if write is not None and _join(state, write, pods, groups):
        return
    uid, version, allocation = claim.metadata.uid, claim.metadata.resource_version, None
    if claim.status.allocation is None and promise is not None:
        allocation = allocation_of(promise.allotment, claim.spec, devices.book.telling, (uid, version), now)
    change: DeviceClaimChange = "reserve" if allocation is None else "allocate"
    protected = DELETE_PROTECTION in claim.metadata.finalizers
    decision = WriteDeviceClaim(*key, uid, change, version, allocation, pods, groups, protected)
    made = change
    if write is not None:
        made = "allocate" if write.change == "allocate" else change
        pods, groups = (*write.pods, *pods), (*write.groups, *groups)
    state.device_writes[key] = DeviceWrite(uid, made, change, pods, groups, sent=decision, place=len(state.out))
    state.out.append(decision)


def _join(state: LifecycleState, write: DeviceWrite, pods: Sequence[UserName], groups: Sequence[UserName]) -> bool:
    """Have more users written along with those for whom a claim is written in this turn; returns whether it is."""
    decision = write.in_hand(state.out)
    if decision is None:
        return False
    added = [one for one in groups if one not in decision.groups]
    joined = msgspec.structs.replace(decision, pods=(*decision.pods, *pods), groups=(*decision.groups, *added))
    state.out[write.place] = write.sent = joined
    write.pods, write.groups = (*write.pods, *pods), (*write.groups, *added)
    return True


def _users(
    state: LifecycleState, members: Iterable[Member], key: ClaimKey
) -> tuple[tuple[UserName, ...], tuple[UserName, ...]]:
    """Return which pods and which PodGroups are to be noted on a claim so that members may use it."""
    if not state.cluster.nodes.devices.book.groups:
        return tuple([(one.pod.name, one.pod.uid) for one in members]), ()
    users = [user_of(state, member, key) for member in members]
    groups = dict.fromkeys([(one.name, one.uid) for one in users if one.is_group])
    return tuple([(one.name, one.uid) for one in users if not one.is_group]), tuple(groups)


def _give_up_devices(state: LifecycleState, workload: Workload, members: list[PodKey], why: str) -> None:
    """Give back what is reserved: all of it for a gang that is not bound, else what these members have."""
    if workload.phase in (Phase.WAITING, Phase.RESERVED):
        if _waited_in_vain(state, workload):
            workload.in_vain_at = state.now
        break_up(state, workload)
    for key in members:
        member = state.members[key]
        _forget_refusals(state, member)
        if member.pod.assumed:
            give_back(state, member)
    state.back_off(workload)
    text = f"its reservation is given back: {why}"
    details = {"attempts": str(workload.attempts), "members": str(len(members))}
    explain(workload, Explanation(Gate.PERMIT, "DeviceAllocationFailed", text, details))
    state.announce(workload, "Warning", "DeviceAllocationFailed", text)


def _waited_in_vain(state: LifecycleState, workload: Workload) -> bool:
    """Whether devices that members have been given are not to be waited for any longer."""
    book = state.cluster.nodes.devices.book
    return any(book.is_unready(claim) for one in workload.members() for claim in book.claims_of(one.pod.device_uses))


def _forget_refusals(state: LifecycleState, member: Member) -> None:
    """Have more users of claims written again the next time that has failed; what claims were given is remembered."""
    for key in claims_of_member(member.pod, state.cluster.nodes.devices.promises.of_pod(member.pod.key)):
        write, claim = state.device_writes.get(key), state.cluster.nodes.devices.book.claims.get(key)
        if write is None or claim is None or not write.failure or write.asked != "reserve":
            continue
        if write.change == "reserve":
            del state.device_writes[key]
            continue
        user = user_of(state, member, key)
        write.pods = tuple([one for one in write.pods if one[1] != user.uid])
        write.groups = tuple([one for one in write.groups if one[1] != user.uid])
        write.failure, write.version = "", claim.metadata.resource_version


def _waits_for_devices(state: LifecycleState, workload: Workload, progress: DeviceProgress) -> Explanation:
    seconds, count = claim_seconds(state, workload), len(progress.waiting)
    return Explanation(
        Gate.PERMIT,
        "WaitingForDevices",
        f"{RESERVED_TEXT}; {counted(count, 'claim')} of its members "
        f"{agreeing(count, IS)} being given devices: {_named(progress)} (given back after {seconds} s)",
        {"claims": str(count), "timeoutSeconds": str(seconds)},
    )


def _named(progress: DeviceProgress) -> str:
    return listed(map("/".join, progress.waiting), len(progress.waiting), CLAIMS_NAMED)
