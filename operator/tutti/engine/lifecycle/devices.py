"""Claims on devices: what is seen of them, and what is written on them before their pods are bound."""

from __future__ import annotations

from collections.abc import Iterable

from tutti.cluster.devices.state import DeviceKind, DeviceObject
from tutti.cluster.pods import PodKey
from tutti.engine.lifecycle import LifecycleState


def object_seen(state: LifecycleState, found: DeviceObject) -> None:
    """Take in a slice, class or claim of devices, and look at the workloads that it concerns."""
    _touch(state, state.cluster.put_device(found))


def object_gone(state: LifecycleState, kind: DeviceKind, namespace: str, name: str) -> None:
    """Forget a slice, class or claim of devices, and look at the workloads that it concerns."""
    _touch(state, state.cluster.drop_device(kind, namespace, name))


def pass_time(state: LifecycleState) -> None:
    """Look again at workloads whose devices should be ready by now and are not."""
    _touch(state, state.cluster.pass_time(state.now))


def next_late_due(state: LifecycleState) -> float | None:
    """Return when devices are not waited for any longer, Unix seconds; None where none are."""
    late = state.cluster.nodes.devices.book.late
    return min(late.values()) + 1 if late else None


def _touch(state: LifecycleState, pods: Iterable[PodKey]) -> None:
    for key in pods:
        address = state.pod_group_of.get(key)
        if address is not None:
            state.touch(address[0])
