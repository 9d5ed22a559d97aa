"""Workload: what is queued and admitted as one, made of one or more pod groups; and the classes of its priority."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tutti.api.kinds.after import After, EndedWorkloads
from tutti.api.kinds.checks import CheckStates
from tutti.api.kinds.pod_group import OnBindFailure, OnMemberLoss
from tutti.api.kinds.provisioning import ProvisioningStates
from tutti.api.kinds.statuses import Admission, Conditions, KeptMembers, PendingExplanation, Written
from tutti.api.model import (
    AGE_COLUMN,
    ATOMIC,
    GROUP,
    Count,
    LabelKey,
    Lenient,
    Model,
    Name,
    Object,
    PrinterColumn,
    ShortName,
    ValidationRule,
    list_map,
)
from tutti.api.templates import template_schema

Seconds = Annotated[int, Field(ge=1, le=2**31 - 1)]
Members = Annotated[int, Field(ge=1, le=100_000)]


class PriorityClassRef(Model):
    """A WorkloadPriorityClass, or a PriorityClass of the cluster."""

    group: Literal["scheduling.tutti.dev", "scheduling.k8s.io"] = "scheduling.tutti.dev"
    """The API group of the class."""
    kind: Literal["WorkloadPriorityClass", "PriorityClass"] = "WorkloadPriorityClass"
    """The kind of the class."""
    name: Name
    """The name of the class."""
    RULES: ClassVar = (
        ValidationRule(
            message=f"kind WorkloadPriorityClass belongs to group {GROUP}, kind PriorityClass to scheduling.k8s.io",
            holds=lambda it: (it.kind == "WorkloadPriorityClass") == (it.group == GROUP),
            cel=f"(self.kind == 'WorkloadPriorityClass') == (self.group == '{GROUP}')",
        ),
    )


class InnerSlice(Model):
    """So many members of a slice that must be nearer still."""

    level: LabelKey
    """The node label within one value of which they belong; finer than that of the slice around them."""
    size: Members
    """How many members they are; the size of the slice around them must be a multiple of it."""


class TopologyRequest(Model):
    """How near the members of a pod group must be."""

    mode: Literal["Required", "Preferred", "Unconstrained"]
    """How firm the wish is."""
    level: LabelKey = ""
    """The node label within one value of which members belong."""
    slice_size: Members | None = None
    """How many members make a slice."""
    slice_level: LabelKey = ""
    """The node label within one value of which a slice belongs."""
    inner_slices: list[InnerSlice] = Field(default=[], max_length=2, json_schema_extra=ATOMIC)
    """Slices within the slices, the widest first."""
    balanced: bool = False
    """With mode Preferred: whether each domain that is used should get about as many members."""
    group_name: ShortName = ""
    """Pod groups with the same groupName go to one domain together, such as a leader and its workers, and get the same
    flavors; mode and level must be the same in all of them. With mode Unconstrained and nothing else it asks for the
    same flavors alone, and no Topology is needed."""
    RULES: ClassVar = (
        ValidationRule(
            message="mode Required and Preferred need a level: the node label within one value of which members belong",
            holds=lambda it: it.mode == "Unconstrained" or bool(it.level),
            cel="self.mode == 'Unconstrained' || (has(self.level) && self.level != '')",
        ),
        ValidationRule(
            message="sliceSize and sliceLevel belong together: give both, or none",
            holds=lambda it: (it.slice_size is None) == (not it.slice_level),
            cel="has(self.sliceSize) == (has(self.sliceLevel) && self.sliceLevel != '')",
        ),
        ValidationRule(
            message="innerSlices are parts of slices: give sliceSize and sliceLevel too",
            holds=lambda it: not it.inner_slices or it.slice_size is not None,
            cel="!has(self.innerSlices) || size(self.innerSlices) == 0 || has(self.sliceSize)",
        ),
        ValidationRule(
            message="only with mode Preferred can members be balanced: set mode to Preferred, or leave balanced out",
            holds=lambda it: not it.balanced or it.mode == "Preferred",
            cel="!has(self.balanced) || !self.balanced || self.mode == 'Preferred'",
        ),
    )


class WorkloadPodGroup(Model):
    """A pod group of a workload: `count` members are charged, of which at least `minCount` must be placed."""

    name: ShortName = "main"
    """The name, by which pods and status refer to it."""
    count: Members
    """How many members it has."""
    min_count: Members | None = None
    """How many must be placed together; left out: all."""
    template: dict[str, Any] | None = Field(default=None, json_schema_extra=lambda said: said.update(template_schema()))
    """A pod template, so that it can be admitted before its pods exist: in a queue, or as far as ResourceQuotas have
    room for them. Of it counts what pods are placed by, up to 64 KiB."""
    topology: TopologyRequest | None = None
    """How near the members must be."""
    on_member_loss: OnMemberLoss | None = None
    """What becomes of the workload when this pod group has lost members; left out: what the configuration says."""
    RULES: ClassVar = (
        ValidationRule(
            message="minCount cannot be above count: ask for as many members as must run, and at most count of them",
            holds=lambda it: it.min_count is None or it.min_count <= it.count,
            cel="!has(self.minCount) || self.minCount <= self.count",
            path=".minCount",
        ),
    )

    @property
    def quorum(self) -> int:
        """How many members must be placed together: `min_count`, or all of them."""
        return self.count if self.min_count is None else self.min_count


class Requeue(Model):
    """How long a workload waits that was taken out because it was not ready in time, and how often."""

    backoff_base_seconds: Seconds = 60
    """How long it waits after the first time; doubled each time."""
    backoff_max_seconds: Seconds = 3600
    """How long it waits at most."""
    limit: Count | None = None
    """How often it is requeued before it is set inactive, counted since it was last set active; left out: for ever."""
    RULES: ClassVar = (
        ValidationRule(
            message="backoffMaxSeconds cannot be below backoffBaseSeconds",
            holds=lambda it: it.backoff_base_seconds <= it.backoff_max_seconds,
            cel="self.backoffBaseSeconds <= self.backoffMaxSeconds",
            path=".backoffMaxSeconds",
        ),
    )


class SuccessPolicy(Model):
    """When a workload has succeeded before all of it has."""

    pod_groups: list[ShortName] = Field(
        min_length=1, max_length=18, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """The pod groups that decide: once their required members have succeeded, what still runs is taken out."""


class FailurePolicy(Model):
    """What becomes of a workload of which a member fails."""

    on_member_failure: Literal["Ignore", "Deactivate"] = "Ignore"
    """Ignore: the others run on. Deactivate: all are taken out, and the workload is set inactive."""


def _agree(groups: Iterable[WorkloadPodGroup]) -> bool:
    """Whether pod groups of one groupName want the same (Kueue, pkg/controller/jobframework/tas_validation.go)."""
    asked = [group.topology for group in groups if group.topology is not None and group.topology.group_name]
    return len({(one.group_name, one.mode, one.level) for one in asked}) == len({one.group_name for one in asked})


class WorkloadSpec(Model):
    """The queue it waits in, its priority, its pod groups and its patience."""

    queue_name: Name = ""
    """The LocalQueue it waits in; left out: none, and no quota."""
    priority_class_ref: PriorityClassRef | None = None
    """The class its priority comes from."""
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    """Counts where it is lower than the priority of its class, or of its pods: only a class makes it go first."""
    active: bool = True
    """Whether it may be admitted; set to false, it is taken out."""
    after: After = []
    """Which others have to end before it is admitted. Until then it stands in nobody's way, and uses no quota."""
    pod_groups: list[WorkloadPodGroup] = Field(min_length=1, max_length=18, json_schema_extra=list_map("name"))
    """What it is made of."""
    schedule_timeout_seconds: Seconds | None = None
    """How long a complete reservation is held for it."""
    ready_timeout_seconds: Seconds | None = None
    """How long all required members together may be not ready, from when they are bound or one was lost."""
    on_bind_failure: OnBindFailure = "Rollback"
    """What becomes of it when it is bound in part and cannot be completed in time. Rollback: bound members are taken
    out, so that it can start whole. Retry: they stay, and the others are tried on."""
    scale_down_protection: Literal["Never", "WhileNeeded"] | None = None
    """Whether its members are kept from scale-down while it needs them; left out: as its ClusterQueue says."""
    requeue: Requeue = Requeue()
    """How long it waits after it was taken out."""
    success_policy: SuccessPolicy | None = None
    """When it has succeeded; left out: when all required members have."""
    failure_policy: FailurePolicy = FailurePolicy()
    """What becomes of it when a member fails."""
    maximum_execution_time_seconds: Seconds | None = None
    """How long it may run, earlier runs that were ended by an eviction included; then it is set inactive."""
    RULES: ClassVar = (
        ValidationRule(
            message="each pod group needs a name of its own",
            holds=lambda it: len({group.name for group in it.pod_groups}) == len(it.pod_groups),
        ),
        ValidationRule(
            message="pod groups of one groupName go to one domain: give their topology the same mode and level",
            holds=lambda it: _agree(it.pod_groups),
            cel="self.podGroups.all(a, !has(a.topology) || !has(a.topology.groupName) || a.topology.groupName == ''"
            " || self.podGroups.all(b, !has(b.topology) || !has(b.topology.groupName)"
            " || b.topology.groupName != a.topology.groupName || (b.topology.mode == a.topology.mode"
            " && (has(b.topology.level) ? b.topology.level : '')"
            " == (has(a.topology.level) ? a.topology.level : ''))))",
            path=".podGroups",
        ),
        ValidationRule(
            message="successPolicy.podGroups must be names of podGroups",
            holds=lambda it: (
                it.success_policy is None
                or set(it.success_policy.pod_groups) <= {group.name for group in it.pod_groups}
            ),
            cel="!has(self.successPolicy)"
            " || self.successPolicy.podGroups.all(name, self.podGroups.exists(g, g.name == name))",
            path=".successPolicy",
        ),
        ValidationRule(
            message="the names and counts of podGroups cannot be changed: make another Workload",
            cel="self.podGroups.map(g, g.name) == oldSelf.podGroups.map(g, g.name)"
            " && self.podGroups.map(g, g.count) == oldSelf.podGroups.map(g, g.count)",
            path=".podGroups",
        ),
    )


