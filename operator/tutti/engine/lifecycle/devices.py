"""Claims on devices: what is seen of them, and what is written on them before their pods are bound.

A claim says which devices it has and which pods use it before any of these is bound (kube-scheduler 1.36,
plugins/dynamicresources, PreBind); of a gang, before the first. What is written counts once it is seen: by then nobody
can have been overlooked who took the same device before. Who finds that somebody did takes another.

What was written for a reservation that is given back is taken off the claims again. Where that could not be done, a pod
that waits uses the devices that its claim has; if it could go nowhere with them, they are taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec

from tutti.api.devices import DELETE_PROTECTION, MOST_CONSUMERS, DeviceClass, ResourceClaim, ResourceClaimTemplate
from tutti.api.messages import IS, agreeing, counted, listed
from tutti.cluster.devices.allocation import allocation_of
from tutti.cluster.devices.asks import NO_DEVICES, ClaimKey
from tutti.cluster.devices.claims import ClaimBook
from tutti.cluster.devices.extended import EXTENDED
from tutti.cluster.devices.group_claims import Consumer
from tutti.cluster.devices.ledger import held_by
from tutti.cluster.devices.promises import DevicePromise
from tutti.cluster.devices.state import DeviceKind, DeviceObject
from tutti.cluster.pledges import BindingProgress, BindingStage
from tutti.cluster.pods import PodKey, PodRecord
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.lifecycle.bound_claims import claim_changed
from tutti.engine.lifecycle.device_pools import class_seen
from tutti.engine.lifecycle.device_release import (
    free_claim,
    free_group_claims,
    is_being_freed,
    is_free_of_others,
    is_returned,
    is_since,
)
from tutti.engine.lifecycle.extended_claims import (
    ask_to_make,
    ask_to_tell,
    making_progress,
    removed,
    telling_progress,
)
from tutti.engine.lifecycle.phases import Transition, explain, transit
from tutti.engine.lifecycle.reservation import CLAIMS_NAMED, break_up, claim_seconds, give_back, wait_for_claims
from tutti.engine.records.decisions import DeviceClaimChange, UserName, WriteDeviceClaim
from tutti.engine.records.device_writes import DeviceWrite
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.members import Member
from tutti.engine.records.observations import DeviceClaimWritten
from tutti.engine.records.workloads import Phase, Workload
from tutti.placement.diagnosis import claims_in_the_way

# Looked up once: to reach a member through its enum takes ten times as long (Python 3.11), and this runs for each pod.
_BOUND: Final = BindingStage.BOUND
_UNASKED: Final = BindingStage.UNASKED
_UNDER_WAY: Final = BindingStage.UNDER_WAY
_WAITING: Final = Phase.WAITING
_RESERVED: Final = Phase.RESERVED

_DONE = BindingProgress(_BOUND)
_TO_ASK = BindingProgress(_UNASKED)
_BEING_WRITTEN = BindingProgress(_UNDER_WAY)
_GETTING_READY = BindingProgress(_UNDER_WAY)
"""Of a claim that waits for what the drivers of its devices say of them, or to be seen without these.

