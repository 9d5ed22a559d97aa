"""Measures a large gang that is placed by signals: measured load, throttles, and what the network costs.

Its pods are of three roles that depend on one another; every node has figures, a throttle is about all pods, and zones
cost one another between 2 and 40. Of what is not on, nothing is configured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bench.decide import GROUP, NOW, REGION, ZONE, ZONES, cluster, pod_group, pods, timed
from tutti.api.network import APP_GROUP, GROUP_LABEL, TOPOLOGY, WORKLOAD_LABEL
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.measurements import Measured, NodeFigures
from tutti.engine.records.observations import NetworkObjectSeen, ThrottleSeen

ROLES: Final = {"web": 5, "api": 3, "db": 2}
"""The parts of ten that are of each role."""
NEEDS: Final = {"web": ["api"], "api": ["db", "web"], "db": ["db"]}


def gang(nodes: int, size: int, on: Sequence[str]) -> float:
    """Milliseconds of the decide() that reserves and binds a gang with these signals on."""
    configuration: dict[str, Any] = {}
    if "load" in on:
        configuration |= {"measurements": {}, "profiles": [{"schedulerName": "tutti", "load": {"policy": "LeastUsed"}}]}
    if "throttles" in on:
        configuration["throttles"] = {}
    if "network" in on:
        configuration["network"] = {"bandwidth": True}
    engine = cluster(nodes, **configuration)
    if "load" in on:
        measure(engine, nodes)
    if "throttles" in on:
        throttle(engine)
    if "network" in on:
        connect(engine)
    engine.decide(NOW)
    pod_group(engine, size)
    for role, part in ROLES.items():
        labels = {GROUP: "gang", GROUP_LABEL: "app", WORKLOAD_LABEL: role}
        pods(engine, size * part // 10, labels, prefix=role)
    return timed(lambda: engine.decide(NOW + 1), size)


def measure(engine: Engine, nodes: int) -> None:
    """Tell the engine how many cores and bytes are in use on each node."""
    figures = {f"n{i:05d}": NodeFigures(NOW, [float(i * 37 % 60), float(i * 13 % 50)]) for i in range(nodes)}
    engine.observe(Measured(["cpu", "memory"], figures))


def throttle(engine: Engine) -> None:
    """Tell the engine of a throttle that lets all of them start."""
    spec = {
        "throttlerName": "kube-throttler",
        "selector": {"selectorTerms": [{"podSelector": {}}]},
        "threshold": {"resourceCounts": {"pod": 10_000}, "resourceRequests": {"cpu": "1000k"}},
    }
    engine.observe(ThrottleSeen("Throttle", {"metadata": {"name": "t", "namespace": "team"}, "spec": spec}))


def connect(engine: Engine) -> None:
    """Tell the engine who talks to whom, and what that costs between zones and regions."""
    zones = [(ZONE, f"z{i}", f"z{j}", 2 + (7 * i + 3 * j) % 20) for i in range(ZONES) for j in range(ZONES) if i != j]
    between = [*zones, (REGION, "r0", "r1", 40), (REGION, "r1", "r0", 35)]
    costs: dict[str, dict[str, list[Any]]] = {}
    for key, origin, destination, cost in between:
        link = {"destination": destination, "networkCost": cost, "bandwidthCapacity": "10T"}
        costs.setdefault(key, {}).setdefault(origin, []).append(link)
    topology = [
        {"topologyKey": key, "originList": [{"origin": one, "costList": found} for one, found in origins.items()]}
        for key, origins in costs.items()
    ]
    meta = {"namespace": "default", "name": "nt-default"}
    spec: dict[str, Any] = {"weights": [{"name": "UserDefined", "topologyList": topology}]}
    engine.observe(NetworkObjectSeen(TOPOLOGY, {"metadata": meta, "spec": spec}))
    needs = [
        {
            "workload": {"selector": one},
            "dependencies": [
                {"workload": {"selector": of}, "maxNetworkCost": 100, "minBandwidth": "1M"} for of in found
            ],
        }
        for one, found in NEEDS.items()
    ]
    spec = {"workloads": needs}
    engine.observe(NetworkObjectSeen(APP_GROUP, {"metadata": {"namespace": "team", "name": "app"}, "spec": spec}))
