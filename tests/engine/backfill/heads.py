"""Queues that keep room for their heads, jobs that say how long they run, and what becomes of both."""

from __future__ import annotations

from typing import Any

from tests.engine.world import World

HOUR = 3600


def reserved(gpus: int = 8, nodes: int = 1, *, mode: str = "Reserved", each: int = 8, **spec: Any) -> World:
    """A queue with so much quota, and nodes of 8 GPUs each unless said otherwise."""
    world = World()
    world.flavor()
    world.queue("cq", gpus, local="queue", backfill=mode, **spec)
    for number in range(nodes):
        world.node(f"n{number}", gpus=each)
    return world


def job(
    world: World, name: str, gpus: int, seconds: int | None = None, *, pods: int = 1, queue: str = "queue", **pod: Any
) -> None:
    """A workload of so many pods of so many GPUs each, a moment younger than the one before; it says how long it runs."""
    world.now += 0.001
    limit = {} if seconds is None else {"maximumExecutionTimeSeconds": seconds}
    world.workload(name, {"name": "main", "count": pods, "minCount": pods}, queueName=queue, **limit)
    for rank in range(pods):
        world.pod(f"{name}-{rank}", gpus=gpus, workload=name, **pod)


def runs(world: World, name: str) -> bool:
    return f"{name}-0" in world.where()


def ends(world: World, *names: str) -> None:
    """All pods of some workloads succeed."""
    for name in names:
        world.finish(*(pod for space, pod in world.pods if pod.rsplit("-", 1)[0] == name))
    world.run()


def easy(mode: str = "Reserved") -> World:
    """Two of 8 GPUs are free; 4 are given back after 100 s at the latest, 2 nobody knows when. The head wants 5."""
    world = reserved(mode=mode)
    job(world, "hundred", 4, 100)
    job(world, "ever", 2)
    world.run()
    job(world, "head", 5)
    world.run()
    assert not runs(world, "head")
    return world