Equal to the one above, and another: claims of which nothing is being written are told apart by it.
"""


def object_seen(state: LifecycleState, found: DeviceObject) -> None:
    """Take in a slice, class or claim of devices, and look at the workloads that it concerns."""
    if isinstance(found, DeviceClass):
        class_seen(state, found)
        for workload in state.workloads.values():
            if any(group.promised is not None for group in workload.groups.values()):
                state.touch(workload.key)  # devices may stand in for what its members are to ask for
    if isinstance(found, ResourceClaimTemplate):
        if state.cluster.nodes.devices.book.put_template(found):
            _touch_makers(state, found.metadata.namespace)
        return
    concerned = state.cluster.device_users.put(found)
    if not isinstance(found, ResourceClaim):
        state.touch_pods(concerned)
        return
    _touch_users(state, concerned)
    claim_changed(state, found.key)
    if is_being_freed(state, found):
        state.cluster.device_users.holders.give_up(found.key)


def object_gone(state: LifecycleState, kind: DeviceKind, namespace: str, name: str) -> None:
    """Forget a slice, class or claim of devices, and look at the workloads that it concerns."""
    if kind == "ResourceClaim":
        state.device_writes.pop((namespace, name), None)
    if kind == "ResourceClaimTemplate":
        if state.cluster.nodes.devices.book.drop_template((namespace, name)):
            _touch_makers(state, namespace)
        return
    state.touch_pods(state.cluster.device_users.drop(kind, namespace, name))
    if kind == "ResourceClaim":
        claim_changed(state, (namespace, name))


def _touch_users(state: LifecycleState, pods: Iterable[PodKey]) -> None:
    """Look at the workloads of pods whose claim is another; those that have their place ask for what they asked for."""
    for key in pods:
        address, record = state.pod_group_of.get(key), state.cluster.pods.get(key)
        if address is not None:
            (state.touch_bound if record is not None and record.place else state.touch)(address[0])


def _touch_makers(state: LifecycleState, namespace: str) -> None:
    """Look at the workloads of a namespace that wait for nodes or pods: more is known of what these will ask."""
    for workload in state.workloads.values():
        if workload.key[1] == namespace and workload.phase in (Phase.WAITING, Phase.RESERVED, Phase.CHECKING):
            state.touch(workload.key)


def device_claim_written(state: LifecycleState, result: DeviceClaimWritten) -> None:
    """Take in what became of a WriteDeviceClaim."""
    key = (result.namespace, result.name)
    write = state.device_writes.get(key)
    why = "" if result.done else result.message
    if is_returned(state, result):
        state.cluster.device_users.returned(key)
    if write is not None and write.uid == result.uid and result.change == "tell":
        write.told, write.failure = "done", why
        state.touch_pods(state.cluster.nodes.devices.book.users(key))
        return
    if write is None or (write.uid, write.asked) != (result.uid, result.change):
        return
    write.answered, write.version, write.sent = True, result.version, None
    write.failure = why
    if write.change == "free" and not result.done:
        del state.device_writes[key]  # else it counts until it is seen: nobody may use what the claim seems to have
        state.cluster.device_users.holders.stays(key)
    elif write.change == "remove":
        removed(state, key, why)
    elif write.change == "make":
        state.touch_pods(_promised(state, key))
    users = state.cluster.nodes.devices.book.users(key)
    gives = result.done and result.change in ("allocate", "reserve")
    state.touch_pods(_unnoted(state, key, write, users) if gives else users)


def _unnoted(state: LifecycleState, key: ClaimKey, write: DeviceWrite, users: Iterable[PodKey]) -> list[PodKey]:
    """Return of the users of a claim that was written those for whom something follows from that before it is seen.

    What was written counts once it is seen. Where it has been, these are the users that the claim does not name.
    """
    book = state.cluster.nodes.devices.book
    claim = book.claims.get(key)
    if claim is None or not is_since(claim, write):
        return []
    named = {one.uid for one in claim.status.reserved_for}
    members = [member for pod in users if (member := state.members.get(pod)) is not None]
    return [one.pod.key for one in members if _user(state, one, key).uid not in named]


def _promised(state: LifecycleState, key: ClaimKey) -> Iterable[PodKey]:
    """Return the pods that have a place on the strength of what a claim is to get."""
    promise = state.cluster.nodes.devices.promises.of(key)
    return () if promise is None else tuple(promise.pods)


def pass_time(state: LifecycleState) -> None:
    """Look again at workloads whose devices should be ready by now and are not."""
    state.touch_pods(state.cluster.device_users.pass_time(state.now))


def next_late_due(state: LifecycleState) -> float | None:
    """Return when devices are not waited for any longer, or a claim is removed again, Unix seconds; None: never."""
    late = state.cluster.nodes.devices.book.late
    times = [*((min(late.values()) + 1,) if late else ()), *state.removals.values()]
    return min(times, default=None)


class _Untouched(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A claim that one pod alone uses, and of which nothing else is known than what it is promised."""

    member: Member
    claim: ResourceClaim
    promise: DevicePromise


