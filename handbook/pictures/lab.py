"""A cluster in virtual time for pictures: the operator's engine, nodes, and jobs that come, run for a time, and end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from tutti.api.configuration import TuttiConfiguration
from tutti.api.conventions.named_groups import POD_GROUP
from tutti.api.core import Container, Namespace, Node, NodeStatus, ObjectMeta, Pod, PodSpec, ResourceRequirements
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.explanation import LifecycleEvent, LifecycleStep
from tutti.engine.records.observations import AnyObservation, NamespaceSeen, NodeSeen, ObjectSeen, PodSeen, Synced
from tutti.engine.records.plugins import Plugins
from tutti.engine.records.workloads import Workload, WorkloadKey
from tutti.virtual_time.cluster import Habits, VirtualCluster

START: Final = 1_700_000_000.0
SPACE: Final = "default"
Amounts = Mapping[str, str | int | float]


@dataclass(slots=True)
class LabJob:
    """A job, and what became of it.

    Attributes:
        roles: How many pods carry which labels.
        asks: What each pod requests.
        seconds: How long it runs; a function is told on which nodes its pods are.
        gang: Whether its pods start together; one that is none has a single pod.
        at, started, ended: Seconds from the beginning; None where it did not happen.
        nodes: Of its pods, in the order of their names.
    """

    name: str
    at: float
    roles: Sequence[tuple[int, Mapping[str, str]]]
    asks: Amounts
    seconds: float | Callable[[Sequence[str]], float]
    gang: bool = True
    started: float | None = None
    ended: float | None = None
    nodes: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many pods it has."""
        return sum(count for count, _ in self.roles)


class Lab:
    """A cluster whose jobs are played to the end."""

    def __init__(self, plugins: Plugins | None = None, **configuration: Any) -> None:
        engine = Engine(TuttiConfiguration.model_validate(configuration), plugins or {})
        self.cluster = VirtualCluster(engine, START, Habits(self._lasts, lambda _: False))
        self.cluster.heard, self.cluster.ends = self._hear, self._end
        self.jobs: dict[WorkloadKey, LabJob] = {}
        self.tell(NamespaceSeen(Namespace(ObjectMeta(name=SPACE))))

    def tell(self, one: AnyObservation) -> None:
        """Have the engine see something."""
        self.cluster.tell(one)

    def node(self, name: str, offers: Amounts, labels: Mapping[str, str] | None = None) -> None:
        """Have a node."""
        whole: dict[str, str | int | float] = {"pods": 110, "cpu": 64, "memory": "512Gi", **offers}
        meta = ObjectMeta(name=name, labels={"kubernetes.io/hostname": name, **(labels or {})})
        self.tell(NodeSeen(Node(meta, status=NodeStatus(whole, whole))))

    def submit(self, job: LabJob) -> LabJob:
        """Have a job come at its time."""
        self.jobs["PodGroup" if job.gang else "Pod", SPACE, job.name if job.gang else f"{job.name}-0"] = job
        self.cluster.at(START + job.at, lambda: self._come(job))
        return job

    def run(self, until: float | None = None) -> None:
        """Let time pass until nothing happens any more, or until so many seconds from the beginning."""
        self.tell(Synced())
        while self.cluster.advance(None if until is None else START + until) and any(
            one.ended is None for one in self.jobs.values()
        ):
            pass

    @property
    def now(self) -> float:
        """Seconds from the beginning."""
        return self.cluster.now - START

    def _come(self, job: LabJob) -> None:
        made = datetime.fromtimestamp(START + job.at, UTC)
        if job.gang:
            meta = {"name": job.name, "namespace": SPACE, "uid": job.name, "creationTimestamp": made.isoformat()}
            spec = {"schedulingPolicy": {"gang": {"minCount": job.size}}}
            self.tell(ObjectSeen("PodGroup", {"metadata": meta, "spec": spec}))
        number = 0
        for count, labels in job.roles:
            for _ in range(count):
                name, own = f"{job.name}-{number}", {POD_GROUP: job.name} if job.gang else {}
                pod_meta = ObjectMeta(name, SPACE, name, creation_timestamp=made, labels={**labels, **own})
                containers = [Container("main", resources=ResourceRequirements(dict(job.asks)))]
                self.tell(PodSeen(Pod(pod_meta, PodSpec(scheduler_name="tutti", containers=containers))))
                number += 1

    def _lasts(self, workload: Workload) -> float | None:
        job = self.jobs.get(workload.key)
        if job is None:
            return None
        return job.seconds(job.nodes) if callable(job.seconds) else job.seconds

    def _hear(self, event: LifecycleEvent) -> None:
        job = self.jobs.get(event.workload)
        if job is None or event.step is not LifecycleStep.SCHEDULED:
            return
        job.started = self.now
        members = sorted(self.cluster.engine.state.workloads[event.workload].members(), key=lambda one: one.pod.key)
        job.nodes = [one.pod.node for one in members]

    def _end(self, key: WorkloadKey) -> None:
        if key in self.jobs:
            self.jobs[key].ended = self.now
