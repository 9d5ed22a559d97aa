"""Nodes full of pods of low priority, and who of these has been told to leave."""

from __future__ import annotations

from typing import Any

from tests.engine.world import World
from tutti.engine.records.decisions import Evict


def evicted(world: World) -> list[str]:
    return [decision.name for decision in world.log if isinstance(decision, Evict)]


def full(nodes: int = 1, *, gpus: int = 8, priority: int = 0, **configuration: Any) -> World:
    """Nodes full of single pods of ours, `low-0` and so on, that take a while to leave."""
    world = World(**configuration)
    world.hold_evictions = True
    for node in range(nodes):
        world.node(f"n{node}", gpus=gpus)
    for number in range(nodes * gpus):
        world.pod(f"low-{number}", priority=priority)
    world.run()
    assert len(world.where("low")) == nodes * gpus
    return world
