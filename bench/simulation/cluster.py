"""A cluster in virtual time around one engine: objects, pods, nodes, a Job controller, kubelets; no API server.

It does with each decision what a cluster would, at a time of its own clock, and shows the engine everything that comes
of it, its own status writes included. Nothing here schedules, and nothing is random.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from bench.simulation.audit import Audit
from bench.simulation.mixes import Mix
from tutti.api.core import Pod, PodCondition
from tutti.engine.cycle.engine import Engine
from tutti.engine.journal import JournalWriter
from tutti.engine.records.decisions import (
    AnyDecision,
    Bind,
    Deactivate,
    EmitEvent,
    Evict,
    KeepAdmission,
    PatchStatus,
    SetPodCondition,
)
from tutti.engine.records.observations import (
    AnyObservation,
    BindAnswer,
    BindFinished,
    Deactivated,
    EvictFinished,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
)
from tutti.engine.records.pod_admission import ADMITTED_CONDITION

START = 1_700_000_000.0
NAMESPACE = "team"
SPACING = 1.0

replaced = msgspec.structs.replace


@dataclass(slots=True, eq=False)
class Job:
    """A workload and what becomes of it.

    Attributes:
        size: How many pods it has, of so many milli-`cpu` each.
        pods: Those that exist, by name.
        template: What each of them is made from.
        bound: How many of them are on their nodes.
        admitted: When all were, Unix seconds; first and last time.
        run: Which run this is, from 1; it tells the end of this one from that of an earlier one.
        sent: How many binds and evictions of its pods are on their way.
        evictions: How often it was taken out of a run, and what the messages were.
    """

    name: str
    kind: str
    queue: str
    priority: int
    size: int
    cpu: int
    lasts: float
    created: float
    raw: dict[str, Any]
    template: Pod
    pods: dict[str, Pod] = field(default_factory=dict)
    bound: int = 0
    made: int = 0
    admitted: tuple[float, float] | None = None
    run: int = 0
    sent: int = 0
    evictions: list[str] = field(default_factory=list)
    over: bool = False


class Writes:
    """What goes to the API server, in the order in which the operator's writers send it: binds and evictions first.

    A status is written once a second at most, and what is wanted meanwhile goes along (`tutti/kube/statuses.py`). The
    limit, if there is one, is that of client-go: so many writes per second, and some at once.
    """

    def __init__(self, cluster: Cluster, qps: float, burst: int) -> None:
        self._cluster, self._qps, self._slack = cluster, qps, burst / qps if qps else 0.0
        self._urgent: deque[Callable[[], None]] = deque()
        self._rest: deque[Callable[[], None]] = deque()
        self._free, self._waits = START - self._slack, False
        self._wanted: dict[str, PatchStatus | SetPodCondition] = {}
        self._written: dict[str, float] = {}

    def put(self, what: Callable[[], None], *, urgent: bool = True) -> None:
        """Have something written when its turn comes."""
        if not self._qps:
            self._cluster.at(self._cluster.now, what)
            return
        (self._urgent if urgent else self._rest).append(what)
        self._arrange()

    def put_status(self, wanted: PatchStatus | SetPodCondition, write: Callable[[Any], None]) -> None:
        """Have a status written, with what else is wanted of it by then."""
        name = wanted.name
        before = self._wanted.get(name)
        if isinstance(before, PatchStatus) and isinstance(wanted, PatchStatus):
            wanted = replaced(wanted, status=merged(before.status, wanted.status, keep_none=True))
        self._wanted[name] = wanted
        if before is None:
            soonest = max(self._cluster.now, self._written.get(name, 0.0) + SPACING)
            self._cluster.at(soonest, lambda: self.put(lambda: self._write(name, write), urgent=False))

    def forget(self, name: str) -> None:
        """An object is gone."""
        self._written.pop(name, None)

    def _write(self, name: str, write: Callable[[Any], None]) -> None:
        self._written[name] = self._cluster.now
        write(self._wanted.pop(name))

    def _arrange(self) -> None:
        if not self._waits and (self._urgent or self._rest):
            self._waits = True
            self._free = max(self._free, self._cluster.now - self._slack) + 1 / self._qps
            self._cluster.at(max(self._cluster.now, self._free), self._pump)

    def _pump(self) -> None:
        self._waits = False
        (self._urgent or self._rest).popleft()()
        self._arrange()


class Cluster:
    """What exists, and the engine that is shown it.

    Attributes:
        now: Virtual time, Unix seconds.
        observing: Seconds of processor time that the engine took to take things in; `deciding`: to decide.
        lost: CPU-seconds of runs that were ended early.
        over: How many workloads have come to their end; `finished` is told of each.
        turns: How often it was asked to decide.
        decisions: How many of each kind the engine made.
    """

    def __init__(self, engine: Engine, audit: Audit, mix: Mix, journal: JournalWriter | None, grace: float) -> None:
        self.engine, self.audit, self.now = engine, audit, START
        self.jobs: dict[str, Job] = {}
        self.observing = self.deciding = 0.0
        self.turns = 0
        self.decisions: dict[str, int] = {}
        self.over = 0
        self.finished: Callable[[Job], None] = lambda _: None
        self.lost = 0.0
        self._writes, self._journal, self._grace = Writes(self, mix.qps, mix.burst), journal, grace
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._home: dict[str, Job] = {}

    def tell(self, observation: AnyObservation) -> None:
        """Show the engine something."""
        if self._journal is not None:
            self._journal.saw(observation)
        start = time.process_time()
        self.engine.observe(observation)
        self.observing += time.process_time() - start

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Have something happen at a time, Unix seconds."""
        heapq.heappush(self._events, (when, next(self._numbers), what))

    def advance(self) -> bool:
        """Go on to the next time at which anything happens, and let it; returns whether anything did."""
        alarm = self.engine.wakeup()
        times = [self._events[0][0]] if self._events else []
        times += [] if alarm is None else [alarm]
        if not times:
            return False
        self.now = max(self.now, min(times))
        while self._events and self._events[0][0] <= self.now:
            heapq.heappop(self._events)[2]()
        self._decide()
        return True

    def submit(self, job: Job) -> None:
        """A workload and all its pods come to exist."""
        self.jobs[job.name] = job
        self.audit.waits(job)
        self.tell(ObjectSeen("Workload", job.raw))
        for _ in range(job.size):
            self._make_pod(job)

    def _make_pod(self, job: Job) -> None:
        name = f"{job.name}-{job.made}"
        job.made += 1
        meta = replaced(job.template.metadata, name=name, uid=name, creation_timestamp=_time(self.now))
        job.pods[name] = replaced(job.template, metadata=meta)
        self._home[name] = job
        self.tell(PodSeen(job.pods[name]))

    def _decide(self) -> None:
        self.turns += 1
        start = time.process_time()
        decisions = self.engine.decide(self.now)
        self.deciding += time.process_time() - start
        if self._journal is not None:
            self._journal.decided(self.now, decisions)
        for decision in decisions:
            name = type(decision).__name__
            self.decisions[name] = self.decisions.get(name, 0) + 1
            if not isinstance(decision, EmitEvent):
                self._send(decision)
        self.audit.after_turn(self)

    def _send(self, decision: AnyDecision) -> None:
        """Have a write carried out when the client gets to it."""
        match decision:
            case Bind() | Evict():
                self._home[decision.name].sent += 1
                self._writes.put(lambda: self._carry_out(decision))
            case PatchStatus() | SetPodCondition():
                self._writes.put_status(decision, self._carry_out)
            case _:
                self._writes.put(lambda: self._carry_out(decision))

    def _carry_out(self, decision: AnyDecision) -> None:
        match decision:
            case Bind():
                self._bind(decision)
            case Evict():
                self._evict(decision)
            case PatchStatus():
                self._patch(decision)
            case SetPodCondition():
                self._set_condition(decision)
            case KeepAdmission():
                self._keep_admission(decision)
            case Deactivate():
                self._deactivate(decision)
            case _:
                raise SystemExit(f"this cluster cannot carry out {type(decision).__name__}")

    def _bind(self, bind: Bind) -> None:
        job = self._home.get(bind.name)
        pod = None if job is None else job.pods.get(bind.name)
        if job is None or pod is None or pod.metadata.deletion_timestamp is not None:
            self.tell(BindFinished(NAMESPACE, bind.name, bind.uid, bind.node, BindAnswer.GONE))
            return
        job.sent -= 1
        self.audit.binds(self, job, pod, bind.node)
        meta = replaced(pod.metadata, annotations=bind.annotations)
        status = replaced(pod.status, phase="Running", conditions=[PodCondition("Ready", "True")])
        spec = replaced(pod.spec, node_name=bind.node)
        job.pods[bind.name] = replaced(pod, metadata=meta, spec=spec, status=status)
        job.bound += 1
        self.tell(BindFinished(NAMESPACE, bind.name, bind.uid, bind.node, BindAnswer.BOUND))
        self.tell(PodSeen(job.pods[bind.name]))
        if job.bound == job.size:
            self._runs(job)

    def _runs(self, job: Job) -> None:
        job.admitted = (job.admitted[0] if job.admitted else self.now, self.now)
        job.run += 1
        run = job.run
        self.at(self.now + job.lasts, lambda: self._end(job, run))

    def _end(self, job: Job, run: int) -> None:
        """A run has come to its end: its pods succeed, and are cleaned up with their workload."""
        if job.run != run or job.bound < job.size:
            return
        job.over = True
        self.over += 1
        self.finished(job)
        self.audit.ends(job)
        for name, pod in job.pods.items():
            job.pods[name] = replaced(pod, status=replaced(pod.status, phase="Succeeded", conditions=[]))
            self.tell(PodSeen(job.pods[name]))
        self.at(self.now + self._grace, lambda: self._clean_up(job))

    def _clean_up(self, job: Job) -> None:
        for name, pod in job.pods.items():
            self.tell(PodGone(NAMESPACE, name, pod.metadata.uid))
            self._writes.forget(name)
            del self._home[name]
        self._writes.forget(job.name)
        job.pods.clear()
        del self.jobs[job.name]
        self.tell(ObjectGone("Workload", NAMESPACE, job.name))

    def _evict(self, evict: Evict) -> None:
        job = self._home.get(evict.name)
        if job is None or job.over:
            self.tell(EvictFinished(NAMESPACE, evict.name, evict.uid, done=True))
            return
        job.sent -= 1
        pod = job.pods[evict.name]
        if job.bound == job.size and job.admitted is not None:
            job.evictions.append(evict.message.partition(" (member of")[0])
            self.audit.evicts(job, job.evictions[-1])
            self.lost += job.size * job.cpu / 1000 * (self.now - job.admitted[1])
        meta = replaced(pod.metadata, deletion_timestamp=_time(self.now))
        job.pods[evict.name] = replaced(pod, metadata=meta)
        job.bound -= bool(pod.spec.node_name)
        self.tell(PodSeen(job.pods[evict.name]))
        self.tell(EvictFinished(NAMESPACE, evict.name, evict.uid, done=True))
        self.at(self.now + self._grace, lambda: self._gone(job, evict.name))

    def _gone(self, job: Job, name: str) -> None:
        """A pod that was told to leave has; its Job makes another."""
        pod = job.pods.pop(name)
        del self._home[name]
        self._writes.forget(name)
        self.audit.leaves(job, pod)
        self.tell(PodGone(NAMESPACE, name, pod.metadata.uid))
        self._make_pod(job)

    def _patch(self, patch: PatchStatus) -> None:
        job = self.jobs.get(patch.name)
        if patch.kind != "Workload" or job is None:
            return
        job.raw = {**job.raw, "status": merged(job.raw.get("status", {}), patch.status)}
        self.tell(ObjectSeen("Workload", job.raw))

    def _set_condition(self, wanted: SetPodCondition) -> None:
        job = self._home.get(wanted.name)
        pod = None if job is None else job.pods[wanted.name]
        if job is None or pod is None or pod.spec.node_name:
            return
        said = PodCondition("PodScheduled", "False", reason=wanted.reason, message=wanted.message)
        job.pods[wanted.name] = replaced(pod, status=replaced(pod.status, conditions=[said]))
        self.tell(PodSeen(job.pods[wanted.name]))

    def _keep_admission(self, wanted: KeepAdmission) -> None:
        job = self._home.get(wanted.name)
        pod = None if job is None else job.pods[wanted.name]
        if job is None or pod is None:
            return
        said = PodCondition(ADMITTED_CONDITION, "True", reason="Admitted", message=wanted.admission)
        job.pods[wanted.name] = replaced(pod, status=replaced(pod.status, conditions=[*pod.status.conditions, said]))
        self.tell(PodSeen(job.pods[wanted.name]))

    def _deactivate(self, wanted: Deactivate) -> None:
        self.audit.violated(f"workload {wanted.name} was set inactive, though nothing it did allows that")
        job, generation = self.jobs.get(wanted.name), 0
        if job is not None:
            generation = job.raw["metadata"]["generation"] + 1
            meta, spec = {**job.raw["metadata"], "generation": generation}, {**job.raw["spec"], "active": False}
            job.raw = {**job.raw, "metadata": meta, "spec": spec}
            self.tell(ObjectSeen("Workload", job.raw))
        self.tell(Deactivated(NAMESPACE, wanted.name, wanted.uid, generation=generation))


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def merged(before: Any, patch: Any, *, keep_none: bool = False) -> Any:
    """A merge patch (RFC 7386) applied as a server does it; or, keeping what it removes, put together with another."""
    if not isinstance(patch, dict):
        return patch
    out = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None and not keep_none:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value, keep_none=keep_none)
    return out
