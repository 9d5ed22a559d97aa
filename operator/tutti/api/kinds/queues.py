"""ClusterQueue and LocalQueue: who may use how much of which flavor, in which order, and from which namespace.

Fields are those of Kueue v1beta2; `priority`, `backfill`, `reservationSeconds`, `scheduleTimeoutSeconds`,
`defaultMaximumExecutionTimeSeconds`, `temporaryQuotas`, `ordering`, `surplusOrder`, `userLimits` and `consolidation`
are ours.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tutti.api.kinds.checks import AdmissionChecksStrategy
from tutti.api.kinds.consolidation import MOST_MOVES, Consolidation, Move
from tutti.api.kinds.matching import LabelSelector
from tutti.api.kinds.ordering import OrderPolicy, RunTimes, UserLimitList, UserUse
from tutti.api.kinds.quotas import APPEAR_ONCE, FairSharing, ResourceGroups, StopPolicy, limits_need
from tutti.api.kinds.statuses import QueueStatus
from tutti.api.kinds.temporary_quotas import TemporaryQuotas
from tutti.api.model import (
    ACTIVE_COLUMN,
    AGE_COLUMN,
    ATOMIC,
    WHY_INACTIVE_COLUMN,
    Lenient,
    Model,
    Name,
    Object,
    PrinterColumn,
    QuantityText,
    ValidationRule,
)
from tutti.api.quantity import Percentage

Fungibility = Literal["MayStopSearch", "TryNextFlavor"]
Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
MOST_SECONDS = 2**31 - 1
"""The longest time that a queue may name."""
Duration = Annotated[int, Field(ge=1, le=MOST_SECONDS)]


class FlavorFungibility(Model):
    """Whether a flavor that needs borrowing or preemption is taken, or the next one looked at."""

    when_can_borrow: Fungibility = "MayStopSearch"
    """MayStopSearch: a flavor that fits by borrowing is taken. TryNextFlavor: those behind it are looked at first."""
    when_can_preempt: Fungibility = "TryNextFlavor"
    """The same for a flavor that fits once others have been taken out."""
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing", "EarliestFinish"] | None = None
    """Which of borrowing and preemption is better where every flavor needs one. EarliestFinish (ours, not Kueue's): the
    flavor in which a workload ends first, waiting included, of those of which it is known how long they take in which:
    by the annotation scheduling.tutti.dev/expected-seconds-by-flavor, and by the last runs of their kind."""
    RULES: ClassVar = (
        ValidationRule(
            message="preference needs TryNextFlavor in both whenCanBorrow and whenCanPreempt; EarliestFinish does not",
            holds=lambda it: (
                it.preference in (None, "EarliestFinish")
                or it.when_can_borrow == it.when_can_preempt == "TryNextFlavor"
            ),
            cel="!has(self.preference) || self.preference == 'EarliestFinish'"
            " || (self.whenCanBorrow == 'TryNextFlavor' && self.whenCanPreempt == 'TryNextFlavor')",
        ),
    )


class BorrowWithinCohort(Model):
    """Whether a workload that borrows may take others out."""

    policy: Literal["Never", "LowerPriority"] = "Never"
    """Whom it may take out then; it does not matter with fair sharing."""
    max_priority_threshold: Int32 | None = None
    """The highest priority that may be taken out."""


class Preemption(Model):
    """Which running workloads may be taken out for a waiting one."""

    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    """Of this queue: none, those of lower priority, or also those of equal priority that came later."""
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    """Of queues of the cohort that borrow: none, those of lower priority, or any."""
    borrow_within_cohort: BorrowWithinCohort | None = None
    """Of other queues, for a workload that borrows itself."""
    minimum_runtime_seconds: Duration | None = None
    """How long a workload of this queue runs before it may be taken out for another one (ours, not Kueue's)."""
    RULES: ClassVar = (
        ValidationRule(
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


class AdmissionScope(Model):
    """Whether local queues are ordered by what they have used."""

    admission_mode: Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]
    """UsageBasedAdmissionFairSharing: who has used least lately, by weight, goes first, whatever the priority."""


class MigrationConstraints(Model):
    """How far a workload may migrate."""

    last_acceptable_flavor_name: Name = ""
    """The last flavor that it may migrate to."""


class Migration(Model):
    """When an admitted workload moves to a better flavor."""

    mode: Literal["TryPreferredFlavors", "RetainFirstAdmission"]
    """Whether it moves at all."""
    constraints: MigrationConstraints | None = None
    """How far it may move."""


class ConcurrentAdmissionPolicy(Model):
    """Whether a workload waits for several flavors at once."""

    migration: Migration
    """When it moves to a better flavor."""


class QueuePriority(Model):
    """What is added to the priority of the queue's workloads, and whether it counts outside of the queue."""

    offset: Int32 = 0
    """What is added to each priority where it is compared with those of other queues."""
    fence: bool = False
    """Whether priorities count within the queue only: compared with those of other queues, all count as the offset."""


Managed = Literal["Pods", "Suspend"]
"""How what waits in a queue waits: with its pods, or suspended."""


class ClusterQueueSpec(Model):
    """Quota, and the rules by which it is given out."""

    resource_groups: ResourceGroups = []
    """The quota, by group of resources."""
    temporary_quotas: TemporaryQuotas = []
    """Windows of time in which other quotas hold (ours, not Kueue's). Where several are on, the first one counts."""
    cohort_name: Name = ""
    """The cohort in which it borrows and lends; left out: neither."""
    queueing_strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    """StrictFIFO: the head is waited for. BestEffortFIFO: those behind it may go first if they fit."""
    backfill: Literal["None", "BestEffort", "Reserved"] | None = None
    """Who may go before a head that must wait (ours, not Kueue's); where given, it counts instead of queueingStrategy.

    None: nobody, as with StrictFIFO. BestEffort: whoever fits, as with BestEffortFIFO; the head is promised nothing.
    Reserved: whoever fits without delaying it: it ends before by its maximumExecutionTimeSeconds, or fits beside.
    """
    reservation_seconds: Duration | None = None
    """With backfill Reserved, how long room is kept for a head of which nobody knows when it can start; 3600 if left
    out. Then others may have it for as long, for twice as long the next time, up to 16 times."""
    schedule_timeout_seconds: Duration | None = None
    """How long a complete reservation is held for workloads that do not say so themselves; left out: as configured."""
    scale_down_protection: Literal["Never", "WhileNeeded"] = "Never"
    """Whether members of gangs are kept from scale-down while these need them, by annotations that cluster-autoscaler
    and Karpenter go by; members beyond the minimum are not. For Workloads that do not say so themselves."""
    default_maximum_execution_time_seconds: Duration | None = None
    """How long Workloads, gangs and single pods may run that do not say so themselves, nor does their LocalQueue.

    It counts as if they had said so: also for those that run, and from the moment that it is changed.
    """
    namespace_selector: LabelSelector | None = None
    """The namespaces that may use it; left out: none, empty: all."""
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    """When the next flavor is looked at."""
    preemption: Preemption = Preemption()
    """Which running workloads may be taken out for a waiting one; the quota and the nodes are then held for it."""
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    """Checks to pass between quota and nodes; the queue is inactive while one is missing, or its controller is."""
    stop_policy: StopPolicy = "None"
    """Hold: nothing more is admitted, what runs goes on. HoldAndDrain: what runs is taken out, too."""
    manage: Managed = "Pods"
    """How Jobs, JobSets, RayClusters and RayJobs of the queue wait (ours, not Kueue's).

    Pods: their pods are made at once, and wait. Suspend: they stay suspended, and are started when there is quota and
    room for all of their pods; evicted, they are suspended again. The component `suspend` gives the right to do so.
    """
    fair_sharing: FairSharing | None = None
    """Its weight in the cohort."""
    admission_scope: AdmissionScope | None = None
    """How its LocalQueues are ordered among one another."""
    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None
    """Waiting for several flavors at once; not supported yet."""
    priority: QueuePriority = QueuePriority()
    """How priorities of its workloads count outside of the queue."""
    ordering: OrderPolicy | None = None
    """In which order its workloads are tried (ours, not Kueue's); left out: by priority, then by age."""
    surplus_order: Literal["InTurn", "BySpeed"] = "InTurn"
    """Which gang gets members beyond its minimum first (ours, not Kueue's). InTurn: the more important, then the older,
    all that it has. BySpeed: of one priority, that which gains most from the next member for what it takes, by the
    annotation scheduling.tutti.dev/speed-by-members, or else by how long others of its kind took with how many members;
    gangs start with their minimum then."""
    user_limits: UserLimitList = []
    """How much each user and group may have of it at once (ours, not Kueue's); the configuration says who they are."""
    consolidation: Consolidation | None = None
    """Moving running work so that a workload fits (ours, not Kueue's); left out: neither for this queue nor in it."""
    RULES: ClassVar = (
        APPEAR_ONCE,
        ValidationRule(
            message="reservationSeconds needs backfill Reserved",
            holds=lambda it: it.reservation_seconds is None or it.backfill == "Reserved",
            cel="!has(self.reservationSeconds) || (has(self.backfill) && self.backfill == 'Reserved')",
        ),
        limits_need("cohortName", lambda it: it.cohort_name),
        ValidationRule(
            message="lendingLimit cannot be above nominalQuota: a queue lends only what is its own",
            holds=lambda it: all(
                quota.lending_limit is None
                or isinstance(quota.nominal_quota, Percentage)
                or quota.lending_limit <= quota.nominal_quota
                for group in it.resource_groups
                for flavor in group.flavors
                for quota in flavor.resources
            ),
        ),
    )


MOST_USERS_TOLD = 32
"""Users and groups that a status names."""
MOST_KINDS_TOLD = 64
"""Kinds of workloads whose run times a status keeps."""


class ClusterQueueStatus(QueueStatus):
    """The status of a ClusterQueue."""

    moves: Annotated[list[Move], Field(max_length=MOST_MOVES, json_schema_extra=ATOMIC)] = []
    """What is being moved for workloads of this queue, and has been in the last hour."""
    users: Annotated[list[UserUse], Field(max_length=MOST_USERS_TOLD, json_schema_extra=ATOMIC)] = []
    """What users and groups have of it, where it has userLimits: those with most workloads."""


class ClusterQueue(Object):
    """A queue with quota."""

    KIND: ClassVar = "ClusterQueue"
    PLURAL: ClassVar = "clusterqueues"
    SHORT_NAMES: ClassVar = ("cq",)
    COLUMNS: ClassVar = (
        PrinterColumn("Cohort", ".spec.cohortName"),
        PrinterColumn("Strategy", ".spec.queueingStrategy"),
        PrinterColumn("Pending", ".status.pendingWorkloads", "integer"),
        PrinterColumn("Admitted", ".status.admittedWorkloads", "integer"),
        ACTIVE_COLUMN,
        WHY_INACTIVE_COLUMN,
        AGE_COLUMN,
    )

    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


class WallTimePolicy(Model):
    """How many hours the queue's workloads may run in all, and what happens then."""

    wall_time_allocated_hours: Annotated[int, Field(ge=1, le=2**31 - 1)]
    """The hours."""
    action_when_wall_time_exhausted: Literal["Hold", "HoldAndDrain"] = "Hold"
    """What happens then."""


class LocalQueueSpec(Model):
    """Which ClusterQueue it leads to, and whether it is open."""

    cluster_queue: Name = ""
    """The ClusterQueue that it leads to; it cannot be changed."""
    stop_policy: StopPolicy = "None"
    """Hold: nothing more is admitted, what runs goes on. HoldAndDrain: what runs is taken out, too."""
    fair_sharing: FairSharing | None = None
    """Its weight in a ClusterQueue that goes by past use: one of 2 may use twice as much; one of 0 comes last."""
    default_maximum_execution_time_seconds: Duration | None = None
    """How long Workloads, gangs and single pods may run that do not say so; left out: as the ClusterQueue says."""
    manage: Managed | None = None
    """How its Jobs, JobSets, RayClusters and RayJobs wait: Pods or Suspend; left out: as the ClusterQueue says."""
    wall_time_policy: WallTimePolicy | None = None
    """A limit on wall time; not supported yet."""
    RULES: ClassVar = (
        ValidationRule(
            message="clusterQueue cannot be changed: make another LocalQueue and move the workloads there",
            cel="!has(oldSelf.clusterQueue) || (has(self.clusterQueue) && self.clusterQueue == oldSelf.clusterQueue)",
            path=".clusterQueue",
        ),
    )


class AdmissionFairSharingStatus(Lenient):
    """What counts of past use."""

    consumed_resources: dict[str, QuantityText] = Field(default={}, max_length=64)
    """What has been used, by resource: an average over time in which the past counts less and less."""
    last_update: str = Field(default="", json_schema_extra={"format": "date-time"})
    """As of when."""


class LocalFairSharing(Lenient):
    """Where a LocalQueue stands among those of its ClusterQueue."""

    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None
    """What it has used lately, where the ClusterQueue goes by that."""


class LocalQueueStatus(QueueStatus):
    """The status of a LocalQueue."""

    fair_sharing: LocalFairSharing | None = None
    """Where it stands among those of its ClusterQueue."""
    run_times: Annotated[list[RunTimes], Field(max_length=MOST_KINDS_TOLD, json_schema_extra=ATOMIC)] = []
    """How long its workloads have run lately, where its ClusterQueue goes by that, the latest kind last."""


class LocalQueue(Object):
    """A namespace's door to a ClusterQueue."""

    KIND: ClassVar = "LocalQueue"
    PLURAL: ClassVar = "localqueues"
    SHORT_NAMES: ClassVar = ("lq", "queue", "queues")
    NAMESPACED: ClassVar = True
    COLUMNS: ClassVar = (
        PrinterColumn("ClusterQueue", ".spec.clusterQueue"),
        PrinterColumn("Pending", ".status.pendingWorkloads", "integer"),
        PrinterColumn("Admitted", ".status.admittedWorkloads", "integer"),
        ACTIVE_COLUMN,
        WHY_INACTIVE_COLUMN,
        AGE_COLUMN,
    )

    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()
