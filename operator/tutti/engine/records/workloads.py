"""The records the engine keeps of what is queued and admitted together.

A workload is a Workload object with its pod groups, or a PodGroup on its own, or a single pod; the engine treats
all three alike. Its life:

    CHECKING   (it has quota and no nodes, and admission checks have yet to answer, see `lifecycle/checks.py`)
     ^   |
     |   v
    WAITING --reserve--> RESERVED --all members there--> BINDING --all bound--> SCHEDULED --all done--> FINISHED
       ^                    |                               |                       |
       +---permit timeout---+      bind window over         |      (new members go straight to their nodes)
       |                    |                               |                       |
       +-------------------------- LEAVING <----------------+-----------------------+
                  (taken out: bound members are being evicted, see `lifecycle/eviction.py`)
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from tutti.api.conventions.gang_objects import GangObject
from tutti.api.core import OwnerReference
from tutti.api.kinds.checks import AdmissionCheckState
from tutti.api.kinds.workload import Requeue
from tutti.engine.records.explanation import EvictionReason, Explanation
from tutti.engine.records.line_order import Traits
from tutti.engine.records.managed_owners import ManagedOwner
from tutti.engine.records.members import LostMember, Member, MemberCounts, MemberGroup, Reported
from tutti.engine.records.provisioning import Provisioning
from tutti.quota.learned_speeds import LearnedSpeed
from tutti.quota.ordering import OrderKey, order_key, queued_at
from tutti.quota.speed_curves import SpeedCurve

WorkloadKey = tuple[str, str, str]
"""Kind (Workload, PodGroup or Pod), namespace, name."""

ObjectKey = tuple[str, str, str]
"""Kind, namespace ("" where cluster-scoped) and name."""

Standing = tuple[int, float, int]
"""What a place in line goes by: less for a higher priority, since when it waits, and the order of its application."""


Counted = tuple[str, str, str]
"""LocalQueue (namespace/name), ClusterQueue, and pending, admitted or leaving."""


class Phase(enum.StrEnum):
    """Where a workload is in its life."""

    WAITING = "Waiting"
    CHECKING = "Checking"
    RESERVED = "Reserved"
    BINDING = "Binding"
    LEAVING = "Leaving"
    SCHEDULED = "Scheduled"
    FINISHED = "Finished"


class GangStyle(enum.StrEnum):
    """What becomes of a gang that starts as soon as there is room for all of it, when there is none for too long."""

    SOFT = "Soft"
    HARD = "Hard"
    WITH_ROOM = "WithRoom"
    """It waits for as long as that takes, and keeps the room of the others for as long as any of it runs."""


ADMITTED = (Phase.RESERVED, Phase.BINDING, Phase.SCHEDULED)
"""Phases in which a workload has quota and room, and may keep them."""

UNDER_WAY = (Phase.BINDING, Phase.SCHEDULED)
"""Those of them in which its members are being bound, or have been."""

FENCE = "fence"
"""Stands in a status as it was found, and no more once this process has written to it."""


@dataclass(frozen=True, slots=True)
class WorkloadEviction:
    """Why and when a whole workload was told to leave.

    Attributes:
        reason: As Kueue's condition `Evicted` has it: Preempted, PodsReadyTimeout, ClusterQueueStopped, ...
        message: The same in words; of a victim, for whom it had to leave.
        at: When, Unix seconds.
        preempted: The reason of condition `Preempted`, such as InClusterQueue; "" where it was no victim.
    """

    reason: str
    message: str
    at: float
    preempted: str = ""


_AT_FIRST = Requeue()


@dataclass(slots=True, eq=False)
class Workload:
    """One unit of queueing and admission.

    Attributes:
        name: How messages call it.
        uid: Of the object, where there is one.
        keeps_trying: Whether what is bound of it stays when it cannot be completed in time (onBindFailure: Retry).
        style: Given where it starts as soon as there is room for all of it (see `lifecycle/reservation.py`).
        short_since: Since when such a one finds no nodes, Unix seconds.
        placed_singly: Whether its members are placed one by one, because it has waited long enough.
        given_up: Why it is not tried any more; None: it is.
        min_resources: What must be free in the cluster before any of it is placed, in scheduling units.
        permit_seconds: How long a complete reservation is held for it; None: the configured default.
        permit_jitter: Up to how many seconds longer, by chance.
        ready_seconds: How long it may run without being ready; None: for ever.
        limit_seconds: How long it may run in all; None: for ever.
        limit_by: Which queue says so, where it does not itself; "" where it does.
        limit_kept: What these two were when they were read last: it may only have less once it is admitted.
        limit_stands: Whether it says more by now, in vain.
        requeue: How long it waits after it was taken out because it was not ready.
        decisive: The groups that decide on its success; none: all of them.
        fails_with_members: Whether it is taken out and set inactive when a member fails.
        gang: What an object of another project says of it; None where there is none, or one of ours goes before it.
        queue: Name of the LocalQueue, or "".
        inherits_queue: Whether only what owns its pods names that, which may have come to after they had a node.
        cluster_queue: Name of the ClusterQueue that it resolves to, or "".
        preemption_priority: By which it takes others out by the rules of queues: at most what its pods have.
        ranked: Whether its priority is that of a WorkloadPriorityClass, which queues alone go by.
        rank: Its place by the sort plugin, before priority and age; 0 for all where there is none.
        shared_standing: Its standing among the parts of its application; None where it is a part of none.
        owner_awaited: Since when it waits for what owns its pods to be seen, Unix seconds.
        problem: Why it cannot be decided on as it is written.
        attempts: How often it was given up on after a reservation.
        not_before: Unix seconds before which it is not tried again.
        in_vain_at: When what it held was given back because what it waited for had not come in time, Unix seconds; 0
            where that has not been so since it ran.
        deadline: When the reservation is given back, or the bind window is over, Unix seconds.
        alarm: When it must be looked at again for any other reason, Unix seconds.
        window_told: Whether it was told in this run that it is tried on though its bind window is over.
        reserved_at: When it was given quota, Unix seconds; None where that is not known.
        was_scheduled: Whether all its required members have been bound together before.
        was_finished: Whether all its members had ended when last some were there.
        evicted: Why it was last taken out, until it is admitted again.
        requeues: How often it was taken out because it was not ready in time, since it was last set active.
        rests: How many tries of it, on end, cost so much that it rested after each.
        rests_until: Until when it rests, Unix seconds.
        refusals: How often, on end, a member could not be asked to leave.
        ask_at: When members are asked to leave again, Unix seconds; 0 at once.
        began: When it was admitted again after its last eviction, Unix seconds; 0 where there was none.
        window_left: How much is left of its bind window, which stands still while claims are made ready, in seconds;
            None while it passes.
        window_earned: Whether a member was bound since that was opened, so that it may be opened anew.
        running_since: When its required members were first bound together in this run, Unix seconds; of a gang that
            keeps room for members yet to be made, when the first of the others were.
        ran: How many seconds earlier runs, each ended by an eviction, have lasted together.
        unready_since: Since when it runs and is not ready, Unix seconds; kept where it may not be so for long.
        was_ready: Whether it has been ready in this run.
        deactivated: Why it is to be set inactive, until its object says so; "" where it is not.
        inactive_from: The generation from which on its object says so; 0 where that has been asked for, None where not.
        reported: What was last written of why it waits.
        reported_explanation: What that said; statuses go by it, so that they do not change with every number.
        scale_down_protection: As its object says: Never or WhileNeeded; "" where its queue decides.
        some_protected: Whether members of it may have annotations of ours against scale-down.
        passed_up_since: Since when it passes up what it could have, because it waits for better, Unix seconds; None
            where it has not done so since it ran.
        missing_since: Since when an object that it names has not been seen, and nobody told, Unix seconds; None else.
        reason_since: Since when it is told that it waits for this reason, Unix seconds.
        told_until: Until when its members have been told enough of reasons, Unix seconds (`status/reporting.py`).
        nominates: Whether the status of a member may name a node that it has none of its own on.
        report_at: When a newer message may be written, Unix seconds; messages that change often are written seldom.
        status: The status last written to its object, or found there.
        group_status: The same for each PodGroup object that is a pod group of it, by uid.
        counted: Queues and bucket it is counted in at present.
        notes: What people have been told of how its owners were read.
        had_in_all: How many members had a node when its PodGroup was written, which does not tell of which role.
        degraded_since: Since when it runs with fewer members than it needs, Unix seconds; None where it has them.
        lost_seconds: In how much of that time nothing could be written, or admitted, which does not count.
        held_up: Whether its queue admitted nothing when that was last looked at.
        losses: What its members had that it has lost since it ran whole, the latest last.
        had_turn: Whether it has been tried as a whole since it was taken out because it had lost members.
        leaves_by_pod: Whether members that are required may be taken out one by one (disruptionMode: Pod).
        gang_told: The uid of the object of another project, and the condition last written to it.
        out_of_turn: Whether it was admitted because its turn would never have come by the order of shares.
        exposure: What of it decides whom it may be taken out for, and how, as it was last looked at.
        after: Whom it starts after, and whether these must have Succeeded or only Finished.
        flavor_seconds: How long it is expected to take in which flavor; those that are not here are not known.
        ended_before: Those of them that have ended as they must, and how; they are not waited for again.
        outcome: How its last run has ended, Succeeded or Failed; "" where none has.
        asked_for: What has been asked to be done with its PodGroup: "made", "deleted" or "".
        writes_refused: How often, on end, that could not be done.
        write_at: When that is asked for again, Unix seconds.
        managed: What makes its pods, where that is started and suspended here.
        held_since: Since when it holds quota without nodes (`MemberGroup.held`), Unix seconds; None where none is held.
        round: How often it has held quota while checks were asked; their answers count that are given in this round.
        checks: What checks say of it, as its object has it.
        checks_round: Which round that is about.
        checks_told: The round and the checks that were last asked to be written as Pending.
        provisioning: Which nodes have been asked for, by flavors; at most one of them is under way.
        user, said_seconds, progress, traits: Whose it is, and what the order of its queue goes by.
        speed: How fast it runs with how many members; None: it does not say, or says it wrongly, and nobody knows.
        speed_said: The text that `speed` was read from.
        speed_learned: What `speed` is from where it does not say: how fast others of its kind were.
        reads_alike: Whether nothing that was last read of it goes by what its pods are doing.
    """

    key: WorkloadKey
    groups: dict[str, MemberGroup] = field(default_factory=dict)
    gang: GangObject | None = None
    uid: str = ""
    generation: int = 0
    queue: str = ""
    inherits_queue: bool = False
    cluster_queue: str = ""
    priority: int = 0
    preemption_priority: int = 0
    ranked: bool = False
    rank: float = 0.0
    shared_standing: Standing | None = None
    created: float = 0.0
    active: bool = True
    keeps_trying: bool = False
    style: GangStyle | None = None
    short_since: float | None = None
    placed_singly: bool = False
    given_up: Explanation | None = None
    min_resources: Mapping[str, int] = field(default_factory=dict)
    permit_seconds: int | None = None
    permit_jitter: int = 0
    ready_seconds: int | None = None
    limit_seconds: int | None = None
    limit_by: str = ""
    limit_kept: tuple[int | None, str] = (None, "")
    limit_stands: bool = False
    requeue: Requeue = _AT_FIRST
    decisive: tuple[str, ...] = ()
    fails_with_members: bool = False
    owner_awaited: float | None = None
    problem: Explanation | None = None
    phase: Phase = Phase.WAITING
    explanation: Explanation | None = None
    attempts: int = 0
    not_before: float = 0.0
    in_vain_at: float = 0.0
    deadline: float | None = None
    alarm: float | None = None
    window_told: bool = False
    reserved_at: float | None = None
    was_scheduled: bool = False
    was_finished: bool = False
    evicted: WorkloadEviction | None = None
    requeues: int = 0
    rests: int = 0
    rests_until: float = 0.0
    refusals: int = 0
    ask_at: float = 0.0
    began: float = 0.0
    window_left: float | None = None
    window_earned: bool = False
    running_since: float | None = None
    ran: float = 0.0
    unready_since: float | None = None
    was_ready: bool = False
    deactivated: str = ""
    inactive_from: int | None = None
    reported: Reported = ("", "", 0.0)
    reported_explanation: Explanation | None = None
    report_at: float | None = None
    passed_up_since: float | None = None
    missing_since: float | None = None
    reason_since: float = 0.0
    told_until: float = 0.0
    scale_down_protection: str = ""
    some_protected: bool = False
    nominates: bool = False
    status: dict[str, Any] = field(default_factory=dict)
    group_status: dict[str, dict[str, Any]] = field(default_factory=dict)
    counted: Counted = ("", "", "")
    notes: tuple[str, ...] = ()
    had_in_all: int = 0
    degraded_since: float | None = None
    lost_seconds: float = 0.0
    held_up: bool = False
    losses: list[LostMember] = field(default_factory=list)
    had_turn: bool = False
    leaves_by_pod: bool = False
    gang_told: tuple[str, Mapping[str, Any]] | None = None
    out_of_turn: bool = False
    exposure: tuple[object, ...] | None = None
    after: tuple[tuple[str, str], ...] = ()
    flavor_seconds: tuple[tuple[str, int], ...] = ()
    ended_before: Mapping[str, str] = field(default_factory=dict)
    outcome: str = ""
    asked_for: str = ""
    writes_refused: int = 0
    write_at: float = 0.0
    managed: ManagedOwner | None = None
    held_since: float | None = None
    round: int = 0
    checks: Sequence[AdmissionCheckState] = ()
    checks_round: int = 0
    checks_told: tuple[int, tuple[str, ...]] = (0, ())
    provisioning: Sequence[Provisioning] = ()
    user: str = ""
    said_seconds: int = 0
    progress: float = 1.0
    speed: SpeedCurve | None = None
    speed_said: str = ""
    speed_learned: LearnedSpeed | None = None
    traits: Traits | None = None
    reads_alike: bool = False
    name: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.name = "/".join(self.key)

    @property
    def order(self) -> OrderKey:
        """Its place among the others."""
        less, since, place = self.standing
        return order_key(-less, since, self.key, rank=self.rank, place=place)

    @property
    def standing(self) -> Standing:
        """What its place in line goes by: its priority and age, unless the parts of its application share theirs."""
        return self.shared_standing or (-self.priority, self.stands_since, 0)

    @property
    def queued_at(self) -> float:
        """Since when it stands in its queue, Unix seconds; eviction because it was not ready sends it to the back."""
        evicted = self.evicted
        if evicted is None:
            return self.created
        late = evicted.reason == EvictionReason.PODS_READY_TIMEOUT
        return queued_at(self.created, not_ready_at=evicted.at if late else None)

    @property
    def stands_since(self) -> float:
        """Since when it counts as waiting among others of its priority, Unix seconds.

        One that was taken out because it had lost members, or is moved, goes before all of them: it had its turn. So
        does one whose object was started: its pods are there or on their way. One that has held quota and nodes in vain
        goes behind those who have come until then: another like it would hold them next, and these never had any.
        """
        front = self.evicted is not None and self.evicted.reason in (EvictionReason.MEMBER_LOST, EvictionReason.MOVED)
        front = front or (self.managed is not None and self.managed.runs)
        return 0.0 if front else max(self.queued_at, self.in_vain_at)

    @property
    def waits_without_members(self) -> bool:
        """Whether it may wait though no member exists: a Workload, or what has them made when it is admitted."""
        return self.key[0] == "Workload" or self.managed is not None

    def reported_to(self, uid: str) -> dict[str, Any]:
        """Return the status last written to its object, or to one of its pod groups; empty where nothing is known."""
        return self.status if uid == self.uid else self.group_status.get(uid, {})

    def group(self, name: str) -> MemberGroup:
        """Return a group by its name, begun where there is none."""
        found = self.groups.get(name)
        if found is None:
            found = self.groups[name] = MemberGroup(name)
        return found

    def members(self) -> Iterable[Member]:
        """Return the members of all groups, one after the other."""
        groups = self.groups.values()
        if len(groups) == 1:
            (only,) = groups
            return only.members.values()
        return chain.from_iterable([group.members.values() for group in groups])

    def unlike_members(self) -> list[Member]:
        """Return the members without those that say, and have from their owners, what the one before them does.

        What is read of a gang is the same for all its members as a rule, and they share the record of it.
        """
        found, last = list[Member](), None
        for one in self.members():
            if (
                last is None
                or one.claim is not last.claim
                or one.owned is not last.owned
                or one.problem != last.problem
            ):
                found.append(one)
                last = one
        return found

    def counts(self) -> MemberCounts:
        """Count the members of all groups."""
        groups = self.groups.values()
        if len(groups) == 1:
            (only,) = groups
            return only.counts()
        return sum((group.counts() for group in groups), MemberCounts())

    @property
    def complete(self) -> bool:
        """Whether every group has, or had, all required members on their nodes."""
        for group in self.groups.values():
            if group.counts().placed < group.min_count:
                return False
        return bool(self.groups)

    @property
    def maker(self) -> OwnerReference | None:
        """What people wrote that its pods are made of, where that alone makes a gang of them; None: nothing known."""
        if self.managed is not None:
            return self.managed.ref
        first = next(iter(self.members()), None)
        return first.owned.top if first is not None and first.pod.namespace == self.key[1] else None

    @property
    def required(self) -> int:
        """How many members are required, in all groups together."""
        return sum([group.min_count for group in self.groups.values()])

    @property
    def ready(self) -> bool:
        """Whether in every group as many members as are required are ready or have succeeded."""
        tallies = [(group.counts(), group.min_count) for group in self.groups.values()]
        return bool(tallies) and all(tally.ready + tally.succeeded >= least for tally, least in tallies)

    @property
    def decided(self) -> bool:
        """Whether the groups that decide on its success have succeeded, whatever the others do."""
        if not self.decisive:
            return False
        groups = [self.groups.get(name) for name in self.decisive]
        return all(g is not None and g.counts().succeeded >= g.min_count for g in groups)

    @property
    def has_succeeded(self) -> bool:
        """Whether, of one that has ended, those have succeeded that decide on it, or as many as are required."""
        return self.decided or self.counts().succeeded >= self.required

    @property
    def scheduler(self) -> str:
        """The schedulerName of the first of its members; "" where it has none yet."""
        for group in self.groups.values():
            for member in group.members.values():
                return member.scheduler
        if self.managed is not None:
            return next((one.scheduler for one in self.managed.found.roles), "")
        return ""

    def forget_ended(self) -> None:
        """Count only members that exist from now on: the run is over in which others have succeeded."""
        for group in self.groups.values():
            group.ended = group.had = 0
        self.had_in_all = 0

    def running_for(self, now: float) -> float:
        """Return how many seconds this run has lasted; 0 where it does not run."""
        return 0.0 if self.running_since is None else now - self.running_since

    @property
    def brought_together(self) -> bool:
        """Whether every group's required members have been bound this time, even if some have failed since."""
        return bool(self.groups) and all(group.brought >= group.min_count for group in self.groups.values())