@dataclass(slots=True)
class DeviceProgress:
    """What the claims on devices of reserved members are waiting for.

    Attributes:
        unready: Members whose claims do not have all their devices yet.
        unasked: What is to be written first, and by whom each claim is used; or what of it is known.
        waiting: Claims that wait for a write or for their drivers.
        failed: Members with a claim that cannot be used like this, and why.
    """

    unready: dict[PodKey, None] = field(default_factory=dict)
    unasked: dict[ClaimKey, list[Member] | _Untouched] = field(default_factory=dict)
    waiting: dict[ClaimKey, None] = field(default_factory=dict)
    failed: dict[PodKey, str] = field(default_factory=dict)


def prepare_devices(state: LifecycleState, workload: Workload) -> dict[PodKey, None] | None:
    """Have the claims of reserved members given their devices.

    Returns:
        The members that cannot be bound before their devices are there; None where none of them can: the reservation is
        held until then, or was given back because a claim cannot be used like this.
    """
    if not state.cluster.nodes.devices.promises:
        return {}
    starts = workload.phase in (_WAITING, _RESERVED)
    outlook = _outlook_of(state, workload)
    if outlook.failed:
        _give_up_devices(state, workload, list(outlook.failed), next(iter(outlook.failed.values())))
        return None if starts else outlook.unready
    now = datetime.fromtimestamp(int(state.now), UTC)
    _ask_all(state, outlook, now)
    outlook.waiting.update(dict.fromkeys(outlook.unasked))
    if outlook.unasked:
        wait_for_claims(state, workload)
        if state.cluster.nodes.devices.quota:
            state.touch(workload.key)  # it is known now which of several ways is charged
    if outlook.unready and starts:
        if workload.deadline is None:  # it waits for what another has asked for
            wait_for_claims(state, workload)
        transit(workload, Transition.RESERVE)
        explain(workload, _waits_for_devices(state, workload, outlook))
        return None
    return outlook.unready


def awaits_devices(state: LifecycleState, workload: Workload) -> bool:
    """Whether something has been asked for the claims of a workload that is not there yet."""
    return bool(state.cluster.nodes.devices.promises) and bool(_outlook_of(state, workload).waiting)


def time_out_devices(state: LifecycleState, workload: Workload) -> None:
    """Give back what is reserved for members whose devices did not get ready in time, and try again later."""
    outlook = _outlook_of(state, workload)
    late = len(outlook.waiting)
    why = f"the devices of {counted(late, 'claim')} were not ready in time: {_named(outlook)}"
    _give_up_devices(state, workload, list(outlook.unready), why)


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


def _outlook_of(state: LifecycleState, workload: Workload) -> DeviceProgress:
    """Look how far the claims of reserved members have come."""
    out = DeviceProgress()
    devices, writes, unasked, unready = state.cluster.nodes.devices, state.device_writes, out.unasked, out.unready
    promises, book = devices.promises, devices.book
    for member in workload.members():
        record = member.pod
        if not record.assumed or member.sent or record.pod_class.devices is NO_DEVICES:
            continue
        promised = promises.of_pod(record.key)
        if not promised and not promises.is_promised(record.key):
            out.failed[record.key] = f"nothing is left for the claims of pod {record.name} on {record.assumed}"
            continue
        if len(promised) == 1 and (claim := _untouched(book, writes, record, promised[0])) is not None:
            unasked[promised[0].claim], unready[record.key] = _Untouched(member, claim, promised[0]), None
            continue
        for key in _claims_of(record, promised):
            found = _progress(state, member, key)
            if found.stage is _BOUND:
                continue
            if found.stage is _UNASKED:
                others = unasked.setdefault(key, [])
                if isinstance(others, _Untouched):
                    others = unasked[key] = [others.member]
                others.append(member)
            elif found.stage is _UNDER_WAY:
                out.waiting[key] = None
            else:
                out.failed.setdefault(record.key, found.why)
            unready[record.key] = None
    return out


