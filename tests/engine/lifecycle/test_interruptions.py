"""While the API server is away, or the operator stands still, no window passes: nobody could have made use of it."""

from __future__ import annotations

import pytest

from tests.engine.lifecycle.degraded_gangs import WINDOW, degraded, evicted, running, successors
from tests.engine.lifecycle.test_permit import promising
from tests.engine.lifecycle.workloads_to_evict import create, one_node
from tests.engine.preemption.hung_pods import MARGIN, with_stuck
from tests.engine.world import World
from tutti.engine.records.observations import Interrupted

AWAY = 1000.0


def be_away(world: World, seconds: float = AWAY) -> None:
    """Let time pass in which nothing is asked of the engine, and tell it so before it is asked again."""
    world.now += seconds
    world.tell(Interrupted(seconds, world.now))
    world.run()


def half_bound() -> World:
    """A gang of two of which one member is bound, and the other is refused at every try."""
    world = World(bind_window_seconds=20)
    world.node("n1", gpus=2)
    world.outcomes["g-1"] = ["Failed"] * 10
    world.gang("g", 2)
    world.until(5)
    assert sorted(world.where()) == ["g-0"]
    return world


def test_a_gang_that_is_bound_in_part_has_what_was_left_of_its_window():
    world = half_bound()
    be_away(world)
    world.until(14)
    assert evicted(world) == []
    world.until(2)
    assert evicted(world) == ["g-0"]


def test_a_gang_that_is_bound_in_part_is_completed_afterwards():
    world = half_bound()
    world.outcomes.clear()
    be_away(world)
    world.until(14)
    assert sorted(world.where()) == ["g-0", "g-1"]
    assert evicted(world) == []


def test_a_reservation_is_held_for_members_that_could_not_be_made():
    world = promising(seconds=30)
    world.until(5)
    be_away(world)
    world.until(24)
    assert (world.used("cq"), world.events("PermitTimeout")) == (3, [])
    world.until(2)
    assert len(world.events("PermitTimeout")) == 1


@pytest.mark.parametrize("comes", [True, False])
def test_a_gang_that_has_lost_a_member_is_restarted_no_sooner(comes: bool):
    world = running(onMemberLoss={"windowSeconds": WINDOW})
    world.begin_deleting("g-3")
    world.delete("g-3")
    world.until(WINDOW - 10)
    be_away(world)
    world.until(9)
    assert (degraded(world), evicted(world)) == ("True", [])
    if comes:
        successors(world, 3)
    world.until(2)
    assert evicted(world) == ([] if comes else ["g-0", "g-1", "g-2"])


def test_nobody_is_taken_out_for_readiness_that_nobody_could_tell():
    world = one_node()
    world.workload("w", {"name": "main", "count": 2}, queueName="queue", readyTimeoutSeconds=30)
    create(world)
    world.until(20)
    be_away(world)
    world.until(9)
    assert evicted(world) == []
    world.until(2)
    assert evicted(world) != []


def waiting_for_a_victim() -> World:
    """A pod that has another told to leave, while a third runs that is as unimportant."""
    world = with_stuck("a pod")
    world.pod("high", gpus=4, priority=10)
    world.until(20)
    assert evicted(world) == []
    return world


def test_a_victim_has_all_its_time_to_leave_once_its_kubelet_can_say_that_it_has():
    world = waiting_for_a_victim()
    be_away(world)
    world.until(MARGIN - 1)
    assert evicted(world) == []
    world.until(1)
    assert evicted(world) == ["runs"]


def test_a_victim_has_all_its_time_after_the_last_of_several_interruptions():
    """A server that has just come back goes away again more often than not."""
    world = waiting_for_a_victim()
    be_away(world)
    world.until(50)
    be_away(world, 6)
    world.until(MARGIN - 1)
    assert evicted(world) == []
    world.until(1)
    assert evicted(world) == ["runs"]


def test_who_was_overdue_before_stays_so():
    world = with_stuck("a pod")
    world.until(MARGIN)
    be_away(world)
    world.pod("high", gpus=4, priority=10)
    world.run()
    assert evicted(world) == ["runs"]
