"""The one decision: quota and nodes for a whole workload, or why not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from tutti.cluster.pods import PodKey
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.consultation import Consultations
from tutti.engine.records.counters import QueueFigures
from tutti.engine.records.reservations import BackfillReservations, KeptForMembers, QuotaHoldbacks, Reserved
from tutti.engine.records.throttled_pods import ThrottleBook
from tutti.engine.records.workloads import WorkloadKey
from tutti.quota.run_times import RunHistory
from tutti.quota.usage import UsageHistory


@dataclass(frozen=True, slots=True)
class AwaitedFlavor:
    """That a workload waits for a flavor in which it ends first.

    Attributes:
        seconds: How long it says that it takes at most in what it waits for, with the members that it requires.
        takes: How long it takes there with as many as it would get.
        starts_at: When it is expected to start there, Unix seconds.
        saves: How many seconds less it takes there than in what it passes up; it waits no longer than that.
    """

    seconds: int
    takes: int
    starts_at: float
    saves: int


@dataclass(kw_only=True)
class AdmissionState(LifecycleState, QueueFigures):
    """What a decision about quota and nodes needs beside that.

    Attributes:
        backfill_reservations: What is kept for the heads of queues.
        quota_holdbacks: For whom quota is held back from borrowers.
        consultations: What extenders are asked.
        foreign_pods: Pods that carry the label of a pod group (namespace, name) and another schedulerName, with that.
        foreign_pod_group_of: The pod group of each of these.
        throttles: Who is throttled by what.
        closed_by_load: Which nodes were measured to be beyond a threshold when that was last looked at, by profile.
        load_headroom: By how many percent nodes were below the bounds for which estimates count, by profile.
        awaited_flavors: Who waits for a flavor in which it ends first, though it could have another now.
        load_due: When the first of these figures says nothing any more, Unix seconds; inf: none will.
        past_use: What LocalQueues (`namespace/name`) have used lately, where that counts.
        past_use_at: When all of them were last told, Unix seconds.
        run_times: How long workloads of LocalQueues (`namespace/name`) have run, where an order goes by that.
        groups_of_users: In which groups users are, by the configuration.
    """

    backfill_reservations: BackfillReservations = field(default_factory=BackfillReservations)
    quota_holdbacks: QuotaHoldbacks = field(default_factory=QuotaHoldbacks)
    consultations: Consultations = field(default_factory=Consultations)
    foreign_pods: dict[tuple[str, str], dict[PodKey, str]] = field(default_factory=dict)
    foreign_pod_group_of: dict[PodKey, tuple[str, str]] = field(default_factory=dict)
    throttles: ThrottleBook = field(default_factory=ThrottleBook)
    closed_by_load: dict[str, frozenset[str]] = field(default_factory=dict)
    load_headroom: dict[str, dict[str, float]] = field(default_factory=dict)
    awaited_flavors: dict[WorkloadKey, AwaitedFlavor] = field(default_factory=dict)
    load_due: float = math.inf
    past_use: dict[str, UsageHistory] = field(default_factory=dict)
    past_use_at: float = 0.0
    run_times: dict[str, RunHistory] = field(default_factory=dict)
    groups_of_users: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def looks_for_better(self) -> bool:
        """Whether any workload may pass up what it could have."""
        return bool(self.awaited_flavors) or any(one.data is not None for one in self.profiles.values())

    @property
    def may_move(self) -> bool:
        """Whether who is moved would come back at once: no head with kept room goes before it, and no throttle."""
        return not (self.backfill_reservations.of or self.throttles.throttles)

    def reservations(self) -> Iterator[Reserved]:
        """Yield all that is kept from others beyond this turn."""
        yield from self.nominations.ours.values()
        yield from self.backfill_reservations.of.values()
        yield from self.quota_holdbacks.of.values()
        yield from self.kept_for_successors.values()
        yield from self.moves.pieces()
        for workload in self.workloads.values():
            nodes = [hold.node for group in workload.groups.values() for hold in group.holds]
            if nodes:
                yield KeptForMembers(math.inf if workload.deadline is None else workload.deadline, nodes)