def _untouched(
    book: ClaimBook, writes: Mapping[ClaimKey, DeviceWrite], pod: PodRecord, promise: DevicePromise
) -> ResourceClaim | None:
    """Return the only claim of a pod, which no other uses, if its promise is all that is known of it; else None.

    It is to be asked for. That is what `_progress` comes to; most claims are looked at while they are like this.
    """
    uses, key = pod.device_uses, promise.claim
    if len(uses) != 1 or len(promise.pods) != 1 or key in writes:
        return None
    use, claim = uses[0], book.claims.get(key)
    if claim is None or use.claim != key or promise.allotment.ask.name == EXTENDED or (use.group and book.groups):
        return None  # of the last it may be the claim of its PodGroup
    metadata, status = claim.metadata, claim.status
    if metadata.deletion_timestamp is not None or metadata.uid != promise.uid:
        return None
    return None if status.allocation is not None or status.reserved_for else claim


def _claims_of(pod: PodRecord, promised: Sequence[DevicePromise]) -> list[ClaimKey]:
    claims = [one.claim for one in pod.device_uses if one.claim is not None]
    claims += [one.claim for one in promised if one.allotment.is_extended]
    return claims if len(claims) == 1 else list(dict.fromkeys(claims))


def _progress(state: LifecycleState, member: Member, key: ClaimKey) -> BindingProgress:
    """Return how far one claim of a member has come."""
    promise = state.cluster.nodes.devices.promises.of(key)
    if promise is None or not promise.allotment.is_extended:
        return _allocating_progress(state, member, key, promise)
    found = making_progress(state, member, promise) or _allocating_progress(state, member, key, promise)
    if found is not _DONE and found is not _GETTING_READY:
        return found
    telling = telling_progress(state, key)  # as kube-scheduler does, before it waits
    return found if telling.stage is BindingStage.BOUND else telling


def _allocating_progress(
    state: LifecycleState, member: Member, key: ClaimKey, promise: DevicePromise | None
) -> BindingProgress:
    """Return how far one claim has come to have its devices, as promised, and to say that a member uses them."""
    devices = state.cluster.nodes.devices
    claim, write = devices.book.claims.get(key), state.device_writes.get(key)
    befallen = "is gone" if claim is None else _befallen(state, claim, promise)
    if claim is None or befallen:
        return _failed(key, befallen)
    if claim.status.allocation is not None:
        user = _user(state, member, key)
        if any(one.uid == user.uid for one in claim.status.reserved_for):
            return _DONE if devices.book.is_ready(claim) and not is_being_freed(state, claim) else _GETTING_READY
    if len(claim.status.reserved_for) >= MOST_CONSUMERS:
        return _failed(key, f"has {MOST_CONSUMERS} users, and no more can be written")
    if write is None or write.change == "free":
        return _GETTING_READY if write is not None and is_being_freed(state, claim) else _TO_ASK
    return _writing_progress(state, claim, write, _user(state, member, key))


def _writing_progress(
    state: LifecycleState, claim: ResourceClaim, write: DeviceWrite, user: Consumer
) -> BindingProgress:
    """Return how far a claim has come to say what was asked to be written on it; of a user that it does not name."""
    if write.failure:
        return _failed(claim.key, f"could not be written: {write.failure}")
    if not (write.answered and is_since(claim, write)):
        joins = not write.names(user.uid) and _may_join(state, claim, write)
        return _TO_ASK if joins else _BEING_WRITTEN
    if not write.names(user.uid):
        return _TO_ASK
    return BindingProgress(BindingStage.FAILED, f"what was written on claim {'/'.join(claim.key)} is there no more")


def _may_join(state: LifecycleState, claim: ResourceClaim, write: DeviceWrite) -> bool:
    """Whether one more user can be written along with those for whom a claim is written in this turn."""
    users = len(claim.status.reserved_for) + len(write.pods) + len(write.groups)
    return users < MOST_CONSUMERS and write.in_hand(state.out) is not None


