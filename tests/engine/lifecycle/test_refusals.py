"""Members that kubelets refuse while others of their gang are still being bound are missed as those lost later are."""

from __future__ import annotations

import pytest

from tests.engine.lifecycle.degraded_gangs import WINDOW, degraded, evicted
from tests.engine.lifecycle.test_member_loss import lose
from tests.engine.world import World

SIZE = 4


def refused(count: int, *, restarted: bool = False) -> World:
    """A gang of four of which so many have been refused when the last one is bound; a rival has their room."""
    world = World()
    world.flavor()
    world.queue("cq", 2 * SIZE)
    world.node("n1", gpus=SIZE)
    world.hold_binds = True
    world.pod_group("g", SIZE, queueName="queue")
    for rank in range(SIZE):
        world.pod(f"g-{rank}", group="g")
    world.run()
    for rank, bind in enumerate(list(world.pending_binds)):
        if rank == SIZE - 1:
            world.pod("rival", node="n1", gpus=count, scheduler="default-scheduler")
        world.answer(bind)
        if rank < count:
            lose(world, bind.name, "OutOfcpu")
            world.pod(f"{bind.name}-again", group="g")
    world.hold_binds = False
    world.run()
    if restarted:
        world.restart()
        world.run()
    return world


@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_a_gang_whose_members_are_refused_while_it_is_bound_lacks_them(count, restarted):
    world = refused(count, restarted=restarted)
    assert not any(name.endswith("-again") for name in world.where())
    assert degraded(world) == "True"
    assert f"{SIZE - count} of {SIZE} required members" in world.condition("PodGroup", "g", "Degraded")["message"]
    assert world.used("cq") == SIZE  # what it lacks is kept for it

    world.node("n2", gpus=count - 1)
    world.run()
    assert not any(name.endswith("-again") for name in world.where())  # all that it needs, or none
    world.node("n2", gpus=count)
    world.run()

    assert sum(name.endswith("-again") for name in world.where()) == count
    assert degraded(world) == "False"
    assert not evicted(world)


def test_a_gang_that_stays_without_those_that_were_refused_is_restarted_whole():
    world = refused(3)
    world.until(WINDOW + 1)
    assert evicted(world) == ["g-3"]
