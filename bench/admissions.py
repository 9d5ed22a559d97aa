"""How fast workloads are admitted where very many wait. `core.py` runs it."""

from __future__ import annotations

import gc
from dataclasses import replace

from bench.simulation.audit import Audit
from bench.simulation.cluster import Cluster
from bench.simulation.mixes import LARGE_SCALE
from bench.simulation.running import Rules, furnished

MEASURED = 5000
SETTLED = 3
"""After so many turns, those who wait have been told so, and that has been seen."""


def drained(*, queue: dict[str, object] | None = None) -> Cluster:
    """A cluster in which all 50,000 workloads of Kueue's large-scale test have come to wait at 1,000 queues."""
    kinds = tuple(replace(kind, every=0.0) for kind in LARGE_SCALE.kinds)
    mix = replace(LARGE_SCALE, kinds=kinds, qps=0)
    cluster = furnished(mix, Rules(queue=dict(queue or {})), Audit(mix, every=10**9, strict=False))
    for _ in range(SETTLED):
        cluster.advance()
    gc.collect()
    cluster.observing = cluster.deciding = 0.0
    return cluster


def per_second(*, observing: bool = False) -> float:
    """Workloads admitted per second of deciding, while between 50,000 and 45,000 wait; or of all that the engine does.

    Each admission goes through its bind and its end, and all status writes come back as they would from a server.
    """
    cluster = drained()
    before = cluster.decisions.get("Bind", 0)
    while cluster.decisions["Bind"] - before < MEASURED:
        cluster.advance()
    if cluster.audit.found:
        raise SystemExit("\n".join(cluster.audit.violations))
    took = cluster.deciding + (cluster.observing if observing else 0.0)
    return (cluster.decisions["Bind"] - before) / took
