"""What was observed is taken in: which pods belong together, and what they ask for together."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from tutti.api.frameworks import KindTable, OwnerChain, ProjectedOwner
from tutti.api.resources import Amounts
from tutti.cluster.pods import PodKey
from tutti.engine.admission import AdmissionState
from tutti.engine.preemption import PreemptionState
from tutti.engine.records.gang_membership import GangObjects, OwnerGraph, ParsedMemberships
from tutti.engine.records.members import Member, Owned
from tutti.engine.records.workloads import WorkloadKey


@dataclass(kw_only=True)
class IngestState(AdmissionState, PreemptionState):
    """What observations change beside that.

    Attributes:
        gang_objects: PodGroups and Workloads, as they are written.
        owner_graph: What owns the members.
        members_by_reference: The members that name a PodGroup or Workload (namespace, name), there or not.
        agreed: Those of these that are of several namespaces, and of which one says so whose queues they go by.
        allowances: What ResourceQuotas leave for more pods, by namespace and name, in scheduling units.
        unpaid: Workloads whose promised members no queue and no ResourceQuota has room for, by namespace.
        memberships: How what pods say was read.
        kinds: What is known of the kinds that make pods.
        owner_answers: What pods have from their owners, by these and what else decides it, with these.
        held_owners: Objects that are suspended, or were started here, by uid.
        managed_owners: The workloads of those of them that are started and suspended here, by uid.
        unmade_owners: When those are told so of which nothing says yet which pods they have, by uid, Unix seconds; 0.0:
            they have been seen since the last turn.
        told_owners: What those were told that cannot be started, by uid.
        stale: Whether queues, flavors, cohorts or classes have changed since they were taken over.
        stale_namespaces: Those of which LocalQueues or labels have, in that order.
        reranked: Whether PriorityClasses have.
        some_speed: Whether any pod has ever said how fast its gang runs with how many members.
    """

    gang_objects: GangObjects = field(default_factory=GangObjects)
    owner_graph: OwnerGraph = field(default_factory=OwnerGraph)
    members_by_reference: dict[tuple[str, str], dict[PodKey, Member]] = field(default_factory=dict)
    agreed: set[tuple[str, str]] = field(default_factory=set)
    allowances: dict[str, dict[str, Amounts]] = field(default_factory=dict)
    unpaid: dict[str, dict[WorkloadKey, None]] = field(default_factory=dict)
    memberships: ParsedMemberships = field(init=False)
    kinds: KindTable = field(init=False)
    owner_answers: dict[tuple[Hashable, ...], tuple[OwnerChain, Owned]] = field(default_factory=dict)
    held_owners: dict[str, ProjectedOwner] = field(default_factory=dict)
    managed_owners: dict[str, WorkloadKey] = field(default_factory=dict)
    unmade_owners: dict[str, float] = field(default_factory=dict)
    told_owners: dict[str, str] = field(default_factory=dict)
    stale: bool = False
    stale_namespaces: dict[str, None] = field(default_factory=dict)
    reranked: bool = False
    some_speed: bool = False

    def open(self, key: WorkloadKey) -> None:
        """Have a record for a Workload or PodGroup object, with or without members, and look at it."""
        if self.catalog.stands_alone(key):
            self.take_in(key)
        self.touch(key)
