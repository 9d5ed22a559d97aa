"""What statuses have in common: conditions, explanations of why something waits, counts and usage."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from tutti.api.conditions import Condition
from tutti.api.model import ATOMIC, LENIENT, Count, Lenient, QuantityText, list_map


class FlavorUsage(Lenient):
    """How much of one flavor is used."""

    class Resource(Lenient):
        """How much of one resource is used, and of a ClusterQueue what is left: quantities as text."""

        name: str
        """The resource."""
        total: QuantityText = "0"
        """All that is used, borrowed quota included."""
        borrowed: QuantityText = "0"
        """What is used above the nominal quota."""
        nominal: QuantityText | None = None
        """The nominal quota; of a percentage, what it comes to now."""
        free: QuantityText | None = None
        """What may still be used, borrowed quota included."""
        usable: QuantityText | None = None
        """How much of what is free there is room for on nodes of the flavor that are ready and take pods."""
        largest: QuantityText | None = None
        """The most that is free on one of these nodes: a pod that asks for more has to wait."""

    name: str
    """The flavor."""
    resources: list[Resource] = Field(default=[], max_length=64, json_schema_extra=list_map("name"))
    """What is used of each resource."""


Gate = Literal["Gather", "Queue", "Throttle", "UserLimit", "Quota", "Checks", "Placement", "Permit", "Victims"]


class PendingReason(Lenient):
    """One thing that keeps a workload waiting: at which gate, why, and the figures."""

    gate: Gate
    """What it waits at."""
    reason: str = Field(max_length=256)
    """Why, in one word for programs."""
    message: str = Field(default="", max_length=32768)
    """Why, and what would unblock it, for people."""
    details: dict[str, str] = Field(default={}, max_length=64)
    """The figures behind the message."""


class PendingExplanation(Lenient):
    """The one current explanation of why something waits, the most telling reason first."""

    position: int | None = None
    """The place in the ClusterQueue, the head being 1; told anew with each reason, and else every now and then."""
    since: str = Field(default="", json_schema_extra={"format": "date-time"})
    """Since when it waits."""
    estimated_start: str = Field(default="", json_schema_extra={"format": "date-time"})
    """When it will start, if nobody else comes and running work ends when it must; left out: nobody knows."""
    reasons: list[PendingReason] = Field(default=[], max_length=16, json_schema_extra=ATOMIC)
    """Why it waits, the most telling reason first."""


class KeptMember(Lenient):
    """Members that a running gang has lost, and what of theirs is kept for their successors."""

    pod_group: str = Field(default="", max_length=253)
    """The pod group that they were of."""
    node: str = Field(default="", max_length=253)
    """The node that they were on."""
    count: Count = 1
    """How many."""
    requests: dict[str, QuantityText] = Field(default={}, max_length=64)
    """What each of them took there."""
    cluster_queue: str = Field(default="", max_length=253)
    """The ClusterQueue that it was counted in; none without a queue."""
    flavors: dict[str, str] = Field(default={}, max_length=64)
    """The flavor that each resource was counted in; none without a queue."""


class HeldAmount(Lenient):
    """How much quota of one flavor and resource is held."""

    flavor: str = Field(max_length=253)
    """The flavor."""
    resource: str = Field(max_length=317)
    """The resource."""
    amount: QuantityText = "0"
    """How much."""


class PodGroupAssignment(Lenient):
    """What one pod group was admitted with: how many members, in which flavor of each resource."""

    name: str
    """The pod group."""
    count: int = 0
    """How many members were charged."""
    flavors: dict[str, str] = Field(default={}, max_length=64)
    """The flavor of each resource."""
    succeeded: Count = 0
    """How many members have succeeded, those that are cleaned up since included."""
    held: list[HeldAmount] = Field(default=[], max_length=64, json_schema_extra=ATOMIC)
    """The quota that is held for members that have no nodes yet, or that are reserved and have passed admission checks;
    a restarted operator holds the same."""


class Admission(Lenient):
    """What the workload was admitted with."""

    cluster_queue: str
    """The ClusterQueue that it was admitted by."""
    pod_groups: list[PodGroupAssignment] = Field(default=[], max_length=18, json_schema_extra=list_map("name"))
    """What each pod group got."""
    round: Count = 0
    """How often quota has been held for it while checks were asked; what they say counts once `checksRound` is this."""


KeptMembers = Annotated[list[KeptMember], Field(max_length=128, json_schema_extra=ATOMIC)]
Conditions = Annotated[list[Condition], Field(max_length=16, json_schema_extra=list_map("type"))]
Usage = Annotated[list[FlavorUsage], Field(max_length=64, json_schema_extra=list_map("name"))]


_NOT_EARLIER: JsonDict = {
    "rule": "self.lease != oldSelf.lease || self.generation >= oldSelf.generation",
    "message": "written by a former leader: the lease has changed hands since",
}


class Fence(Lenient):
    """The lease under which a status was written; the API server refuses what was written under an earlier one."""

    model_config: ClassVar[ConfigDict] = {
        **LENIENT,
        "json_schema_extra": {"x-kubernetes-validations": [_NOT_EARLIER]},
    }

    lease: str = Field(max_length=253)
    """The uid of the lease."""
    generation: Count
    """How often the lease had changed hands."""


class Written(Lenient):
    """A status that records who has written it."""

    fence: Fence | None = None
    """The lease under which it was written last; left out: by a process that needs none."""


class ConditionsOnly(Written):
    """The status of a kind that counts nothing."""

    conditions: Conditions = []
    """Whether it can be used, and why not; of a Cohort also whether more quota is used than there is."""


class QueueStatus(Written):
    """The status of both kinds of queue: how many workloads wait and run, and what they use."""

    conditions: Conditions = []
    """Whether the queue admits workloads, and why not; of a ClusterQueue also whether more is used than there is."""
    pending_workloads: Count = 0
    """How many workloads wait."""
    reserving_workloads: Count = 0
    """How many workloads hold quota, those that are being taken out included."""
    admitted_workloads: Count = 0
    """How many workloads are admitted and not finished."""
    flavors_reservation: Usage = []
    """The quota that is held, by flavor."""
    flavors_usage: Usage = []
    """The quota that admitted workloads use, by flavor."""
