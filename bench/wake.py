"""How long a turn takes in which one pod has ended, beside very many unlike workloads that wait.

No API server, no I/O; `core.py` runs it.
"""

from __future__ import annotations

import gc
from typing import Any

from msgspec.structs import replace

from bench.clock import clock
from bench.decide import HOST, NOW, QUEUE, WHEN, see
from tutti.api.configuration import FairSharingSettings, TuttiConfiguration
from tutti.api.core import (
    Affinity,
    ClaimSource,
    Container,
    LabelSelector,
    Namespace,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    TopologySpreadConstraint,
    Volume,
)
from tutti.api.selectors import LabelSelectorRequirement
from tutti.api.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    StorageClass,
    VolumePhase,
)
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import Bind
from tutti.engine.records.observations import (
    ClaimSeen,
    NamespaceSeen,
    NodeSeen,
    PodSeen,
    StorageClassSeen,
    Synced,
    VolumeSeen,
)

NODES = 500
CORES = 8
TURNS = 7
MILLICORES = 1000 * CORES
ZONE = "topology.kubernetes.io/zone"
ZONES = 10
FAIR = TuttiConfiguration(fair_sharing=FairSharingSettings(enable=True))
_OF_A_QUEUE = LabelSelector(match_expressions=[LabelSelectorRequirement(QUEUE, "Exists")])


def shapes(count: int) -> float:
    """Milliseconds of a decide() after one of the pods on full nodes has ended, where so many unlike pods lack nodes.

    There is quota for all of them. What ends leaves as much room as one of them asks for, and the nodes are full again.
    """
    engine, running = _full(queues=1, waiting=count, quota=10**6)
    return _turns(engine, running)


def preempting_shapes(count: int) -> float:
    """Milliseconds of the same where they may preempt, by their queue and their priority, and that would help nobody.

    Nobody in the queue is below any of them, nobody borrows, and a node that is too small has a pod of lower priority.
    """
    policy = {"withinClusterQueue": "LowerOrNewerEqualPriority", "reclaimWithinCohort": "Any"}
    engine, running = _full(queues=1, waiting=count, quota=10**6, preemption=policy)
    return _turns(engine, running)


def claiming_shapes(count: int) -> float:
    """Milliseconds of the same where each of them mounts one volume that all share, which is bound."""
    volumes = [Volume("data", persistent_volume_claim=ClaimSource("data"))]
    engine, running = _full(queues=1, waiting=count, quota=10**6, wants=PodSpec(volumes=volumes))
    return _turns(engine, running)


def separate_shapes(count: int) -> float:
    """Milliseconds of the same where none of them may be on a node with another."""
    apart = PodAffinityTerm(HOST, _OF_A_QUEUE)
    affinity = Affinity(pod_anti_affinity=PodAffinity([apart]))
    engine, running = _full(queues=1, waiting=count, quota=10**6, wants=PodSpec(affinity=affinity))
    return _turns(engine, running)


def near_shapes(count: int) -> float:
    """Milliseconds of the same where each of them must be in a zone, one of ten, with one of its kind."""
    together = PodAffinityTerm(ZONE, _OF_A_QUEUE)
    affinity = Affinity(pod_affinity=PodAffinity([together]))
    engine, running = _full(queues=1, waiting=count, quota=10**6, wants=PodSpec(affinity=affinity))
    return _turns(engine, running)


def spread_shapes(count: int) -> float:
    """Milliseconds of the same where they are spread strictly over these zones."""
    evenly = TopologySpreadConstraint(ZONE, 1, "DoNotSchedule", _OF_A_QUEUE)
    wants = PodSpec(topology_spread_constraints=[evenly])
    engine, running = _full(queues=1, waiting=count, quota=10**6, wants=wants)
    return _turns(engine, running)


def shapes_behind_heads(count: int) -> float:
    """Milliseconds of the same where their queue keeps room for its head, which each of them is in turn."""
    engine, running = _full(queues=1, waiting=count, quota=10**6, backfill="Reserved")
    return _turns(engine, running)


def burst(count: int, ended: int) -> float:
    """Milliseconds of a decide() after so many pods have ended at once; one of those who wait has the room of each."""
    engine, running = _full(queues=1, waiting=count, quota=10**6)
    for pod in running[:ended]:
        engine.observe(PodSeen(_ended(pod)))
    gc.collect()
    start = clock()
    decisions = engine.decide(NOW + 10)
    took = (clock() - start) * 1e3
    binds = sum(isinstance(one, Bind) for one in decisions)
    if binds != ended:
        raise SystemExit(f"{binds} pods were bound where {ended} had ended: this measured something else")
    return took


