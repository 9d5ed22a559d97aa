"""A trace, played: its jobs come, wait, run and end in virtual time, around the engine that operators run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tutti.api.conventions.flavor_seconds import FLAVOR_SECONDS
from tutti.api.conventions.named_groups import POD_GROUP, QUEUE_NAME, WORKLOAD
from tutti.api.conventions.order_annotations import PROGRESS, USER
from tutti.api.conventions.speed_by_members import SPEED_BY_MEMBERS
from tutti.api.core import Affinity, Container, NodeAffinity, ObjectMeta, Pod, PodSpec, ResourceRequirements
from tutti.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from tutti.engine.cycle.engine import Engine
from tutti.engine.journal import JournalWriter
from tutti.engine.records.explanation import LifecycleEvent, LifecycleStep
from tutti.engine.records.observations import ObjectSeen, PodSeen, Synced
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.virtual_time.cluster import Habits, VirtualCluster
from tutti_sim.hollow.nodes import GPU_LABEL
from tutti_simulate.draws import SaidProgress
from tutti_simulate.elastic import Elastic
from tutti_simulate.foreign import AppGroupPlans, labels_of
from tutti_simulate.jobs import JobPods, TraceJob
from tutti_simulate.setting import Setting
from tutti_simulate.speeds import Speeds

START = 1_700_000_000.0
"""When virtual time begins, Unix seconds."""
SAMPLES = 400
"""At how many moments it is looked at what is free, and how many wait."""
_MOST_SHAPES = 32
_IDLE_WAKEUPS = 100
"""How often an engine that nothing happens to may look at its own times before that counts as the end."""
_RAISES_EVERY = 256


@dataclass(frozen=True, slots=True)
class Rules:
    """How a trace is played.

    Attributes:
        step: What happens within so many seconds is seen together; 0: everything at its own time.
        grace: How long pods take to end that are taken out, seconds.
        resumes: Whether a job that was taken out goes on where it was; it begins anew where not.
        limits: Whether the engine is told how long jobs said that they may run.
        speeds: How fast they run in which flavor, which they say then.
        elastic: With how few of their pods they run, and how fast then; None: with all alone.
        progress: How much they say that they still make; None: they do not say.
    """

    step: float = 1.0
    grace: float = 0.0
    resumes: bool = False
    limits: bool = True
    speeds: Speeds = field(default_factory=Speeds)
    elastic: Elastic | None = None
    progress: SaidProgress | None = None


@dataclass(slots=True)
class PlayedJob:
    """What became of a job; times in seconds from the start of the trace, None where it did not happen.

    Attributes:
        first: When it first ran; `last`, when it began the run in which it ended.
        lost: Seconds of runs that were ended early.
        evictions: How often it was taken out.
        pods: How many run of one that runs with more or fewer of them; `pace`, how fast it goes on, `since` when.
        done: How many seconds of its run it has done, where it goes on at different paces.
    """

    job: TraceJob
    first: float | None = None
    last: float | None = None
    ended: float | None = None
    lost: float = 0.0
    evictions: int = 0
    runs: bool = False
    pods: int = 0
    pace: float = 0.0
    since: float = 0.0
    done: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A moment: how many jobs wait and run, what is in use of each resource, and the part of free room that is lost.

    Attributes:
        used: By resource, in scheduling units.
        fragmented: By resource, the part of what is free that the pods of the trace cannot use, of 1.
        preemptions: How often jobs were taken out until then.
    """

    at: float
    waiting: int
    running: int
    used: Mapping[str, int]
    fragmented: Mapping[str, float]
    preemptions: int = 0


@dataclass(slots=True)
class Played:
    """What came of a trace.

    Attributes:
        jobs: In the order of the trace.
        capacity: What the nodes offer together, in scheduling units.
        samples: At equal distances while work came.
        used: The integral of what was in use while work came, unit-seconds by resource.
        until: When the last job was submitted; `over`, when nothing happened any more, seconds.
        waits: Why jobs that never started still waited in the end, and how many each.
        turns: How often the engine decided; `events`, how much it was told.
    """

    jobs: list[PlayedJob]
    capacity: dict[str, int]
    nodes: int = 0
    samples: list[Sample] = field(default_factory=list)
    used: dict[str, float] = field(default_factory=dict)
    until: float = 0.0
    over: float = 0.0
    waits: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    events: int = 0
    decisions: dict[str, int] = field(default_factory=dict)
    unplayed: dict[str, int] = field(default_factory=dict)


