"""Nodes that are full, policies of the queues that wait for them, and how many of those who wait are tried."""

from __future__ import annotations

from tests.engine.world import World
from tutti.engine.records.decisions import Bind, Evict

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
    before = world.engine.evaluated
    world.run()
    return world.engine.evaluated - before


def nobody_could_start(world: World) -> None:
    """Look at everybody anew, which any change of a flavor does: nobody starts by that, and nobody leaves for others."""
    world.flavor(f"unheard-of-{len(world.objects)}")
    again = world.run(300)
    assert [(type(one).__name__, one.name) for one in again if isinstance(one, (Bind, Evict))] == []


def tidy_claims(world: World) -> None:
    """Do as the claim controller: who is gone or done uses no claim, and with the last its devices are free."""
    there = {pod.metadata.uid for pod in world.pods.values() if pod.status.phase not in ("Succeeded", "Failed")}
    there |= {raw["metadata"]["uid"] for raw in world.gang_objects.values()}
    for (kind, name), claim in list(world.devices.objects.items()):
        users = claim.status.reserved_for if kind == "ResourceClaim" else ()
        if users and not any(one.uid in there for one in users):
            world.devices.free(name)
