"""How many workloads the engine admits per second through many queues: no API server, no I/O. Run by `make bench`.

1,000 ClusterQueues in 50 cohorts, 50,000 workloads of one pod pending in the mix of Kueue's large-scale test (35 small,
11 medium and 4 large of each 50), on a few large nodes, so that quota is what they wait for. In each round the engine
decides, what it binds is seen bound, and all that ran in the round before ends. Deciding and observing both count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Container, Namespace, Node, NodeStatus, ObjectMeta, Pod, PodSpec, ResourceRequirements
from tutti.engine.decisions import Bind
from tutti.engine.engine import Engine
from tutti.engine.observations import BindFinished, NamespaceSeen, NodeSeen, ObjectSeen, PodGone, PodSeen, Synced

NOW = 1_700_000_000.0
MIX = [(35, 1, 50), (11, 5, 100), (4, 20, 200)]
"""How many of 50, cores and priority: small, medium and large (Kueue, test/performance/scheduler, large-scale)."""

replaced = msgspec.structs.replace


@dataclass
class Cluster:
    """An engine, and the pods that it has been told of."""

    queues: int
    cohorts: int
    nodes: int
    fair: bool = False
    running: list[Pod] = field(default_factory=list)
    pods: dict[str, Pod] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.engine = Engine(TuttiConfiguration.model_validate({"fairSharing": {"enable": self.fair}}))
        self.engine.observe(NamespaceSeen(Namespace(ObjectMeta(name="team"))))
        offered: dict[str, str | int | float] = {"cpu": "100k", "memory": "1Pi", "pods": "100k"}
        for i in range(self.nodes):
            self.engine.observe(NodeSeen(Node(ObjectMeta(name=f"n{i}"), status=NodeStatus(offered))))
        self.see("ResourceFlavor", "default", {})
        quota = {"name": "cpu", "nominalQuota": "20", "borrowingLimit": "100"}
        group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
        for i in range(self.queues):
            spec = {"resourceGroups": [group], "namespaceSelector": {}, "cohortName": f"cohort-{i % self.cohorts}"}
            self.see("ClusterQueue", f"cq-{i}", spec)
            self.see("LocalQueue", f"lq-{i}", {"clusterQueue": f"cq-{i}"}, "team")
        self.engine.observe(Synced())
        self.engine.decide(NOW)

    def see(self, kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> None:
        """Tell the engine of an object."""
        meta = {"name": name, "uid": f"{kind}-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}
        if namespace:
            meta["namespace"] = namespace
        self.engine.observe(ObjectSeen(kind, {"metadata": meta, "spec": spec}))

    def submit(self, workloads: int) -> None:
        """Have so many workloads pending, spread evenly over the queues."""
        number = 0
        for turn in range(workloads // self.queues):
            cores, priority = size_of(turn)
            for queue in range(self.queues):
                self.pods[f"w{number}"] = self.pod(f"w{number}", queue, cores, priority, NOW - 100_000 + number)
                self.engine.observe(PodSeen(self.pods[f"w{number}"]))
                number += 1

    def pod(self, name: str, queue: int, cores: int, priority: int, created: float) -> Pod:
        """A workload of one pod."""
        labels = {"scheduling.tutti.dev/queue-name": f"lq-{queue}"}
        when = datetime.fromtimestamp(created, UTC)
        meta = ObjectMeta(name=name, namespace="team", uid=name, labels=labels, creation_timestamp=when)
        asked: dict[str, str | int | float] = {"cpu": str(cores)}
        containers = [Container("c", resources=ResourceRequirements(asked))]
        return Pod(meta, PodSpec(scheduler_name="tutti", priority=priority, containers=containers))

    def go_round(self, now: float) -> int:
        """Decide once; what is bound runs, and what ran before ends."""
        binds = [one for one in self.engine.decide(now) if isinstance(one, Bind)]
        ended, self.running = self.running, []
        for bind in binds:
            pod = self.pods.pop(bind.name)
            pod = replaced(pod, spec=replaced(pod.spec, node_name=bind.node))
            self.engine.observe(PodSeen(pod))
            self.engine.observe(BindFinished("team", bind.name, bind.uid, bind.node, "Bound"))
            self.running.append(pod)
        for pod in ended:
            self.engine.observe(PodGone("team", pod.metadata.name, pod.metadata.uid))
        return len(binds)


def size_of(turn: int) -> tuple[int, int]:
    """Return cores and priority of the workloads submitted in one turn: the mix in an order without pattern."""
    at = turn * 17 % 50
    for count, cores, priority in MIX:
        if at < count:
            return cores, priority
        at -= count
    raise AssertionError("the mix has 50 in all")


def throughput(workloads: int, *, pending: int, queues: int, cohorts: int, nodes: int, fair: bool) -> float:
    """Admissions per second, over the first so many of all that are pending."""
    cluster = Cluster(queues, cohorts, nodes, fair)
    cluster.submit(pending)
    admitted, now, start = 0, NOW, time.perf_counter()
    while admitted < workloads:
        now += 1.0
        more = cluster.go_round(now)
        if not more and not cluster.running:
            raise SystemExit(f"{admitted} were admitted and then no more: this measured something else")
        admitted += more
    return admitted / (time.perf_counter() - start)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pending", type=int, default=50_000)
    parser.add_argument("--admit", type=int, default=50_000)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--cohorts", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    found = {}
    for name, fair in (("admissions_per_s", False), ("admissions_fair_per_s", True)):
        runs = [
            throughput(
                options.admit,
                pending=options.pending,
                queues=options.queues,
                cohorts=options.cohorts,
                nodes=options.nodes,
                fair=fair,
            )
            for _ in range(options.runs)
        ]
        found[name] = {"median": statistics.median(runs), "min": min(runs), "max": max(runs), "unit": "workloads/s"}
    if options.output == "json":
        print(json.dumps(found, indent=2))  # noqa: T201 - a command's output
        return
    for name, row in found.items():
        print(f"{name}: {row['median']:,.0f} {row['unit']} ({row['min']:,.0f} to {row['max']:,.0f})")  # noqa: T201


if __name__ == "__main__":
    main()
