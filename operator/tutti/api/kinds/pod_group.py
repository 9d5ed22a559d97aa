"""PodGroup: what is placed together (fields as in the native workload API of Kubernetes 1.36, and ours)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tutti.api.kinds.after import EndedWorkloads
from tutti.api.kinds.checks import CheckStates
from tutti.api.kinds.provisioning import ProvisioningStates
from tutti.api.kinds.statuses import Admission, Conditions, KeptMembers, PendingExplanation, Written
from tutti.api.model import (
    AGE_COLUMN,
    ATOMIC,
    Count,
    LabelKey,
    Model,
    Name,
    Object,
    PrinterColumn,
    ShortName,
    ValidationRule,
)

OnBindFailure = Literal["Rollback", "Retry"]
"""Rollback: bound members are taken out, so that it can start whole. Retry: they stay, and the others are tried on."""


class OnMemberLoss(Model):
    """What becomes of a gang that runs and has lost members, so that fewer are left than must run together."""

    action: Literal["Restart", "Keep"] = "Restart"
    """Restart: when the window is over, what is left is taken out too, and the gang starts again whole. Keep: what is
    left runs on, and the window has no end."""
    window_seconds: Annotated[int, Field(ge=0, le=2**31 - 1)] = 300
    """How long, from when the loss was seen, quota and room are kept for the successors of what it has lost."""


class GangSchedulingPolicy(Model):
    """All or nothing: at least `minCount` members are placed at once, or none."""

    min_count: Annotated[int, Field(ge=1, le=100_000)]
    """How many members must be placed at once."""


class BasicSchedulingPolicy(Model):
    """Members are placed one by one, as if they were in no group."""


class SchedulingPolicy(Model):
    """How the members are placed: exactly one of the two."""

    gang: GangSchedulingPolicy | None = None
    """All or nothing."""
    basic: BasicSchedulingPolicy | None = None
    """One by one."""
    RULES: ClassVar = (
        ValidationRule(
            message="exactly one policy must be given: gang with a minCount, or basic: {}",
            holds=lambda it: (it.gang is None) != (it.basic is None),
            cel="has(self.gang) != has(self.basic)",
        ),
        ValidationRule(
            message="the policy cannot change between gang and basic: make another PodGroup (minCount may change)",
            cel="has(self.gang) == has(oldSelf.gang)",
        ),
    )


class TopologyConstraint(Model):
    """Members belong within one value of a node label."""

    key: LabelKey
    """The node label."""
    mode: Literal["Required", "Preferred"] = "Required"
    """How firm the wish is."""


class SchedulingConstraints(Model):
    """Where the members must be, relative to one another."""

    topology: list[TopologyConstraint] = Field(default=[], max_length=8, json_schema_extra=ATOMIC)
    """Within one value of which node labels members belong; those of one mode from the widest to the finest."""


class WorkloadRef(Model):
    """The workload, and the pod group in it, that this is."""

    name: Name
    """The Workload."""
    pod_group: ShortName = ""
    """The pod group in it."""


class PodGroupSpec(Model):
    """How the members are placed, in which queue they wait, and how long a reservation is held for them."""

    scheduling_policy: SchedulingPolicy
    """How the members are placed."""
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    """Where the members must be, relative to one another."""
    disruption_mode: Literal["Pod", "PodGroup"] = "PodGroup"
    """Whether all that are required leave together when members must make room on nodes (PodGroup), so that none is
    left that cannot run, or one by one (Pod). Where quota is taken back they leave together in any case. Members beyond
    those that are required leave first, and one by one."""
    priority_class_name: Name = ""
    """The PriorityClass by which the group goes first. Others are taken out for it as far as its pods have that
    priority. System classes are refused."""
    queue_name: Name = ""
    """The LocalQueue it waits in; left out: none, and no quota."""
    schedule_timeout_seconds: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    """How long a complete reservation is held for it."""
    on_bind_failure: OnBindFailure = "Rollback"
    """What becomes of it when it is bound in part and cannot be completed in time. Rollback: bound members are taken
    out, so that it can start whole. Retry: they stay, and the others are tried on."""
    on_member_loss: OnMemberLoss | None = None
    """What becomes of it when it runs and has lost members; left out: what the configuration says."""
    workload_ref: WorkloadRef | None = None
    """The Workload that it is part of."""

    @property
    def min_count(self) -> int:
        """How many members must be placed at once: 1 where the policy is basic."""
        return self.scheduling_policy.gang.min_count if self.scheduling_policy.gang else 1


class PodGroupStatus(Written):
    """How many members there are and how far they have come, and why the group waits."""

    phase: Annotated[str, Field(max_length=63)] = ""
    """How far it has come, in one word."""
    queue_name: Name = ""
    """The LocalQueue it waits or runs in: its Workload's, or what its pods name where it was made for them."""
    members: Count = 0
    """How many pods belong to it."""
    pending: Count = 0
    """How many members wait for a node."""
    reserved: Count = 0
    """How many members have a node reserved."""
    bound: Count = 0
    """How many members are bound."""
    ready: Count = 0
    """How many members are ready."""
    succeeded: Count = 0
    """How many members have succeeded."""
    failed: Count = 0
    """How many members have failed."""
    started: Count | None = None
    """How many members have had a node at once since it started; a gang that runs lacks what it has fewer."""
    lost: Count = 0
    """How many members are being deleted on nodes that do not work; they count as gone."""
    kept: KeptMembers = []
    """What it keeps for the successors of members that it has lost."""
    after: EndedWorkloads = []
    """Those that its pods, or what owns them, name as what has to end first, as far as it has."""
    conditions: Conditions = []
    """How far it has come."""
    pending_reason: PendingExplanation | None = None
    """Why it waits."""
    admission: Admission | None = None
    """The quota that it holds while checks are asked, or until its members are bound; left out: none is held."""
    admission_checks: CheckStates = []
    """What the checks of its ClusterQueue say, each written by the check's controller."""
    checks_round: Count = 0
    """Which `admission.round` the checks answer; told with each reset to Pending, and by the operator alone."""
    provisioning: ProvisioningStates = []
    """Which nodes a cluster autoscaler has been asked for, and how far that has come, by flavors."""


class PodGroup(Object):
    """What is placed together."""

    KIND: ClassVar = "PodGroup"
    PLURAL: ClassVar = "podgroups"
    SHORT_NAMES: ClassVar = ("pg",)
    NAMESPACED: ClassVar = True
    COLUMNS: ClassVar = (
        PrinterColumn("Queue", ".status.queueName"),
        PrinterColumn("Position", ".status.pendingReason.position", "integer"),
        PrinterColumn("Min", ".spec.schedulingPolicy.gang.minCount", "integer"),
        PrinterColumn("Members", ".status.members", "integer"),
        PrinterColumn("Bound", ".status.bound", "integer"),
        PrinterColumn("Phase", ".status.phase"),
        PrinterColumn("Degraded", '.status.conditions[?(@.type=="Degraded")].status', priority=1),
        PrinterColumn("Starts", ".status.pendingReason.estimatedStart", priority=1),
        PrinterColumn("Why", ".status.pendingReason.reasons[0].message"),
        AGE_COLUMN,
    )

    spec: PodGroupSpec
    status: PodGroupStatus = PodGroupStatus()
