"""How far the claims on devices of reserved members have come to have these devices.

A claim is promised devices, asked to say so, written, seen to say so, and used once its drivers are ready; or it cannot
be used as was decided, because somebody else has written on it, and whoever has a place for it takes another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tutti.api.devices import MOST_CONSUMERS, ResourceClaim
from tutti.cluster.devices.asks import NO_DEVICES, ClaimKey
from tutti.cluster.devices.claims import ClaimBook
from tutti.cluster.devices.extended import EXTENDED
from tutti.cluster.devices.group_claims import Consumer
from tutti.cluster.devices.ledger import held_by
from tutti.cluster.devices.promises import DevicePromise
from tutti.cluster.pledges import BindingProgress, BindingStage
from tutti.cluster.pods import PodKey, PodRecord
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.lifecycle.device_release import is_being_freed, is_since
from tutti.engine.lifecycle.extended_claims import making_progress, telling_progress
from tutti.engine.records.device_writes import DeviceWrite
from tutti.engine.records.members import Member
from tutti.engine.records.workloads import Workload

# Looked up once: to reach a member through its enum takes ten times as long (Python 3.11), and this runs for each pod.
_BOUND: Final = BindingStage.BOUND
_UNASKED: Final = BindingStage.UNASKED
_UNDER_WAY: Final = BindingStage.UNDER_WAY

_DONE = BindingProgress(_BOUND)
_TO_ASK = BindingProgress(_UNASKED)
_BEING_WRITTEN = BindingProgress(_UNDER_WAY)
_GETTING_READY = BindingProgress(_UNDER_WAY)
"""Of a claim that waits for what the drivers of its devices say of them, or to be seen without these.

Equal to the one above, and another: claims of which nothing is being written are told apart by it.
"""


class Untouched(msgspec.Struct, frozen=True, eq=False, gc=False):
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
    unasked: dict[ClaimKey, list[Member] | Untouched] = field(default_factory=dict)
    waiting: dict[ClaimKey, None] = field(default_factory=dict)
    failed: dict[PodKey, str] = field(default_factory=dict)


def user_of(state: LifecycleState, member: Member, key: ClaimKey) -> Consumer:
    """Return who is to be noted on a claim so that a member may use it."""
    pod, groups = member.pod, state.cluster.nodes.devices.book.groups
    return groups.consumer(pod.key, pod.uid, pod.device_uses, key)


def device_progress_of(state: LifecycleState, workload: Workload) -> DeviceProgress:
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
            unasked[promised[0].claim], unready[record.key] = Untouched(member, claim, promised[0]), None
            continue
        for key in claims_of_member(record, promised):
            found = _progress(state, member, key)
            if found.stage is _BOUND:
                continue
            if found.stage is _UNASKED:
                others = unasked.setdefault(key, [])
                if isinstance(others, Untouched):
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


def claims_of_member(pod: PodRecord, promised: Sequence[DevicePromise]) -> list[ClaimKey]:
    """Return the claims of a member, with the one that it is promised for extended resources."""
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
        user = user_of(state, member, key)
        if any(one.uid == user.uid for one in claim.status.reserved_for):
            return _DONE if devices.book.is_ready(claim) and not is_being_freed(state, claim) else _GETTING_READY
    if len(claim.status.reserved_for) >= MOST_CONSUMERS:
        return _failed(key, f"has {MOST_CONSUMERS} users, and no more can be written")
    if write is None or write.change == "free":
        return _GETTING_READY if write is not None and is_being_freed(state, claim) else _TO_ASK
    return _writing_progress(state, claim, write, user_of(state, member, key))


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
