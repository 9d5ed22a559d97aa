"""What a day of mixed GPU jobs leaves free for large gangs, by how nodes are chosen. Run by `make bench-fragmentation`.

Jobs of 1, 2, 4, 8 and 32 GPUs arrive at random and end after random times, the same in every run of a seed. They go
through the engine as they would in a cluster: arrival, decision, bind, end. Every ten minutes of the day it is counted
how many gangs of 8 GPUs would still fit with all members on one node. Prints medians over several days; `-o json`
prints {name: {median, min, max, unit}}.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Container, Namespace, Node, NodeStatus, ObjectMeta, Pod, PodSpec, ResourceRequirements
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import Bind
from tutti.engine.records.observations import (
    BindAnswer,
    BindFinished,
    NamespaceSeen,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
    Synced,
)

GPU = "nvidia.com/gpu"
PER_NODE = 8
START = 1_700_000_000.0
HOUR = 3600.0
DAY = 24 * HOUR
WARM_UP = 4 * HOUR
SAMPLE = 600.0

PROFILES: dict[str, dict[str, Any]] = {
    "LeastAllocated": {},
    "MostAllocated": {"scoringStrategy": {"type": "MostAllocated"}},
    "MostAllocated, GPUs": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "nvidia.com/*"}]}},
    "acceleratorPacking": {"acceleratorPacking": {}},
}

SHORT = ("Least", "Most", "Most GPUs", "packing")

# Share of the jobs, pods of a job, GPUs of each: most jobs are small, most GPUs are in large ones.
MIX = ((0.40, 1, 1), (0.20, 1, 2), (0.08, 1, 4), (0.08, 4, 1), (0.08, 1, 8), (0.08, 8, 1), (0.03, 4, 8), (0.05, 1, 0))


@dataclass(frozen=True, slots=True)
class Job:
    """Pods that start and end together."""

    name: str
    pods: int
    gpus: int
    cpu: int
    arrives: float
    lasts: float

    @property
    def size(self) -> int:
        """GPUs in all."""
        return self.pods * self.gpus


def jobs(seed: int, nodes: int, load: float) -> list[Job]:
    """The jobs of a day that ask for so much of all GPUs on average."""
    random = Random(seed)
    mean = sum(share * pods * gpus for share, pods, gpus in MIX)
    between = HOUR * mean / (load * nodes * PER_NODE)
    out, now = [], 0.0
    for i in itertools.count():
        now += random.expovariate(1 / between)
        if now > DAY:
            return out
        _, pods, gpus = random.choices(MIX, weights=[share for share, _, _ in MIX])[0]
        cpu = random.choice((4, 8, 12)) * gpus if gpus else 16
        out.append(Job(f"j{i}", pods, gpus, cpu, START + now, random.lognormvariate(-0.5, 1.0) * HOUR))
    raise AssertionError("the day never ended")


@dataclass(slots=True)
class Findings:
    """What one day showed."""

    fits: list[int] = field(default_factory=list)
    in_use: list[float] = field(default_factory=list)
    waits: dict[int, list[float]] = field(default_factory=dict)
    spans: list[int] = field(default_factory=list)

    def figures(self) -> Iterator[tuple[str, str, float]]:
        """Yield name, unit and value of each figure."""
        yield "gangs8_fit_mean", "gangs", statistics.fmean(self.fits)
        yield "gangs8_fit_least", "gangs", min(self.fits)
        for size in (8, 32):
            waits = sorted(self.waits[size])
            yield f"wait{size}_mean", "min", statistics.fmean(waits) / 60
            yield f"wait{size}_p95", "min", waits[int(0.95 * len(waits))] / 60
        yield "wait_small_mean", "min", statistics.fmean(one for n in (1, 2, 4) for one in self.waits[n]) / 60
        yield "nodes_of_8x1", "nodes", statistics.fmean(self.spans)
        yield "gpus_in_use", "%", 100 * statistics.fmean(self.in_use)


class Cluster:
    """An engine, and what exists around it: binds succeed at once."""

    def __init__(self, nodes: int, profile: dict[str, Any]) -> None:
        self.engine = Engine(TuttiConfiguration.model_validate({"profiles": [{"schedulerName": "tutti", **profile}]}))
        self.engine.observe(NamespaceSeen(Namespace(ObjectMeta(name="team"))))
        offered: dict[str, str | int | float] = {"cpu": "128", "memory": "1Ti", "pods": "110", GPU: str(PER_NODE)}
        for i in range(nodes):
            meta = ObjectMeta(name=f"n{i:04d}", labels={"kubernetes.io/hostname": f"n{i:04d}"})
            self.engine.observe(NodeSeen(Node(meta, status=NodeStatus(offered))))
        self.engine.observe(Synced())
        self._pods: dict[str, Pod] = {}

    def arrive(self, job: Job) -> None:
        """A job's pods come to exist, and a PodGroup where there are several."""
        labels = {"job": job.name}
        when = datetime.fromtimestamp(job.arrives, UTC)
        if job.pods > 1:
            labels["scheduling.tutti.dev/pod-group"] = job.name
            meta = {"name": job.name, "namespace": "team", "uid": job.name, "creationTimestamp": when.isoformat()}
            spec = {"schedulingPolicy": {"gang": {"minCount": job.pods}}}
            self.engine.observe(ObjectSeen("PodGroup", {"metadata": meta, "spec": spec}))
        requests: dict[str, str | int | float] = {"cpu": str(job.cpu), "memory": f"{4 * job.cpu}Gi"}
        if job.gpus:
            requests[GPU] = str(job.gpus)
        spec_of_pod = PodSpec(
            scheduler_name="tutti", containers=[Container("c", resources=ResourceRequirements(requests))]
        )
        for rank in range(job.pods):
            name = f"{job.name}-{rank}"
            pod = Pod(ObjectMeta(name, "team", name, creation_timestamp=when, labels=labels), spec_of_pod)
            self._pods[name] = pod
            self.engine.observe(PodSeen(pod))

    def decide(self, now: float) -> Iterator[tuple[str, str]]:
        """Decide until nothing more comes of it, and yield pod and node of each bind."""
        while True:
            binds = [one for one in self.engine.decide(now) if isinstance(one, Bind)]
            if not binds:
                return
            for bind in binds:
                self._bound(bind)
                yield bind.name, bind.node

    def _bound(self, bind: Bind) -> None:
        pod = self._pods[bind.name]
        spec = msgspec.structs.replace(pod.spec, node_name=bind.node)
        status = msgspec.structs.replace(pod.status, phase="Running")
        self.engine.observe(BindFinished("team", bind.name, bind.uid, bind.node, BindAnswer.BOUND))
        self.engine.observe(PodSeen(msgspec.structs.replace(pod, spec=spec, status=status)))

    def end(self, job: Job) -> None:
        """A job's pods are gone."""
        for rank in range(job.pods):
            name = f"{job.name}-{rank}"
            del self._pods[name]
            self.engine.observe(PodGone("team", name, name))
        if job.pods > 1:
            self.engine.observe(ObjectGone("PodGroup", "team", job.name))

    def free_gpus(self) -> list[int]:
        """How many GPUs are free on each node."""
        nodes = self.engine.state.cluster.nodes
        column = nodes.resource_index.column(GPU)
        free: list[int] = (nodes.allocatable[:, column] - nodes.requested[:, column]).tolist()
        return free


