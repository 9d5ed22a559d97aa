"""ClusterQueue: who may use how much of which flavor, and in which order (Kueue v1beta2 fields; `priority` is ours)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tutti.api.kinds.parts import (
    AGE,
    APPEAR_ONCE,
    Column,
    FairSharing,
    LabelSelector,
    Object,
    QueueStatus,
    ResourceGroups,
    StopPolicy,
    has_limit,
)
from tutti.api.model import Model, Name, Rule, list_map

Fungibility = Literal["MayStopSearch", "TryNextFlavor"]
Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]


class FlavorFungibility(Model):
    """Whether a flavor that needs borrowing or preemption is taken, or the next one looked at."""

    when_can_borrow: Fungibility = "MayStopSearch"
    when_can_preempt: Fungibility = "TryNextFlavor"
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None
    RULES: ClassVar = (
        Rule(
            message="preference needs TryNextFlavor in both whenCanBorrow and whenCanPreempt; otherwise leave it out",
            holds=lambda it: it.preference is None or it.when_can_borrow == it.when_can_preempt == "TryNextFlavor",
            cel="!has(self.preference)"
            " || (self.whenCanBorrow == 'TryNextFlavor' && self.whenCanPreempt == 'TryNextFlavor')",
        ),
    )


class BorrowWithinCohort(Model):
    """Whether a workload that borrows may take others out."""

    policy: Literal["Never", "LowerPriority"] = "Never"
    max_priority_threshold: Int32 | None = None


class Preemption(Model):
    """Which running workloads may be taken out for a waiting one."""

    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    borrow_within_cohort: BorrowWithinCohort | None = None
    RULES: ClassVar = (
        Rule(
            message="borrowWithinCohort.policy needs reclaimWithinCohort other than Never",
            holds=lambda it: (
                it.reclaim_within_cohort != "Never"
                or it.borrow_within_cohort is None
                or it.borrow_within_cohort.policy == "Never"
            ),
            cel="self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort)"
            " || self.borrowWithinCohort.policy == 'Never'",
        ),
    )


class AdmissionCheck(Model):
    """A check to pass before admission, for some flavors or, if none is named, for all."""

    name: Name
    on_flavors: list[Name] = Field(default=[], max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"})


class AdmissionChecksStrategy(Model):
    """The checks to pass before admission."""

    admission_checks: list[AdmissionCheck] = Field(min_length=1, max_length=64, json_schema_extra=list_map("name"))


class AdmissionScope(Model):
    """Whether local queues are ordered by what they have used."""

    admission_mode: Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]


class MigrationConstraints(Model):
    """How far a workload may migrate."""

    last_acceptable_flavor_name: Name = ""


class Migration(Model):
    """When an admitted workload moves to a better flavor."""

    mode: Literal["TryPreferredFlavors", "RetainFirstAdmission"]
    constraints: MigrationConstraints | None = None


class ConcurrentAdmissionPolicy(Model):
    """Whether a workload waits for several flavors at once."""

    migration: Migration


class QueuePriority(Model):
    """What is added to the priority of the queue's workloads, and whether it counts outside of the queue."""

    offset: Int32 = 0
    fence: bool = False


class ClusterQueueSpec(Model):
    """Quota, and the rules by which it is given out."""

    resource_groups: ResourceGroups = []
    cohort_name: Name = ""
    queueing_strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    preemption: Preemption = Preemption()
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: StopPolicy = "None"
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None
    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None
    priority: QueuePriority = QueuePriority()
    RULES: ClassVar = (
        APPEAR_ONCE,
        Rule(
            message="borrowingLimit and lendingLimit need a cohortName: there is nobody to borrow from or lend to",
            holds=lambda it: bool(it.cohort_name) or not has_limit(it),
            cel="has(self.cohortName) || !has(self.resourceGroups) || self.resourceGroups.all(g, g.flavors.all(f, "
            "f.resources.all(r, !has(r.borrowingLimit) && !has(r.lendingLimit))))",
            path=".resourceGroups",
        ),
        Rule(
            message="lendingLimit cannot be above nominalQuota: a queue lends only what is its own",
            holds=lambda it: all(
                quota.lending_limit is None or quota.lending_limit <= quota.nominal_quota
                for group in it.resource_groups
                for flavor in group.flavors
                for quota in flavor.resources
            ),
        ),
    )


class ClusterQueue(Object):
    """A queue with quota."""

    KIND: ClassVar = "ClusterQueue"
    PLURAL: ClassVar = "clusterqueues"
    SHORT_NAMES: ClassVar = ("cq",)
    COLUMNS: ClassVar = (
        Column("Cohort", ".spec.cohortName"),
        Column("Strategy", ".spec.queueingStrategy"),
        Column("Pending", ".status.pendingWorkloads", "integer"),
        Column("Admitted", ".status.admittedWorkloads", "integer"),
        Column("Active", '.status.conditions[?(@.type=="Active")].status'),
        Column("Why", '.status.conditions[?(@.type=="Active")].message', priority=1),
        AGE,
    )

    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: QueueStatus = QueueStatus()
