"""Objects of devices that are seen, gone or written, and whose workloads follow from each.

What was written on a claim counts once it is seen: by then nobody can have been overlooked who took the same device
before.
"""

from __future__ import annotations

from collections.abc import Iterable

from tutti.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate
from tutti.cluster.devices.asks import ClaimKey
from tutti.cluster.devices.state import DeviceKind, DeviceObject
from tutti.cluster.pods import PodKey
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.lifecycle.bound_claims import claim_changed
from tutti.engine.lifecycle.claim_progress import user_of
from tutti.engine.lifecycle.device_pools import class_seen
from tutti.engine.lifecycle.device_release import is_being_freed, is_returned, is_since
from tutti.engine.lifecycle.extended_claims import removed
from tutti.engine.records.device_writes import DeviceWrite
from tutti.engine.records.observations import DeviceClaimWritten
from tutti.engine.records.workloads import Phase


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
    return [one.pod.key for one in members if user_of(state, one, key).uid not in named]


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
