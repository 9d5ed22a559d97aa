"""Nodes that are full, policies of the queues that wait for them, and how many of those who wait are tried."""

from __future__ import annotations

from tests.engine.world import World

LOWER = {"preemption": {"withinClusterQueue": "LowerPriority"}}
RECLAIM = {"preemption": {"reclaimWithinCohort": "Any"}}
BOTH = {"preemption": {"withinClusterQueue": "LowerOrNewerEqualPriority", "reclaimWithinCohort": "LowerPriority"}}


def full(nodes: int = 3, *, queue: str = "") -> World:
    """Nodes of eight GPUs, of which one pod has all."""
    world = World()
    world.flavor()
    world.queue("cq", 100)
    for number in range(nodes):
        world.node(f"n{number}")
        world.pod(f"runs-{number}", gpus=8, node=f"n{number}", queue=queue)
    world.run()
    return world


def tried(world: World) -> int:
    """Run, and return how many workloads were tried."""
    before = world.engine._queue.evaluated
    world.run()
    return world.engine._queue.evaluated - before
