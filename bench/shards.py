"""What shards cost and save the engine: no API server, no I/O; `core.py` runs it."""

from __future__ import annotations

import gc

from bench.clock import clock
from bench.decide import GANG_OF_BOUND, GROUP, running
from tutti.api.shards import SHARD_ANNOTATION, Shard
from tutti.engine.records.observations import AnyObservation, PodSeen
from tutti.shards.ownership import Ownership
from tutti.shards.view import ShardView


def passed_over(count: int) -> float:
    """Microseconds in which a shard's view looks at a change of a pod of another one, on a node of that one."""
    ownership = Ownership([Shard(name="other", cohorts=["other"])])
    ownership.put_namespace("team", {SHARD_ANNOTATION: "other"})
    for i in range(count // 10):
        ownership.put_node(f"n{i:05d}", {}, {SHARD_ANNOTATION: "other"})
    told: list[AnyObservation] = []
    view = ShardView("default", ownership, ["tutti"], told.append)
    changes = [PodSeen(running(i, count // 10, {GROUP: f"old-{i // GANG_OF_BOUND}"}, ready=True)) for i in range(count)]
    gc.collect()
    start = clock()
    for change in changes:
        view.observe(change)
    took = (clock() - start) * 1e6 / count
    if told:
        raise SystemExit(f"{len(told)} of {count} pods were passed on: this measured something else")
    return took
