"""Everything the engine knows, in one place; the rooms beside this file are the rules that change it.

Iteration over these dictionaries is in order of arrival, never in order of hash, so that a replay decides alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tutti.api.configuration import TuttiConfiguration
from tutti.api.model import API_VERSION
from tutti.api.resources import Amounts
from tutti.cluster.capacity import FreeCapacity, allocatable_of_nodes
from tutti.cluster.cluster import Cluster
from tutti.cluster.pods import PodKey
from tutti.engine.reading.catalog import Catalog
from tutti.engine.reading.profiles import profiles_of, rules_of
from tutti.engine.records.consultation import Consultations
from tutti.engine.records.counters import Overuses, QueueCounts, QueuePositions, WaitingCounts
from tutti.engine.records.decisions import AnyDecision, EmitEvent
from tutti.engine.records.explanation import REFRESH_SECONDS, LifecycleEvent, LifecycleStep
from tutti.engine.records.gang_membership import GangObjects, OwnerGraph, ParsedMemberships
from tutti.engine.records.members import Charge, KeptForSuccessors, Member
from tutti.engine.records.plugins import PluginHold, PluginHost, Plugins
from tutti.engine.records.reservations import BackfillReservations, Nominations, QuotaHoldbacks, ShareDebts
from tutti.engine.records.timers import Timers
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.placement.preemption.victim_cost import Budget
from tutti.placement.profile import Profile
from tutti.quota.flavors import Flavor
from tutti.quota.ledger import Holdings
from tutti.quota.ordering import delay
from tutti.quota.preemption import Rules
from tutti.quota.usage import PastUse

Address = tuple[WorkloadKey, str]
"""A workload and the name of a group in it."""


@dataclass(slots=True)
class State:
    """The engine's memory.

    Attributes:
        now: Unix seconds, as `decide` was told.
        holdings: Who uses what of which queue.
        strangers: Pods that carry the label of a pod group (namespace, name) and another schedulerName, with that.
        stranger_in: The pod group of each of these.
        home: Where each member is filed.
        sayings: How what pods say was read.
        ancestry: What owns the members.
        naming: The members that name a PodGroup or Workload (namespace, name), whether there is one or not.
        dirty: Workloads that something was observed about since the last decision.
        past_use: What LocalQueues (`namespace/name`) have used lately, where that counts.
        past_use_at: When all of them were last told, Unix seconds.
        places: Where those who wait stand in their ClusterQueues.
        stale: Whether queues, flavors, cohorts or classes have changed since they were taken over.
        changed_queues: Queues whose counts or usage may have changed since they were last told.
        profiles: How pods are placed, per schedulerName of ours.
        rules: How fairness and preemption go.
        budgets: PodDisruptionBudgets, by namespace and name.
        allowances: What ResourceQuotas leave for more pods, by namespace and name, in scheduling units.
        unpaid: Workloads whose promised members no queue and no ResourceQuota has room for, by namespace.
        nominations: Room held for those whose victims are leaving.
        kept: What is kept for the successors of members that running gangs have lost.
        shadows: What is kept for the heads of queues.
        owners: For whom quota is held back from borrowers.
        debts: What queues owe that have had more than their part.
        timed: Workloads that have a deadline, an alarm, a backoff or something to tell later.
        ending: Workloads with quota and room that must end by a known time.
        supply_seen: What `cluster.nodes.supply` was when quotas last followed it.
        rooms: What was free in each flavor when queues were last told it.
        rooms_at: When that was, Unix seconds.
        rooms_stale: Whether pods or nodes have been seen since.
        out: What has been decided in this turn.
        waiting: Who waits, and at which gate.
        overuses: Which queues and cohorts use more quota than there is.
        milestones: What workloads have come to in this turn.
        tried: How often a workload was tried: whether it was a single pod, whether it was admitted, its scheduler.
        plugins: What users have added to each profile.
        discreet: Whether those of other namespaces are told of by their uid instead of their name.
        consultations: What extenders are asked.
        held: Reservations that a plugin holds.
        held_seen: What had been given back when these were last looked at.
    """

    configuration: TuttiConfiguration
    random: Random
    cluster: Cluster = field(default_factory=Cluster)
    catalog: Catalog = field(default_factory=Catalog)
    gang_objects: GangObjects = field(default_factory=GangObjects)
    ancestry: OwnerGraph = field(default_factory=OwnerGraph)
    holdings: Holdings = field(default_factory=Holdings)
    workloads: dict[WorkloadKey, Workload] = field(default_factory=dict)
    members: dict[PodKey, Member] = field(default_factory=dict)
    strangers: dict[tuple[str, str], dict[PodKey, str]] = field(default_factory=dict)
    stranger_in: dict[PodKey, tuple[str, str]] = field(default_factory=dict)
    home: dict[PodKey, Address] = field(default_factory=dict)
    naming: dict[tuple[str, str], dict[PodKey, Member]] = field(default_factory=dict)
    dirty: dict[WorkloadKey, None] = field(default_factory=dict)
    counts: QueueCounts = field(default_factory=QueueCounts)
    past_use: dict[str, PastUse] = field(default_factory=dict)
    past_use_at: float = 0.0
    places: QueuePositions = field(default_factory=QueuePositions)
    stale: bool = False
    changed_queues: dict[str, None] = field(default_factory=dict)
    profiles: dict[str, Profile] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    budgets: dict[tuple[str, str], Budget] = field(default_factory=dict)
    allowances: dict[str, dict[str, Amounts]] = field(default_factory=dict)
    unpaid: dict[str, dict[WorkloadKey, None]] = field(default_factory=dict)
    nominations: Nominations = field(default_factory=Nominations)
    kept: dict[WorkloadKey, KeptForSuccessors] = field(default_factory=dict)
    shadows: BackfillReservations = field(default_factory=BackfillReservations)
    owners: QuotaHoldbacks = field(default_factory=QuotaHoldbacks)
    debts: ShareDebts = field(default_factory=ShareDebts)
    timed: Timers = field(default_factory=Timers)
    ending: dict[WorkloadKey, Workload] = field(default_factory=dict)
    supply_seen: int = 0
    rooms: dict[str, FreeCapacity] = field(default_factory=dict)
    rooms_at: float = 0.0
    rooms_stale: bool = False
    out: list[AnyDecision] = field(default_factory=list)
    waiting: WaitingCounts = field(default_factory=WaitingCounts)
    overuses: Overuses = field(default_factory=Overuses)
    milestones: list[LifecycleEvent] = field(default_factory=list)
    tried: dict[tuple[bool, bool, str], int] = field(default_factory=dict)
    now: float = 0.0
    plugins: Plugins = field(default_factory=dict)
    discreet: bool = True
    hosting: PluginHost = field(init=False)
    sayings: ParsedMemberships = field(init=False)
    consultations: Consultations = field(default_factory=Consultations)
    held: dict[WorkloadKey, PluginHold] = field(default_factory=dict)
    held_seen: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        self.hosting = PluginHost(self.plugins, self.cluster.classes)
        self.sayings = ParsedMemberships(self.configuration.conventions, self.hosting.reads)
        self.profiles = {
            name: self._extended(name, profile) for name, profile in profiles_of(self.configuration).items()
        }
        self.cluster.classes.strict_defaults = any(one.spreads_by_default for one in self.profiles.values())
        self.rules = rules_of(self.configuration)

    def _extended(self, name: str, profile: Profile) -> Profile:
        """Return a profile with what is not ours: users' plugins, then extenders, as kube-scheduler has them last."""
        profile = self.hosting.extended(name, profile)
        extenders = self.configuration.extenders
        return self.consultations.extended(profile, extenders) if extenders else profile

    def back_off(self, workload: Workload) -> None:
        """Count one more failure, and do not try the workload again before its backoff is over."""
        backoff = self.configuration.backoff
        workload.attempts += 1
        workload.not_before = self.now + delay(
            workload.attempts, self.random, base=backoff.base_seconds, most=backoff.max_seconds
        )
        self.timed.add(workload)

    def set_deadline(self, workload: Workload, seconds: float) -> None:
        """Give a workload so long from now."""
        workload.deadline = self.now + seconds
        self.timed.add(workload)

    def set_alarm(self, workload: Workload, at: float) -> None:
        """Have a workload looked at again at a time, Unix seconds, if not before."""
        workload.alarm = at if workload.alarm is None else min(workload.alarm, at)
        self.timed.add(workload)

    def tell_in_time(self, workload: Workload, looked_at: float = 0.0) -> None:
        """Have a workload looked at when what it was told, or found when last `looked_at`, has stood long enough."""
        if workload.tell_at is None:
            workload.tell_at = max(workload.told[2], looked_at) + REFRESH_SECONDS
            self.timed.add(workload)

    def leads_to(self, namespace: str, local_queue: str) -> str:
        """Return the ClusterQueue that a LocalQueue leads to, or "" where there is none."""
        found = self.catalog.local_queue(namespace, local_queue) if local_queue else None
        return found.cluster_queue if found else ""

    def renew(self) -> None:
        """Take over what many workloads refer to, where any of it has changed, and look at all of them again.

        Once for all that was observed since the last turn: a start lists a thousand queues one by one.
        """
        if not self.stale:
            return
        self.stale = False
        self.respec()
        self.dirty.update(dict.fromkeys(self.workloads))

    def respec(self) -> None:
        """Take over queues, flavors and cohorts as they are written now; usage stays."""
        self.catalog.compile(self._offered)
        catalog = self.catalog
        self.holdings.respec(catalog.queues, catalog.cohorts, catalog.cohort_weights, catalog.worth)

    def _offered(self, flavor: Flavor, resource: str) -> int:
        """Return what the nodes of a flavor offer of a resource now."""
        nodes = self.cluster.nodes
        column = nodes.axis.column(resource)
        amounts = allocatable_of_nodes(nodes, flavor.node_labels)
        return int(amounts[column]) if column < len(amounts) else 0

    def follow_nodes(self) -> None:
        """Have quotas that are a part of what nodes offer follow them."""
        if self.supply_seen == self.cluster.nodes.supply:
            return
        self.supply_seen = self.cluster.nodes.supply
        parts = self.catalog.parts
        flavors = self.catalog.flavors
        if any(name in flavors and self._offered(flavors[name], of) != amount for (name, of), amount in parts.items()):
            self.respec()
            self.catalog.version += 1  # whoever waits is looked at again
            self.changed_queues.update(dict.fromkeys(self.catalog.queues))

    def charge(self, charge: Charge, pods: int = 1) -> None:
        """Use quota for so many pods of one charge."""
        self.holdings.charge(charge.queue, charge.usage, charge.holder, pods)

    def refund(self, charge: Charge, pods: int = 1) -> None:
        """Give back the quota of so many pods of one charge: others may have it now."""
        self.holdings.refund(charge.queue, charge.usage, charge.holder, pods)

    def open(self, key: WorkloadKey) -> None:
        """Have a record for a Workload or PodGroup object, with or without members, and look at it."""
        if self.catalog.stands_alone(key) and key not in self.workloads:
            self.workloads[key] = Workload(key)
        self.touch(key)

    def touch(self, key: WorkloadKey) -> None:
        """Note that a workload must be looked at again."""
        self.dirty[key] = None

    def follow_classes(self) -> None:
        """Look again at the workloads of pods that are of another class by now: where they can go is another matter."""
        if not self.cluster.reclassed:
            return
        for key in self.cluster.take_reclassed():
            address = self.home.get(key)
            if address is not None:
                self.touch(address[0])

    def reached(
        self, workload: Workload, step: LifecycleStep, *, seconds: float = 0.0, pods: int = 0, reason: str = ""
    ) -> None:
        """Note what a workload has come to."""
        found = LifecycleEvent(step, workload.key, workload.cluster_queue, workload.queue, seconds, pods, reason)
        self.milestones.append(found)

    def announce(self, workload: Workload, kind: str, reason: str, note: str) -> None:
        """Record one event about a workload: on its object, or on a pod where it has none (yet)."""
        what, namespace, name = workload.key
        if what == "Pod" or not workload.uid:
            pod = next((m.pod for m in workload.members()), None)
            if pod is None:
                return
            api_version, what, name, uid = "v1", "Pod", pod.name, pod.uid
        else:
            api_version, uid = API_VERSION, workload.uid
        action = "Binding" if reason == "Scheduled" else "Scheduling"
        self.out.append(EmitEvent(api_version, what, namespace, name, uid, kind, reason, action, note))
