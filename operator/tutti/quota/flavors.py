"""ClusterQueues, flavors and pod sets, and in which flavors pods may be counted, whatever quota there is.

Rules: Kueue, flavorassigner.go `checkFlavorForPodSets` and tas_flavorassigner.go (0.20): all resources of one resource
group take the same flavor; a resource that the queue does not cover cannot be had there; `pods` is a virtual resource
that counts only where it is covered. Every hard taint of the flavor must be tolerated; the pods' node selector and
required node affinity, as far as they speak of labels that the flavor has, must match them; pods that ask for a
topology need a flavor that has the levels they name, and others one without a topology, except that in a queue of
nothing but such flavors all pods are placed by topology.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tutti.api.hami import OF_MEMORY, UNOFFERED
from tutti.api.selectors import (
    HARD_EFFECTS,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    Taint,
    Toleration,
    untolerated,
)
from tutti.placement.framework import FlavorConstraints
from tutti.placement.topology.request import LevelRequest
from tutti.quota.policy import DEFAULT_FUNGIBILITY, NOBODY, Fungibility, PreemptionPolicy
from tutti.quota.provisioning import ProvisioningCheck
from tutti.quota.queue_order import BY_DEMAND, BY_USE, QueueOrder
from tutti.quota.tree import WEIGHT_OF_ONE, FlavorResource, Quota, Usage
from tutti.quota.user_limits import NO_USER_LIMITS, UserLimits

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
class FlavorGroup:
    """Resources that are always counted in the same flavor, and the flavors in the order to try."""

    covered: tuple[str, ...]
    flavors: tuple[str, ...]


class QuotaProblem(NamedTuple):
    """What is wrong with a queue, cohort or flavor: a CamelCase reason, and what would be right."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class QueueChecks:
    """The admission checks of a ClusterQueue.

    Attributes:
        on_flavors: The flavors that each check is for, by its name; none: all.
        pending_seconds: How long quota is held while they have not answered.
        placement_seconds: How long it goes on being held when all have, and there are no nodes.
        provisioning: Those among them by which nodes are made where there are none; they are not in `on_flavors`,
            because nobody is asked before nodes are looked for.
    """

    on_flavors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pending_seconds: int = 3600
    placement_seconds: int = 600
    provisioning: tuple[ProvisioningCheck, ...] = ()

    def of(self, flavors: Collection[str]) -> list[str]:
        """Return the checks that those have to pass who are counted in some flavors."""
        return [name for name, some in self.on_flavors.items() if not some or any(one in flavors for one in some)]


NO_CHECKS = QueueChecks()
"""Those of a queue that asks for none."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A ClusterQueue, as admission needs it.

    Attributes:
        most: The most that its quotas may be at any later time, where others hold at times; else nothing.
        selector: Which namespaces may use it, by their labels; None lets nobody in.
        strict: Whether a head that must wait blocks those behind it.
        strategy: How messages call that.
        reserves: Whether quota and room are kept for a head that must wait, and those behind it may only fit beside.
        reservation_seconds: For how long, where nobody knows when it can start.
        hold: Whether new admissions are stopped.
        drain: Whether what is admitted has to leave.
        permit_seconds: How long a complete reservation is held for those that do not say so; None: as is configured.
        limit_seconds: How long Workloads may run that do not say so themselves; None: for ever.
        minimum_runtime: How many seconds a workload runs before it may be chosen as a victim.
        fungibility: Whether to stop at a flavor that is not free, or to look for a better one.
        policy: Whom it may have evicted for its own workloads.
        weight: In fair sharing, in milli-units.
        offset: What is added to the priorities of its workloads where they are compared with those of other queues.
        by_past_use: Whether the LocalQueue that has used least lately goes first.
        fence: Whether there the offset alone counts, whatever priorities its workloads have (YuniKorn).
        checks: What has to be passed between quota and nodes.
        protects: Whether gangs that do not say so themselves are kept from scale-down while they run.
        max_moves: How many running pods are moved at most so that one of its workloads fits.
        movable: Whether what runs in it may be moved where it does not say otherwise.
        shares_cards: Whether pods share cards as with HAMi, so that it limits of these what it has quota of.
        order: In which order its workloads are tried; None: by priority and age.
        user_limits: How much users and groups may have of it at once.
        by_speed: Whether members beyond the required ones go to the gang that gains most from them.
        problem: Why it is inactive, if it is.
    """

    name: str
    cohort: str = ""
    groups: tuple[FlavorGroup, ...] = ()
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    most: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    selector: LabelSelector | None = None
    strict: bool = False
    strategy: str = "StrictFIFO"
    reserves: bool = False
    reservation_seconds: int = 3600
    hold: bool = False
    drain: bool = False
    permit_seconds: int | None = None
    limit_seconds: int | None = None
    minimum_runtime: int = 0
    fungibility: Fungibility = DEFAULT_FUNGIBILITY
    policy: PreemptionPolicy = NOBODY
    weight: int = WEIGHT_OF_ONE
    offset: int = 0
    fence: bool = False
    by_past_use: bool = False
    checks: QueueChecks = NO_CHECKS
    protects: bool = False
    max_moves: int = 0
    movable: bool = False
    shares_cards: bool = False
    order: QueueOrder | None = None
    user_limits: UserLimits = NO_USER_LIMITS
    by_speed: bool = False
    problem: QuotaProblem | None = None

    @property
    def counts_holders(self) -> bool:
        """Whether it matters how much each user, group or LocalQueue has of it."""
        return bool(self.user_limits) or (self.order is not None and self.order.goes_by(BY_USE))

    @property
    def counts_each(self) -> bool:
        """Whether each admission changes who is next, or who may be, among those that are equal otherwise."""
        return self.counts_holders or (self.order is not None and self.order.goes_by(BY_DEMAND))

    def cross_queue_priority(self, priority: int) -> int:
        """Return what a priority of one of its workloads counts outside of it."""
        return self.offset if self.fence else priority + self.offset