class RequeueState(Lenient):
    """How often it was requeued, and when it is tried again."""

    count: Count = 0
    """How often it was taken out because it was not ready in time, since it was last set active."""
    attempts: Count = 0
    """How often a reservation or its binding was given up, since it last ran."""
    at: str = Field(default="", json_schema_extra={"format": "date-time"})
    """When it is tried again."""


class WorkloadStatus(Written):
    """What it got, or why it waits."""

    conditions: Conditions = []
    """How far it has come."""
    admission: Admission | None = None
    """What it was admitted with, or holds quota in while checks are asked."""
    admission_checks: CheckStates = []
    """What the checks of its ClusterQueue say, each written by the check's controller."""
    checks_round: Count = 0
    """Which `admission.round` the checks answer; told with each reset to Pending, and by the operator alone."""
    provisioning: ProvisioningStates = []
    """Which nodes a cluster autoscaler has been asked for, and how far that has come, by flavors."""
    pending: PendingExplanation | None = None
    """Why it waits."""
    requeue: RequeueState | None = None
    """When it is tried again."""
    accumulated_past_execution_time_seconds: Count = 0
    """How long it has run before the last eviction."""
    kept: KeptMembers = []
    """What it keeps for the successors of members that it has lost."""
    after: EndedWorkloads = []
    """Those of `spec.after` that it need not wait for any more."""


