"""Who has its place as soon as claims have given devices back has nobody leave, and has its room held until then."""

from __future__ import annotations

import pytest

from tests.engine.devices import asks_for, device_class, resource_slice
from tests.engine.queue.full_nodes import LOWER, tidy_claims
from tests.engine.world import World
from tutti.engine.records.decisions import Evict

GATE = "scheduling.tutti.dev/admission-gate"


def claiming(world: World, name: str, *, cpu: str, priority: int = 0) -> None:
    world.devices.make_claim(name, asks_for(1))
    world.pod(name, gpus=0, cpu=cpu, device_claims=(name,), queue="one", priority=priority)


@pytest.fixture
def world() -> World:
    """A node with two devices; of the one a pod has ended, and its claim has it still."""
    world = World()
    world.flavor()
    world.queue("one", 100, local="one", **LOWER)
    world.devices.put(device_class())
    world.node("n0", cpu=8)
    world.devices.put(resource_slice("n0", 2))
    claiming(world, "ended", cpu="1")
    world.run()
    world.finish("ended")
    return world


def evicted(world: World) -> list[str]:
    return [one.name for one in world.log if isinstance(one, Evict)]


def test_nobody_leaves_for_devices_that_come_back_anyway(world):
    claiming(world, "runs", cpu="1")
    world.run()
    claiming(world, "important", cpu="1", priority=5)
    world.run()
    assert set(world.where()) == {"runs", "ended"}
    assert evicted(world) == []
    why = world.why("Pod", "important")
    assert why.reason == "Unschedulable"
    assert (
        "Claims that nobody uses any more give devices back that it needs; the room for its 1 pod is held"
        in why.message
    )
    tidy_claims(world)
    world.run()
    assert set(world.where()) == {"runs", "ended", "important"}
    assert evicted(world) == []
    assert world.replay().differences == []


def test_nobody_is_given_the_room_beside_them_in_turn_after_turn(world):
    """Whoever got it was taken out for the more important one, which could not start yet either, and got it again."""
    claiming(world, "runs", cpu="1", priority=5)
    world.pod("low", gpus=0, cpu="5", queue="one", priority=-5, annotations={GATE: "asked"})  # holds it till then
    world.run()
    claiming(world, "important", cpu="4", priority=5)
    world.run()  # comes to rest
    assert set(world.where()) == {"ended", "runs"}
    tidy_claims(world)
    world.run()
    assert set(world.where()) == {"ended", "runs", "important"}


def test_room_is_held_for_it_no_longer_than_for_others_that_wait(world):
    claiming(world, "runs", cpu="1")
    world.run()
    claiming(world, "important", cpu="4", priority=5)
    world.run()
    held = world.engine.state.nominations.ours
    assert len(held) == 1
    world.delete("important")
    world.run()
    assert not held


def test_it_starts_elsewhere_as_soon_as_there_are_devices(world):
    claiming(world, "runs", cpu="1", priority=5)
    world.run()
    claiming(world, "important", cpu="4", priority=5)
    world.run()
    world.node("n1", cpu=8)
    world.devices.put(resource_slice("n1", 1))
    world.until(2.0)
    assert world.where("important") == {"important": "n1"}