def day(seed: int, nodes: int, load: float, profile: dict[str, Any]) -> Findings:
    """Replay one day."""
    cluster, found = Cluster(nodes, profile), Findings()
    todo = jobs(seed, nodes, load)
    by_name = {job.name: job for job in todo}
    missing = {job.name: job.pods for job in todo}
    where: dict[str, set[str]] = {job.name: set() for job in todo}
    number = itertools.count()
    events = [(job.arrives, next(number), "arrives", job) for job in todo]
    heapq.heapify(events)
    sample, now = START + WARM_UP, START
    while now < START + DAY:
        alarm = cluster.engine.wakeup()
        now = min(events[0][0] if events else START + DAY, max(now, alarm) if alarm is not None else START + DAY)
        while sample <= min(now, START + DAY - 1):
            free = cluster.free_gpus()
            found.fits.append(sum(left == PER_NODE for left in free))
            found.in_use.append(1 - sum(free) / (nodes * PER_NODE))
            sample += SAMPLE
        while events and events[0][0] <= now:
            _, _, what, job = heapq.heappop(events)
            if what == "arrives":
                cluster.arrive(job)
            else:
                cluster.end(job)
        for pod, node in cluster.decide(now):
            job = by_name[pod.rpartition("-")[0]]
            where[job.name].add(node)
            missing[job.name] -= 1
            if not missing[job.name]:
                heapq.heappush(events, (now + job.lasts, next(number), "ends", job))
                _note(found, job, now - job.arrives, len(where[job.name]))
    for job in todo:  # those still waiting have waited that long at least
        if missing[job.name]:
            found.waits.setdefault(job.size, []).append(START + DAY - job.arrives)
    return found


def _note(found: Findings, job: Job, waited: float, nodes: int) -> None:
    if job.arrives < START + WARM_UP:
        return
    found.waits.setdefault(job.size, []).append(waited)
    if (job.pods, job.gpus) == (8, 1):
        found.spans.append(nodes)


def measure(days: int, nodes: int, load: float, console: Console) -> dict[str, dict[str, dict[str, Any]]]:
    """Replay each day with each profile; returns profile -> figure -> {median, min, max, unit}."""
    out: dict[str, dict[str, dict[str, Any]]] = {}
    for name, profile in PROFILES.items():
        values: dict[str, tuple[str, list[float]]] = {}
        for seed in range(days):
            with console.status(f"{name}: day {seed + 1} of {days}"):
                for figure, unit, value in day(seed, nodes, load, profile).figures():
                    values.setdefault(figure, (unit, []))[1].append(value)
        out[name] = {
            figure: {"median": statistics.median(all_), "min": min(all_), "max": max(all_), "unit": unit}
            for figure, (unit, all_) in values.items()
        }
    return out


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--load", type=float, default=0.8, help="GPUs asked for, as a part of those there are")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    found = measure(options.days, options.nodes, options.load, Console(stderr=True))
    if options.output == "json":
        flat = {f"{name}: {figure}": row for name, rows in found.items() for figure, row in rows.items()}
        print(json.dumps(flat, indent=2))  # noqa: T201 - a command's output
        return
    title = f"{options.days} days, {options.nodes} nodes of {PER_NODE} GPUs, load {options.load:g}: medians"
    table = Table("what", "unit", *SHORT, title=title)
    for figure, row in next(iter(found.values())).items():
        table.add_row(figure, str(row["unit"]), *(f"{rows[figure]['median']:.1f}" for rows in found.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