class Workload(Object):
    """What is queued and admitted as one."""

    KIND: ClassVar = "Workload"
    PLURAL: ClassVar = "workloads"
    SHORT_NAMES: ClassVar = ("wl",)
    NAMESPACED: ClassVar = True
    COLUMNS: ClassVar = (
        PrinterColumn("Queue", ".spec.queueName"),
        PrinterColumn("Position", ".status.pending.position", "integer"),
        PrinterColumn("Admitted", '.status.conditions[?(@.type=="Admitted")].status'),
        PrinterColumn("Degraded", '.status.conditions[?(@.type=="Degraded")].status', priority=1),
        PrinterColumn("Starts", ".status.pending.estimatedStart", priority=1),
        PrinterColumn("Why", ".status.pending.reasons[0].message"),
        AGE_COLUMN,
    )

    spec: WorkloadSpec
    status: WorkloadStatus = WorkloadStatus()


class WorkloadPriorityClass(Object):
    """A priority by name; it has neither spec nor status."""

    KIND: ClassVar = "WorkloadPriorityClass"
    PLURAL: ClassVar = "workloadpriorityclasses"
    SHORT_NAMES: ClassVar = ("wpc",)
    COLUMNS: ClassVar = (PrinterColumn("Value", ".value", "integer"), AGE_COLUMN)

    value: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
    """The priority; higher goes first."""
    description: Annotated[str, Field(max_length=2048)] = ""
    """When to use it."""
