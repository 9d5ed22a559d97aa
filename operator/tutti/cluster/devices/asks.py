"""What a pod asks of the devices of its node, without the names that tell equal pods apart.

Members of a gang have claims of their own, made from one template; pods whose claims ask alike are of one class. Claims
are called here as the pod calls them, so that what is said of one is understood by who wrote the pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from tutti.api.devices import DeviceClass, DeviceSubRequest, ResourceClaimSpec
from tutti.api.quantity import parse_quantity
from tutti.api.selectors import NodeSelector, Toleration

ClaimKey = tuple[str, str]
"""Namespace and name."""


class DeviceUse(NamedTuple):
    """An entry of a pod's claims.

    Attributes:
        name: What the pod calls it.
        claim: The claim; None where it has not been made from its template yet.
        template: Whether it is made for this pod alone.
        needed: Whether there is, or is to be, a claim at all.
        group: The PodGroup of Kubernetes that the pod is in, or "": the claim may be that one's (`group_claims.py`).
        source: The claim or template that the entry names.
    """

    name: str
    claim: ClaimKey | None
    template: bool = False
    needed: bool = True
    group: str = ""
    source: str = ""


class WayAsk(msgspec.Struct, frozen=True):
    """One way to fulfil a request.

    Attributes:
        name: What it is called in results: of the request, or request/sub.
        device_class: The class, and what it selects.
        count: How many devices; 0: all that match.
        capacity: Capacities asked for by name, in milli-units.
        admin: Whether devices are looked at only, however they are used.
    """

    name: str
    device_class: str
    class_selectors: tuple[str, ...] = ()
    selectors: tuple[str, ...] = ()
    count: int = 1
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    admin: bool = False

    @property
    def called(self) -> str:
        """What kube-scheduler calls it in messages: by its own name alone, also as one of several ways."""
        return self.name.rpartition("/")[2]


class RequestAsk(msgspec.Struct, frozen=True):
    """Devices that are asked for: the first of several ways that is possible."""

    name: str
    ways: tuple[WayAsk, ...]


class ConstraintAsk(msgspec.Struct, frozen=True):
    """An attribute that devices of some requests (none: of all) have in common, or that tells all of them apart."""

    attribute: str
    distinct: bool = False
    requests: tuple[str, ...] = ()

    def concerns(self, request: str, way: str) -> bool:
        """Whether it is about the devices of a way to fulfil a request."""
        return not self.requests or request in self.requests or way in self.requests


class ClaimAsk(msgspec.Struct, frozen=True):
    """A claim that has no devices yet.

    Attributes:
        name: What the pod calls it.
        shared: The claim (namespace/name) where several pods use it, else "".
    """

    name: str
    requests: tuple[RequestAsk, ...] = ()
    constraints: tuple[ConstraintAsk, ...] = ()
    shared: str = ""


class HeldClaim(msgspec.Struct, frozen=True):
    """A claim that has its devices.

    Attributes:
        selector: From which nodes it can be used; None: from all.
        unready: Why its devices are not to be used as they are, or "".
        rank: What its chosen ways count in the score of a node.
    """

    selector: NodeSelector | None = None
    unready: str = ""
    rank: int = 0


class ExtendedAsk(msgspec.Struct, frozen=True):
    """An extended resource that devices of a class stand in for, on nodes that do not offer it themselves.

    Attributes:
        resource: Its name.
        requests: Per container that asks for some of it: the name of the request, and how many devices.
        mappings: Which container, by place, uses which of these requests; those that stay before those that end first.
    """

    resource: str
    device_class: str
    class_selectors: tuple[str, ...]
    requests: tuple[tuple[str, int], ...]
    mappings: tuple[tuple[int, str], ...] = ()


class Counted(msgspec.Struct, frozen=True):
    """What quota counts of the devices that a pod asks for.

    Attributes:
        added: Beside what the pod requests, by name, in scheduling units.
        renamed: What the pod requests that is counted under another name, and under which.
        problem: Why it cannot be told before, or "".
    """

    added: tuple[tuple[str, int], ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    problem: str = ""

    def of(self, requests: Mapping[str, int]) -> dict[str, int]:
        """Return what quota counts of a pod that requests so much."""
        names, out = dict(self.renamed), dict[str, int]()
        for said, amount in (*requests.items(), *self.added):
            name = names.get(said, said)
            out[name] = out.get(name, 0) + amount
        return out


class DeviceNeeds(msgspec.Struct, frozen=True):
    """What a pod asks of the devices of its node.

    Attributes:
        problem: Why it can have no node at all yet, in kube-scheduler's words, or "".
        waits: Whether that is because something is still to come: a claim that has not been made.
        coming: Whether that is a claim which is made for the pod alone from a template that is there: a matter of
            moments, as long as the claim controller works.
        claims: Its claims that have no devices yet, in order.
        held: Its claims that have.
        extended: What it asks for as extended resources that devices can stand in for, by name.
        counted: What quota counts of all that; None where it counts no devices.
        tight: Whether the devices that fit tightest are chosen; else the first that drivers list, as by kube-scheduler.
        near_cores: Whether those are chosen that are in the NUMA zone of the cores that the pod gets.
        full: Whether one of its claims takes no more users, so that a place on a node is of no use until one has gone.
        namespace: Of the pod: how long it may take to look for devices is told for all claims of it together.
    """

    problem: str = ""
    waits: bool = False
    coming: bool = False
    claims: tuple[ClaimAsk, ...] = ()
    held: tuple[HeldClaim, ...] = ()
    extended: tuple[ExtendedAsk, ...] = ()
    counted: Counted | None = None
    tight: bool = False
    near_cores: bool = False
    full: bool = False
    namespace: str = ""


NO_DEVICES = DeviceNeeds()

SUB_RANK = 8
"""What the first way of several counts in the score of a node; each further one counts one less."""

ALL = "All"


def term_count(needs: DeviceNeeds) -> int:
    """Return how many terms claims have: each way to fulfil a request, and what it says of its devices.

    What a class says of them is an administrator's.
    """
    ways = [way for claim in needs.claims for request in claim.requests for way in request.ways]
    said = sum(1 + len(way.selectors) + len(way.tolerations) + len(way.capacity) for way in ways)
    return said + sum(len(claim.constraints) for claim in needs.claims)


def claim_ask(name: str, spec: ResourceClaimSpec, classes: dict[str, DeviceClass], shared: str) -> ClaimAsk:
    """Return what a claim asks for; its classes must be known."""
    constraints = [
        ConstraintAsk(one.match_attribute or one.distinct_attribute, not one.match_attribute, tuple(one.requests))
        for one in spec.devices.constraints
    ]
    requests = [
        RequestAsk(request.name, tuple(_way(label, way, classes) for label, way in request.ways))
        for request in spec.devices.requests
    ]
    return ClaimAsk(name, tuple(requests), tuple(constraints), shared)


def expressions_of(device_class: DeviceClass) -> tuple[str, ...]:
    """Return what a class selects devices by."""
    return tuple(one.cel.expression for one in device_class.spec.selectors)


def _way(name: str, way: DeviceSubRequest, classes: dict[str, DeviceClass]) -> WayAsk:
    return WayAsk(
        name=name,
        device_class=way.device_class_name,
        class_selectors=expressions_of(classes[way.device_class_name]),
        selectors=tuple(one.cel.expression for one in way.selectors),
        count=0 if way.allocation_mode == ALL else way.count,
        tolerations=tuple(way.tolerations),
        capacity=tuple(sorted((key, parse_quantity(said)) for key, said in way.capacity.requests.items())),
        admin=way.admin_access,
    )
