"""A small cluster with workloads that can be taken out, and what tests look at of those that were."""

from __future__ import annotations

from typing import Any

from tests.engine.world import World
from tutti.engine.records.decisions import Evict


def one_node() -> World:
    """A node and a queue of eight GPUs; who is taken out waits at least a second."""
    world = World(backoff={"baseSeconds": 1, "maxSeconds": 10})
    world.flavor()
    world.node("n1")
    world.queue("cq", 8)
    return world


def running(world: World, name: str = "w", size: int = 2, **spec: Any) -> None:
    """A workload of so many pods that are bound and ready."""
    world.workload(name, {"name": "main", "count": size}, queueName="queue", **spec)
    create(world, name, size)
    world.run()
    world.become_ready(*[f"{name}-{rank}" for rank in range(size)])
    world.run()


def create(world: World, name: str = "w", size: int = 2) -> None:
    for rank in range(size):
        world.pod(f"{name}-{rank}", workload=name)


def evicted(world: World) -> list[Evict]:
    return [one for one in world.log if isinstance(one, Evict)]


def conditions(world: World, name: str = "w", kind: str = "Workload") -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in world.status(kind, name)["conditions"]}


def stop(world: World, kind: str, name: str, policy: str) -> None:
    spec = world.objects[kind, "" if kind == "ClusterQueue" else "default", name]["spec"]
    world.object(kind, name, {**spec, "stopPolicy": policy})
