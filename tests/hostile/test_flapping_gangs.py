"""Gangs that cost much to try, and are changed all the time so that they are tried again and again."""

from __future__ import annotations

import pytest

from tests.engine.world import World

MEMBERS, CHANGES = 20, 30


def gang_that_fits_nowhere(strategy: str, *, unlike: bool = True) -> World:
    """A gang of which two members ask for more than a node has; the others are all unlike, or all alike."""
    world = World()
    world.flavor()
    world.queue("cq", 100, queueingStrategy=strategy)
    for number in range(4):
        world.node(f"n{number}", gpus=4)
    for rank in range(MEMBERS):
        world.pod(f"g-{rank}", group="g", gpus=0, cpu=f"{rank + 1}m" if unlike else "1m", memory="1Mi")
    for rank in range(2):
        world.pod(f"g-large-{rank}", group="g", gpus=8)
    change(world, 0)
    return world


def change(world: World, number: int) -> int:
    """Have the gang ask for one member more, or less, and return how often anybody was tried for that."""
    before = world.engine.evaluated
    world.pod_group("g", MEMBERS + 1 + number % 2, queueName="queue")
    world.run()
    return world.engine.evaluated - before


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_a_gang_that_costs_much_is_not_tried_at_each_change_of_it(strategy: str) -> None:
    """With a thousand unlike members each change took a second of everybody's time."""
    world = gang_that_fits_nowhere(strategy)
    tried = world.engine.evaluated
    for number in range(CHANGES):
        world.until(1)
        change(world, number + 1)
    assert 1 <= world.engine.evaluated - tried <= 6
    world.delete("g-large-0")
    world.delete("g-large-1")
    world.pod("g-20", group="g", gpus=0)
    world.until(90)
    assert len(world.where("g-")) == MEMBERS + 1  # and is placed once it fits and has rested
    assert world.replay().differences == []


def test_who_has_become_cheap_to_try_does_not_rest() -> None:
    world = gang_that_fits_nowhere("BestEffortFIFO")
    for number in range(5):
        change(world, number + 1)
    for rank in range(1, MEMBERS):
        world.delete(f"g-{rank}")
    world.pod_group("g", 1, queueName="queue")
    world.run()
    assert "g-0" in world.where()


def test_who_costs_little_is_tried_at_once() -> None:
    world = gang_that_fits_nowhere("BestEffortFIFO", unlike=False)
    assert all(change(world, number + 1) for number in range(5))
