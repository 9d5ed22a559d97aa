"""How workloads are taken out, and what their conditions say: whole, member by member, and on after a restart.

Reasons and conditions are Kueue's (0.20, pkg/workload and pkg/controller/core).
"""

from __future__ import annotations

import pytest

from tests.engine.lifecycle.test_permit import TEMPLATE
from tests.engine.lifecycle.workloads_to_evict import conditions, create, evicted, one_node, running, stop
from tests.engine.world import World
from tutti.engine.lifecycle import eviction
from tutti.engine.records.explanation import EvictionReason
from tutti.engine.records.workloads import Phase


@pytest.fixture
def world() -> World:
    return one_node()


def test_a_victim_leaves_whole_and_says_for_whom(world):
    running(world)
    state = world.engine.state
    workload = state.workloads["Workload", "default", "w"]
    message = "preempted to let Workload/default/high in: it has priority 10, this one 0"
    world.hold_evictions = True
    eviction.evict(state, workload, EvictionReason.PREEMPTED, message, preempted="InClusterQueue")
    world.run()

    assert [(one.name, one.reason) for one in evicted(world)] == [
        ("w-0", "PreemptionByScheduler"),
        ("w-1", "PreemptionByScheduler"),
    ]
    assert all(message in one.message for one in evicted(world))
    said = conditions(world)
    assert said["Evicted"] == ("True", "Preempted")
    assert said["Preempted"] == ("True", "InClusterQueue")
    assert said["Requeued"] == ("True", "Preempted")
    assert world.condition("Workload", "w", "Preempted")["message"] == message
    assert world.events("Preempted", "w")


def test_quota_goes_back_member_by_member_as_pods_really_go(world):
    running(world)
    world.hold_evictions = True
    stop(world, "ClusterQueue", "cq", "HoldAndDrain")
    world.run()
    assert world.used("cq") == 2
    assert conditions(world)["QuotaReserved"][0] == "True"
    assert conditions(world)["Admitted"] == ("False", "ClusterQueueStopped")
    world.delete("w-0")
    world.run()
    assert world.used("cq") == 1
    world.delete("w-1")
    world.run()
    assert world.used("cq") == 0
    assert conditions(world)["QuotaReserved"][0] == "False"


def test_a_reservation_is_given_back_at_once(world):
    world.workload("w", {"name": "main", "count": 2, "template": TEMPLATE}, queueName="queue")
    world.run()
    workload = world.engine.state.workloads["Workload", "default", "w"]
    assert workload.phase is Phase.RESERVED
    stop(world, "ClusterQueue", "cq", "Hold")
    world.run()

    assert world.used("cq") == 0
    assert not evicted(world)
    assert conditions(world)["Evicted"] == ("True", "ClusterQueueStopped")


def test_members_on_their_way_are_asked_to_leave_when_they_have_arrived(world):
    world.hold_binds = True
    world.workload("w", {"name": "main", "count": 2}, queueName="queue")
    create(world)
    world.run()
    first, second = world.pending_binds
    world.answer(first)
    stop(world, "LocalQueue", "queue", "HoldAndDrain")
    world.run()
    assert [one.name for one in evicted(world)] == ["w-0"]
    assert world.used("cq") == 1  # the other one is still on its way
    world.answer(second)
    world.run()
    assert [one.name for one in evicted(world)] == ["w-0", "w-1"]
    assert world.used("cq") == 0


def test_a_pod_of_which_nobody_knows_whether_it_was_bound_is_asked_to_leave(world):
    world.hold_binds = True
    world.workload("w", {"name": "main", "count": 1}, queueName="queue")
    create(world, size=1)
    world.run()
    (bind,) = world.pending_binds
    world.answer(bind, "Unknown")
    world.workload("w", {"name": "main", "count": 1}, queueName="queue", active=False)
    world.run()
    assert [one.name for one in evicted(world)] == ["w-0"]
    assert not world.pending_binds
    assert world.used("cq") == 0


