"""What all rooms of rules know: time, cluster, quota and workloads, and what is decided about them.

Each room above declares in its `__init__.py` what its own rules need beside this; `State` is all of it.
Iteration over these dictionaries is in order of arrival, never in order of hash, so that a replay decides alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from tutti.api.conditions import timestamp
from tutti.api.configuration import TuttiConfiguration
from tutti.api.model import API_VERSION
from tutti.cluster.cluster import Cluster
from tutti.cluster.pods import PodKey
from tutti.engine.reading.catalog import Catalog
from tutti.engine.records.decisions import AnyDecision, EmitEvent, error_text, fault_of
from tutti.engine.records.explanation import REFRESH_SECONDS, LifecycleEvent, LifecycleStep
from tutti.engine.records.faults import Faults, Whose, part_of_turn
from tutti.engine.records.followers import Followers
from tutti.engine.records.members import Charge, Member
from tutti.engine.records.moves import Moves
from tutti.engine.records.nominations import Nominations
from tutti.engine.records.plugins import PluginHost, Plugins
from tutti.engine.records.timers import Timers
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.placement.extension import Stopwatch
from tutti.placement.profile import Profile
from tutti.quota.ledger import UsageLedger
from tutti.quota.ordering import backoff_seconds
from tutti.quota.preemption import PreemptionRules
from tutti.quota.tree import cohort_key
from tutti.quota.windows import QuotaStep

T = TypeVar("T")

Address = tuple[WorkloadKey, str]
"""A workload and the name of a group in it."""


@dataclass
class CoreState:
    """What the rules of every room may read and change.

    Attributes:
        configuration: What the administrator set.
        random: Jitter, from the seed of the configuration.
        now: Unix seconds, as `decide` was told.
        interruption: Since and until when nothing could be written last, Unix seconds.
        discreet: Whether those of other namespaces are told of by their uid instead of their name.
        cluster: Nodes and the pods on them.
        catalog: Queues, flavors, cohorts, classes and checks, as they are written.
        rules: How fairness and preemption go.
        profiles: How pods are placed, per schedulerName of ours.
        plugins: What users have added to each profile.
        stopwatch: Measures what they take, for people; None: nobody does.
        plugin_host: What runs these.
        ledger: Who uses what of which queue.
        workloads: Everybody who is queued, runs or is held; taken in with `take_in`.
        gangs: Those of them that are no single pods, in the same order.
        unlike_singles: The single pods that something else counts for than what their pods say: that are in a queue, of
            a class of their own, or whose owners say something.
        members: Pods of ours.
        pod_group_of: Where each member is filed.
        dirty: Who must be looked at again; whether for nothing but what `touch_bound` says.
        timers: Workloads that have a deadline, an alarm, a backoff or something to tell later.
        keeping_room: Gangs that run and keep room for members that are yet to be made, and perhaps some that did.
        followers: Those who wait for others to end.
        nominations: Room held for those whose victims are leaving.
        moves: What is moved so that others fit, and was lately.
        faults: What is done for many, and has raised.
        raised: Workloads for which it was, and that the engine is to set aside: what was raised, and during what.
        out: What has been decided in this turn.
        lifecycle_events: What workloads have come to in this turn.
    """

    configuration: TuttiConfiguration
    random: Random
    now: float = 0.0
    interruption: tuple[float, float] = (0.0, 0.0)
    discreet: bool = True
    cluster: Cluster = field(default_factory=Cluster)
    catalog: Catalog = field(default_factory=Catalog)
    rules: PreemptionRules = field(default_factory=PreemptionRules)
    profiles: dict[str, Profile] = field(default_factory=dict)
    plugins: Plugins = field(default_factory=dict)
    stopwatch: Stopwatch | None = None
    plugin_host: PluginHost = field(init=False)
    ledger: UsageLedger = field(default_factory=UsageLedger)
    workloads: dict[WorkloadKey, Workload] = field(default_factory=dict)
    gangs: dict[WorkloadKey, Workload] = field(default_factory=dict)
    unlike_singles: dict[WorkloadKey, Workload] = field(default_factory=dict)
    members: dict[PodKey, Member] = field(default_factory=dict)
    pod_group_of: dict[PodKey, Address] = field(default_factory=dict)
    dirty: dict[WorkloadKey, bool] = field(default_factory=dict)
    timers: Timers = field(default_factory=Timers)
    keeping_room: dict[WorkloadKey, Workload] = field(default_factory=dict)
    followers: Followers = field(default_factory=Followers)
    nominations: Nominations = field(default_factory=Nominations)
    moves: Moves = field(default_factory=Moves)
    faults: Faults = field(default_factory=Faults)
    raised: dict[WorkloadKey, tuple[Exception, str]] = field(default_factory=dict)
    out: list[AnyDecision] = field(default_factory=list)
    lifecycle_events: list[LifecycleEvent] = field(default_factory=list)

    def take_in(self, key: WorkloadKey, created: float = 0.0) -> Workload:
        """Return the workload of a key, begun where there is none."""
        found = self.workloads.get(key)
        if found is None:
            found = self.workloads[key] = Workload(key, created=created)
            if key[0] != "Pod":
                self.gangs[key] = found
        return found

    def touch(self, key: WorkloadKey) -> None:
        """Note that a workload must be looked at again."""
        self.dirty[key] = False
        if self.nominations.ours:
            self.nominations.touched.add(key)

    def touch_bound(self, key: WorkloadKey) -> None:
        """Note that a bind of a workload took effect, or that a claim of its placed pods is another, and no more."""
        self.dirty.setdefault(key, True)
        if self.nominations.ours:
            self.nominations.touched.add(key)

    def touch_followers(self, namespace: str, name: str) -> None:
        """Have those looked at again who wait for whatever has this name to end."""
        for key in self.followers.of((namespace, name)):
            self.touch(key)

    def touch_pods(self, pods: Iterable[PodKey]) -> None:
        """Note that the workloads of some pods must be looked at again."""
        for key in pods:
            address = self.pod_group_of.get(key)
            if address is not None:
                self.touch(address[0])

    def attempt(self, whose: Whose, during: str, act: Callable[[], T], otherwise: T) -> T:
        """Do something for one of many, so that what it raises costs that one only.

        Args:
            whose: Of whom it is done; left out while a backoff lasts after that has raised.
            during: What is done, for the log.
            act: Does it.
            otherwise: What is returned where it was not done to its end.
        """
        if self.faults and self.faults.until(whose[:3], self.now) is not None:
            return otherwise
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - a bulkhead: whatever it is, it is this object's
            self._leave_out(whose, error, during)
            return otherwise

    def attempt_part(self, name: str, act: Callable[[], T], otherwise: T) -> T:
        """Do a part of the turn that is nobody's in particular, so that what it raises costs that part only."""
        if self.faults:
            return self.attempt(part_of_turn(name), name, act, otherwise)
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - a bulkhead, as above
            self._leave_out(part_of_turn(name), error, name)
            return otherwise

    def fault_seconds(self, times: int) -> float:
        """Return for how long somebody is left out who has raised so many times."""
        backoff = self.configuration.backoff
        return backoff_seconds(times, self.random, base=backoff.base_seconds, most=backoff.max_seconds)

    def _leave_out(self, whose: Whose, error: Exception, during: str) -> None:
        """Have somebody left out for a while; a workload is set aside by the engine, and told so."""
        key = whose[:3]
        fault = self.faults.note(key, self.now, self.fault_seconds)
        if key in self.workloads:
            self.raised[key] = error, during
            return
        self.out.append(fault_of(key, error, during))
        if whose.uid:
            text = (
                f"it is set aside, because {during} raised {error_text(error)}; everything else goes on. "
                f"It is looked at again at {timestamp(fault.again_at)}; please report this, with the log"
            )
            about = (whose.api_version, *key, whose.uid)
            self.out.append(EmitEvent(*about, "Warning", "SetAside", "Scheduling", text))

    def back_off(self, workload: Workload) -> None:
        """Count one more failure, and do not try the workload again before its backoff is over."""
        backoff = self.configuration.backoff
        workload.attempts += 1
        workload.not_before = self.now + backoff_seconds(
            workload.attempts, self.random, base=backoff.base_seconds, most=backoff.max_seconds
        )
        self.timers.add(workload)

    def set_deadline(self, workload: Workload, seconds: float) -> None:
        """Give a workload so many seconds from now, after which it is looked at as one that is late."""
        workload.deadline, workload.window_left = self.now + seconds, None
        self.timers.add(workload)

    def set_alarm(self, workload: Workload, at: float) -> None:
        """Have a workload looked at again at a time, Unix seconds, if not before."""
        workload.alarm = at if workload.alarm is None else min(workload.alarm, at)
        self.timers.add(workload)

    def report_in_time(self, workload: Workload, looked_at: float = 0.0) -> None:
        """Have a workload looked at when what it was told, or found when last `looked_at`, has stood long enough."""
        if workload.report_at is None:
            workload.report_at = max(workload.reported[2], looked_at) + REFRESH_SECONDS
            self.timers.add(workload)

    def leads_to(self, namespace: str, local_queue: str) -> str:
        """Return the ClusterQueue that a LocalQueue leads to, or "" where there is none."""
        found = self.catalog.local_queue(namespace, local_queue) if local_queue else None
        return found.cluster_queue if found else ""

    def quota_steps(self, queue: str) -> list[QuotaStep]:
        """Return when any queue or cohort in the tree of a ClusterQueue next has other quotas, the first time first."""
        windows, node = self.catalog.windows, self.ledger.tree.queues.get(queue)
        if not windows.calendars or node is None:
            return []
        root = node.root()
        keys = (one.name if one.leaf else cohort_key(one.name) for one in (root, *root.below()))
        return windows.steps(tuple(sorted(key for key in keys if key in windows.calendars)), self.now)

    def charge(self, charge: Charge, pods: int = 1) -> None:
        """Use quota for so many pods of one charge."""
        self.ledger.charge(charge.queue, charge.usage, charge.holder, pods)

    def refund(self, charge: Charge, pods: int = 1) -> None:
        """Give back the quota of so many pods of one charge: others may have it now."""
        self.ledger.refund(charge.queue, charge.usage, charge.holder, pods)

    def reached(
        self, workload: Workload, step: LifecycleStep, *, seconds: float = 0.0, pods: int = 0, reason: str = ""
    ) -> None:
        """Note what a workload has come to."""
        found = LifecycleEvent(step, workload.key, workload.cluster_queue, workload.queue, seconds, pods, reason)
        self.lifecycle_events.append(found)

    def announce(self, workload: Workload, kind: str, reason: str, note: str) -> None:
        """Record one event about a workload: on what people wrote, or on a pod where that is not known (yet).

        A PodGroup that is made for what owns the pods is not looked for by those who wrote the latter.
        """
        what, namespace, name = workload.key
        maker = workload.maker
        if maker is not None:
            api_version, what, name, uid = maker.api_version, maker.kind, maker.name, maker.uid
        elif what == "Pod" or not workload.uid:
            pod = next((m.pod for m in workload.members()), None)
            if pod is None:
                return
            api_version, what, name, uid = "v1", "Pod", pod.name, pod.uid
        else:
            api_version, uid = API_VERSION, workload.uid
        action = "Binding" if reason == "Scheduled" else "Scheduling"
        self.out.append(EmitEvent(api_version, what, namespace, name, uid, kind, reason, action, note))
