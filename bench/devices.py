"""How long the engine takes with devices that are claimed (DRA): no API server, no I/O. `core.py` runs them."""

from __future__ import annotations

import gc
from typing import Any

import msgspec
import numpy as np

from bench.clock import clock
from bench.decide import NOW, WHEN, see
from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import (
    Container,
    Namespace,
    Node,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodResourceClaim,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from tutti.api.devices import ClaimConsumer, DeviceClass, ResourceClaim, ResourceSlice
from tutti.cluster.cluster import Cluster
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import Bind, WriteDeviceClaim, WriteExtendedClaim
from tutti.engine.records.device_observations import (
    DeviceClaimSeen,
    DeviceClassSeen,
    SliceSeen,
)
from tutti.engine.records.observations import (
    DeviceClaimWritten,
    NamespaceSeen,
    NodeSeen,
    PodSeen,
    Synced,
)
from tutti.placement.gang import Ask
from tutti.placement.preemption.units import VictimUnits
from tutti.placement.preemption.victims import choose_victims
from tutti.placement.profile import DEFAULT_PROFILE

DRIVER = "gpu.example.com"
ISLAND = f"{DRIVER}/island"
GPUS = 8


def gpu_class(resource: str = "") -> DeviceClass:
    """All devices of the driver, which stand in for an extended resource, if that is given."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    spec = {"selectors": selectors, "extendedResourceName": resource}
    return msgspec.convert({"metadata": {"name": "gpu"}, "spec": spec}, DeviceClass)


def slice_of(node: str) -> ResourceSlice:
    """Eight GPUs of one node, in one island of their own, two of each at a PCIe root."""
    devices = [
        {
            "name": f"gpu-{i}",
            "attributes": {
                "model": {"string": "h100"},
                "index": {"int": i},
                "uuid": {"string": f"{node}-{i}"},
                "island": {"string": node},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci{i // 2}"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for i in range(GPUS)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices}
    return msgspec.convert({"metadata": {"name": f"{node}-gpu"}, "spec": spec}, ResourceSlice)


def claim(name: str, owner: str, count: int, *, model: str = "", match: str = "") -> ResourceClaim:
    """A claim that was made from the template of a pod."""
    selectors = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model != "{model}"'}}] if model else []
    exactly = {"deviceClassName": "gpu", "count": count, "selectors": selectors}
    constraints = [{"matchAttribute": match}] if match else []
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}], "constraints": constraints}}
    meta = ObjectMeta(
        name, "team", f"claim-{name}", owner_references=[OwnerReference("v1", "Pod", owner, owner, controller=True)]
    )
    return msgspec.structs.replace(msgspec.convert({"spec": spec}, ResourceClaim), metadata=meta)


def pod(name: str, *, labels: dict[str, str] | None = None, node: str = "", priority: int = 0) -> Pod:
    """A pod with one claim of its name."""
    asked: dict[str, str | int | float] = {"cpu": "1", "memory": "1Gi"}
    spec = PodSpec(
        scheduler_name="tutti",
        node_name=node,
        priority=priority,
        containers=[Container("c", resources=ResourceRequirements(asked))],
        resource_claims=[PodResourceClaim("d", name)],
    )
    meta = ObjectMeta(name, "team", name, creation_timestamp=WHEN, labels=labels or {})
    return Pod(meta, spec, PodStatus("Running") if node else PodStatus())


def _node(name: str) -> Node:
    offered: dict[str, str | int | float] = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    return Node(ObjectMeta(name, labels={"kubernetes.io/hostname": name}), status=NodeStatus(offered))


def with_gpus(nodes: int, resource: str = "") -> Engine:
    """An engine that knows so many nodes with eight GPUs each, which stand in for an extended resource, if given."""
    engine = Engine(TuttiConfiguration())
    engine.observe(NamespaceSeen(Namespace(ObjectMeta(name="team"))))
    engine.observe(DeviceClassSeen(gpu_class(resource)))
    for i in range(nodes):
        engine.observe(NodeSeen(_node(f"n{i:05d}")))
        engine.observe(SliceSeen(slice_of(f"n{i:05d}")))
    engine.observe(Synced())
    engine.decide(NOW)
    return engine


def gang(nodes: int, size: int, *, match: str = ISLAND, before: bool = False) -> float:
    """Milliseconds of the decide() that reserves a gang with eight devices of one node each, and has them written.

    With `before`, another gang that asks for the same has been placed already.
    """
    engine = with_gpus(nodes)
    took = 0.0
    for name in ("first", "gang") if before else ("gang",):
        see(engine, "PodGroup", name, {"schedulingPolicy": {"gang": {"minCount": size}}}, "team")
        for rank in range(size):
            mine = f"{name}-{rank}"
            engine.observe(DeviceClaimSeen(claim(mine, mine, GPUS, match=match)))
            engine.observe(PodSeen(pod(mine, labels={"scheduling.tutti.dev/pod-group": name})))
        took = until_written(engine, size)
    return took


def singles(nodes: int, count: int) -> float:
    """Single pods per second, each of which asks for a device by an expression that nobody else has."""
    engine = with_gpus(nodes)
    for i in range(count):
        engine.observe(DeviceClaimSeen(claim(f"p{i}", f"p{i}", 1, model=f"m{i}")))
        engine.observe(PodSeen(pod(f"p{i}")))
    return count / until_written(engine, count) * 1e3


def until_written(engine: Engine, claims: int) -> float:
    """Milliseconds of deciding until so many claims are to be written; garbage of what was observed is none of it."""
    gc.collect()
    start = clock()
    decided = [*engine.decide(NOW + 1)]
    while sum(isinstance(one, WriteDeviceClaim | WriteExtendedClaim) for one in decided) < claims:
        more = engine.decide(NOW + 1)
        if not more:
            raise SystemExit(f"{claims} claims were to be written: this measured something else")
        decided += more
    return (clock() - start) * 1e3


def until_bound(engine: Engine, claims: int) -> float:
    """Milliseconds of deciding and observing until so many claims are written, are seen so, and their pods bound.

    The answers of the writer come before what is seen, in a turn of their own; a pod has one claim of its name.
    """
    gc.collect()
    start = clock()
    writes = [one for one in engine.decide(NOW + 1) if isinstance(one, WriteDeviceClaim)]
    took = clock() - start
    seen = [DeviceClaimSeen(_written(one, str(version))) for version, one in enumerate(writes, start=1)]
    about = [(one.namespace, one.name, one.uid, one.change) for one in writes]
    answers = [DeviceClaimWritten(*one, done=True, version=str(version)) for version, one in enumerate(about, start=1)]
    gc.collect()
    start = clock()
    for observations in (answers, seen):
        for one in observations:
            engine.observe(one)
        decided = engine.decide(NOW + 1)
    took += clock() - start
    if sum(isinstance(one, Bind) for one in decided) != claims:
        raise SystemExit(f"{claims} pods with claims were to be bound: this measured something else")
    return took * 1e3


def _written(write: WriteDeviceClaim, version: str) -> ResourceClaim:
    """A claim as it comes over the wire once this has been written on it."""
    before = claim(write.name, write.name, 1)
    users = [ClaimConsumer("", "pods", *one) for one in write.pods]
    status = msgspec.structs.replace(before.status, allocation=write.allocation, reserved_for=users)
    metadata = msgspec.structs.replace(before.metadata, resource_version=version)
    after = msgspec.structs.replace(before, metadata=metadata, status=status)
    return msgspec.json.decode(msgspec.json.encode(after), type=ResourceClaim)


def preempt(nodes: int, size: int, *, per_pod: int = 1) -> float:
    """Milliseconds to choose victims for a gang with all devices of a node each, where others have all devices."""
    cluster = Cluster()
    cluster.device_users.put(gpu_class())
    for i in range(nodes):
        name = f"n{i:05d}"
        cluster.put_node(_node(name))
        cluster.device_users.put(slice_of(name))
        for j in range(0, GPUS, per_pod):
            number = i * GPUS + j
            cluster.device_users.put(held(f"p{number}", name, range(j, j + per_pod)))
            cluster.put_pod(pod(f"p{number}", node=name, priority=number * 7919 % 5), keep=False)
    found = []
    for rank in range(size):
        cluster.device_users.put(claim(f"g{rank}", f"g{rank}", GPUS, match=ISLAND))
        found.append(cluster.put_pod(pod(f"g{rank}", priority=10), keep=True))
    assert found[0] is not None
    ask = Ask(found[0].pod_class, size)
    start = clock()
    there = cluster.pod_columns
    units = VictimUnits.among(cluster, np.flatnonzero((there.row >= 0) & (there.priority < 10)))
    chosen = choose_victims(cluster, [ask], units, profile=DEFAULT_PROFILE)
    took = (clock() - start) * 1e3
    if chosen is None or len(chosen.victims) != size * GPUS // per_pod:
        raise SystemExit(f"{size * GPUS // per_pod} victims were expected: this measured something else")
    return took


def held(name: str, node: str, devices: range) -> ResourceClaim:
    """The claim of a pod that has some of the devices of a node."""
    results: list[dict[str, Any]] = [
        {"request": "r", "driver": DRIVER, "pool": node, "device": f"gpu-{at}"} for at in devices
    ]
    one = claim(name, name, len(devices))
    allocation = msgspec.convert({"allocation": {"devices": {"results": results}}}, type(one.status))
    status = msgspec.structs.replace(allocation, reserved_for=[ClaimConsumer("", "pods", name, name)])
    return msgspec.structs.replace(one, status=status)


def network(nodes: int, pools: int, pods: int) -> float:
    """Single pods per second whose claims share devices of a network, one to a pool, for all nodes; each has 20 more.

    Each claim asks twice for half of what a device has: upstream's dra/consumablecapacity (scheduler_perf 1.36), in
    which 2,000 such pods meet 2,000 pools on 100 nodes.
    """
    engine = Engine(TuttiConfiguration())
    engine.observe(NamespaceSeen(Namespace(ObjectMeta(name="team"))))
    expression = f'device.driver == "{DRIVER}" && device.allowMultipleAllocations == true'
    selectors = [{"cel": {"expression": expression}}]
    engine.observe(
        DeviceClassSeen(msgspec.convert({"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}, DeviceClass))
    )
    for i in range(nodes):
        engine.observe(NodeSeen(_node(f"n{i:05d}")))
        engine.observe(
            SliceSeen(_slice(f"n{i:05d}", {"nodeName": f"n{i:05d}"}, [{"name": f"d{j}"} for j in range(20)]))
        )
    policy = {"default": "1Gi", "validRange": {"min": "1Gi"}}
    device = {"name": "shared", "allowMultipleAllocations": True}
    device["capacity"] = {"memory": {"value": "80Gi", "requestPolicy": policy}}
    for i in range(pools):
        engine.observe(SliceSeen(_slice(f"pool-{i}", {"allNodes": True}, [device])))
    engine.observe(Synced())
    engine.decide(NOW)
    half = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "40Gi"}}}
    requests = [{"name": f"req-{i}", "exactly": half} for i in range(2)]
    for i in range(pods):
        meta = claim(f"p{i}", f"p{i}", 1).metadata
        asked = msgspec.convert({"spec": {"devices": {"requests": requests}}}, ResourceClaim)
        engine.observe(DeviceClaimSeen(msgspec.structs.replace(asked, metadata=meta)))
        engine.observe(PodSeen(pod(f"p{i}")))
    return pods / until_written(engine, pods) * 1e3


def _slice(name: str, where: dict[str, Any], devices: list[dict[str, Any]]) -> ResourceSlice:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    raw = {"metadata": {"name": name}, "spec": {"driver": DRIVER, "pool": pool, **where, "devices": devices}}
    return msgspec.convert(raw, ResourceSlice)
