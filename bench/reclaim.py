"""How long a workload is tried that waits at queues that may take back quota, beside very many that run.

No API server, no I/O; `core.py` runs it.
"""

from __future__ import annotations

import gc

from bench.clock import clock
from bench.decide import HOST, NOW, QUEUE, WHEN, pods, see
from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import (
    Container,
    Namespace,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import Evict
from tutti.engine.records.observations import NamespaceSeen, NodeSeen, PodSeen, Synced

QUEUES = 12
GPUS = 8
TRIES = 20


def per_try(running: int, *, borrows: bool, within: str = "Never") -> float:
    """Milliseconds of a decide() in which one workload is tried and waits on, after another has ended.

    So many pods run, each with a GPU and in a queue of a cohort of twelve that take back what others borrow; every
    GPU is in use.

    Args:
        running: How many.
        borrows: Whether the workload is of the queue that uses more than its own, so that it may take out nobody of
            another. Else it might take out any of these, but asks for nodes that nobody's leaving would give it.
        within: Whom the queues take out of their own.
    """
    engine = _full(running, within)
    selector = {} if borrows else {"rack": "none"}
    pods(engine, 1, {QUEUE: "queue-0" if borrows else "queue-1"}, prefix="waits", nodeSelector=selector)
    engine.decide(NOW + 1)
    took = []
    for turn in range(TRIES):
        engine.observe(PodSeen(_pod(running + turn, running, 0, "Succeeded")))
        gc.collect()
        start = clock()
        decisions = engine.decide(NOW + 2 + turn)
        took.append((clock() - start) * 1e3)
        if any(isinstance(one, Evict) for one in decisions):
            raise SystemExit("somebody was taken out: this measured something else")
    return sum(took) / len(took)


def _full(running: int, within: str) -> Engine:
    """Nodes whose GPUs are all in use, by every second queue more than its own; and some pods without any."""
    engine = Engine(TuttiConfiguration())
    engine.observe(NamespaceSeen(Namespace(ObjectMeta(name="team"))))
    nodes = -(-running // GPUS)
    offered: dict[str, str | int | float] = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    for i in range(nodes):
        name = f"n{i:05d}"
        engine.observe(NodeSeen(Node(ObjectMeta(name=name, labels={HOST: name}), status=NodeStatus(offered, offered))))
    covered = {"cpu": 96 * nodes // QUEUES, "memory": "1Pi", "nvidia.com/gpu": running // QUEUES}
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in covered.items()]
    group = {"coveredResources": list(covered), "flavors": [{"name": "default", "resources": quotas}]}
    see(engine, "ResourceFlavor", "default", {})
    policy = {"reclaimWithinCohort": "Any", "withinClusterQueue": within}
    for i in range(QUEUES):
        spec = {"resourceGroups": [group], "namespaceSelector": {}, "cohortName": "all", "preemption": policy}
        see(engine, "ClusterQueue", f"queue-{i}", spec)
        see(engine, "LocalQueue", f"queue-{i}", {"clusterQueue": f"queue-{i}"}, "team")
    for i in range(running):
        engine.observe(PodSeen(_pod(i, running, 1, "Running")))
    for i in range(running, running + TRIES):
        engine.observe(PodSeen(_pod(i, running, 0, "Running")))
    engine.observe(Synced())
    engine.decide(NOW)
    return engine


def _pod(i: int, running: int, gpus: int, phase: str) -> Pod:
    """One pod on a node; queues of even numbers have some more than their share, the others as many fewer."""
    queue = i % QUEUES
    queue -= queue % 2 and i < 5 * QUEUES
    meta = ObjectMeta(
        name=f"runs-{i}",
        namespace="team",
        uid=f"uid-{i:08d}",
        labels={QUEUE: f"queue-{queue}"},
        creation_timestamp=WHEN,
    )
    requests: dict[str, str | int | float] = {"cpu": "1", "memory": "1Gi"}
    if gpus:
        requests["nvidia.com/gpu"] = str(gpus)
    spec = PodSpec(
        scheduler_name="tutti",
        node_name=f"n{i // GPUS % -(-running // GPUS):05d}",
        containers=[Container("c", resources=ResourceRequirements(requests))],
    )
    return Pod(meta, spec, PodStatus(phase=phase, start_time=WHEN))
