"""Extended resources that devices stand in for: what a pod asks for by their names, as the requests of one claim.

Rules: kube-scheduler 1.36, plugins/dynamicresources/extendeddynamicresources.go. An init container that ends before the
others start uses what those will have, and asks only for what it needs beyond.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from tutti.api.core import Container, PodSpec
from tutti.api.quantity import QuantityError, parse_quantity
from tutti.cluster.devices.asks import ClaimAsk, DeviceNeeds, ExtendedAsk, RequestAsk, WayAsk, expressions_of
from tutti.cluster.devices.claims import ClaimBook

EXTENDED: Final = "extended resources"
"""What the claim for these is called among the claims of a pod."""

LEFT_OVER: Final = "cannot schedule extended resource claim: one of an earlier attempt is there still"
"""Why a pod waits whose claim for them is not what is to be had now; it is taken away (kube-scheduler, PostFilter)."""

_MOST_ASKING: Final = 128
_LONGEST_BASE: Final = 53
_SUFFIX: Final = 10


def with_extended(needs: DeviceNeeds, spec: PodSpec, book: ClaimBook) -> DeviceNeeds:
    """Return what a pod asks of devices beside its claims: extended resources that devices can stand in for."""
    containers = (*spec.init_containers, *spec.containers)
    asking = sum(
        book.extended_class(name) is not None for one in containers for name in one.resources.requests if "/" in name
    )
    if not asking:
        return needs
    if asking > _MOST_ASKING:
        text = f"its containers ask {asking} times for extended resources that devices stand in for, "
        return DeviceNeeds(f"{text}and {_MOST_ASKING} is the most that is weighed")
    extended = extended_asks(spec, book)
    return msgspec.structs.replace(needs, extended=extended) if extended else needs


def extended_asks(spec: PodSpec, book: ClaimBook) -> tuple[ExtendedAsk, ...]:
    """Return what a pod asks for by the names of extended resources that there is a device class for, by name."""
    containers = (*spec.init_containers, *spec.containers)
    names = sorted({name for one in containers for name in one.resources.requests if "/" in name})
    out = []
    for name in names:
        found = book.extended_class(name)
        requests, mappings = _requests(name, spec.init_containers, containers) if found is not None else ((), ())
        if found is not None and requests:
            out.append(ExtendedAsk(name, found.metadata.name, expressions_of(found), requests, mappings))
    return tuple(out)


Named = tuple[str, int]
Mapped = tuple[int, str]


def _requests(
    name: str, inits: Sequence[Container], containers: Sequence[Container]
) -> tuple[tuple[Named, ...], tuple[Mapped, ...]]:
    """Return the requests for a resource, each by name with its count, and which container uses which of them."""
    needs = [_need(one, name) for one in containers]
    lasting = [at >= len(inits) or one.restart_policy == "Always" for at, one in enumerate(containers)]
    own = [
        request_name(at, one, name) if need else ""
        for at, (one, need) in enumerate(zip(containers, needs, strict=True))
    ]
    out = [(own[at], need) for at, need in enumerate(needs) if need and lasting[at]]
    beyond = [
        (need - sum(later for later, stays in zip(needs[at:], lasting[at:], strict=True) if stays), -at)
        for at, need in enumerate(needs)
        if need and not lasting[at]
    ]
    largest, most = max(beyond, default=(0, 0))
    if largest > 0:
        out.append((own[-most], largest))
    mappings = [(at, own[at]) for at, need in enumerate(needs) if need and lasting[at]]
    for first, need in enumerate(needs):
        if need and not lasting[first]:
            mappings += ((first, one) for one in _used(first, need, needs, lasting, own, own[-most]))
    return tuple(sorted(out)), tuple(mappings)


def _used(
    first: int, need: int, needs: Sequence[int], lasting: Sequence[bool], own: Sequence[str], beyond: str
) -> Iterator[str]:
    """Yield the requests that a container uses which ends before others start: theirs, and what it needs beyond."""
    found = 0
    for at in range(first, len(needs)):
        if needs[at] and lasting[at]:
            yield own[at]
            found += needs[at]
            if found >= need:
                return
    yield beyond


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
    return ClaimAsk(EXTENDED, tuple(sorted(requests, key=lambda one: one.name))) if requests else None


def extended_claim_name(pod: str, uid: str, ask: ClaimAsk) -> str:
    """Return what the claim of a pod for extended resources is called: of one that asks for the same, always alike.

    It begins as kube-scheduler's do. That it is made once for each pod and each way to ask is what a second try to make
    it goes by, after an answer that was lost.
    """
    asked = [(one.name, one.ways[0].device_class, one.ways[0].count) for one in ask.requests]
    digest = hashlib.sha256(msgspec.json.encode((uid, asked))).hexdigest()
    return f"{f'{pod}-extended-resources-'[:_LONGEST_BASE]}{digest[:_SUFFIX]}"


def mappings_of(asked: Sequence[ExtendedAsk], claim: ClaimAsk) -> list[tuple[int, str, str]]:
    """Return which container, by its place, uses which request of a claim for which resource."""
    made = {one.name for one in claim.requests}
    return [
        (container, one.resource, request)
        for one in asked
        if one.requests[0][0] in made
        for container, request in one.mappings
    ]