def play(
    jobs: Sequence[TraceJob],
    setting: Setting,
    queues: Mapping[str, tuple[str, str]],
    rules: Rules,
    *,
    progress: Callable[[int], None] = lambda _: None,
    journal: Callable[[Setting], JournalWriter | None] = lambda _: None,
) -> Played:
    """Play a trace from its first job until nothing happens any more.

    Args:
        jobs: In order of submission, each with a run time.
        setting: Where.
        queues: Namespace and name of the LocalQueue of each queue of the trace.
        rules: How.
        progress: Is told how many jobs have ended, now and then.
        journal: Gives what writes the journal of it, or None.

    Raises:
        StuckError: The engine asks for ever to be called again (a fault of ours).
    """
    return _Play(jobs, setting, queues, rules, journal(setting)).run(progress)


class _Play:
    """One run: which workload is which job, and the books."""

    def __init__(
        self,
        jobs: Sequence[TraceJob],
        setting: Setting,
        queues: Mapping[str, tuple[str, str]],
        rules: Rules,
        journal: JournalWriter | None,
    ) -> None:
        self._rules, self._queues, self._setting = rules, queues, setting
        self._played = Played([PlayedJob(job) for job in jobs], setting.capacity(), len(setting.nodes))
        self._scheduler = setting.configuration.scheduler_names[0]
        self._of: dict[WorkloadKey, PlayedJob] = {}
        self._ended = self._come = self._running = self._preemptions = 0
        self._in_use: Counter[str] = Counter()
        self._counted_to = 0.0
        self._played.until = jobs[-1].submitted if jobs else 0.0
        engine = Engine(setting.configuration, setting.plugins)
        pace = None if rules.elastic is None else self._pace
        habits = Habits(self._lasts, lambda _: True, grace=rules.grace, step=rules.step, pace=pace)
        self._cluster = VirtualCluster(engine, START, habits, journal)
        self._cluster.heard, self._cluster.ends = self._hear, self._end
        self._shapes = _shapes(jobs)
        self._app_groups = AppGroupPlans(setting.foreign)

    def run(self, progress: Callable[[int], None]) -> Played:
        cluster, played = self._cluster, self._played
        for one in self._setting.seen():
            cluster.tell(one)
        cluster.tell(Synced())
        self._next(iter(enumerate(played.jobs)))
        idle = 0
        while self._ended < len(played.jobs) and idle < _IDLE_WAKEUPS:
            self._sample()
            if not cluster.advance():
                break
            idle = idle + 1 if cluster.quiet else 0
            if cluster.turns % _RAISES_EVERY == 0:
                progress(self._ended)
        progress(self._ended)
        self._account()
        played.over = max((one.ended or 0.0 for one in played.jobs), default=0.0)
        for workload in cluster.engine.state.workloads.values():
            if workload.key in self._of and self._of[workload.key].first is None:
                why = workload.explanation
                played.waits["nobody knows" if why is None else f"{why.gate.value}: {why.message}"] += 1
        played.turns, played.events = cluster.turns, cluster.told
        played.decisions, played.unplayed = dict(cluster.decisions), dict(cluster.unplayed)
        return played

    @property
    def _now(self) -> float:
        return self._cluster.now - START

    def _next(self, jobs: Iterator[tuple[int, PlayedJob]]) -> None:
        """Have the next job come at its time, and then the one after it."""
        found = next(jobs, None)
        if found is None:
            return
        number, one = found

        def come() -> None:
            self._submit(number, one)
            self._next(jobs)

        self._cluster.at(START + one.job.submitted, come)

    def _submit(self, number: int, one: PlayedJob) -> None:
        job = one.job
        space, queue = self._queues[job.queue]
        name, at = f"job-{number}", START + job.submitted
        labels, whose = {QUEUE_NAME: queue}, {USER: job.user} if job.user else {}
        limit = job.limit if self._rules.limits else None
        if limit is not None and self._rules.speeds:
            assert job.seconds is not None  # the reader has filled it in
            limit = max(limit, job.seconds) * self._rules.speeds.slowest(job)
        notes = {FLAVOR_SECONDS: self._rules.speeds.told(job)} if self._rules.speeds else {}
        if self._rules.progress is not None:
            notes[PROGRESS] = self._rules.progress.told(job)
        least, elastic = job.size, self._rules.elastic
        if elastic is not None and (least := elastic.least(job)) < job.size:
            notes |= {} if elastic.silent else {SPEED_BY_MEMBERS: elastic.told(job)}
            limit = None if limit is None else max(limit, job.seconds or 0.0) / elastic.pace(job, least)
        if limit is not None or len(job.pods) > 1:
            key: WorkloadKey = ("Workload", space, name)
            self._cluster.tell(
                ObjectSeen("Workload", _workload(_meta(space, name, at, whose), queue, job, limit, least))
            )
            labels[WORKLOAD] = name
        elif job.size > 1:
            key = ("PodGroup", space, name)
            spec = {"queueName": queue, "schedulingPolicy": {"gang": {"minCount": least}}}
            self._cluster.tell(ObjectSeen("PodGroup", {"metadata": _meta(space, name, at, whose), "spec": spec}))
            labels[POD_GROUP] = name
        else:
            key = ("Pod", space, f"{name}-0-0")
        self._of[key] = one
        self._come += 1
        roles = self._app_groups.begin(job.queue, space, name, len(job.pods), self._cluster.tell)
        labels |= labels_of(job)
        for part, pods in enumerate(job.pods):
            own = {**labels, **roles[part], **({POD_GROUP: f"part-{part}"} if key[0] == "Workload" else {})}
            spec_of_pod = self._pod_spec(job, pods)
            for rank in range(pods.count):
                pod = f"{name}-{part}-{rank}"
                made = datetime.fromtimestamp(at, UTC)
                said = {**whose, **notes}
                meta = ObjectMeta(pod, space, pod, creation_timestamp=made, labels=own, annotations=said)
                self._cluster.tell(PodSeen(Pod(meta, spec_of_pod)))

    def _pod_spec(self, job: TraceJob, pods: JobPods) -> PodSpec:
        requests: dict[str, str | int | float] = {
            name: f"{units}m" if name == "cpu" else str(units) for name, units in pods.requests.items()
        }
        affinity = None
        if job.models:
            terms = [NodeSelectorTerm([NodeSelectorRequirement(GPU_LABEL, "In", list(job.models))])]
            affinity = Affinity(NodeAffinity(NodeSelector(terms)))
        containers = [Container("main", resources=ResourceRequirements(requests))]
        return PodSpec(
            scheduler_name=self._scheduler, containers=containers, affinity=affinity, priority=job.priority or None
        )

    # the books

    def _lasts(self, workload: Workload) -> float | None:
        one = self._of.get(workload.key)
        if one is None:
            return None
        charges = [m.charge for m in workload.members() if m.charge is not None] if self._rules.speeds else []
        flavors = {flavor for charge in charges for flavor in charge.flavors.values()}
        done = one.lost if self._rules.elastic is None else one.done
        one.done = one.done if self._rules.resumes else 0.0
        return max(0.0, self._rules.speeds.seconds(one.job, flavors) - (done if self._rules.resumes else 0.0))

    def _pace(self, workload: Workload) -> float:
        one, elastic = self._of.get(workload.key), self._rules.elastic
        if one is None or elastic is None:
            return 1.0
        self._resize(one, workload.counts().bound)
        one.pace = elastic.pace(one.job, one.pods)
        return one.pace

    def _resize(self, one: PlayedJob, pods: int) -> None:
        """Count what a job has done until now, and that it runs with so many pods from now on."""
        self._account()
        one.done += (self._now - one.since) * one.pace
        one.since = self._now
        if len(one.job.pods) == 1:
            for name, units in one.job.pods[0].requests.items():
                self._in_use[name] += (pods - one.pods) * units
        one.pods = pods

    def _hear(self, event: LifecycleEvent) -> None:
        one = self._of.get(event.workload)
        if one is None:
            return
        if event.step is LifecycleStep.SCHEDULED:
            self._account()
            one.first = self._now if one.first is None else one.first
            one.last, one.runs = self._now, True
            self._count(one, 1)
        elif event.step is LifecycleStep.EVICTED:
            one.evictions += 1
            self._preemptions += 1
            if one.runs:
                self._account()
                assert one.last is not None  # it has started
                one.lost += self._now - one.last
                one.runs = False
                self._count(one, -1)

    def _end(self, key: WorkloadKey) -> None:
        one = self._of.pop(key, None)
        if one is None:
            return
        self._account()
        name = key[2].removesuffix("-0-0") if key[0] == "Pod" else key[2]
        self._app_groups.end(one.job.queue, key[1], name, self._cluster.tell)
        one.ended = self._now
        self._ended += 1
        if one.runs:
            one.runs = False
            self._count(one, -1)

    def _count(self, one: PlayedJob, sign: int) -> None:
        self._running += sign
        if self._rules.elastic is not None and len(one.job.pods) == 1:
            if sign < 0:
                self._resize(one, 0)
                one.pace = 0.0
            return
        for part in one.job.pods:
            for name, units in part.requests.items():
                self._in_use[name] += sign * part.count * units

    def _account(self) -> None:
        """Add up what was in use since it last changed, as long as work came."""
        now = min(self._now, self._played.until)
        if now > self._counted_to:
            for name, units in self._in_use.items():
                self._played.used[name] = self._played.used.get(name, 0.0) + units * (now - self._counted_to)
            self._counted_to = now

    def _sample(self) -> None:
        """Look at the cluster at each moment to be looked at before anything else happens there."""
        when = self._cluster.next_at()
        found = None
        while len(self._played.samples) < SAMPLES:
            at = self._played.until * len(self._played.samples) / SAMPLES
            if when is None or START + at >= when:
                return
            found = self._look(at) if found is None else replace(found, at=at)
            self._played.samples.append(found)

    def _look(self, at: float) -> Sample:
        nodes = self._cluster.engine.state.cluster.nodes
        free = np.where(nodes.present[:, None], nodes.allocatable - nodes.requested, 0)
        used = {name: units for name, units in sorted(self._in_use.items()) if name in self._played.capacity}
        columns = nodes.resource_index.column_of
        lost = {}
        for name in used:
            place = columns.get(name)
            if place is not None and self._shapes:
                lost[name] = _fragmented(free, place, [(nodes.vector(one), weight) for one, weight in self._shapes])
        waiting = self._come - self._ended - self._running
        return Sample(at, waiting, self._running, used, lost, self._preemptions)


