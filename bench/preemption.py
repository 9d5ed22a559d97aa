"""How long the search for victims takes where a gang finds every node full: no API server, no I/O."""

from __future__ import annotations

import numpy as np

from bench.clock import clock
from bench.decide import HOST, NOW, WHEN
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
from tutti.cluster.cluster import Cluster
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import Evict
from tutti.engine.records.observations import NamespaceSeen, NodeSeen, PodSeen, Synced
from tutti.placement.gang import Ask
from tutti.placement.preemption.units import VictimUnits
from tutti.placement.preemption.victims import choose_victims
from tutti.placement.profile import DEFAULT_PROFILE

MEMBERS = 64
PODS_PER_NODE = 8
GPU = "nvidia.com/gpu"


def full(nodes: int) -> Cluster:
    """So many nodes of 8 GPUs, each full of pods with one GPU of five priorities."""
    cluster = Cluster()
    offered: dict[str, str | int | float] = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"}
    for i in range(nodes):
        name = f"n{i:05d}"
        cluster.put_node(
            Node(ObjectMeta(name=name, labels={"kubernetes.io/hostname": name}), status=NodeStatus(offered))
        )
        for j in range(PODS_PER_NODE):
            number = i * PODS_PER_NODE + j
            meta = ObjectMeta(name=f"p{number}", namespace="team", uid=f"p{number}")
            spec = pod_spec("1", node=name, priority=number * 7919 % 5)
            cluster.put_pod(Pod(meta, spec, PodStatus("Running")), keep=False)
    return cluster


def pod_spec(gpus: str, *, node: str = "", priority: int = 0) -> PodSpec:
    """What a pod asks for that wants so many GPUs."""
    requests: dict[str, str | int | float] = {"cpu": gpus, "memory": "2Gi", GPU: gpus}
    containers = [Container("c", resources=ResourceRequirements(requests))]
    return PodSpec(scheduler_name="tutti", node_name=node, priority=priority, containers=containers)


def preempt_gang64(nodes: int, *, gpus: int = 8) -> float:
    """Milliseconds to choose victims for a gang of 64 pods of so many GPUs each, on so many nodes that are all full."""
    cluster = full(nodes)
    ask = Ask(cluster.classes.of(pod_spec(str(gpus))), MEMBERS)
    start = clock()
    tenants = cluster.pod_columns
    units = VictimUnits.among(cluster, np.flatnonzero((tenants.row >= 0) & (tenants.priority < 10)))
    chosen = choose_victims(cluster, [ask], units, profile=DEFAULT_PROFILE)
    took = (clock() - start) * 1e3
    if chosen is None or len(chosen.victims) != MEMBERS * gpus:
        raise SystemExit(f"{MEMBERS * gpus} victims were expected: this measured something else")
    return took


def preempt_singles(nodes: int, count: int) -> float:
    """Milliseconds of a decide() for each of so many equal pods of which each takes three of the four on some node."""
    engine = Engine(TuttiConfiguration())
    engine.observe(NamespaceSeen(Namespace(ObjectMeta(name="team"))))
    offered: dict[str, str | int | float] = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    for i in range(nodes):
        meta = ObjectMeta(name=f"n{i:05d}", labels={HOST: f"n{i:05d}"})
        engine.observe(NodeSeen(Node(meta, status=NodeStatus(offered, offered))))
    for i in range(4 * nodes):
        engine.observe(PodSeen(_single(f"low-{i}", "900m", 0, f"n{i // 4:05d}")))
    engine.observe(Synced())
    engine.decide(NOW)
    for i in range(count):
        engine.observe(PodSeen(_single(f"high-{i}", "3", 10)))
    start = clock()
    decisions = engine.decide(NOW + 1)
    took = (clock() - start) * 1e3
    if sum(isinstance(one, Evict) for one in decisions) != 3 * count:
        raise SystemExit(f"{3 * count} victims were expected: this measured something else")
    return took / count


def _single(name: str, cpu: str, priority: int, node: str = "") -> Pod:
    meta = ObjectMeta(name=name, namespace="team", uid=name, creation_timestamp=WHEN)
    containers = [Container("c", resources=ResourceRequirements({"cpu": cpu, "memory": "500Mi"}))]
    spec = PodSpec(scheduler_name="tutti", node_name=node or None, priority=priority, containers=containers)
    return Pod(meta, spec, PodStatus("Running" if node else "Pending", start_time=WHEN if node else None))
