"""How long a turn takes in which a pod's devices have become free, beside very many unlike pods that claim some.

No API server, no I/O; `core.py` runs it.
"""

from __future__ import annotations

import gc

from msgspec.structs import replace

from bench.clock import clock
from bench.decide import NOW, QUEUE, see
from bench.devices import GPUS, claim, held, pod, with_gpus
from tutti.api.core import Container, Pod, PodStatus, ResourceRequirements
from tutti.api.devices import ResourceClaimStatus
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import WriteDeviceClaim
from tutti.engine.records.device_observations import DeviceClaimSeen
from tutti.engine.records.observations import PodSeen

NODES = 500
TURNS = 7
CORES = 64
LEAST = GPUS // 2 + 1
LABELS = {QUEUE: "queue"}


def claiming_devices(count: int) -> float:
    """Milliseconds of a decide() after one of the pods that have all devices has ended, and its claim was freed.

    So many unlike pods claim more than half of the devices of a node, and its cores would do for any of them: one of
    them is given what has become free.
    """
    engine = with_gpus(NODES)
    quotas = [{"name": "cpu", "nominalQuota": 10**6}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": quotas}]}
    see(engine, "ResourceFlavor", "default", {})
    see(engine, "ClusterQueue", "queue", {"resourceGroups": [group], "namespaceSelector": {}})
    see(engine, "LocalQueue", "queue", {"clusterQueue": "queue"}, "team")
    for i in range(NODES):
        engine.observe(DeviceClaimSeen(held(f"runs-{i}", f"n{i:05d}", range(GPUS))))
        engine.observe(PodSeen(_of_size(pod(f"runs-{i}", labels=LABELS, node=f"n{i:05d}"), 1000)))
    for i in range(count):
        name = f"waits-{i}"
        engine.observe(DeviceClaimSeen(claim(name, name, LEAST + i % (GPUS - LEAST + 1))))
        engine.observe(PodSeen(_of_size(pod(name, labels=LABELS), 1000 + i * 8 * CORES // count)))
    engine.decide(NOW + 1)
    took = [_turn(engine, turn) for turn in range(TURNS)]
    return sorted(took)[TURNS // 2]


def _turn(engine: Engine, number: int) -> float:
    ends, node = f"runs-{number}", f"n{number:05d}"
    free = replace(held(ends, node, range(GPUS)), status=ResourceClaimStatus())
    ended = replace(pod(ends, labels=LABELS, node=node), status=PodStatus("Succeeded"))
    engine.observe(PodSeen(_of_size(ended, 1000)))
    engine.observe(DeviceClaimSeen(free))
    gc.collect()
    start = clock()
    decisions = engine.decide(NOW + 10 + number / 100)
    took = (clock() - start) * 1e3
    given = [one for one in decisions if isinstance(one, WriteDeviceClaim)]
    if len(given) != 1:
        raise SystemExit(f"{len(given)} claims were given devices where one was freed: this measured something else")
    return took


def _of_size(one: Pod, millicores: int) -> Pod:
    container = Container("c", resources=ResourceRequirements({"cpu": f"{millicores}m"}))
    return replace(one, spec=replace(one.spec, containers=[container]))
