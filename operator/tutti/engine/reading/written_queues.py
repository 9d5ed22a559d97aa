"""ClusterQueues as they are written, as admission needs them: their rules, without what others say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tutti.api.kinds import AdmissionCheck, ClusterQueue, Cohort
from tutti.api.kinds.ordering import OrderPolicy, UserLimit
from tutti.api.kinds.queues import Preemption
from tutti.api.resources import from_milli
from tutti.quota.flavors import NO_CHECKS, FlavorGroup, Queue, QueueChecks
from tutti.quota.policy import Fungibility, Preemptible, PreemptionPolicy
from tutti.quota.provisioning import ProvisioningCheck
from tutti.quota.queue_order import Factor, QueueOrder
from tutti.quota.tree import WEIGHT_OF_ONE, FlavorResource, Quota
from tutti.quota.user_limits import Allowed, UserLimits, user_limits_of

HELD_SECONDS = 3600
"""How long room is kept for a head of which nobody knows when it can start, unless its queue says otherwise."""


def queue_in(found: ClusterQueue, quotas: Mapping[FlavorResource, Quota]) -> Queue:
    """Return a ClusterQueue with these quotas; what is wrong with it is found out elsewhere."""
    spec, scope = found.spec, found.spec.admission_scope
    return Queue(
        name=found.metadata.name,
        cohort=spec.cohort_name or "",
        groups=tuple(
            FlavorGroup(tuple(group.covered_resources), tuple(flavor.name for flavor in group.flavors))
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
            earliest_finish=spec.flavor_fungibility.preference == "EarliestFinish",
        ),
        policy=_policy(spec.preemption),
        weight=weight_of(found),
        offset=spec.priority.offset,
        fence=spec.priority.fence,
        by_past_use=scope is not None and scope.admission_mode == "UsageBasedAdmissionFairSharing",
        drain=spec.stop_policy == "HoldAndDrain",
        permit_seconds=spec.schedule_timeout_seconds,
        protects=spec.scale_down_protection == "WhileNeeded",
        limit_seconds=spec.default_maximum_execution_time_seconds,
        minimum_runtime=spec.preemption.minimum_runtime_seconds or 0,
        checks=checks_of(found),
        max_moves=(spec.consolidation.max_moves or 0) if spec.consolidation else 0,
        movable=spec.consolidation is not None and spec.consolidation.movable,
        order=queue_order_of(spec.ordering),
        user_limits=limits_of_users(spec.user_limits),
        by_speed=spec.surplus_order == "BySpeed",
    )


def queue_order_of(said: OrderPolicy | None) -> QueueOrder | None:
    """Return in which order workloads of a queue are tried; None: by priority and age."""
    if said is None:
        return None
    return QueueOrder(
        {Factor(one.factor): one.weight for one in said.factors},
        among_all=said.among == "All",
        max_wait=float(said.max_wait_seconds),
        age_seconds=float(said.age_seconds),
        run_seconds=float(said.run_seconds),
    )


def limits_of_users(said: Sequence[UserLimit]) -> UserLimits:
    """Return the limits that a queue lists, in scheduling units."""
    return user_limits_of(
        [
            (
                one.users,
                one.groups,
                Allowed({name: from_milli(name, milli) for name, milli in one.resources.items()}, one.workloads),
            )
            for one in said
        ]
    )


def checks_of(found: ClusterQueue) -> QueueChecks:
    """Return the admission checks that a ClusterQueue asks for."""
    strategy = found.spec.admission_checks_strategy
    if strategy is None:
        return NO_CHECKS
    on_flavors = {one.name: tuple(one.on_flavors) for one in strategy.admission_checks}
    return QueueChecks(on_flavors, strategy.pending_timeout_seconds, strategy.placement_timeout_seconds)


def provisioning_of(checks: QueueChecks, known: Mapping[str, AdmissionCheck]) -> QueueChecks:
    """Return the checks of a queue with those told apart that ask for nodes; `known` has the objects, by name."""
    found = []
    for name, flavors in checks.on_flavors.items():
        said = known[name].spec.provisioning if name in known else None
        if said is not None:
            retry, updates = said.retry_strategy, said.pod_set_updates.node_selector
            found.append(
                ProvisioningCheck(
                    name,
                    flavors,
                    said.provisioning_class_name,
                    tuple(sorted(said.parameters.items())),
                    tuple(said.managed_resources),
                    retry.backoff_limit_count,
                    retry.backoff_base_seconds,
                    retry.backoff_max_seconds,
                    tuple((one.key, one.value_from_provisioning_class_detail) for one in updates),
                )
            )
    if not found:
        return checks
    asked_first = {
        name: flavors for name, flavors in checks.on_flavors.items() if all(name != one.name for one in found)
    }
    return replace(checks, on_flavors=asked_first, provisioning=tuple(found))


def _policy(said: Preemption) -> PreemptionPolicy:
    borrowing = said.borrow_within_cohort
    return PreemptionPolicy(
        within=Preemptible(said.within_cluster_queue),
        reclaim=Preemptible(said.reclaim_within_cohort),
        while_borrowing=borrowing is not None and borrowing.policy != "Never",
        threshold=borrowing.max_priority_threshold if borrowing else None,
    )


def weight_of(found: ClusterQueue | Cohort) -> int:
    """Return the weight in fair sharing, in milli-units."""
    return WEIGHT_OF_ONE if found.spec.fair_sharing is None else found.spec.fair_sharing.weight
