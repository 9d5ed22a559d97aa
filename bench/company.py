"""How long the engine takes for pods that mind where others are, or claim devices, as a multiple of plain ones.

No API server, no I/O. `core.py` runs them. Each shape is measured in turn with the same pods without the constraint.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from bench import devices
from bench.decide import GROUP, HOST, NOW, ZONE, cluster, pods, see, timed
from tutti.engine.records.device_observations import DeviceClaimSeen
from tutti.engine.records.observations import PodSeen

_SELECTOR: Final = {"matchLabels": {"app": "x"}}
_ROUNDS: Final = 3


def _near(kind: str, key: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": _SELECTOR}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _spread(when: str) -> dict[str, Any]:
    over = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": when, "labelSelector": _SELECTOR}
    return {"topologySpreadConstraints": [over]}


SHAPES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "affinity": _near("podAffinity", ZONE),
        "antiaffinity": _near("podAntiAffinity", HOST),
        "spread": _spread("DoNotSchedule"),
        "softspread": _spread("ScheduleAnyway"),
    }
)
"""What the specification of a pod says, by name; all pods have the label `app: x`."""
_PLAIN: Final[Mapping[str, Any]] = MappingProxyType({})
_RACK: Final = {"schedulingConstraints": {"topology": [{"key": "rack", "mode": "Required"}]}}


def singles(shape: str, nodes: int, count: int, *, different: bool = False) -> float:
    """Single pods, each with another request or all equal."""

    def once(spec: Mapping[str, Any]) -> float:
        engine = cluster(nodes)
        pods(engine, count, {"app": "x"}, different=different, **spec)
        return timed(lambda: engine.decide(NOW + 1), count)

    return _in_turn(lambda: once(_PLAIN), lambda: once(SHAPES[shape]))


def gangs(shape: str, nodes: int, count: int, size: int) -> float:
    """Gangs of equal pods; of the shape `topology`, each in one rack of 16 nodes with 8 GPUs."""

    def once(spec: Mapping[str, Any], group: Mapping[str, Any]) -> float:
        engine = cluster(nodes)
        for i in range(count):
            see(engine, "PodGroup", f"gang-{i}", {"schedulingPolicy": {"gang": {"minCount": size}}, **group}, "team")
            pods(engine, size, {GROUP: f"gang-{i}", "app": "x"}, **spec)
        return timed(lambda: engine.decide(NOW + 1), count * size)

    spec, group = (_PLAIN, _RACK) if shape == "topology" else (SHAPES[shape], _PLAIN)
    return _in_turn(lambda: once(_PLAIN, _PLAIN), lambda: once(spec, group))


def claims(nodes: int, count: int, *, bound: bool = False) -> float:
    """Equal single pods, each of which claims a device of the eight of a node; plain ones ask for a GPU.

    Plain pods are measured until they are bound, the others until their claims are written, or with `bound` until they
    are bound as well.
    """

    def plain() -> float:
        engine = cluster(nodes)
        pods(engine, count, {})
        return timed(lambda: engine.decide(NOW + 1), count)

    def claiming() -> float:
        engine = devices.with_gpus(nodes)
        for i in range(count):
            engine.observe(DeviceClaimSeen(devices.claim(f"p{i}", f"p{i}", 1)))
            engine.observe(PodSeen(devices.pod(f"p{i}")))
        return (devices.until_bound if bound else devices.until_written)(engine, count)

    return _in_turn(plain, claiming)


def claiming_gangs(nodes: int, count: int, size: int) -> float:
    """Gangs of equal pods, each of which claims a device, until their claims are written; plain ones until bound."""

    def plain() -> float:
        engine = cluster(nodes)
        for i in range(count):
            see(engine, "PodGroup", f"gang-{i}", {"schedulingPolicy": {"gang": {"minCount": size}}}, "team")
            pods(engine, size, {GROUP: f"gang-{i}"})
        return timed(lambda: engine.decide(NOW + 1), count * size)

    def claiming() -> float:
        engine = devices.with_gpus(nodes)
        for i in range(count):
            see(engine, "PodGroup", f"gang-{i}", {"schedulingPolicy": {"gang": {"minCount": size}}}, "team")
            for name in [f"gang-{i}-{rank}" for rank in range(size)]:
                engine.observe(DeviceClaimSeen(devices.claim(name, name, 1)))
                engine.observe(PodSeen(devices.pod(name, labels={GROUP: f"gang-{i}"})))
        return devices.until_written(engine, count * size)

    return _in_turn(plain, claiming)


def extended(nodes: int, count: int) -> float:
    """Equal single pods that ask for an extended resource that devices stand in for, until their claims are made."""

    def plain() -> float:
        engine = cluster(nodes)
        pods(engine, count, {})
        return timed(lambda: engine.decide(NOW + 1), count)

    def asking() -> float:
        engine = devices.with_gpus(nodes, "nvidia.com/gpu")
        pods(engine, count, {})
        return devices.until_written(engine, count)

    return _in_turn(plain, asking)


def _in_turn(plain: Callable[[], float], mine: Callable[[], float]) -> float:
    """Measure both in turn, so that the machine's other work falls on both; return the ratio of the medians."""
    rounds = [(plain(), mine()) for _ in range(_ROUNDS)]
    return statistics.median(took for _, took in rounds) / statistics.median(took for took, _ in rounds)
