"""How long the engine takes to keep a gang of 1,000 near one another: no API server, no I/O.

    python -m bench.topology [-o json]

Prints a table of medians over repeated runs; `-o json` prints {name: {median, min, max, unit}}.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.decide import NOW, cluster, pods, see, timed
from tutti.api.core import Node, NodeStatus, ObjectMeta
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.observations import NodeSeen

NODES_PER_RACK, NODES_PER_BLOCK = 16, 1250
SIZE = 1000


def labelled(nodes: int) -> Engine:
    """The cluster of `bench.decide`, its nodes in racks of 16 and blocks of 1,250 (10,000 GPUs each)."""
    engine = cluster(nodes)
    offered: dict[str, str | int | float] = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    for i in range(nodes):
        labels = {
            "kubernetes.io/hostname": f"n{i:05d}",
            "rack": f"r{i // NODES_PER_RACK:04d}",
            "block": f"b{i // NODES_PER_BLOCK}",
        }
        engine.observe(NodeSeen(Node(ObjectMeta(name=f"n{i:05d}", labels=labels), status=NodeStatus(offered))))
    engine.decide(NOW + 0.25)
    return engine


def first(engine: Engine, **spec: Any) -> None:
    """Place a gang of one by the same levels: domains are worked out once, and kept while no label changes."""
    see(engine, "PodGroup", "first", {**spec, "schedulingPolicy": {"gang": {"minCount": 1}}}, "team")
    pods(engine, 1, {"scheduling.tutti.dev/pod-group": "first"})
    timed(lambda: engine.decide(NOW + 0.5), 1)


def gang_in_rack(nodes: int, *, key: str = "block", mode: str = "Required") -> float:
    """Milliseconds of the decide() that reserves and binds a gang of 1,000 equal pods near one another.

    A block has room for all of them, a rack for 128: with the key "rack" the mode must be "Preferred".
    """
    engine = labelled(nodes)
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": SIZE}}}
    spec["schedulingConstraints"] = {"topology": [{"key": key, "mode": mode}]}
    first(engine, **spec)
    see(engine, "PodGroup", "gang", spec, "team")
    pods(engine, SIZE, {"scheduling.tutti.dev/pod-group": "gang"})
    return timed(lambda: engine.decide(NOW + 1), SIZE)


def gang_in_topology(nodes: int, **near: Any) -> float:
    """The same for a Workload in a queue, whose flavor has a Topology of blocks, racks and nodes."""
    engine = labelled(nodes)
    levels = [{"nodeLabel": key} for key in ("block", "rack", "kubernetes.io/hostname")]
    see(engine, "Topology", "racks", {"levels": levels})
    see(engine, "ResourceFlavor", "default", {"topologyName": "racks"})
    first(engine, queueName="queue", schedulingConstraints={"topology": [{"key": "block"}]})
    see(engine, "Workload", "gang", {"queueName": "queue", "podGroups": [{"count": SIZE, "topology": near}]}, "team")
    pods(engine, SIZE, {"scheduling.tutti.dev/workload": "gang"})
    return timed(lambda: engine.decide(NOW + 1), SIZE)


MEASURES = {
    "gang1000_rack_nodes5000_ms": lambda: gang_in_rack(5000),
    "gang1000_rack_preferred_nodes5000_ms": lambda: gang_in_rack(5000, key="rack", mode="Preferred"),
    "gang1000_topology_nodes5000_ms": lambda: gang_in_topology(5000, mode="Required", level="block"),
    "gang1000_slices_nodes5000_ms": lambda: gang_in_topology(
        5000, mode="Required", level="block", sliceSize=8, sliceLevel="kubernetes.io/hostname"
    ),
    "gang1000_rack_nodes500_ms": lambda: gang_in_rack(500),
    "gang1000_rack_nodes20000_ms": lambda: gang_in_rack(20_000),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    found = {}
    for name, measure in MEASURES.items():
        runs = [measure() for _ in range(options.runs)]
        found[name] = {"median": statistics.median(runs), "min": min(runs), "max": max(runs), "unit": "ms"}
    if options.output == "json":
        print(json.dumps(found, indent=2))  # noqa: T201 - a command's output
        return
    table = Table("what", "median", "min", "max", "unit", title=f"near one another, {options.runs} runs each")
    for name, row in found.items():
        table.add_row(name, *(f"{row[k]:.2f}" for k in ("median", "min", "max")), str(row["unit"]))
    Console().print(table)


if __name__ == "__main__":
    main()
