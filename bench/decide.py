"""How long the engine takes to decide: no API server, no I/O. Run by `make bench`.

Prints a table of medians over repeated runs; `-o json` prints {name: {median, min, max, unit}}.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Container, Namespace, Node, NodeStatus, ObjectMeta, Pod, PodSpec, ResourceRequirements
from tutti.engine.decisions import Bind
from tutti.engine.engine import Engine
from tutti.engine.observations import NamespaceSeen, NodeSeen, ObjectSeen, PodSeen, Synced

NOW = 1_700_000_000.0
WHEN = datetime.fromtimestamp(NOW, UTC)


def cluster(nodes: int) -> Engine:
    """An engine that knows so many nodes of 64 cores and 8 GPUs, and one queue with enough quota for all."""
    engine = Engine(TuttiConfiguration())
    engine.observe(NamespaceSeen(Namespace(ObjectMeta(name="team"))))
    offered: dict[str, str | int | float] = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    for i in range(nodes):
        meta = ObjectMeta(name=f"n{i:05d}", labels={"kubernetes.io/hostname": f"n{i:05d}", "rack": f"r{i // 16}"})
        engine.observe(NodeSeen(Node(meta, status=NodeStatus(offered))))
    covered = {"cpu": "1000k", "memory": "10Pi", "nvidia.com/gpu": "100k"}
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in covered.items()]
    group = {"coveredResources": list(covered), "flavors": [{"name": "default", "resources": quotas}]}
    see(engine, "ResourceFlavor", "default", {})
    see(engine, "ClusterQueue", "all", {"resourceGroups": [group], "namespaceSelector": {}})
    see(engine, "LocalQueue", "queue", {"clusterQueue": "all"}, "team")
    engine.observe(Synced())
    engine.decide(NOW)
    return engine


def see(engine: Engine, kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> None:
    """Tell the engine of an object."""
    meta = {"name": name, "uid": f"{kind}-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}
    if namespace:
        meta["namespace"] = namespace
    engine.observe(ObjectSeen(kind, {"metadata": meta, "spec": spec}))


def pods(engine: Engine, count: int, labels: dict[str, str], *, different: bool = False) -> None:
    """Tell the engine of so many pending pods, equal or each with another request."""
    for i in range(count):
        cpu = f"{1000 + i % 997}m" if different else "1"
        name = f"{labels.get('scheduling.tutti.dev/pod-group', 'single')}-{i}"
        meta = ObjectMeta(name=name, namespace="team", uid=name, labels=labels, creation_timestamp=WHEN)
        requests: dict[str, str | int | float] = {"cpu": cpu, "memory": "2Gi", "nvidia.com/gpu": "1"}
        spec = PodSpec(scheduler_name="tutti", containers=[Container("c", resources=ResourceRequirements(requests))])
        engine.observe(PodSeen(Pod(meta, spec)))


def gang(nodes: int, size: int, queue: str) -> float:
    """Milliseconds of the decide() that reserves and binds a gang of equal pods."""
    engine = cluster(nodes)
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": size}}}
    if queue:
        spec["queueName"] = queue
    see(engine, "PodGroup", "gang", spec, "team")
    pods(engine, size, {"scheduling.tutti.dev/pod-group": "gang"})
    return timed(lambda: engine.decide(NOW + 1), size)


def singles(nodes: int, count: int) -> float:
    """Milliseconds per pod of the decide() that binds different single pods."""
    engine = cluster(nodes)
    pods(engine, count, {}, different=True)
    return timed(lambda: engine.decide(NOW + 1), count) / count


def timed(decide: Callable[[], list[Any]], binds: int) -> float:
    """Run once, check that everything was bound, and return milliseconds."""
    start = time.perf_counter()
    decisions = decide()
    took = (time.perf_counter() - start) * 1e3
    bound = sum(isinstance(one, Bind) for one in decisions)
    if bound != binds:
        raise SystemExit(f"{bound} of {binds} pods were bound: this measured something else")
    return took


MEASURES: dict[str, tuple[str, Callable[[], float]]] = {
    "gang1000_nodes5000_ms": ("ms", lambda: gang(5000, 1000, "")),
    "gang1000_nodes5000_queue_ms": ("ms", lambda: gang(5000, 1000, "queue")),
    "gang1000_nodes500_ms": ("ms", lambda: gang(500, 1000, "")),
    "single_nodes5000_ms": ("ms/pod", lambda: singles(5000, 200)),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    found = {}
    for name, (unit, measure) in MEASURES.items():
        runs = [measure() for _ in range(options.runs)]
        found[name] = {"median": statistics.median(runs), "min": min(runs), "max": max(runs), "unit": unit}
    if options.output == "json":
        print(json.dumps(found, indent=2))  # noqa: T201 - a command's output
        return
    table = Table("what", "median", "min", "max", "unit", title=f"decide(), {options.runs} runs each")
    for name, row in found.items():
        table.add_row(name, *(f"{row[k]:.2f}" for k in ("median", "min", "max")), str(row["unit"]))
    Console().print(table)


if __name__ == "__main__":
    main()
