"""What pods of a class ask of NUMA zones, as scheduler-plugins reads it off a spec.

Rules: scheduler-plugins, noderesourcetopology/filter.go and pkg/util/resource.go (GetPodEffectiveRequest), and
kubernetes pkg/apis/core/v1/helper (which resources are native).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tutti.api.core import PodSpec
from tutti.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Amounts, parse_requests
from tutti.cluster.classes import PodClass
from tutti.cluster.requests import is_guaranteed, sum_of_amounts

_CORE = 1000
"""Milli-cores: only whole cores are anybody's own (cpu manager, policy static)."""


def is_native(resource: str) -> bool:
    """Whether a resource is Kubernetes' own; all others are devices of plugins, or counted by whoever made them up."""
    return "/" not in resource or "kubernetes.io/" in resource


def may_be_outside_zones(resource: str) -> bool:
    """Whether a resource need not be in any zone, so that one that no zone lists is had from the node as a whole."""
    return not is_native(resource) or resource in (EPHEMERAL_STORAGE, "storage")


def is_pinned_if_guaranteed(resource: str) -> bool:
    """Whether zones hold only Guaranteed pods to how much they have of a resource; others take it from any zone."""
    return resource in (CPU, MEMORY) or resource.startswith("hugepages-")


@dataclass(frozen=True, slots=True, eq=False)
class ZoneNeeds:
    """What one pod asks of zones.

    Attributes:
        guaranteed: Whether it is Guaranteed, so that the kubelet may pin cores and memory for it.
        init: What each init container requests, in order, and whether it is a sidecar.
        containers: What each container requests, in order.
        whole: What the pod requests as a whole: sidecars count as the init containers they stand among.
        charged: The part of `whole` that is taken out of zones.
        exclusive: The part of it that an agent surely reports as taken: whole cores, and devices.
    """

    guaranteed: bool
    init: tuple[tuple[Amounts, bool], ...]
    containers: tuple[Amounts, ...]
    whole: Amounts
    charged: Amounts
    exclusive: Amounts

    def counts(self, resource: str) -> bool:
        """Whether it matters how much of a resource a zone has, beside that the zone lists it."""
        return self.guaranteed or not is_pinned_if_guaranteed(resource)

    def asks_like(self, other: ZoneNeeds) -> bool:
        """Whether it asks for the same, so that no kubelet tells one from the other."""
        mine, theirs = ((one.guaranteed, one.init, one.containers, one.whole) for one in (self, other))
        return mine == theirs


def zone_needs(pod_class: PodClass) -> ZoneNeeds:
    """Return what pods of a class ask of zones; worked out once. The class has no `problem`."""
    return pod_class.keep("zone needs", None, lambda: _needs(pod_class.spec))


def _needs(spec: PodSpec) -> ZoneNeeds:
    guaranteed = is_guaranteed(spec)
    init = tuple(
        (parse_requests(one.resources.requests), one.restart_policy == "Always") for one in spec.init_containers
    )
    containers = tuple(parse_requests(one.resources.requests) for one in spec.containers)
    running, peak = sum_of_amounts(containers), _greatest(amounts for amounts, _ in init)
    whole = sum_of_amounts((_greatest((running, peak)), parse_requests(spec.overhead)))
    charged = {
        name: amount
        for name, amount in whole.items()
        if amount and name != PODS and (guaranteed or not is_pinned_if_guaranteed(name))
    }
    exclusive = sum_of_amounts(own_part(one, guaranteed=guaranteed) for one in containers)
    return ZoneNeeds(guaranteed, init, containers, whole, charged, exclusive)


def own_part(asked: Mapping[str, int], *, guaranteed: bool) -> Amounts:
    """Return what of the request of a container nobody else can have: whole cores, and devices."""
    return {
        name: amount
        for name, amount in asked.items()
        if amount and ((guaranteed and amount % _CORE == 0) if name == CPU else not is_native(name))
    }


def _greatest(parts: Iterable[Mapping[str, int]]) -> Amounts:
    found: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = max(amount, found.get(name, 0))
    return found
