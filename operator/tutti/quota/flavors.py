"""Which flavors a pod's resources may be counted in, in the order to try them.

Rules: Kueue, flavorassigner (0.20): all resources of one resource group take the same flavor; a resource that the
queue does not cover cannot be had there; `pods` is a virtual resource that counts only where it is covered.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tutti.api.selectors import HARD_EFFECTS, LabelSelector, Taint, Toleration, untolerated
from tutti.placement.framework import Where
from tutti.quota.fungibility import DEFAULT_FUNGIBILITY, Fungibility
from tutti.quota.policy import NOBODY, PreemptionPolicy
from tutti.quota.tree import WEIGHT_OF_ONE, FlavorResource, Quota, Usage

VIRTUAL = "pods"


@dataclass(frozen=True, slots=True)
class Flavor:
    """A kind of node that quota is counted in; `levels` are those of its Topology, the widest first."""

    name: str
    node_labels: tuple[tuple[str, str], ...] = ()
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that are always counted in the same flavor, and the flavors in the order to try."""

    covered: tuple[str, ...]
    flavors: tuple[str, ...]


class Problem(NamedTuple):
    """What is wrong with a queue, cohort or flavor: a CamelCase reason, and what would be right."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Queue:
    """A ClusterQueue, as admission needs it.

    Attributes:
        selector: Which namespaces may use it, by their labels; None lets nobody in.
        strict: Whether a head that must wait blocks those behind it.
        strategy: How messages call that.
        reserves: Whether quota and room are kept for a head that must wait, and those behind it may only fit beside.
        reservation_seconds: For how long, where nobody knows when it can start.
        hold: Whether new admissions are stopped.
        drain: Whether what is admitted has to leave.
        permit_seconds: How long a complete reservation is held for those that do not say so; None: as is configured.
        minimum_runtime: How many seconds a workload runs before it may be chosen as a victim.
        fungibility: Whether to stop at a flavor that is not free, or to look for a better one.
        policy: Whom it may have evicted for its own workloads.
        weight: In fair sharing, in milli-units.
        offset: What is added to the priorities of its workloads where they are compared with those of other queues.
        by_past_use: Whether the LocalQueue that has used least lately goes first.
        fence: Whether there the offset alone counts, whatever priorities its workloads have (YuniKorn).
        problem: Why it is inactive, if it is.
    """

    name: str
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    selector: LabelSelector | None = None
    strict: bool = False
    strategy: str = "StrictFIFO"
    reserves: bool = False
    reservation_seconds: int = 3600
    hold: bool = False
    drain: bool = False
    permit_seconds: int | None = None
    minimum_runtime: int = 0
    fungibility: Fungibility = DEFAULT_FUNGIBILITY
    policy: PreemptionPolicy = NOBODY
    weight: int = WEIGHT_OF_ONE
    offset: int = 0
    fence: bool = False
    by_past_use: bool = False
    problem: Problem | None = None

    def outward(self, priority: int) -> int:
        """Return what a priority of one of its workloads counts outside of it."""
        return self.offset if self.fence else priority + self.offset


Assignment = dict[str, str]
"""Resource -> flavor."""


def uncovered(queue: Queue, requests: Mapping[str, int]) -> list[str]:
    """Return the resources asked for that the queue has no quota of."""
    covered = {name for group in queue.groups for name in group.covered}
    return [name for name, amount in requests.items() if amount > 0 and name != VIRTUAL and name not in covered]


def assignments(
    queue: Queue, flavors: Mapping[str, Flavor], requests: Mapping[str, int], tolerations: Sequence[Toleration]
) -> Iterator[Assignment]:
    """Yield each way to count these requests in the queue's flavors, in the order to try them.

    Flavors whose taints the pod (with the flavor's own tolerations) does not tolerate are left out.
    """
    concerned: list[tuple[list[str], list[str]]] = []
    for group in queue.groups:
        names = [name for name in group.covered if requests.get(name, 0) > 0]
        if names:
            fit = [f for f in group.flavors if f in flavors and tolerated(flavors[f], tolerations)]
            concerned.append((names, fit))
    for choice in itertools.product(*(fit for _, fit in concerned)):
        yield {name: flavor for (names, _), flavor in zip(concerned, choice, strict=True) for name in names}


def tolerated(flavor: Flavor, tolerations: Sequence[Toleration]) -> bool:
    """Whether pods with these tolerations may use a flavor."""
    return untolerated(flavor.node_taints, (*tolerations, *flavor.tolerations), HARD_EFFECTS) is None


def usage_of(assignment: Assignment, requests: Mapping[str, int], times: int = 1) -> Usage:
    """Return what `times` pods of these requests use of quota under an assignment."""
    return {(flavor, name): requests[name] * times for name, flavor in assignment.items()}


def where_of(assignment: Assignment, flavors: Mapping[str, Flavor]) -> Where:
    """Return what an assignment adds to its pods' own constraints."""
    chosen = [flavors[name] for name in dict.fromkeys(assignment.values())]
    return Where(
        node_labels=tuple(label for flavor in chosen for label in flavor.node_labels),
        tolerations=tuple(toleration for flavor in chosen for toleration in flavor.tolerations),
    )
