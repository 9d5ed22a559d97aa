"""Gangs among those that take others out and those that leave: as a whole, or the members that they can do without."""

from __future__ import annotations

from tests.engine.preemption.full_nodes import evicted
from tests.engine.world import World
from tutti.api.core import ObjectMeta, PriorityClass
from tutti.engine.records.observations import PriorityClassSeen


def test_a_gang_that_is_disrupted_as_a_whole_leaves_as_a_whole():
    world = World()
    world.hold_evictions = True
    for node in ("n0", "n1"):
        world.node(node, gpus=2)
    world.pod_group("whole", 2, disruptionMode="PodGroup")
    for rank in range(2):
        world.pod(f"whole-{rank}", gpus=2, group="whole")
    world.run()
    world.pod("high", gpus=2, priority=10)
    world.run()
    assert sorted(evicted(world)) == ["whole-0", "whole-1"]


def test_the_surplus_of_an_elastic_gang_goes_first_and_the_gang_runs_on():
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=4)
    world.gang("e", 3, min_count=1)
    world.pod("low", priority=-5)
    world.run()
    world.pod("high", gpus=2, priority=10)
    world.run()
    victims = evicted(world)
    assert len(victims) == 2
    assert all(name.startswith("e-") for name in victims)
    world.delete(*victims)
    world.run()
    assert world.where("high") == {"high": "n0"}
    assert len(world.where("e")) == 1
    assert world.condition("PodGroup", "e", "Scheduled")["status"] == "True"


def test_a_gang_that_has_lost_a_member_takes_out_others_to_be_whole_again():
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=2)
    world.gang("g", 2, priority=10)
    world.run()
    world.delete("g-0")
    world.pod("low", scheduler="another", node="n0")  # which keeps nothing for anybody
    world.run()
    world.pod("g-2", group="g", priority=10)
    world.run()
    assert evicted(world) == ["low"]
    assert world.reason("PodGroup", "g") == "WaitingForVictims"
    world.delete("low")
    world.run()
    assert sorted(world.where("g")) == ["g-1", "g-2"]


def test_nobody_makes_room_for_members_beyond_what_a_gang_needs():
    world = World()
    world.node("n0", gpus=2)
    world.gang("g", 1, priority=10)
    world.pod("low")
    world.run()
    world.pod("g-1", group="g", priority=10)
    world.run()
    assert evicted(world) == []


def test_members_beyond_what_a_gang_needs_have_no_room_that_others_were_taken_out_for():
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=2)
    world.gang("e", 2, min_count=1, gpus=1, priority=10)
    world.run()
    world.finish("e-1")
    world.pod("low", priority=-5)
    world.run()
    world.pod("e-2", group="e", priority=10)
    world.pod("high", priority=5)
    world.run()
    assert evicted(world) == ["low"]
    world.delete("low")
    world.run()
    assert sorted(world.where()) == ["e-0", "e-1", "high"]


def test_who_may_be_taken_out_since_its_pod_group_says_less_makes_room_at_once():
    """Nothing has become free: whoever waits for nodes has to be told."""
    for change in ("gone", "class"):
        for reserves in ({}, {"backfill": "Reserved"}):
            world = World()
            world.tell(PriorityClassSeen(PriorityClass(ObjectMeta(name="high"), 100)))
            world.flavor()
            world.node("n0", gpus=2)
            world.queue("q", 8, **reserves)
            world.pod_group("g", 2, priorityClassName="high")
            for rank in range(2):
                world.pod(f"g-{rank}", group="g", priority=5 * rank)
            world.run()
            world.pod("head", gpus=2, priority=10, queue="queue")
            world.run()
            assert set(world.where()) == {"g-0", "g-1"}
            if change == "gone":
                world.remove_object("PodGroup", "g")
            else:
                world.pod_group("g", 2)
            world.run()
            assert set(world.where()) == {"head"}, (change, reserves)


def test_members_that_a_gang_comes_not_to_need_make_room_at_once():
    world = World()
    world.tell(PriorityClassSeen(PriorityClass(ObjectMeta(name="low"), 0)))
    world.node("n0", gpus=3)
    world.pod_group("g", 3, disruptionMode="PodGroup", priorityClassName="low")
    for rank, priority in enumerate((20, 0, 0)):
        world.pod(f"g-{rank}", group="g", priority=priority)
    world.run()
    for rank in range(3):
        world.now += 1
        world.start(f"g-{rank}")
    world.pod("head", gpus=2, priority=10)
    world.run()
    assert len(world.where()) == 3
    world.pod_group("g", 1, disruptionMode="PodGroup", priorityClassName="low")
    world.run()
    assert set(world.where("g")) == {"g-0"}
    assert world.where("head") == {"head": "n0"}
