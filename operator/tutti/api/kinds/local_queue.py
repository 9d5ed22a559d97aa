"""LocalQueue: a namespace's door to a ClusterQueue (Kueue v1beta2 fields)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tutti.api.kinds.frame import AGE, Column, Object
from tutti.api.kinds.quotas import FairSharing, StopPolicy
from tutti.api.kinds.statuses import QueueStatus
from tutti.api.model import Model, Name, Rule


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
    """Its weight in the ClusterQueue."""
    wall_time_policy: WallTimePolicy | None = None
    """A limit on wall time; not supported yet."""
    RULES: ClassVar = (
        Rule(
            message="clusterQueue cannot be changed: make another LocalQueue and move the workloads there",
            cel="!has(oldSelf.clusterQueue) || (has(self.clusterQueue) && self.clusterQueue == oldSelf.clusterQueue)",
            path=".clusterQueue",
        ),
    )


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
    status: QueueStatus = QueueStatus()