def namespaces(count: int) -> float:
    """Milliseconds of a decide() after a namespace was made, and a LocalQueue there, beside so many that wait."""
    engine, _ = _full(queues=1, waiting=count, quota=10**6)
    took = []
    for turn in range(TURNS):
        name = f"new-{turn}"
        engine.observe(NamespaceSeen(Namespace(ObjectMeta(name=name))))
        see(engine, "LocalQueue", "queue", {"clusterQueue": "queue-0"}, name)
        gc.collect()
        start = clock()
        engine.decide(NOW + 10 + turn / 100)
        took.append((clock() - start) * 1e3)
    return sorted(took)[TURNS // 2]


def equals(count: int) -> float:
    """Milliseconds of the same where so many equal pods wait in one queue."""
    engine, running = _full(queues=1, waiting=count, quota=10**6, spread=0)
    return _turns(engine, running)


def queues(count: int) -> float:
    """Milliseconds of the same where so many ClusterQueues of one cohort have somebody waiting who lacks quota."""
    engine, running = _full(queues=count, waiting=count, quota=0)
    return _turns(engine, running)


def fair_queues(count: int) -> float:
    """Milliseconds of the same where these compete by fair shares, each for as much as ends; nodes have room for more.

    Who asks for least goes first by shares, and what was left would add up to a second one.
    """
    engine, running = _full(queues=count, waiting=count, quota=0, configuration=FAIR, cores=4 * CORES, spread=0)
    return _turns(engine, running)


def first_fair_queues(count: int) -> float:
    """Milliseconds of the first decide() in which somebody in each of so many queues is tried; they compete by shares.

    Every second one gets what he asks for, and the others are tried in vain.
    """
    engine = _engine(count, 0, FAIR, 4 * CORES, total=CORES * count // 2)
    engine.observe(Synced())
    engine.decide(NOW)
    for i in range(count):
        engine.observe(PodSeen(_pod(f"waits-{i}", i, MILLICORES)))
    gc.collect()
    start = clock()
    decisions = engine.decide(NOW + 1)
    took = (clock() - start) * 1e3
    if sum(isinstance(one, Bind) for one in decisions) != min(count // 2, 4 * NODES):
        raise SystemExit("others were bound than there is quota and room for: this measured something else")
    return took


def first_shapes(count: int) -> float:
    """Milliseconds of the first decide() that looks at so many unlike pods on full nodes, each of them twice."""
    engine = _engine(1, 10**6)
    for i in range(NODES):
        engine.observe(PodSeen(_pod(f"runs-{i}", 0, MILLICORES, f"n{i:05d}")))
    engine.observe(Synced())
    engine.decide(NOW)
    for i in range(2 * count):
        engine.observe(PodSeen(_pod(f"waits-{i}", 0, MILLICORES // 2 + i // 2)))
    gc.collect()
    start = clock()
    decisions = engine.decide(NOW + 1)
    took = (clock() - start) * 1e3
    if any(isinstance(one, Bind) for one in decisions):
        raise SystemExit("somebody was bound: this measured something else")
    return took


def _turns(engine: Engine, running: list[Pod]) -> float:
    took = []
    for turn in range(TURNS):
        ends = running[turn]
        engine.observe(PodSeen(_ended(ends)))
        gc.collect()
        start = clock()
        decisions = engine.decide(NOW + 10 + turn / 100)
        took.append((clock() - start) * 1e3)
        binds = [one for one in decisions if isinstance(one, Bind)]
        if len(binds) != 1:
            raise SystemExit(f"{len(binds)} pods were bound where one had ended: this measured something else")
    return sorted(took)[TURNS // 2]


def _full(
    queues: int,
    waiting: int,
    quota: int,
    configuration: TuttiConfiguration | None = None,
    cores: int = CORES,
    spread: int = MILLICORES // 2,
    preemption: dict[str, str] | None = None,
    wants: PodSpec | None = None,
    backfill: str = "",
) -> tuple[Engine, list[Pod]]:
    """Nodes each of which one pod fills, and so many that wait; who may borrow has what those that run give back.

    Where nodes have more cores than that pod asks for, only quota is all used. Of those that wait, who asks for least
    asks for `spread` millicores less than one that runs. They mount what `wants` says, keep away from what it says, and
    so on.
    """
    engine = _engine(queues, quota, configuration, cores, preemption=preemption, backfill=backfill)
    running = [_pod(f"runs-{i}", i % queues, MILLICORES, f"n{i:05d}") for i in range(NODES)]
    if preemption:
        offered: dict[str, str | int | float] = {"cpu": "1", "memory": "1Gi", "pods": "110"}
        engine.observe(NodeSeen(Node(ObjectMeta(name="small"), status=NodeStatus(offered, offered))))
        low = _pod("low", 0, 1000, "small")
        engine.observe(PodSeen(replace(low, spec=replace(low.spec, priority=-1))))
    for pod in running:
        engine.observe(PodSeen(pod))
    engine.observe(Synced())
    engine.decide(NOW)
    wants = wants or PodSpec()
    for volume in wants.volumes:
        _bind_volume(engine, volume.name)
    for i in range(waiting):
        pod = _pod(f"waits-{i}", i % queues, MILLICORES - i * spread // waiting)
        engine.observe(
            PodSeen(replace(pod, spec=replace(wants, scheduler_name="tutti", containers=pod.spec.containers)))
        )
    engine.decide(NOW + 1)
    return engine, running


def _bind_volume(engine: Engine, claim: str) -> None:
    """A claim that any number of pods may use, and the volume that it is bound to."""
    spec = PersistentVolumeClaimSpec(access_modes=["ReadWriteMany"], volume_name="shared", storage_class_name="files")
    phase = VolumePhase(phase="Bound")
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    meta = ObjectMeta(name=claim, namespace="team", uid=f"uid-{claim}", annotations=bound)
    volume = PersistentVolumeSpec(storage_class_name="files", access_modes=["ReadWriteMany"])
    engine.observe(StorageClassSeen(StorageClass(ObjectMeta(name="files"), "example.com/files")))
    engine.observe(VolumeSeen(PersistentVolume(ObjectMeta(name="shared", uid="uid-shared"), volume, phase)))
    engine.observe(ClaimSeen(PersistentVolumeClaim(meta, spec, phase)))


def _engine(
    queues: int,
    quota: int,
    configuration: TuttiConfiguration | None = None,
    cores: int = CORES,
    total: int = CORES * NODES,
    preemption: dict[str, str] | None = None,
    backfill: str = "",
) -> Engine:
    """An engine that knows nodes, and ClusterQueues with so many cores of their own, or else those of their cohort."""
    engine = Engine(configuration or TuttiConfiguration())
    engine.observe(NamespaceSeen(Namespace(ObjectMeta(name="team"))))
    offered: dict[str, str | int | float] = {"cpu": str(cores), "memory": "512Gi", "pods": "110"}
    for i in range(NODES):
        name = f"n{i:05d}"
        labels = {HOST: name, ZONE: f"zone-{i % ZONES}"}
        engine.observe(NodeSeen(Node(ObjectMeta(name=name, labels=labels), status=NodeStatus(offered, offered))))
    see(engine, "ResourceFlavor", "default", {})
    if not quota:
        see(engine, "Cohort", "all", {"resourceGroups": [_group(total)]})
    for i in range(queues):
        spec: dict[str, Any] = {"resourceGroups": [_group(quota)], "namespaceSelector": {}, "cohortName": "all"}
        spec |= {"preemption": preemption} if preemption else {}
        spec |= {"backfill": backfill} if backfill else {}
        see(engine, "ClusterQueue", f"queue-{i}", spec)
        see(engine, "LocalQueue", f"queue-{i}", {"clusterQueue": f"queue-{i}"}, "team")
    return engine


def _group(cores: int) -> dict[str, Any]:
    quotas = [{"name": "cpu", "nominalQuota": cores}]
    return {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": quotas}]}


def _pod(name: str, queue: int, millicores: int, node: str = "") -> Pod:
    meta = ObjectMeta(
        name=name, namespace="team", uid=f"uid-{name}", labels={QUEUE: f"queue-{queue}"}, creation_timestamp=WHEN
    )
    container = Container("c", resources=ResourceRequirements({"cpu": f"{millicores}m"}))
    spec = PodSpec(scheduler_name="tutti", node_name=node or None, containers=[container])
    status = PodStatus(phase="Running" if node else "Pending", start_time=WHEN if node else None)
    return Pod(meta, spec, status)


def _ended(pod: Pod) -> Pod:
    return Pod(pod.metadata, pod.spec, PodStatus(phase="Succeeded", start_time=WHEN))
