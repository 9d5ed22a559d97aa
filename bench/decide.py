"""Scenes for measuring the engine alone: no API server, no I/O. `core.py` runs them."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from bench.clock import clock
from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import (
    Container,
    Namespace,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import Bind
from tutti.engine.records.observations import NamespaceSeen, NodeSeen, ObjectSeen, PodSeen, Synced

NOW = 1_700_000_000.0
WHEN = datetime.fromtimestamp(NOW, UTC)
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
GROUP = "scheduling.tutti.dev/pod-group"
QUEUE = "scheduling.tutti.dev/queue-name"
ZONES = 10
GANG_OF_BOUND = 100
PAGE = 4096


def cluster(nodes: int, *, bound: int = 0, **configuration: Any) -> Engine:
    """An engine that knows so many nodes of 64 cores and 8 GPUs in ten zones, one queue with enough quota for all.

    So many pods are bound there, in gangs of 100, that take a little of everything but GPUs.
    """
    engine = Engine(TuttiConfiguration(**configuration))
    engine.observe(NamespaceSeen(Namespace(ObjectMeta(name="team"))))
    offered: dict[str, str | int | float] = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    for i in range(nodes):
        labels = {HOST: f"n{i:05d}", "rack": f"r{i // 16}", ZONE: f"z{i % ZONES}", REGION: f"r{i % ZONES // 5}"}
        engine.observe(NodeSeen(Node(ObjectMeta(name=f"n{i:05d}", labels=labels), status=NodeStatus(offered, offered))))
    covered = {"cpu": "1000k", "memory": "10Pi", "nvidia.com/gpu": "100k"}
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in covered.items()]
    group = {"coveredResources": list(covered), "flavors": [{"name": "default", "resources": quotas}]}
    see(engine, "ResourceFlavor", "default", {})
    see(engine, "ClusterQueue", "all", {"resourceGroups": [group], "namespaceSelector": {}})
    see(engine, "LocalQueue", "queue", {"clusterQueue": "all"}, "team")
    occupy(engine, nodes, bound)
    engine.observe(Synced())
    engine.decide(NOW)
    return engine


def see(engine: Engine, kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> None:
    """Tell the engine of an object."""
    meta = {"name": name, "uid": f"{kind}-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}
    if namespace:
        meta["namespace"] = namespace
    engine.observe(ObjectSeen(kind, {"metadata": meta, "spec": spec}))


def occupy(engine: Engine, nodes: int, count: int, *, scheduler: str = "tutti", gangs: bool = True) -> None:
    """Tell the engine of so many running pods, of gangs of 100, or each on its own."""
    for i in range(count):
        gang = f"old-{i // GANG_OF_BOUND}"
        if gangs and i % GANG_OF_BOUND == 0:
            see(engine, "PodGroup", gang, {"schedulingPolicy": {"gang": {"minCount": GANG_OF_BOUND}}}, "team")
        engine.observe(PodSeen(running(i, nodes, {GROUP: gang} if gangs else {"app": f"a{i % 500}"}, scheduler)))


def running(i: int, nodes: int, labels: dict[str, str], scheduler: str = "tutti", *, ready: bool = False) -> Pod:
    """One pod on a node, as it comes over the wire."""
    meta = ObjectMeta(
        name=f"old-{i}", namespace="team", uid=f"uid-{i:08d}", labels=labels, creation_timestamp=WHEN, generation=1
    )
    requests: dict[str, str | int | float] = {"cpu": f"{(1 + i % 7) * 100}m", "memory": "1Gi"}
    spec = PodSpec(
        scheduler_name=scheduler,
        node_name=f"n{i % nodes:05d}",
        containers=[Container("c", resources=ResourceRequirements(requests))],
    )
    conditions = [PodCondition("Ready", "True")] if ready else []
    pod = Pod(meta, spec, PodStatus(phase="Running", conditions=conditions))
    return msgspec.json.decode(msgspec.json.encode(pod), type=Pod)  # nothing of it is shared with the next one


def pods(
    engine: Engine, count: int, labels: dict[str, str], *, different: bool = False, prefix: str = "", **spec: Any
) -> None:
    """Tell the engine of so many pending pods, equal or each with another request."""
    more = msgspec.convert(spec, PodSpec)
    for i in range(count):
        cpu = f"{1000 + i}m" if different else "1"
        name = f"{prefix or labels.get(GROUP, 'single')}-{i}"
        meta = ObjectMeta(name=name, namespace="team", uid=name, labels=labels, creation_timestamp=WHEN)
        requests: dict[str, str | int | float] = {"cpu": cpu, "memory": "2Gi", "nvidia.com/gpu": "1"}
        container = Container("c", resources=ResourceRequirements(requests))
        engine.observe(
            PodSeen(Pod(meta, msgspec.structs.replace(more, scheduler_name="tutti", containers=[container])))
        )


def gang(nodes: int, size: int, queue: str = "", *, bound: int = 0) -> float:
    """Milliseconds of the decide() that reserves and binds a gang of equal pods."""
    engine = cluster(nodes, bound=bound)
    pod_group(engine, size, queue)
    pods(engine, size, {GROUP: "gang"})
    return timed(lambda: engine.decide(NOW + 1), size)


def pod_group(engine: Engine, size: int, queue: str = "") -> None:
    """Tell the engine of the PodGroup `gang`."""
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": size}}}
    if queue:
        spec["queueName"] = queue
    see(engine, "PodGroup", "gang", spec, "team")


def spread(nodes: int, size: int, when: str) -> float:
    """Milliseconds of the decide() that places a gang over zones, one pod on a node at most."""
    engine = cluster(nodes)
    pod_group(engine, size)
    selector = {"matchLabels": {"app": "x"}}
    apart = {"topologyKey": HOST, "labelSelector": selector}
    zones = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": when, "labelSelector": selector}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    pods(engine, size, {GROUP: "gang", "app": "x"}, affinity=affinity, topologySpreadConstraints=[zones])
    return timed(lambda: engine.decide(NOW + 1), size)


def singles(nodes: int, count: int, *, bound: int = 0, different: bool = True, queue: str = "") -> float:
    """Milliseconds per pod of the decide() that binds single pods, each with another request or all equal."""
    engine = cluster(nodes, bound=bound)
    pods(engine, count, {QUEUE: queue} if queue else {}, different=different)
    return timed(lambda: engine.decide(NOW + 1), count) / count


def pod_update(nodes: int, count: int) -> float:
    """Microseconds in which one change of a bound member is applied: it has become ready."""
    engine = cluster(nodes, bound=count)
    changes = [PodSeen(running(i, nodes, {GROUP: f"old-{i // GANG_OF_BOUND}"}, ready=True)) for i in range(count)]
    gc.collect()
    start = clock()
    for change in changes:
        engine.observe(change)
    return (clock() - start) * 1e6 / count


def memory(nodes: int, count: int, **pods_of: Any) -> float:
    """Megabytes that a process has grown by when its engine knows so many nodes and running pods."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_grown, (nodes, count), pods_of)


def _grown(nodes: int, count: int, **pods_of: Any) -> float:
    cluster(10, bound=GANG_OF_BOUND)  # what is loaded and compiled once is not state
    gc.collect()
    before = _resident()
    engine = cluster(nodes)
    occupy(engine, nodes, count, **pods_of)
    engine.decide(NOW + 1)
    gc.collect()
    return _resident() - before


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE / 1e6


def timed(decide: Callable[[], list[Any]], binds: int) -> float:
    """Run once, check that everything was bound, and return milliseconds."""
    gc.collect()
    start = clock()
    decisions = decide()
    took = (clock() - start) * 1e3
    bound = sum(isinstance(one, Bind) for one in decisions)
    if bound != binds:
        raise SystemExit(f"{bound} of {binds} pods were bound: this measured something else")
    return took
