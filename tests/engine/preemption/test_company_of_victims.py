"""Nobody is taken out so that who is to be near him need be near nobody."""

from __future__ import annotations

from tests.engine.preemption.test_nominated_neighbours import ZONE, near, put
from tests.engine.world import World
from tutti.engine.records.decisions import Evict


def evicted(world: World) -> list[str]:
    return [one.name for one in world.log if isinstance(one, Evict)]


def two_zones(gpus: int) -> World:
    """A node in each of two zones; the one that is not full has two GPUs, and the other so many."""
    world = World()
    world.hold_evictions = True
    world.node("a0", gpus=gpus, labels={ZONE: "a"})
    world.node("b0", gpus=2, labels={ZONE: "b"})
    return world


def test_a_pod_takes_out_nobody_whom_it_is_to_be_near_to_go_elsewhere():
    """By its rule the first of its kind needs nobody; with the other gone it would have been the first."""
    world = two_zones(gpus=1)
    put(world, "friend", {}, app="x", node="a0")
    put(world, "probe", near(ZONE), app="x", priority=5, gpus=2)
    world.run()
    assert evicted(world) == []
    assert "pod affinity rules" in world.why("Pod", "probe").message


def test_a_pod_waits_for_one_whom_it_is_to_be_near_and_who_is_leaving():
    world = two_zones(gpus=1)
    world.pod("friend", labels={"app": "x"}, node="a0")
    world.begin_deleting("friend")
    put(world, "probe", near(ZONE), app="x", priority=5, gpus=2)
    world.run()
    assert world.reason("Pod", "probe") == "WaitingForVictims"
    world.delete("friend")
    world.run()
    assert world.where("probe") == {"probe": "b0"}


def test_a_gang_takes_the_place_of_one_of_its_kind():
    world = two_zones(gpus=2)
    world.remove_node("b0")
    for number in range(2):
        put(world, f"friend-{number}", {}, app="x", node="a0")
    world.pod_group("g", 2)
    for number in range(2):
        put(world, f"g-{number}", near(ZONE), app="x", group="g", priority=5)
    world.run()
    assert sorted(evicted(world)) == ["friend-0", "friend-1"]


def test_a_gang_takes_out_others_beside_those_whom_it_is_to_be_near():
    world = two_zones(gpus=3)
    put(world, "friend", {}, app="x", node="a0")
    for number in range(2):
        put(world, f"other-{number}", {}, app="y", node="a0", priority=1)
    world.pod_group("g", 2)
    for number in range(2):
        put(world, f"g-{number}", near(ZONE), app="x", group="g", priority=5)
    world.run()
    assert sorted(evicted(world)) == ["other-0", "other-1"]
