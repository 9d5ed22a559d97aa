"""Pods that are leaving anyway make room, and nobody else has to leave where that is enough.

kube-scheduler 1.36 takes them for victims like others (plugins/defaultpreemption, SelectVictimsOnNode): it does not
ask them again, but which node costs least is told as if they ran, so that it may take out others elsewhere.
"""

from __future__ import annotations

import pytest

from tests.engine.world import World
from tutti.engine.records.decisions import Evict


def evicted(world: World) -> list[str]:
    return [decision.name for decision in world.log if isinstance(decision, Evict)]


def two_nodes() -> World:
    """Two nodes of four GPUs, from which pods leave when they are deleted."""
    world = World()
    world.hold_evictions = True
    world.node("n0", gpus=4)
    world.node("n1", gpus=4)
    return world


def waits_for(world: World, name: str) -> str:
    """The message of a pod that waits for victims."""
    why = world.why("Pod", name)
    assert why.reason == "WaitingForVictims"
    return why.message


@pytest.mark.parametrize("scheduler", ["tutti", "default-scheduler"])
def test_a_pod_that_is_leaving_is_waited_for_and_nobody_else_is_taken_out(scheduler):
    """By kube-scheduler's rule the other one costs less, whose priority is lower."""
    world = two_nodes()
    world.pod("leaving", gpus=4, node="n0", priority=5, scheduler=scheduler)
    world.pod("runs", gpus=4, node="n1", scheduler=scheduler)
    world.run()
    world.begin_deleting("leaving")
    world.pod("high", gpus=4, priority=10)
    world.run()
    assert evicted(world) == []
    assert "default/leaving on n0" in waits_for(world, "high")

    world.delete("leaving")
    world.run()
    assert world.where("high") == {"high": "n0"}
    assert evicted(world) == []


def test_members_that_are_leaving_make_room_for_a_whole_gang():
    world = two_nodes()
    world.gang("low", 2, gpus=2)
    world.pod("runs", gpus=4)
    world.run()
    world.begin_deleting("low-0", "low-1")
    world.gang("high", 2, gpus=2, priority=10)
    world.run()
    assert evicted(world) == []

    world.delete("low-0")
    world.run()
    assert world.where("high") == {}
    world.delete("low-1")
    world.run()
    assert len(world.where("high")) == 2
    assert world.where("runs")
    assert evicted(world) == []


def test_a_member_that_is_leaving_makes_room_as_it_would_when_it_has_gone():
    """Its gang keeps the room for a successor, but not from others of higher priority."""
    world = two_nodes()
    world.gang("low", 2, gpus=2)
    world.pod("runs", gpus=4)
    world.run()
    world.begin_deleting("low-0")
    world.pod("same", gpus=2)
    world.pod("high", gpus=2, priority=10)
    world.run()
    assert evicted(world) == []
    assert "default/low-0" in waits_for(world, "high")

    world.delete("low-0")
    world.run()
    assert world.where("high")
    assert not world.where("same")
    assert set(world.where("low")) == {"low-1"}
    assert evicted(world) == []


def test_a_gang_of_which_a_member_is_leaving_leaves_whole_where_that_is_not_enough():
    world = two_nodes()
    world.gang("low", 2, gpus=2)
    world.pod("runs", gpus=4, priority=20)
    world.run()
    world.begin_deleting("low-0")
    world.pod("high", gpus=4, priority=10)
    world.run()
    assert evicted(world) == ["low-1"]
    world.delete("low-0", "low-1")
    world.run()
    assert world.where("high")


def test_what_is_protected_for_a_while_makes_room_when_it_is_leaving_by_itself():
    world = two_nodes()
    world.flavor("default")
    world.queue("cq", 8, preemption={"minimumRuntimeSeconds": 1000})
    world.pod("young", gpus=4, queue="queue")
    world.pod("runs", gpus=4)
    world.run()
    world.begin_deleting("young")
    world.pod("high", gpus=4, priority=10)
    world.run()
    assert evicted(world) == []
    assert "default/young" in waits_for(world, "high")


@pytest.mark.parametrize("priority", [10, 20])
def test_who_is_leaving_and_not_below_is_not_counted_on(priority):
    """As by kube-scheduler: its successor goes first, or may, and has the room then."""
    world = two_nodes()
    world.pod("leaving", gpus=4, priority=priority)
    world.pod("runs", gpus=4)
    world.run()
    world.begin_deleting("leaving")
    world.pod("high", gpus=4, priority=10)
    world.run()
    assert evicted(world) == ["runs"]


@pytest.mark.parametrize("queue", ["", "queue"])
def test_who_is_overtaken_by_one_of_higher_priority_does_not_wait_for_the_others_victims(queue):
    """As by kube-scheduler, which takes their nominations from pods of lower priority (prepareCandidate)."""
    world = two_nodes()
    world.flavor("default")
    world.queue("cq", 8)
    world.pod("low-0", gpus=4)
    world.pod("low-1", gpus=4)
    world.run()
    world.pod("middle", gpus=4, priority=10, queue=queue)
    world.run()
    (first,) = evicted(world)
    world.begin_deleting(first)
    world.pod("top", gpus=4, priority=20)
    world.run()
    assert len(evicted(world)) == 2
    assert f"default/{first} " in waits_for(world, "top")
    assert f"default/{first} " not in waits_for(world, "middle")

    world.begin_deleting(*set(evicted(world)) - {first})
    world.delete("low-0", "low-1")
    world.run()
    assert set(world.where()) == {"middle", "top"}
    assert len(evicted(world)) == 2


def test_who_has_room_beside_one_of_higher_priority_goes_on_waiting_for_the_same_victim():
    world = two_nodes()
    world.pod("low-0", gpus=4)
    world.pod("low-1", gpus=4)
    world.run()
    world.pod("middle", gpus=2, priority=10)
    world.run()
    (first,) = evicted(world)
    world.begin_deleting(first)
    world.pod("top", gpus=2, priority=20)
    world.run()
    assert evicted(world) == [first]
    for name in ("top", "middle"):
        assert f"default/{first} " in waits_for(world, name)


def test_who_is_overtaken_while_one_of_its_victims_may_be_spared_yet_asks_no_others():
    world = two_nodes()
    world.refuse_evictions = True
    for number in range(4):
        world.pod(f"low-{number}", gpus=2)
    world.run()
    world.gang("middle", 2, gpus=2, priority=10)
    world.run()
    asked = set(evicted(world))
    assert len(asked) == 2
    world.pod("top", gpus=2, priority=20)
    world.run()
    assert set(evicted(world)) == asked

    world.refuse_evictions = False
    world.hold_evictions = False
    world.until(600.0)
    assert len(world.where("middle")) == 2
    assert world.where("top")
    assert len(world.where("low")) == 1
