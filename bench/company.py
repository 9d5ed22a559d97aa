"""How long the engine takes for pods that mind where others are: no API server, no I/O. `core.py` runs them.

Each shape beside the plain one: the same pods, without the constraint.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from bench.decide import GROUP, HOST, NOW, ZONE, cluster, pod_group, pods, timed

_SELECTOR: Final = {"matchLabels": {"app": "x"}}


def _near(kind: str, key: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": _SELECTOR}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _spread(when: str) -> dict[str, Any]:
    over = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": when, "labelSelector": _SELECTOR}
    return {"topologySpreadConstraints": [over]}


SHAPES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "plain": {},
        "affinity": _near("podAffinity", ZONE),
        "antiaffinity": _near("podAntiAffinity", HOST),
        "spread": _spread("DoNotSchedule"),
        "softspread": _spread("ScheduleAnyway"),
    }
)
"""What the specification of a pod says, by name; all pods have the label `app: x`."""


def singles(shape: str, nodes: int, count: int) -> float:
    """Milliseconds per pod of the decide() that binds equal single pods of a shape."""
    engine = cluster(nodes)
    pods(engine, count, {"app": "x"}, **SHAPES[shape])
    return timed(lambda: engine.decide(NOW + 1), count) / count


def gangs(shape: str, nodes: int, count: int, size: int) -> float:
    """Milliseconds per pod of the decide() that binds gangs of equal pods of a shape."""
    engine = cluster(nodes)
    for i in range(count):
        pod_group(engine, size, name=f"gang-{i}")
        pods(engine, size, {GROUP: f"gang-{i}", "app": "x"}, **SHAPES[shape])
    return timed(lambda: engine.decide(NOW + 1), count * size) / (count * size)
