"""How long the engine takes with nodes that tell of their NUMA zones: no API server, no I/O. `core.py` runs them."""

from __future__ import annotations

from bench.decide import NOW, WHEN, see, timed
from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import (
    Container,
    Namespace,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from tutti.api.numa import SINGLE_NUMA_NODE, NodeTopology, ZoneReport
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.observations import NamespaceSeen, NodeSeen, NodeTopologySeen, PodSeen, Synced

GIB = 2**30
GPU = "nvidia.com/gpu"


def aligned(nodes: int) -> Engine:
    """An engine that knows so many nodes of two zones, each with 32 cores and 4 GPUs, and their reports."""
    profiles = [{"schedulerName": "tutti", "nodeResourceTopologyMatch": {}}]
    engine = Engine(TuttiConfiguration.model_validate({"profiles": profiles}))
    engine.observe(NamespaceSeen(Namespace(ObjectMeta(name="team"))))
    offered: dict[str, str | int | float] = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"}
    whole = {"cpu": 32_000, "memory": 256 * GIB, GPU: 4}
    for i in range(nodes):
        name = f"n{i:05d}"
        engine.observe(NodeSeen(Node(ObjectMeta(name=name), status=NodeStatus(offered))))
        zones = tuple(ZoneReport(at, dict(whole), dict(whole), {at: 10, 1 - at: 21}) for at in range(2))
        engine.observe(NodeTopologySeen(NodeTopology(name, policy=SINGLE_NUMA_NODE, zones=zones)))
    engine.observe(Synced())
    engine.decide(NOW)
    return engine


def gang(nodes: int, size: int) -> float:
    """Milliseconds of the decide() that reserves and binds a gang, each member with all GPUs of a zone."""
    engine = aligned(nodes)
    see(engine, "PodGroup", "gang", {"schedulingPolicy": {"gang": {"minCount": size}}}, "team")
    asked: dict[str, str | int | float] = {"cpu": "16", "memory": "64Gi", GPU: "4"}
    containers = [Container("c", resources=ResourceRequirements(asked, asked))]
    labels = {"scheduling.tutti.dev/pod-group": "gang"}
    for rank in range(size):
        meta = ObjectMeta(f"gang-{rank}", "team", f"uid-{rank}", creation_timestamp=WHEN, labels=labels)
        engine.observe(PodSeen(Pod(meta, PodSpec(scheduler_name="tutti", containers=containers))))
    return timed(lambda: engine.decide(NOW + 1), size)
