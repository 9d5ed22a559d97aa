"""Room for which others were taken out is held until it is taken, or its time is over; and after a restart."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.preemption.full_nodes import evicted, full
from tests.engine.world import World, replaced


def test_freed_room_is_held_from_others_until_it_is_taken():
    world = full()
    world.gang("g", 2, gpus=4, priority=10)
    world.run()
    victims = evicted(world)
    for number in range(4):
        world.pod(f"same-{number}", priority=10)
        world.pod(f"lower-{number}", priority=5)
    world.delete(*victims[:4])
    world.run()
    assert world.where("same") == {}
    assert world.where("lower") == {}
    world.delete(*victims[4:])
    world.run()
    assert len(world.where("g")) == 2
    assert world.where("same") == {}
    assert len(evicted(world)) == 8


def test_a_higher_priority_may_take_room_that_is_held():
    world = full()
    world.pod("middle", gpus=8, priority=10)
    world.run()
    victims = evicted(world)
    world.pod("top", gpus=8, priority=20)
    world.run()
    assert evicted(world) == victims
    world.delete(*victims)
    world.run()
    assert world.where("top") == {"top": "n0"}
    assert world.where("middle") == {}


def test_a_preemptor_that_vanishes_gives_up_what_is_held_for_it():
    world = full()
    world.pod("high", gpus=8, priority=10)
    world.run()
    victims = evicted(world)
    world.delete("high")
    world.delete(*victims)
    world.pod("low-again", gpus=8)
    world.run()
    assert world.where("low-again") == {"low-again": "n0"}


def test_after_its_time_the_room_is_held_no_more_and_nobody_is_asked_twice():
    world = full(victims_timeout_seconds=60)
    world.pod("high", priority=10)
    world.run()
    (victim,) = evicted(world)
    world.until(200.0)
    assert evicted(world) == [victim]
    assert world.reason("Pod", "high") == "WaitingForVictims"
    world.delete(victim)
    world.run()
    assert world.where("high") == {"high": "n0"}


@pytest.mark.parametrize("backwards", [False, True])
def test_a_restart_in_between_takes_out_nobody_else(backwards):
    world = full(2)
    world.gang("g", 2, gpus=8, priority=10)
    world.run()
    victims = evicted(world)
    assert len(victims) == 16
    world.restart(backwards=backwards)
    world.run()
    assert evicted(world) == victims
    world.pod("lower", priority=5)
    world.delete(*victims[:8])
    world.run()
    assert world.where("lower") == {}
    world.delete(*victims[8:])
    world.run()
    assert len(world.where("g")) == 2
    assert evicted(world) == victims


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("asked", [slice(2), slice(2, None), slice(None, None, 2), slice(1), slice(3)])
def test_who_was_not_asked_before_the_operator_was_killed_is_asked_by_the_next_at_once(asked, backwards):
    world = full(2, gpus=4)
    world.gang("g", 2, gpus=2, priority=10)
    world.run()
    victims = evicted(world)
    assert len(victims) == 4
    for name in set(victims) - set(victims[asked]):
        world.keep(name)
    world.restart(backwards=backwards)
    world.pod("lower", priority=5, preempts=False)
    world.run()
    leaving = [name for (_, name), pod in world.pods.items() if pod.metadata.deletion_timestamp]
    assert len(leaving) == 4
    assert set(victims[asked]) < set(leaving)
    assert world.reason("PodGroup", "g") == "WaitingForVictims"
    world.delete(*leaving)
    world.run()
    assert len(world.where("g")) == 2
    assert not world.where("lower")


def test_of_several_who_wait_on_one_node_each_has_its_victim_asked_by_the_next_operator():
    world = full()
    for number in range(4):
        world.pod(f"high-{number}", priority=10)
    world.run()
    victims = evicted(world)
    for name in victims[1:]:
        world.keep(name)
    world.restart()
    world.run()
    leaving = [name for (_, name), pod in world.pods.items() if pod.metadata.deletion_timestamp]
    assert len(leaving) == 4
    world.delete(*leaving)
    world.run()
    assert len(world.where("high")) == 4


def leaving_for_one_of_a_queue(**spec: Any) -> World:
    """A queue with a node full of two pods without a queue, and a pod in the queue for which they are leaving."""
    world = World()
    world.hold_evictions = True
    world.flavor()
    world.queue("cq", 8, **spec)
    world.node("n0", gpus=2)
    world.pod("low-0")
    world.pod("low-1")
    world.run()
    world.pod("high", gpus=2, priority=10, queue="queue")
    world.run()
    assert sorted(evicted(world)) == ["low-0", "low-1"]
    return world


def test_the_head_of_a_strict_queue_is_not_tried_again_and_again_while_its_victims_leave():
    world = leaving_for_one_of_a_queue(queueingStrategy="StrictFIFO")
    world.node("n1", gpus=1)
    world.pod("other", priority=20, queue="queue")
    world.run()
    assert world.where("other") == {"other": "n1"}
    tried = world.engine.evaluated
    world.finish("other")
    world.run()  # it gives quota back, and comes to rest
    assert world.engine.evaluated == tried
    assert world.reason("Pod", "high") == "WaitingForVictims"
    world.delete("low-0", "low-1")
    world.run()
    assert world.where("high") == {"high": "n0"}


def test_a_queue_that_is_put_on_hold_gives_up_what_is_held_for_its_workloads():
    world = leaving_for_one_of_a_queue()
    world.object("ClusterQueue", "cq", {**world.objects["ClusterQueue", "", "cq"]["spec"], "stopPolicy": "Hold"})
    world.run()
    world.delete("low-0", "low-1")
    world.pod("late")
    world.run()
    assert world.where() == {"late": "n0"}
    assert world.used("cq") == 0


@pytest.mark.parametrize("lost", ["a member", "the group"])
def test_room_for_a_gang_that_is_not_whole_any_more_is_held_until_its_time_is_over(lost):
    world = full(gpus=4)
    world.gang("g", 4, priority=10)
    world.run()
    victims = evicted(world)
    if lost == "a member":
        world.delete("g-3")
    else:
        world.remove_object("PodGroup", "g")
    world.run()
    world.delete(*victims)
    world.pod("late")
    world.until(world.configuration.victims_timeout_seconds - 1)
    assert world.where() == {}
    world.until(2)
    assert world.where() == {"late": "n0"}


def test_victims_on_a_node_that_is_lost_are_not_waited_for():
    world = full()
    world.pod("high", priority=10)
    world.run()
    world.remove_node("n0")
    world.run()
    assert world.reason("Pod", "high") == "Unschedulable"
    world.node("n1")
    world.run()
    assert world.where("high") == {"high": "n1"}


def test_room_that_another_scheduler_has_nominated_is_left_to_it():
    world = World()
    world.node("n0", gpus=1)
    theirs = world.pod("theirs", scheduler="default-scheduler", priority=10)
    world.put(replaced(theirs, status=replaced(theirs.status, nominated_node_name="n0")))
    world.pod("same", priority=10)
    world.run()
    assert world.where("same") == {}
    world.pod("top", priority=20)
    world.run()
    assert world.where("top") == {"top": "n0"}
    world.delete("top")
    world.delete("theirs")
    world.run()
    assert world.where("same") == {"same": "n0"}


def test_a_victim_that_could_not_be_asked_is_asked_again():
    world = World()
    world.node("n0", gpus=1)
    world.pod("theirs", node="n0", scheduler="default-scheduler", priority=0)
    world.refuse_evictions = True
    world.pod("high", priority=10)
    world.run()
    world.refuse_evictions = False
    world.until(30.0)
    assert evicted(world) == ["theirs", "theirs"]
    assert world.where("high") == {"high": "n0"}
