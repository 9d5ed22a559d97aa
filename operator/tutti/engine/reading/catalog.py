"""What follows from the objects of our kinds together: queues, flavors, cohorts, priorities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

import msgspec

from tutti.api.conditions import is_true
from tutti.api.core import Namespace, PriorityClass
from tutti.api.kinds import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Topology,
    WorkloadPriorityClass,
)
from tutti.api.kinds.quotas import Nominal, ResourceGroup
from tutti.api.quantity import Percentage
from tutti.api.resources import from_milli
from tutti.engine.reading.objects import WrittenObjects
from tutti.engine.reading.quota_windows import InUnits, QuotaWindows
from tutti.engine.reading.written_queues import provisioning_of, queue_in, weight_of
from tutti.quota.flavors import Flavor, Queue, QuotaProblem
from tutti.quota.queue_order import BY_RUN_TIME
from tutti.quota.references import checks_problem, cohort_problem, flavor_problem, misplaced_cohorts, queue_problem
from tutti.quota.tree import FlavorResource, Quota, Usage, cohort_key

Offered: TypeAlias = Callable[[Flavor, str], int]
"""What the nodes of a flavor offer of a resource together, in scheduling units."""


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


def quotas_in(groups: Iterable[ResourceGroup], in_units: InUnits) -> dict[FlavorResource, Quota]:
    """Return the quotas of resource groups, in scheduling units."""
    quotas = {}
    listed = [(flavor.name, one) for group in groups for flavor in group.flavors for one in flavor.resources]
    for flavor, one in listed:
        borrowing, lending = (
            None if milli is None else from_milli(one.name, milli) for milli in (one.borrowing_limit, one.lending_limit)
        )
        quotas[flavor, one.name] = Quota(in_units(flavor, one.name, one.nominal_quota), borrowing, lending)
    return quotas


def in_units_of(flavors: Mapping[str, Flavor], offered: Offered, parts: Usage) -> InUnits:
    """Return what says how much a nominal quota comes to, in scheduling units.

    Args:
        flavors: By name; of one that is not there, nothing is offered.
        offered: Asked for quotas that are a part of what nodes offer.
        parts: Takes in what was offered of each flavor and resource that was asked for.
    """

    def in_units(flavor: str, resource: str, nominal: Nominal) -> int:
        if not isinstance(nominal, Percentage):
            return from_milli(resource, nominal)
        parts[flavor, resource] = offered(flavors[flavor], resource) if flavor in flavors else 0
        return nominal.of(parts[flavor, resource])

    return in_units


class LocalQueueTarget(msgspec.Struct, frozen=True):
    """A LocalQueue: where it leads, and what it says of those who come through it.

    Attributes:
        cluster_queue: The ClusterQueue that it leads to.
        hold: Whether nothing more is admitted.
        drain: Whether what is admitted must leave.
        limit_seconds: How long Workloads may run that do not say so themselves; None: as the ClusterQueue says.
    """

    cluster_queue: str
    hold: bool
    drain: bool
    limit_seconds: int | None = None


class DefaultLimit(msgspec.Struct, frozen=True):
    """How long a Workload may run that does not say so itself, in seconds, and which queue says so."""

    seconds: int
    said_by: str


class Catalog(WrittenObjects):
    """What users wrote, and what it comes to.

    Attributes:
        queues: ClusterQueues that exist and can be read, by name.
        flavors: ResourceFlavors likewise.
        topologies: The labels of each Topology, the widest first.
        reserving: Whether any queue keeps room for its head (backfill Reserved).
        by_past_use: Whether any of them serves first whose LocalQueue has used least lately.
        ordered: Whether any of them has an order of its own.
        by_run_time: Whether any of them goes by expected run times, in its order or by flavor.
        by_speed: Whether in any of them members go to the gang that gains most.
        cohorts: Cohort -> (parent, quotas), without those in misplaced_cohorts.
        cohort_weights: Cohort -> its weight in fair sharing, in milli-units.
        most_of_cohorts: The most that cohorts may have from now on, of those of which other quotas hold at times.
        worth: What one unit of a flavor and resource counts in fair sharing, in milli-units; 1 where it is not there.
        parts: What was offered of each flavor and resource of which some quota is a part.
        windows: The queues and cohorts of which other quotas hold at times.
        shares_cards: Whether pods share cards, as `Queue` has it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[str, Queue] = {}
        self.topologies: dict[str, tuple[str, ...]] = {}
        self.reserving = False
        self.by_past_use = self.ordered = self.by_run_time = self.by_speed = False
        self.flavors: dict[str, Flavor] = {}
        self.cohorts: dict[str, tuple[str, Mapping[FlavorResource, Quota]]] = {}
        self.cohort_weights: dict[str, int] = {}
        self.most_of_cohorts: dict[str, Mapping[FlavorResource, Quota]] = {}
        self.worth: dict[FlavorResource, int] = {}
        self.parts: dict[FlavorResource, int] = {}
        self.windows = QuotaWindows()
        self.shares_cards = False
        self._has_runtimes = False
        self._priority_classes: dict[str, PriorityClass] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}

    def minimum_runtime(self, queue: str) -> int:
        """Return how many seconds a workload of a ClusterQueue runs before it may be a victim; 0: it always may."""
        found = self.queues.get(queue)
        return self.protecting.get(queue, 0) if found is None else found.minimum_runtime

    @property
    def protects_anybody(self) -> bool:
        """Whether any ClusterQueue has workloads run for some time before they may be victims."""
        return self._has_runtimes or any(self.protecting.values())

    def compile(self, offered: Offered, now: float) -> None:
        """Work out flavors, queues and cohorts from the objects as they are now.

        Args:
            offered: What the nodes of a flavor offer of a resource, of which quotas may be a part.
            now: Unix seconds, by which the windows count that are on.
        """
        self.parts = {}
        self._compile_flavors()
        in_units = in_units_of(self.flavors, offered, self.parts)
        cohorts = {one.metadata.name: one for one in self.all(Cohort)}
        shared: dict[str, Mapping[FlavorResource, Quota]] = {
            one.metadata.name: quotas_in(one.spec.resource_groups, in_units) for one in self.each(Cohort)
        }
        written = [(one, quotas_in(one.spec.resource_groups, in_units)) for one in self.each(ClusterQueue)]
        turning = {name: cohort_key(name) for name, one in cohorts.items() if one.spec.temporary_quotas}
        temporary: dict[str, tuple[ClusterQueue | Cohort, Mapping[FlavorResource, Quota]]] = {
            one.metadata.name: (one, usual) for one, usual in written if one.spec.temporary_quotas
        }
        temporary |= {key: (cohorts[name], shared[name]) for name, key in turning.items()}
        self.windows.compile(temporary, in_units, now)
        now_on = {name: self.windows.quotas_of(name) for name in temporary}
        misplaced = misplaced_cohorts({name: one.spec.parent_name or "" for name, one in cohorts.items()})
        self.cohort_weights = {name: weight_of(one) for name, one in cohorts.items()}
        self.most_of_cohorts = {name: self.windows.most_of(key, now) for name, key in turning.items()}
        shared |= {name: now_on[key] for name, key in turning.items()}
        self.cohorts = {
            name: (one.spec.parent_name or "", shared[name]) for name, one in cohorts.items() if name not in misplaced
        }
        quotas = [(one, now_on.get(one.metadata.name, usual)) for one, usual in written]
        self._compile_queues(quotas, misplaced, now)
        self._note_rules()

    def _compile_flavors(self) -> None:
        """Work out topologies, flavors, and what their resources are worth."""
        self.topologies = {
            one.metadata.name: tuple(level.node_label for level in one.spec.levels) for one in self.each(Topology)
        }
        self.flavors = {one.metadata.name: flavor_of(one, self.topologies) for one in self.each(ResourceFlavor)}
        self.worth = {
            (one.metadata.name, resource): weight
            for one in self.each(ResourceFlavor)
            for resource, weight in one.spec.resource_weights.items()
        }

    def _compile_queues(
        self,
        written: Iterable[tuple[ClusterQueue, Mapping[FlavorResource, Quota]]],
        misplaced: Mapping[str, QuotaProblem],
        now: float,
    ) -> None:
        """Work out ClusterQueues with the quotas that they have now; `misplaced` has cohorts that cannot be used."""
        self.queues = {}
        parents = {name: parent for name, (parent, _) in self.cohorts.items()}
        known = {one.metadata.name: one for one in self.all(AdmissionCheck)}
        for one, quotas in written:
            name = one.metadata.name
            self.looked_at = (ClusterQueue.KIND, "", name)
            queue = queue_in(one, quotas)
            queue = replace(queue, most=self.windows.most_of(name, now), shares_cards=self.shares_cards)
            problem = self._queue_problem(queue, misplaced, parents)
            if one.metadata.deletion_timestamp:
                problem = QuotaProblem("Terminating", "it is being deleted once nothing uses it")
            cohort = "" if queue.cohort in misplaced else queue.cohort
            checks = provisioning_of(queue.checks, known) if queue.checks.on_flavors else queue.checks
            self.queues[queue.name] = replace(queue, problem=problem, cohort=cohort, checks=checks)
        self.looked_at = None

    def _note_rules(self) -> None:
        """Note which rules any ClusterQueue goes by: what no queue has is not looked at."""
        self.reserving = any(queue.reserves for queue in self.queues.values())
        self.by_past_use = any(queue.by_past_use for queue in self.queues.values())
        orders = [queue.order for queue in self.queues.values() if queue.order is not None]
        by_flavor = any(queue.fungibility.earliest_finish for queue in self.queues.values())
        self.ordered = bool(orders)
        self.by_run_time = by_flavor or any(one.goes_by(BY_RUN_TIME) for one in orders)
        self.by_speed = any(queue.by_speed for queue in self.queues.values())
        self._has_runtimes = any(queue.minimum_runtime for queue in self.queues.values())

    def _queue_problem(
        self, queue: Queue, misplaced: Mapping[str, QuotaProblem], parents: Mapping[str, str]
    ) -> QuotaProblem | None:
        """Return the first problem that a queue has with what it refers to, `misplaced` cohorts among that."""
        problem = queue_problem(queue, self.flavors, misplaced, unreadable=self.all_unreadable(ResourceFlavor))
        problem = problem or self._topology_problem(queue) or self._checks_problem(queue)
        return problem or cohort_problem(queue.cohort, parents, unreadable=self.all_unreadable(Cohort))

    def _topology_problem(self, queue: Queue) -> QuotaProblem | None:
        """Return the first problem that a queue's flavors, all of which exist, have with their Topology."""
        for name in dict.fromkeys(flavor for group in queue.groups for flavor in group.flavors):
            found = self.get(ResourceFlavor, "", name)
            wrong = self.all_unreadable(Topology)
            topology = "" if found is None else found.spec.topology_name
            problem = flavor_problem(topology, self.topologies, unreadable=wrong)
            if problem is not None:
                return QuotaProblem(problem.reason, f"ResourceFlavor {name}: {problem.message}")
        return None

    def _checks_problem(self, queue: Queue) -> QuotaProblem | None:
        """Return the first problem that a queue has with the checks that it asks for."""
        checks = queue.checks
        there = dict.fromkeys(flavor for group in queue.groups for flavor in group.flavors)
        named = [*checks.on_flavors.items(), *((one.name, one.on_flavors) for one in checks.provisioning)]
        for check, flavors in named:
            wrong = [one for one in flavors if one not in there]
            if wrong:  # else nobody would be asked in the flavor that was meant
                is_none = "is no flavor" if len(wrong) == 1 else "are no flavors"
                text = (
                    f"AdmissionCheck {check}: onFlavors names {', '.join(wrong)}, which {is_none} of this queue; "
                    f"it has {', '.join(there)}"
                )
                return QuotaProblem("FlavorNotFound", text)
        if not checks.on_flavors:
            return None
        active = {
            one.metadata.name: one.spec.provisioning is not None or is_true(one.status.conditions, "Active")
            for one in self.all(AdmissionCheck)
        }
        return checks_problem(queue.checks.on_flavors, active, unreadable=self.all_unreadable(AdmissionCheck))

    def local_queue(self, namespace: str, name: str) -> LocalQueueTarget | None:
        """Return where a LocalQueue leads, or None where it does not exist."""
        found = self.get(LocalQueue, namespace, name)
        if found is None:
            return None
        stop = found.spec.stop_policy
        limit = found.spec.default_maximum_execution_time_seconds
        return LocalQueueTarget(found.spec.cluster_queue, stop != "None", stop == "HoldAndDrain", limit)

    def default_limit(self, namespace: str, name: str, cluster_queue: str) -> DefaultLimit | None:
        """Return how long those may run who do not say so themselves: as their LocalQueue says, else its ClusterQueue.

        Args:
            namespace: That of the LocalQueue.
            name: The LocalQueue.
            cluster_queue: The ClusterQueue that they were admitted through; "" for that which the LocalQueue leads to.
        """
        local = self.local_queue(namespace, name)
        if local is not None and local.limit_seconds is not None:
            return DefaultLimit(local.limit_seconds, f"LocalQueue {namespace}/{name}")
        queue = self.queues.get(cluster_queue or (local.cluster_queue if local is not None else ""))
        if queue is None or queue.limit_seconds is None:
            return None
        return DefaultLimit(queue.limit_seconds, f"ClusterQueue {queue.name}")

    def keeps_suspended(self, namespace: str, name: str) -> bool | None:
        """Whether what waits in a LocalQueue waits suspended, by it or its ClusterQueue; None: one is not there."""
        local = self.get(LocalQueue, namespace, name) if name else None
        if local is None:
            return None if name else False
        queue = self.get(ClusterQueue, "", local.spec.cluster_queue)
        said = local.spec.manage or (queue.spec.manage if queue is not None else "")
        return said == "Suspend" if said else None

    def default_queue(self, namespace: str, name: str, since: float) -> str:
        """Return the name of a namespace's LocalQueue for those that name none; "" where there was none of that name.

        Args:
            namespace: The namespace.
            name: What such a LocalQueue is called; "" for no such thing.
            since: When who names no queue was made, Unix seconds: a LocalQueue made later is not for them.
        """
        found = self.get(LocalQueue, namespace, name) if name else None
        if found is None:
            return ""
        created = found.metadata.creation_timestamp
        return name if not created or datetime.fromisoformat(created).timestamp() <= since else ""

    def local_queues(self, namespace: str) -> list[str]:
        """Return the names of a namespace's LocalQueues, sorted."""
        return sorted(one.metadata.name for one in self.all(LocalQueue) if one.metadata.namespace == namespace)

    def led_to(self, namespace: str) -> set[str]:
        """Return the names of the ClusterQueues that a namespace's LocalQueues lead to."""
        return {one.spec.cluster_queue for one in self.all(LocalQueue) if one.metadata.namespace == namespace}

    def workload_class(self, name: str) -> int | None:
        """Return the value of a WorkloadPriorityClass, or None where there is none of that name."""
        found = self.get(WorkloadPriorityClass, "", name)
        return None if found is None else found.value

    def priority_class_value(self, name: str) -> int | None:
        """Return the value of a PriorityClass, or None where there is none of that name."""
        found = self._priority_classes.get(name)
        return None if found is None else found.value

    def priority_class(self, name: str) -> PriorityClass | None:
        """Return a PriorityClass, or None where there is none of that name."""
        return self._priority_classes.get(name)

    def default_priority_class(self) -> PriorityClass | None:
        """Return the PriorityClass of pods that name none; of several the lowest, as the API server has it."""
        defaults = (one for one in self._priority_classes.values() if one.global_default)
        return min(defaults, key=lambda one: (one.value, one.metadata.name), default=None)

    def put_priority_class(self, found: PriorityClass) -> bool:
        """Add or change a PriorityClass; returns whether it is another one to those who go by it."""
        known = self._priority_classes.get(found.metadata.name)
        is_news = known is None or _decides(known) != _decides(found)
        self.version += is_news
        self._priority_classes[found.metadata.name] = found
        return is_news

    def drop_priority_class(self, name: str) -> None:
        """Forget a PriorityClass."""
        self._priority_classes.pop(name, None)
        self.version += 1

    def put_namespace(self, found: Namespace) -> bool:
        """Add a namespace, or take over its labels; returns whether they are others than before."""
        is_news = self._namespaces.get(found.metadata.name) != found.metadata.labels
        self._namespaces[found.metadata.name] = found.metadata.labels
        return is_news

    def drop_namespace(self, name: str) -> None:
        """Forget a namespace."""
        self._namespaces.pop(name, None)

    def admits_from(self, cluster_queue: str, namespace: str) -> bool:
        """Whether there is a ClusterQueue of that name, and its namespaceSelector lets a namespace in."""
        queue = self.queues.get(cluster_queue)
        selector = None if queue is None else queue.selector
        return selector is not None and selector.matches(self.namespace_labels(namespace))

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Return a namespace's labels; none where it has not been seen."""
        return self._namespaces.get(name, {})


def _decides(found: PriorityClass) -> object:
    """Return the part of a PriorityClass that anything goes by."""
    return found.value, found.global_default, found.preemption_policy
