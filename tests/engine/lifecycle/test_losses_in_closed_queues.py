"""Gangs that lack members while their queue admits nothing: a flavor is missing, or somebody holds it, or deletes it."""

from __future__ import annotations

import pytest

from tests.engine.lifecycle.degraded_gangs import WINDOW, degraded, evicted, running, successors
from tests.engine.world import World


def stop(world: World) -> None:
    world.object("ClusterQueue", "cq", {**world.objects["ClusterQueue", "", "cq"]["spec"], "stopPolicy": "Hold"})


def open_again(world: World) -> None:
    world.object("ClusterQueue", "cq", {**world.objects["ClusterQueue", "", "cq"]["spec"], "stopPolicy": "None"})


CLOSED = {
    "held": (stop, open_again),
    "its flavor is deleted": (lambda world: world.remove_object("ResourceFlavor", "default"), World.flavor),
    "deleted": (lambda world: world.remove_object("ClusterQueue", "cq"), lambda world: world.queue("cq", 4)),
}


@pytest.mark.parametrize("restarts", [False, True], ids=["", "operator restarts"])
@pytest.mark.parametrize("how", CLOSED)
def test_the_successor_of_who_was_lost_in_a_queue_that_admits_nothing_is_placed_when_it_does(how, *, restarts):
    """The window was over before anybody could be placed, and the gang was taken out as its queue was opened."""
    shut, reopen = CLOSED[how]
    world = running(onMemberLoss={"windowSeconds": WINDOW})
    world.begin_deleting("g-3")
    world.delete("g-3")
    world.until(WINDOW - 10)
    shut(world)
    world.until(10)
    successors(world, 3)
    world.until(2 * WINDOW)
    assert evicted(world) == []
    if restarts:
        world.restart()
        world.until(5)
    reopen(world)
    world.until(5)
    assert evicted(world) == []
    assert len(world.where("g")) == 4
    assert degraded(world) == "False"


def test_who_finds_no_room_for_successors_when_its_queue_is_opened_is_restarted_a_window_later():
    world = running(onMemberLoss={"windowSeconds": WINDOW})
    world.begin_deleting("g-3")
    world.delete("g-3")
    stop(world)
    world.remove_object("ResourceFlavor", "default")
    world.pod("g-4", group="g", gpus=2)
    world.until(2 * WINDOW)
    World.flavor(world)
    open_again(world)
    world.until(WINDOW - 1)
    assert evicted(world) == []
    world.until(2)
    assert evicted(world) == ["g-0", "g-1", "g-2"]
