"""Who leaves when a queue is stopped or a workload is set inactive, and when it comes back (Kueue 0.20, pkg/controller/core)."""

from __future__ import annotations

import pytest

from tests.engine.lifecycle.workloads_to_evict import conditions, create, evicted, one_node, running, stop
from tests.engine.world import World


@pytest.fixture
def world() -> World:
    return one_node()


@pytest.mark.parametrize(
    ("kind", "name", "reason", "restarted"),
    [
        ("ClusterQueue", "cq", "ClusterQueueStopped", "ClusterQueueRestarted"),
        ("LocalQueue", "queue", "LocalQueueStopped", "LocalQueueRestarted"),
    ],
)
def test_hold_lets_run_and_drain_takes_out(world, kind, name, reason, restarted):
    running(world)
    stop(world, kind, name, "Hold")
    world.run()
    assert len(world.where()) == 2
    stop(world, kind, name, "HoldAndDrain")
    world.run()
    assert world.where() == {}
    said = conditions(world)
    assert said["Evicted"] == ("True", reason)
    assert said["Requeued"] == ("False", reason)
    create(world)
    world.run()
    assert world.where() == {}
    assert world.reason("Workload", "w") == "OnHold"
    stop(world, kind, name, "None")
    world.run()
    assert len(world.where()) == 2
    said = conditions(world)
    assert said["Evicted"] == ("False", "QuotaReserved")
    assert said["Requeued"] == ("True", restarted)


def test_draining_takes_out_gangs_and_pods_without_a_workload_too(world):
    world.gang("g", 2, queue="queue")
    world.pod("p", queue="queue")
    world.pod("free")
    world.run()
    assert len(world.where()) == 4
    stop(world, "ClusterQueue", "cq", "HoldAndDrain")
    world.run()
    assert list(world.where()) == ["free"]
    assert conditions(world, "g", "PodGroup")["Evicted"] == ("True", "ClusterQueueStopped")


def test_a_workload_that_is_set_inactive_is_taken_out_and_comes_back_when_it_is_active_again(world):
    running(world)
    spec = world.objects["Workload", "default", "w"]["spec"]
    world.object("Workload", "w", {**spec, "active": False})
    world.run()
    assert world.where() == {}
    assert conditions(world)["Evicted"] == ("True", "Deactivated")
    create(world)
    world.run()
    assert world.where() == {}
    assert world.reason("Workload", "w") == "Deactivated"
    world.object("Workload", "w", {**spec, "active": True})
    world.run()
    assert len(world.where()) == 2


def test_surplus_of_a_workload_that_is_inactive_is_not_placed(world):
    """It runs on through members that have succeeded; what is bound for it would be taken out at once."""
    world.workload("w", {"name": "main", "count": 2, "minCount": 1}, queueName="queue")
    world.pod("w-0", workload="w")
    world.run()
    world.finish("w-0")
    world.workload("w", {"name": "main", "count": 2, "minCount": 1}, queueName="queue", active=False)
    world.pod("w-1", workload="w")
    world.run()
    assert list(world.where()) == ["w-0"]
    assert not evicted(world)


def test_a_gang_that_leaves_before_all_of_it_was_bound_does_not_say_that_it_is_being_bound(world):
    world.gang("g", 2, queue="queue")
    world.hold_binds = world.hold_evictions = True
    world.run()
    world.answer(world.pending_binds[0])
    world.run()
    assert world.condition("PodGroup", "g", "Scheduled")["reason"] == "Binding"
    stop(world, "ClusterQueue", "cq", "HoldAndDrain")
    world.run()
    said = world.condition("PodGroup", "g", "Scheduled")
    assert (said["status"], said["reason"]) == ("False", "ClusterQueueStopped")
