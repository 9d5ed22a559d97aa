"""Writes a large trace of our own making, in the format of Helios, and the cluster to play it on.

`python -m bench.traces DIR --jobs 100000 --nodes 1500`, then
`tutti simulate DIR/trace.csv --cluster DIR/cluster.yaml --step 10`.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import yaml

BEGIN = datetime(2020, 4, 1, tzinfo=UTC)
GPUS_PER_NODE = 8
LONGEST = 48 * 3600
# GPUs of a job, and of a hundred jobs how many ask for so many.
SIZES = ((0, 10), (1, 50), (2, 12), (4, 10), (8, 14), (16, 3), (32, 1))
HEADER = "job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue,vc\n"
QUEUES = 12


def main() -> None:
    """Write trace and cluster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=1500)
    parser.add_argument("--load", type=float, default=0.75, help="of all GPUs on average (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--reclaim", action="store_true", help="queues take back what they have lent")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "trace.csv").write_text(
        trace(options.jobs, options.nodes, options.load, seed=options.seed), "utf-8"
    )
    (options.folder / "cluster.yaml").write_text(cluster(options.nodes, reclaim=options.reclaim), "utf-8")


def trace(count: int, nodes: int, load: float, *, seed: int) -> str:
    """Return so many jobs that ask for so much of all GPUs on average."""
    random = Random(seed)
    sizes, weights = [size for size, _ in SIZES], [weight for _, weight in SIZES]
    usual = sum(_seconds(random) for _ in range(20_000)) / 20_000
    mean = sum(size * weight for size, weight in SIZES) / sum(weights)
    between = mean * usual / (load * nodes * GPUS_PER_NODE)
    lines, at = [HEADER], 0.0
    for number in range(count):
        at += random.expovariate(1 / between)
        (gpus,) = random.choices(sizes, weights)
        lasts, pods = _seconds(random), max(1, gpus // GPUS_PER_NODE)
        shape = f"u{random.randint(1, 99)},{gpus},{6 * gpus or 4},{pods}"
        times = f"{_time(at)},{_time(at)},{_time(at + lasts)},{lasts}"
        lines.append(f"{number},{shape},COMPLETED,{times},0,vc{random.randint(1, QUEUES)}\n")
    return "".join(lines)


def _seconds(random: Random) -> int:
    return int(min(LONGEST, random.lognormvariate(8.0, 1.4))) + 1


def _time(seconds: float) -> str:
    return (BEGIN + timedelta(seconds=int(seconds))).strftime("%Y-%m-%d %H:%M:%S")


def cluster(nodes: int, *, reclaim: bool) -> str:
    """Return nodes and, in one cohort, a queue for each of the trace."""
    resources = {"cpu": 96, "memory": "768Gi", "nvidia.com/gpu": GPUS_PER_NODE}
    documents = [
        {"nodes": [{"name": "gpu", "count": nodes, "resources": resources}]},
        _object("ResourceFlavor", "gpu", {}),
    ]
    parts = [{"name": "cpu", "nominalQuota": nodes * 96 // QUEUES}]
    parts.append({"name": "nvidia.com/gpu", "nominalQuota": nodes * GPUS_PER_NODE // QUEUES})
    group = {"coveredResources": [one["name"] for one in parts], "flavors": [{"name": "gpu", "resources": parts}]}
    for number in range(QUEUES):
        spec = {"cohortName": "all", "namespaceSelector": {}, "resourceGroups": [group]}
        if reclaim:
            spec["preemption"] = {"reclaimWithinCohort": "Any"}
        documents.append(_object("ClusterQueue", f"vc{number + 1}", spec))
    return yaml.safe_dump_all(documents)


def _object(kind: str, name: str, spec: dict[str, object]) -> dict[str, object]:
    return {"apiVersion": "scheduling.tutti.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


if __name__ == "__main__":
    main()