def _fragmented(free: NDArray[np.int64], resource: int, shapes: Sequence[tuple[NDArray[np.int64], float]]) -> float:
    """Return the part of what is free of a resource that pods which want it find on nodes too full for them, of 1.

    A node's free amount counts as lost to a pod that the node has no room for; the mean over pods of the trace that ask
    for the resource, by how many there are (Weng et al., "Beware of Fragmentation", USENIX ATC 2023, section 4).
    """
    have = np.maximum(free[:, resource], 0)
    total = int(have.sum())
    wanted = [(vector, weight) for vector, weight in shapes if vector[resource] > 0]
    if not total or not wanted:
        return 0.0
    width = free.shape[1]
    lost = 0.0
    for vector, weight in wanted:
        asks = np.flatnonzero(vector[:width])
        fits = (free[:, asks] >= vector[asks]).all(axis=1)
        lost += weight * int(have[~fits].sum())
    return lost / total / sum(weight for _, weight in wanted)


def _shapes(jobs: Sequence[TraceJob]) -> list[tuple[dict[str, int], float]]:
    """Return the requests of pods that are most frequent in a trace, with how many pods have them."""
    found: Counter[tuple[tuple[str, int], ...]] = Counter()
    for job in jobs:
        for part in job.pods:
            found[tuple(sorted(part.requests.items()))] += part.count
    most = sorted(found.items(), key=lambda one: (-one[1], one[0]))[:_MOST_SHAPES]
    return [(dict(requests), float(count)) for requests, count in most]


def _meta(space: str, name: str, at: float, annotations: Mapping[str, str]) -> dict[str, Any]:
    when = datetime.fromtimestamp(at, UTC).isoformat()
    found = {"name": name, "namespace": space, "uid": name, "generation": 1, "creationTimestamp": when}
    return {**found, "annotations": annotations} if annotations else found


def _workload(meta: dict[str, Any], queue: str, job: TraceJob, limit: float | None, least: int) -> dict[str, Any]:
    groups: list[dict[str, Any]] = [{"name": f"part-{part}", "count": pods.count} for part, pods in enumerate(job.pods)]
    if least < job.size:
        groups[0]["minCount"] = least
    spec: dict[str, Any] = {"queueName": queue, "podGroups": groups}
    if limit is not None:
        assert job.seconds is not None  # the reader has filled it in
        spec["maximumExecutionTimeSeconds"] = math.ceil(max(limit, job.seconds)) + 1
    return {"metadata": meta, "spec": spec}
