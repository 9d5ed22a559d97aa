"""Extended resources that devices stand in for: what a pod asks for by their names, as the requests of one claim.

Rules: kube-scheduler 1.36, plugins/dynamicresources/extendeddynamicresources.go. An init container that ends before the
others start uses what those will have, and asks only for what it needs beyond.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tutti.api.core import Container, PodSpec
from tutti.api.quantity import QuantityError, parse_quantity
from tutti.cluster.devices.asks import ClaimAsk, ExtendedAsk, RequestAsk, WayAsk, expressions_of
from tutti.cluster.devices.claims import ClaimBook


def extended_asks(spec: PodSpec, book: ClaimBook) -> tuple[ExtendedAsk, ...]:
    """Return what a pod asks for by the names of extended resources that there is a device class for, by name."""
    containers = (*spec.init_containers, *spec.containers)
    names = sorted({name for one in containers for name in one.resources.requests if "/" in name})
    out = []
    for name in names:
        found = book.extended_class(name)
        requests = _requests(name, spec.init_containers, containers) if found is not None else ()
        if found is not None and requests:
            out.append(ExtendedAsk(name, found.metadata.name, expressions_of(found), requests))
    return tuple(out)


def _requests(name: str, inits: Sequence[Container], containers: Sequence[Container]) -> tuple[tuple[str, int], ...]:
    """Return per request of a resource its name and how many devices it is for."""
    needs = [_need(one, name) for one in containers]
    lasting = [at >= len(inits) or one.restart_policy == "Always" for at, one in enumerate(containers)]
    out = [(request_name(at, containers[at], name), need) for at, need in enumerate(needs) if need and lasting[at]]
    beyond = [
        (need - sum(later for later, stays in zip(needs[at:], lasting[at:], strict=True) if stays), -at)
        for at, need in enumerate(needs)
        if need and not lasting[at]
    ]
    largest, at = max(beyond, default=(0, 0))
    if largest > 0:
        out.append((request_name(-at, containers[-at], name), largest))
    return tuple(sorted(out))


def request_name(at: int, container: Container, resource: str) -> str:
    """Return what the request of a container for a resource is called."""
    return f"container-{at}-request-{sorted(container.resources.requests).index(resource)}"


def _need(container: Container, name: str) -> int:
    try:
        return max(0, -(-parse_quantity(container.resources.requests.get(name, 0)) // 1000))
    except QuantityError:
        return 0  # such a pod is refused for its requests


def extended_claim(asked: Sequence[ExtendedAsk], served: Collection[str]) -> ClaimAsk | None:
    """Return the claim of a pod on a node that offers some of these resources itself; None where it offers all."""
    requests = [
        RequestAsk(name, (WayAsk(name, one.device_class, one.class_selectors, count=count),))
        for one in asked
        if one.resource not in served
        for name, count in one.requests
    ]
    return ClaimAsk("extended resources", tuple(sorted(requests, key=lambda one: one.name))) if requests else None
