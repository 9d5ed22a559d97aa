"""A queue, jobs in it that name others which they start after, and what they are told."""

from __future__ import annotations

from tests.engine.world import World

AFTER = "scheduling.tutti.dev/after"


def a_queue(gpus: int = 8, **spec) -> World:
    world = World()
    world.flavor()
    world.queue("cq", gpus, **spec)
    world.node("n", gpus=8)
    return world


def job(world: World, name: str, *after: str, size: int = 1, **spec) -> None:
    """A Workload and its pods; `other:Finished` names another that may end either way."""
    said = [dict(zip(("workload", "when"), one.split(":"), strict=False)) for one in after]
    world.workload(name, {"count": size}, queueName="queue", **({"after": said} if said else {}), **spec)
    for rank in range(size):
        world.pod(f"{name}-{rank}", workload=name)


def name_others(world: World, name: str, *after: str) -> None:
    """Change whom a Workload of one pod waits for."""
    world.workload(name, {"count": 1}, queueName="queue", after=[{"workload": one} for one in after])


def told(world: World, name: str) -> tuple[str, str]:
    why = world.why("Workload", name)
    return (why.reason, why.message) if why else ("", "")
