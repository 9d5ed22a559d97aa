"""One simulation: a mix, an engine, and what was found."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO

from bench.simulation.audit import Audit
from bench.simulation.cluster import NAMESPACE, START, Cluster, Job
from bench.simulation.mixes import BLOCK, HOST, RACK, Kind, Mix
from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Container, Namespace, Node, NodeStatus, ObjectMeta, Pod, PodSpec, ResourceRequirements
from tutti.engine.cycle.engine import Engine
from tutti.engine.journal import JournalWriter
from tutti.engine.records.observations import NamespaceSeen, NodeSeen, ObjectSeen, Synced

QUEUE_NAME, WORKLOAD, POD_GROUP = (f"scheduling.tutti.dev/{key}" for key in ("queue-name", "workload", "pod-group"))
GRACE = 30 / 10080
"""How long pods take to end, as a part of the time that a minute is stretched to: half a minute in a week."""
NEAR: tuple[dict[str, Any], ...] = (
    {"mode": "Required", "level": RACK},
    {"mode": "Preferred", "level": RACK},
    {"mode": "Preferred", "level": RACK, "balanced": True},
)


@dataclass(frozen=True, slots=True)
class Rules:
    """How a simulation differs from the published one.

    Attributes:
        strict: Whether the queues are StrictFIFO.
        fair: Whether cohorts are shared fairly.
        known: Whether workloads say how long they take at most (a quarter more than they do); for queues without
            preemption, since runs that were ended early count towards that.
        queue: What else the spec of each ClusterQueue says.
        grace: How long pods take to end once they are told to, seconds.
        recount: After how many turns everything is counted anew.
    """

    strict: bool = False
    fair: bool = False
    known: bool = False
    queue: dict[str, Any] = field(default_factory=dict)
    grace: float = 0.0
    recount: int = 1000


@dataclass(slots=True)
class OfKind:
    """What became of the workloads of one class: seconds from creation to (the last) admission, and evictions."""

    kind: Kind
    waits: list[float] = field(default_factory=list)
    first_waits: list[float] = field(default_factory=list)
    evictions: int = 0
    most_evictions: int = 0

    @property
    def mean(self) -> float:
        """Seconds to admission on average."""
        return sum(self.waits) / len(self.waits)

    @property
    def p99(self) -> float:
        """Seconds to admission that 99 of 100 do not exceed."""
        return sorted(self.waits)[math.ceil(0.99 * len(self.waits)) - 1]


@dataclass(slots=True)
class Findings:
    """What a simulation showed.

    Attributes:
        kinds: By class of workloads.
        lasted: Virtual seconds until everything was over.
        usage: The part of the nominal quota that was used until then, of 1.
        evaluated: How many workloads the engine looked at.
        observing: Seconds of processor time that the engine took to take things in; `deciding`: to decide.
        wall: Seconds that all took, the simulation itself and its checks included.
        lost: The part of all work that was lost with runs that were ended early, of 1.
    """

    kinds: dict[str, OfKind]
    lasted: float = 0.0
    usage: float = 0.0
    evaluated: int = 0
    observing: float = 0.0
    deciding: float = 0.0
    wall: float = 0.0
    turns: int = 0
    lost: float = 0.0
    decisions: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    found: int = 0
    recounts: int = 0

    @property
    def admissions(self) -> int:
        """How many workloads were admitted, those that were evicted more than once."""
        return sum(len(one.waits) + one.evictions for one in self.kinds.values())


def simulate(
    mix: Mix, rules: Rules, journal: BinaryIO | None = None, progress: Callable[[int, float], None] = lambda _, __: None
) -> Findings:
    """Run a mix until all its workloads are over, or nothing happens any more.

    Args:
        mix: What arrives where.
        rules: How it goes there.
        journal: Where the journal goes.
        progress: Told after each turn how many workloads are over, and the virtual seconds so far.
    """
    began = time.perf_counter()
    audit = Audit(mix, every=rules.recount, strict=rules.strict)
    cluster = furnished(mix, rules, audit, journal)
    findings = Findings({kind.name: OfKind(kind) for kind in mix.kinds})
    cluster.finished = lambda job: _note(findings, job)
    while cluster.over < mix.total and cluster.advance():
        progress(cluster.over, cluster.now - START)
    audit.recount(cluster)
    if cluster.over < mix.total:
        audit.violated(f"only {cluster.over} of {mix.total} workloads came to their end; nothing happens any more")
    _sum_up(findings, mix, cluster)
    findings.wall = time.perf_counter() - began
    return findings


def furnished(mix: Mix, rules: Rules, audit: Audit, journal: BinaryIO | None = None) -> Cluster:
    """A cluster with nodes and queues, in which a mix will arrive."""
    configuration = TuttiConfiguration(fairSharing={"enable": rules.fair})
    writer = None if journal is None else JournalWriter(journal, configuration)
    cluster = Cluster(Engine(configuration), audit, mix, writer, rules.grace)
    _furnish(cluster, mix, rules)
    for after, kind, queue, number in mix.arrivals():
        job = _job(mix, rules, kind, queue, number, START + after)
        cluster.at(job.created, lambda job=job: cluster.submit(job))
    return cluster


def _furnish(cluster: Cluster, mix: Mix, rules: Rules) -> None:
    """Set up nodes and queues."""
    cluster.tell(NamespaceSeen(Namespace(ObjectMeta(name=NAMESPACE))))
    for i in range(mix.nodes):
        labels = {HOST: f"n{i:04d}", RACK: f"r{i * mix.racks // mix.nodes}", BLOCK: "b0", "pool": "all"}
        offered: dict[str, str | int | float] = {"cpu": str(mix.node_cpus), "memory": "256Gi", "pods": "110"}
        cluster.tell(NodeSeen(Node(ObjectMeta(name=labels[HOST], labels=labels), status=NodeStatus(offered))))
    if mix.near:
        levels = [{"nodeLabel": label} for label in (BLOCK, RACK, HOST)]
        _see(cluster, "Topology", "default", {"levels": levels})
    near = {"topologyName": "default"} if mix.near else {}
    _see(cluster, "ResourceFlavor", "default", {"nodeLabels": {"pool": "all"}, **near})
    for kind in mix.kinds:
        _see(cluster, "WorkloadPriorityClass", kind.name, None, value=kind.priority)
    quota = {"name": "cpu", "nominalQuota": mix.nominal, "borrowingLimit": mix.borrow}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    for queue in mix.queue_names:
        spec = {
            "cohortName": queue.partition("-")[0],
            "namespaceSelector": {},
            "resourceGroups": [group],
            "queueingStrategy": "StrictFIFO" if rules.strict else "BestEffortFIFO",
            **rules.queue,
        }
        _see(cluster, "ClusterQueue", queue, spec)
        _see(cluster, "LocalQueue", queue, {"clusterQueue": queue}, namespace=NAMESPACE)
    cluster.tell(Synced())


def _see(
    cluster: Cluster, kind: str, name: str, spec: dict[str, Any] | None, *, namespace: str = "", **more: Any
) -> None:
    raw = {"metadata": _meta(f"{kind}-{name}", name, START, namespace), **more}
    if spec is not None:
        raw["spec"] = spec
    cluster.tell(ObjectSeen(kind, raw))


def _meta(uid: str, name: str, created: float, namespace: str) -> dict[str, Any]:
    when = datetime.fromtimestamp(created, UTC).isoformat()
    meta = {"name": name, "uid": uid, "creationTimestamp": when, "generation": 1}
    return {**meta, "namespace": namespace} if namespace else meta


def _job(mix: Mix, rules: Rules, kind: Kind, queue: str, number: int, created: float) -> Job:
    name = f"{queue}-{kind.name}-{number}"
    group: dict[str, Any] = {"name": "main", "count": kind.pods}
    if mix.near:
        group["topology"] = NEAR[number % len(NEAR)]
    spec: dict[str, Any] = {"queueName": queue, "priorityClassRef": {"name": kind.name}, "podGroups": [group]}
    if rules.known:
        spec["maximumExecutionTimeSeconds"] = math.ceil(1.25 * kind.lasts)
    raw = {"metadata": _meta(name, name, created, NAMESPACE), "spec": spec}
    labels = {QUEUE_NAME: queue, WORKLOAD: name}
    requests: dict[str, str | int | float] = {"cpu": f"{kind.cpu}m"}
    container = Container("c", resources=ResourceRequirements(requests))
    template = Pod(
        ObjectMeta(namespace=NAMESPACE, labels=labels, generation=1),
        PodSpec(scheduler_name="tutti", containers=[container]),
    )
    return Job(name, kind.name, queue, kind.priority, kind.pods, kind.cpu, kind.lasts, created, raw, template)


def _note(findings: Findings, job: Job) -> None:
    """Take down what became of a workload that is over."""
    one = findings.kinds[job.kind]
    assert job.admitted is not None  # it has run
    one.first_waits.append(job.admitted[0] - job.created)
    one.waits.append(job.admitted[1] - job.created)
    one.evictions += len(job.evictions)
    one.most_evictions = max(one.most_evictions, len(job.evictions))


def _sum_up(findings: Findings, mix: Mix, cluster: Cluster) -> None:
    work = sum(one.kind.size * one.kind.lasts * len(one.waits) for one in findings.kinds.values()) / 1000
    findings.lasted = cluster.now - START
    findings.usage = work / (mix.nominal * mix.cohorts * mix.queues * findings.lasted)
    findings.evaluated = cluster.engine.evaluated
    findings.observing, findings.deciding = cluster.observing, cluster.deciding
    findings.turns, findings.decisions = cluster.turns, cluster.decisions
    findings.lost = cluster.lost / (work + cluster.lost)
    findings.violations, findings.found = cluster.audit.violations, cluster.audit.found
    findings.recounts = cluster.audit.checks