def _failed(key: ClaimKey, befallen: str) -> BindingProgress:
    return BindingProgress(BindingStage.FAILED, f"claim {'/'.join(key)} {befallen}")


def _befallen(state: LifecycleState, claim: ResourceClaim, promise: DevicePromise | None) -> str:
    """Return what keeps a claim from being used as was decided, or ""."""
    devices = state.cluster.nodes.devices
    if claim.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if promise is not None and promise.uid not in ("", claim.metadata.uid):
        return "was deleted and made anew"
    if claim.status.allocation is None:
        return "" if promise is not None else "has lost its devices"
    if promise is not None and is_being_freed(state, claim):
        return ""  # what it has by what is seen is on its way off
    if promise is not None and not promise.allotment.is_had(held_by(claim.status.allocation)):
        return "got allocated elsewhere in the meantime"
    conflict = devices.conflict(claim) if promise is not None else ""
    why = conflict or devices.book.is_unready(claim)
    return f"cannot be used like this: {why}" if why else ""


def _ask_all(state: LifecycleState, outlook: DeviceProgress, now: datetime) -> None:
    """Have claims of which nothing was asked given their devices, as of now, or used by more pods, in their order."""
    book, writes, out = state.cluster.nodes.devices.book, state.device_writes, state.out
    telling = book.telling
    for key, what in outlook.unasked.items():
        if not isinstance(what, _Untouched):
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


def _user(state: LifecycleState, member: Member, key: ClaimKey) -> Consumer:
    """Return who is to be noted on a claim so that a member may use it."""
    pod, groups = member.pod, state.cluster.nodes.devices.book.groups
    return groups.consumer(pod.key, pod.uid, pod.device_uses, key)


def _users(
    state: LifecycleState, members: Iterable[Member], key: ClaimKey
) -> tuple[tuple[UserName, ...], tuple[UserName, ...]]:
    """Return which pods and which PodGroups are to be noted on a claim so that members may use it."""
    if not state.cluster.nodes.devices.book.groups:
        return tuple([(one.pod.name, one.pod.uid) for one in members]), ()
    users = [_user(state, member, key) for member in members]
    groups = dict.fromkeys([(one.name, one.uid) for one in users if one.is_group])
    return tuple([(one.name, one.uid) for one in users if not one.is_group]), tuple(groups)


def _give_up_devices(state: LifecycleState, workload: Workload, members: list[PodKey], why: str) -> None:
    """Give back what is reserved: all of it for a gang that is not bound, else what these members have."""
    if workload.phase in (Phase.WAITING, Phase.RESERVED):
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


def _forget_refusals(state: LifecycleState, member: Member) -> None:
    """Have more users of claims written again the next time that has failed; what claims were given is remembered."""
    for key in _claims_of(member.pod, state.cluster.nodes.devices.promises.of_pod(member.pod.key)):
        write, claim = state.device_writes.get(key), state.cluster.nodes.devices.book.claims.get(key)
        if write is None or claim is None or not write.failure or write.asked != "reserve":
            continue
        if write.change == "reserve":
            del state.device_writes[key]
            continue
        user = _user(state, member, key)
        write.pods = tuple([one for one in write.pods if one[1] != user.uid])
        write.groups = tuple([one for one in write.groups if one[1] != user.uid])
        write.failure, write.version = "", claim.metadata.resource_version


def _waits_for_devices(state: LifecycleState, workload: Workload, outlook: DeviceProgress) -> Explanation:
    seconds, count = claim_seconds(state, workload), len(outlook.waiting)
    return Explanation(
        Gate.PERMIT,
        "WaitingForDevices",
        f"quota and nodes are reserved; {counted(count, 'claim')} of its members "
        f"{agreeing(count, IS)} being given devices: {_named(outlook)} (given back after {seconds} s)",
        {"claims": str(count), "timeoutSeconds": str(seconds)},
    )


def _named(outlook: DeviceProgress) -> str:
    return listed(map("/".join, outlook.waiting), len(outlook.waiting), CLAIMS_NAMED)
