"""Where 200 equal pods go by measured load, placed by the engine and as kube-scheduler's plugins place them.

`python -m bench.herd` prints the table of docs/howto/load.md.

Twenty nodes were measured once, and all pods come before they are measured again. Trimaran's plugins are asked for one
pod after the other: each has the score of the original (the same functions, which answer as the originals in every
recorded case, tests/differential/load.py), over what the original knows of pods that came since. TargetLoadPacking
counts them by what they are expected to use (its cache of pods that were seen bound, taken here to be never late);
LoadVariationRiskBalancing and Peaks do not; LowRiskOverCommitment counts what they request and may use, and takes their
load for none (scheduler-plugins 903da7df, pkg/trimaran). Of nodes with equal scores one is drawn, as kube-scheduler
does, which runs no other score here: theirs are off in the configuration that Trimaran's page recommends.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

import msgspec
import numpy as np

from bench.decide import GROUP, HOST, NOW, WHEN, see
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
from tutti.engine.reading.profiles import profiles_of
from tutti.engine.records.decisions import Bind
from tutti.engine.records.measurements import Measured, NodeFigures
from tutti.engine.records.observations import NamespaceSeen, NodeSeen, PodSeen, Synced
from tutti.placement.plugins.measured_load import MeasuredLoad

NODES: Final = 20
CORES: Final = 32
PODS: Final = 200
PROMETHEUS: Final = {"source": "Prometheus", "address": "http://prometheus"}
POWER: Final = {"k0": 471.7412504314313, "k1": -91.50493019588365, "k2": -0.07186049052516227}
"""Peaks' own example of a machine."""
POLICIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "TargetLoadPacking": {},
    "LoadVariationRiskBalancing": {},
    "LowRiskOverCommitment": {},
    "Peaks": {"power": {"models": [POWER]}},
}
SEES_EXPECTED: Final = frozenset({"TargetLoadPacking"})
"""Whose original counts what pods are expected to use that came since the measurement."""
MEASURED: Final = tuple(8.0 + 37 * number % 41 for number in range(NODES))
"""Percent of cpu in use on each node when all use what they request; over 100 where that is not there."""
HEADS: Final = ("pods on the fullest node, pod by pod", "hottest node, % of cpu", "nodes above 60 %")
DEVIATION: Final = 8.0
MEMORY: Final = 30.0
LIMITED: Final = frozenset({"LowRiskOverCommitment"})
"""Which policy goes by limits: its pods have some, of four times what they request."""
ASKS: Final[Mapping[str, str | int | float]] = {"cpu": "1", "memory": "1Gi"}
OLD: Final[Mapping[str, str | int | float]] = {"cpu": "4", "memory": "32Gi"}
"""What pods on each node have requested before: the same everywhere, so that requests do not tell what is hot."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What came of it.

    Attributes:
        pods: How many came to each node.
    """

    pods: tuple[int, ...]

    @property
    def used(self) -> tuple[float, ...]:
        """Percent of cpu in use on each node."""
        return tuple(before + 100 * more / CORES for before, more in zip(MEASURED, self.pods, strict=True))


def configuration(policy: str) -> TuttiConfiguration:
    """Return one by which nothing but a policy of measured load decides."""
    load = {"policy": policy, "weight": 100, **POLICIES[policy]}
    return TuttiConfiguration.model_validate({"profiles": [{"load": load}], "measurements": PROMETHEUS})


def _engine(policy: str) -> Engine:
    engine = Engine(configuration(policy))
    engine.observe(NamespaceSeen(Namespace(ObjectMeta(name="team"))))
    offered: dict[str, str | int | float] = {"cpu": str(CORES), "memory": "512Gi", "pods": "200"}
    for name in _names():
        status = NodeStatus(offered, offered)
        engine.observe(NodeSeen(Node(ObjectMeta(name=name, labels={HOST: name}), status=status)))
    metrics = ["cpu", "cpu-deviation", "memory", "memory-deviation"]
    figures = {
        name: NodeFigures(NOW, [cpu, DEVIATION, MEMORY, DEVIATION])
        for name, cpu in zip(_names(), MEASURED, strict=True)
    }
    for number, name in enumerate(_names()):
        old = _pod(policy, f"old-{number}", {}, OLD)
        engine.observe(PodSeen(_on(old, name, started=NOW - 3600)))
    engine.observe(Measured(metrics, figures))
    engine.observe(Synced())
    engine.decide(NOW)
    return engine