def test_a_refused_eviction_is_asked_for_again_with_growing_pauses(world):
    running(world)
    world.refuse_evictions = True
    stop(world, "ClusterQueue", "cq", "HoldAndDrain")
    world.run()
    assert len(evicted(world)) == 2
    world.until(60)
    asked = len(evicted(world))
    assert 6 <= asked <= 2 * 10
    world.refuse_evictions = False
    world.until(20)
    assert world.where() == {}
    assert world.used("cq") == 0


def test_members_that_fail_because_they_are_taken_out_are_no_end(world):
    """A pod that is deleted may show phase Failed before it is gone."""
    running(world)
    world.hold_evictions = True
    stop(world, "ClusterQueue", "cq", "HoldAndDrain")
    world.run()
    world.finish("w-0", "w-1", phase="Failed")
    world.run()
    assert "Finished" not in conditions(world)
    assert world.used("cq") == 0


def test_surplus_members_leave_and_the_rest_stays_admitted(world):
    world.workload("w", {"name": "main", "count": 3, "minCount": 2}, queueName="queue")
    create(world, size=3)
    world.run()
    state = world.engine.state
    workload = state.workloads["Workload", "default", "w"]
    eviction.evict_members(state, workload, [state.members["default", "w-2"]], "PreemptionByScheduler", "for another")
    world.run()
    assert sorted(world.where()) == ["w-0", "w-1"]
    assert conditions(world)["Admitted"][0] == "True"
    assert "Evicted" not in conditions(world)
    assert world.used("cq") == 2


def test_what_has_nothing_reserved_cannot_be_taken_out(world):
    world.workload("w", {"name": "main", "count": 2}, queueName="queue")
    world.run()
    state = world.engine.state
    workload = state.workloads["Workload", "default", "w"]
    assert not eviction.can_leave(workload)
    eviction.evict(state, workload, EvictionReason.PREEMPTED, "for another", preempted="InClusterQueue")
    world.run()
    assert "Evicted" not in conditions(world)


def test_an_eviction_that_was_under_way_goes_on_after_a_restart(world):
    running(world)
    world.refuse_evictions = True
    workload = world.engine.state.workloads["Workload", "default", "w"]
    eviction.evict(world.engine.state, workload, EvictionReason.PREEMPTED, "for another", preempted="InClusterQueue")
    world.run()
    world.refuse_evictions = False
    world.restart()
    world.run()
    assert world.where() == {}
    assert conditions(world)["Evicted"] == ("True", "Preempted")


def test_what_was_admitted_again_is_left_alone_after_a_restart(world):
    running(world)
    workload = world.engine.state.workloads["Workload", "default", "w"]
    eviction.evict(world.engine.state, workload, EvictionReason.PREEMPTED, "for another", preempted="InClusterQueue")
    world.run()
    create(world)
    world.run()
    assert conditions(world)["Evicted"] == ("False", "QuotaReserved")
    assert world.condition("Workload", "w", "Preempted")["message"] == "Previously: for another"
    world.restart()
    world.run()
    assert len(world.where()) == 2


def test_a_new_object_of_the_same_name_does_not_inherit_what_its_predecessor_suffered(world):
    running(world, readyTimeoutSeconds=10, requeue={"backoffBaseSeconds": 100, "limit": 1})
    world.become_unready("w-0")
    world.until(15)
    assert world.status("Workload", "w")["requeue"]["count"] == 1
    world.remove_object("Workload", "w")
    world.run()
    running(world)
    assert len(world.where()) == 2
    assert "requeue" not in world.status("Workload", "w")


def test_a_member_that_ended_before_it_was_seen_on_its_node_has_left():
    """Found by the simulation: its bind had been answered before it was seen there, and its workload left for ever."""
    world = World()
    world.node("n1")
    world.flavor()
    world.queue("cq", 4)
    world.workload("w", {"name": "main", "count": 1}, queueName="queue")
    world.pod("w-0", workload="w")
    world.hold_binds = world.hold_evictions = True
    world.run()
    world.answer(world.pending_binds[0], seen=False)
    world.workload("w", {"name": "main", "count": 1}, queueName="queue", active=False)
    world.run()
    world.finish("w-0")
    world.run()
    count = world.engine.state.counts.of("cq")
    assert (count.leaving, count.admitted, count.pending) == (0, 0, 0)
