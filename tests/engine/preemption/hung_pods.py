"""Clusters in which a pod is being deleted, should have left by now, and is there still."""

from __future__ import annotations

from typing import Any

from tests.engine.world import World

MARGIN = 120
"""victimsOverdueSeconds where nobody says otherwise."""


def nodes(*gpus: int, **configuration: Any) -> World:
    """Nodes of so many GPUs, `n0` and so on, from which pods leave when they are deleted."""
    world = World(**configuration)
    world.hold_evictions = True
    for number, many in enumerate(gpus):
        world.node(f"n{number}", gpus=many)
    return world


def with_stuck(kind: str) -> World:
    """A node with somebody that is leaving, and one with a pod that runs and is the least important."""
    world = nodes(4)
    if kind == "a pod":
        world.pod("stuck", gpus=4, priority=1)
    else:
        world.gang("stuck", 2, gpus=2, priority=1)
    world.run()
    world.begin_deleting(*world.where("stuck"))
    world.node("n1", gpus=4)
    world.pod("runs", gpus=4)
    world.run()
    return world


def three_low_one_high(*, gang: bool = False) -> World:
    """Three nodes that are full of one pod each, and a pod, or a gang of one, that has one of these told to leave."""
    world = nodes(4, 4, 4)
    for number in range(3):
        world.pod(f"low-{number}", gpus=4)
    world.run()
    if gang:
        world.gang("high", 1, gpus=4, priority=10)
    else:
        world.pod("high", gpus=4, priority=10)
    world.run()
    return world
