"""What admission needs of ClusterQueues, Cohorts and ResourceFlavors, as users write them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from tutti.api.kinds import ClusterQueue, Cohort, ResourceFlavor
from tutti.api.kinds.queues import Preemption
from tutti.api.kinds.quotas import ResourceGroup as ApiResourceGroup
from tutti.api.quantity import Percentage
from tutti.api.resources import from_milli
from tutti.quota.flavors import Flavor, Queue, ResourceGroup
from tutti.quota.fungibility import Fungibility
from tutti.quota.policy import PreemptionPolicy, Who
from tutti.quota.tree import WEIGHT_OF_ONE, FlavorResource, Quota, Usage

Offered: TypeAlias = Callable[[Flavor, str], int]
"""What the nodes of a flavor offer of a resource together, in scheduling units."""

HELD_SECONDS = 3600
"""How long room is kept for a head of which nobody knows when it can start, unless its queue says otherwise."""


def flavor_of(found: ResourceFlavor, topologies: Mapping[str, tuple[str, ...]]) -> Flavor:
    """Return a ResourceFlavor, with the levels of its Topology, the widest first; `topologies` has them by name."""
    spec = found.spec
    return Flavor(
        found.metadata.name,
        tuple(sorted(spec.node_labels.items())),
        tuple(spec.node_taints),
        tuple(spec.tolerations),
        topologies.get(spec.topology_name, ()),
    )


def queue_in(found: ClusterQueue, quotas: Mapping[FlavorResource, Quota]) -> Queue:
    """Return a ClusterQueue with these quotas; what is wrong with it is found out elsewhere."""
    spec, scope = found.spec, found.spec.admission_scope
    return Queue(
        name=found.metadata.name,
        cohort=spec.cohort_name or "",
        groups=tuple(
            ResourceGroup(tuple(group.covered_resources), tuple(flavor.name for flavor in group.flavors))
            for group in spec.resource_groups
        ),
        quotas=quotas,
        selector=spec.namespace_selector,
        strict=spec.backfill == "None" if spec.backfill else spec.queueing_strategy == "StrictFIFO",
        strategy="StrictFIFO" if not spec.backfill else f"strict (backfill {spec.backfill})",
        reserves=spec.backfill == "Reserved",
        reservation_seconds=spec.reservation_seconds or HELD_SECONDS,
        hold=spec.stop_policy != "None",
        fungibility=Fungibility(
            borrowing_stops=spec.flavor_fungibility.when_can_borrow == "MayStopSearch",
            preemption_stops=spec.flavor_fungibility.when_can_preempt == "MayStopSearch",
            preempt_rather=spec.flavor_fungibility.preference == "PreemptionOverBorrowing",
        ),
        policy=_policy(spec.preemption),
        weight=weight_of(found),
        offset=spec.priority.offset,
        fence=spec.priority.fence,
        by_past_use=scope is not None and scope.admission_mode == "UsageBasedAdmissionFairSharing",
        drain=spec.stop_policy == "HoldAndDrain",
        permit_seconds=spec.schedule_timeout_seconds,
        minimum_runtime=spec.preemption.minimum_runtime_seconds or 0,
    )


def _policy(said: Preemption) -> PreemptionPolicy:
    borrowing = said.borrow_within_cohort
    return PreemptionPolicy(
        within=Who(said.within_cluster_queue),
        reclaim=Who(said.reclaim_within_cohort),
        while_borrowing=borrowing is not None and borrowing.policy != "Never",
        threshold=borrowing.max_priority_threshold if borrowing else None,
    )


def weight_of(found: ClusterQueue | Cohort) -> int:
    """Return the weight in fair sharing, in milli-units."""
    return WEIGHT_OF_ONE if found.spec.fair_sharing is None else found.spec.fair_sharing.weight


def quotas_in(
    groups: Iterable[ApiResourceGroup], flavors: Mapping[str, Flavor], offered: Offered, parts: Usage
) -> dict[FlavorResource, Quota]:
    """Return the quotas of resource groups, in scheduling units.

    Args:
        groups: As they are written.
        flavors: By name; of one that is not there, nothing is offered.
        offered: Asked for quotas that are a part of what nodes offer.
        parts: Takes in what was offered of each flavor and resource that was asked for.
    """
    quotas = {}
    listed = [(flavor.name, one) for group in groups for flavor in group.flavors for one in flavor.resources]
    for flavor, one in listed:
        nominal = one.nominal_quota
        if isinstance(nominal, Percentage):
            amount = offered(flavors[flavor], one.name) if flavor in flavors else 0
            parts[flavor, one.name] = amount
            units = nominal.of(amount)
        else:
            units = from_milli(one.name, nominal)
        borrowing, lending = (
            None if milli is None else from_milli(one.name, milli) for milli in (one.borrowing_limit, one.lending_limit)
        )
        quotas[flavor, one.name] = Quota(units, borrowing, lending)
    return quotas
