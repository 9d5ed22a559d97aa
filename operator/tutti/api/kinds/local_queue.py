"""LocalQueue: a namespace's door to a ClusterQueue (Kueue v1beta2 fields)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tutti.api.kinds.frame import AGE, Column, Object
from tutti.api.kinds.quotas import FairSharing, StopPolicy
from tutti.api.kinds.statuses import QueueStatus
from tutti.api.model import Lenient, Model, Name, QuantityText, Rule


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
    wall_time_policy: WallTimePolicy | None = None
    """A limit on wall time; not supported yet."""
    RULES: ClassVar = (
        Rule(
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


class LocalQueue(Object):
    """A namespace's door to a ClusterQueue."""

    KIND: ClassVar = "LocalQueue"
    PLURAL: ClassVar = "localqueues"
    SHORT_NAMES: ClassVar = ("lq", "queue", "queues")
    NAMESPACED: ClassVar = True
    COLUMNS: ClassVar = (
        Column("ClusterQueue", ".spec.clusterQueue"),
        Column("Pending", ".status.pendingWorkloads", "integer"),
        Column("Admitted", ".status.admittedWorkloads", "integer"),
        Column("Active", '.status.conditions[?(@.type=="Active")].status'),
        Column("Why", '.status.conditions[?(@.type=="Active")].message', priority=1),
        AGE,
    )

    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()
