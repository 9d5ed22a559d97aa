"""Classes of equal pods: pods that no filter and no score could tell apart.

Masks, capacities and scores are computed once per class, and a gang of a thousand equal pods is one problem.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field

import msgspec

from tutti.api.core import Container, PodSpec
from tutti.api.resources import AmountError, Amounts
from tutti.cluster.requests import pod_requests

_ENCODER = msgspec.json.Encoder(order="deterministic")


@dataclass(slots=True, eq=False, weakref_slot=True)
class PodClass:
    """One class of equal pods.

    Attributes:
        spec: The spec they share, without what does not matter to placement.
        requests: What one of them takes, in scheduling units; empty where `problem` is set.
        problem: Why such pods can never be placed (a request that cannot be read), or "".
        signature: What makes them equal; stable across restarts.
    """

    spec: PodSpec
    requests: Amounts
    signature: bytes
    problem: str = ""
    cache: dict[Hashable, object] = field(default_factory=dict)


class ClassBook:
    """Finds the one PodClass of a spec; forgets a class with the last pod that holds it."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[bytes, PodClass] = weakref.WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, spec: PodSpec) -> PodClass:
        """Return the class of pods with this spec."""
        essence = _essence(spec)
        signature = _ENCODER.encode(essence)
        known = self._known.get(signature)
        if known is None:
            known = _new_class(essence, signature)
            self._known[signature] = known
        return known


def _new_class(essence: PodSpec, signature: bytes) -> PodClass:
    try:
        return PodClass(spec=essence, requests=pod_requests(essence), signature=signature)
    except AmountError as error:
        return PodClass(spec=essence, requests={}, signature=signature, problem=str(error))


def _essence(spec: PodSpec) -> PodSpec:
    """Strip what differs between equal pods: where they are bound, generated volume names, priority and membership."""
    return msgspec.structs.replace(
        spec,
        node_name="",
        scheduler_name="",
        priority=None,
        priority_class_name="",
        preemption_policy="",
        scheduling_gates=[],
        scheduling_group=None,
        workload_ref=None,
        containers=[_plain(c) for c in spec.containers],
        init_containers=[_plain(c) for c in spec.init_containers],
        volumes=[v for v in spec.volumes if v.persistent_volume_claim or v.ephemeral],
    )


def _plain(container: Container) -> Container:
    if not container.resources.limits and not container.name:
        return container
    kept = msgspec.structs.replace(container.resources, limits={})
    return msgspec.structs.replace(container, name="", resources=kept)