def _names() -> list[str]:
    return [f"n{number:02d}" for number in range(NODES)]


def _pod(policy: str, name: str, labels: Mapping[str, str], asks: Mapping[str, str | int | float] = ASKS) -> Pod:
    limits: dict[str, str | int | float] = {"cpu": 4 * int(asks["cpu"])} if policy in LIMITED else {}
    meta = ObjectMeta(name, "team", name, labels=dict(labels), creation_timestamp=WHEN)
    containers = [Container("main", resources=ResourceRequirements(dict(asks), limits))]
    return Pod(meta, PodSpec(scheduler_name="tutti", containers=containers))


def _on(pod: Pod, node: str, *, started: float) -> Pod:
    """Return a pod as it runs on a node."""
    status = PodStatus(phase="Running", start_time=datetime.fromtimestamp(started, UTC))
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node), status=status)


def by_the_engine(policy: str, *, gang: bool = True) -> Spread:
    """Return where the engine places them, as one gang or each by itself."""
    engine = _engine(policy)
    if gang:
        see(engine, "PodGroup", "gang", {"schedulingPolicy": {"gang": {"minCount": PODS}}}, "team")
    for number in range(PODS):
        engine.observe(PodSeen(_pod(policy, f"p-{number}", {GROUP: "gang"} if gang else {})))
    return _spread([one.node for one in engine.decide(NOW + 1) if isinstance(one, Bind)])


def pod_by_pod(policy: str, *, seed: int = 0) -> Spread:
    """Return where the original's plugin places them, one after the other, on the figures of one measurement."""
    cluster, random = _engine(policy).state.cluster, Random(seed)
    plugin = next(one for one in profiles_of(configuration(policy))["tutti"].fill if type(one) is MeasuredLoad)
    rows, first = np.array([cluster.nodes.rows[name] for name in _names()]), np.ones(1, dtype=np.int64)
    placed: list[str] = []
    for number in range(PODS):
        pod = _pod(policy, f"p-{number}", {})
        if policy not in SEES_EXPECTED:
            cluster.nodes.load.fresh[:] = 0
        record = cluster.put_pod(pod, keep=True)
        assert record is not None  # it is kept
        scores = plugin.scores(record.pod_class, cluster.nodes, rows, first)
        assert scores is not None  # every node is measured
        fits = (cluster.nodes.allocatable - cluster.nodes.requested)[rows] >= cluster.nodes.vector(
            {"cpu": 1000, "memory": 1 << 30, "pods": 1}
        )
        points = np.where(fits.all(axis=1), scores[0], -1)
        node = _names()[random.choice(np.flatnonzero(points == points.max()).tolist())]
        placed.append(node)
        cluster.put_pod(_on(pod, node, started=NOW + 1), keep=True)
    return _spread(placed)


def _spread(nodes: Sequence[str]) -> Spread:
    count = Counter(nodes)
    return Spread(tuple(count[name] for name in _names()))


def table() -> str:
    """Return the table of the page, in Markdown."""
    lines = [
        f"| policy | {' | by Tutti | '.join(HEADS)} | by Tutti |",
        "|---|---|---|---|---|---|---|",
    ]
    for policy in POLICIES:
        theirs, ours = pod_by_pod(policy), by_the_engine(policy)
        hot = [sum(one > 60 for one in found.used) for found in (theirs, ours)]
        pods = f"{max(theirs.pods)} | {max(ours.pods)}"
        lines.append(f"| `{policy}` | {pods} | {max(theirs.used):.0f} | {max(ours.used):.0f} | {hot[0]} | {hot[1]} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print it."""
    sys.stdout.write(table())


if __name__ == "__main__":
    main()