FlavorByResource = dict[str, str]
"""Resource -> flavor."""


def uncovered(queue: Queue, requests: Mapping[str, int]) -> list[str]:
    """Return the resources asked for that the queue has no quota of."""
    covered = {name for group in queue.groups for name in group.covered}
    missing = [name for name, amount in requests.items() if amount > 0 and name != VIRTUAL and name not in covered]
    return [name for name in missing if not queue.shares_cards or is_limited(name, covered)]


def is_limited(name: str, covered: Container[str]) -> bool:
    """Whether a resource that a queue has no quota of cannot be had in it.

    How much of cards pods may share is limited where a queue says so: its memory in MiB or in percent of cards, or
    both. A queue that says one of these lets nobody by who asks in the other; one that says neither limits neither.
    """
    if name in OF_MEMORY:
        return any(one in covered for one in OF_MEMORY)
    return name not in UNOFFERED


def flavor_assignments(
    queue: Queue, flavors: Mapping[str, Flavor], requests: Mapping[str, int], tolerations: Sequence[Toleration]
) -> Iterator[FlavorByResource]:
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


def usage_of(assignment: FlavorByResource, requests: Mapping[str, int], times: int = 1) -> Usage:
    """Return what `times` pods of these requests use of quota under an assignment."""
    return {(flavor, name): requests[name] * times for name, flavor in assignment.items()}


def where_of(assignment: FlavorByResource, flavors: Mapping[str, Flavor]) -> FlavorConstraints:
    """Return what an assignment adds to its pods' own constraints."""
    chosen = [flavors[name] for name in dict.fromkeys(assignment.values())]
    return FlavorConstraints(
        node_labels=tuple(label for flavor in chosen for label in flavor.node_labels),
        tolerations=tuple(toleration for flavor in chosen for toleration in flavor.tolerations),
    )


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one shape that want quota.

    Attributes:
        count: How many.
        per_pod: What one of them asks for.
        affinity: The required node affinity.
        topology: Where they want to be; None where they do not say.
        group: Pod sets of one group get the same flavors and go to one domain; "" for none.
        kept: The flavors that pods of it have already: it gets no others of the same resource groups.
    """

    name: str
    count: int
    per_pod: Mapping[str, int]
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: NodeSelector | None = None
    tolerations: Sequence[Toleration] = ()
    topology: LevelRequest | None = None
    group: str = ""
    kept: frozenset[str] = frozenset()


def by_topology_only(queue: Queue, flavors: Mapping[str, Flavor]) -> bool:
    """Whether a queue has only flavors with a topology, so that all its pods are placed by it."""
    named = [flavors[name] for group in queue.groups for name in group.flavors if name in flavors]
    return bool(named) and all(flavor.levels for flavor in named)


def mismatch(flavor: Flavor, pods: PodSet, group: FlavorGroup, *, implied: bool) -> str:
    """Return why pods may not be counted in a flavor; "" where they may.

    Args:
        flavor: The flavor.
        pods: The pods.
        group: Whose flavor it is.
        implied: Whether pods that do not ask for a topology are placed by one all the same.
    """
    if pods.topology is not None or (flavor.levels and not implied):
        wrong = _topology_mismatch(flavor, pods, group)
        if wrong:
            return wrong
    tolerations = (*pods.tolerations, *flavor.tolerations)
    taint = untolerated(flavor.node_taints, tolerations, HARD_EFFECTS) if flavor.node_taints else None
    if taint is not None:
        return f"flavor {flavor.name} has the taint {taint.key}={taint.value}:{taint.effect}, which is not tolerated"
    if flavor.node_labels and not _selects(pods, dict(flavor.node_labels)):
        return f"the labels of flavor {flavor.name} do not match the node selector or affinity"
    return ""


def _topology_mismatch(flavor: Flavor, pods: PodSet, group: FlavorGroup) -> str:
    if pods.topology is None:
        return f"flavor {flavor.name} is only for pods placed by topology" if flavor.levels else ""
    if not flavor.levels:
        concerned = any(name in group.covered for name in pods.per_pod)
        return f"flavor {flavor.name} has no topology" if concerned else ""
    missing = [level for level in pods.topology.levels if level not in flavor.levels]
    return f"the topology of flavor {flavor.name} has no level {', '.join(missing)}" if missing else ""


def _selects(pods: PodSet, labels: Mapping[str, str]) -> bool:
    if any(labels.get(key, value) != value for key, value in pods.node_selector.items()):
        return False
    if pods.affinity is None:
        return True
    terms = [
        NodeSelectorTerm(match_expressions=[one for one in term.match_expressions if one.key in labels])
        for term in pods.affinity.node_selector_terms
    ]
    return not terms or any(not term.match_expressions or term.matches(labels, "") for term in terms)
