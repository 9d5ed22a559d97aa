"""How workloads end before all of their members have: policies for success and for failure."""

from __future__ import annotations

import pytest

from tests.engine.lifecycle.workloads_to_evict import conditions, evicted
from tests.engine.world import World, replaced

GROUPS = ({"name": "launcher", "count": 1}, {"name": "workers", "count": 2})


@pytest.fixture
def world() -> World:
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 8)
    return world


def launched(world: World, **spec: object) -> None:
    world.workload("w", *GROUPS, queueName="queue", **spec)
    pods(world)
    world.run()
    assert len(world.where()) == 3


def pods(world: World) -> None:
    world.pod("w-launcher", workload="w", group="launcher")
    for rank in range(2):
        world.pod(f"w-worker-{rank}", workload="w", group="workers")


def test_a_launcher_that_has_succeeded_ends_its_workers(world):
    """Workers of an MPI job sleep until somebody ends them."""
    launched(world, successPolicy={"podGroups": ["launcher"]})
    world.hold_evictions = True
    world.finish("w-launcher")
    world.run()
    assert conditions(world)["Finished"] == ("True", "Succeeded")
    assert [(one.name, one.reason) for one in evicted(world)] == [
        ("w-worker-0", "WorkloadSucceeded"),
        ("w-worker-1", "WorkloadSucceeded"),
    ]
    assert world.used("cq") == 2  # until they have gone
    world.delete("w-worker-0", "w-worker-1")
    world.run()
    assert world.used("cq") == 0


def test_workers_that_are_made_again_after_the_end_are_not_placed(world):
    launched(world, successPolicy={"podGroups": ["launcher"]})
    world.finish("w-launcher")
    world.run()
    world.pod("w-worker-0", workload="w", group="workers")
    world.run()
    world.restart()
    world.run()
    assert list(world.where("w-worker")) == []
    assert conditions(world)["Finished"] == ("True", "Succeeded")


def test_without_a_policy_all_members_decide(world):
    launched(world)
    world.finish("w-launcher")
    world.run()
    assert "Finished" not in conditions(world)
    assert not evicted(world)


def test_a_worker_that_ends_before_the_launcher_decides_nothing(world):
    launched(world, successPolicy={"podGroups": ["launcher"]})
    world.finish("w-worker-0")
    world.run()
    assert "Finished" not in conditions(world)
    assert not evicted(world)


def test_a_member_that_fails_sets_the_workload_inactive_where_that_is_asked_for(world):
    launched(world, failurePolicy={"onMemberFailure": "Deactivate"})
    world.finish("w-worker-1", phase="Failed")
    world.run()
    assert sorted(world.where()) == ["w-worker-1"]
    assert conditions(world)["Evicted"] == ("True", "DeactivatedDueToMemberFailed")
    assert "w-worker-1 has failed" in world.condition("Workload", "w", "Evicted")["message"]
    assert world.objects["Workload", "default", "w"]["spec"]["active"] is False
    assert world.used("cq") == 0


def test_the_others_run_on_where_nothing_is_said(world):
    launched(world)
    world.finish("w-worker-1", phase="Failed")
    world.run()
    assert len(world.where()) == 3
    assert not evicted(world)


def test_what_failed_in_an_earlier_run_does_not_count_in_the_next_one(world):
    launched(world, failurePolicy={"onMemberFailure": "Deactivate"})
    failed = world.pods["default", "w-worker-1"]
    started = replaced(failed.status, phase="Failed", start_time=world._timestamp())
    world.put(replaced(failed, status=started))
    world.run()
    world.now += 60
    spec = world.objects["Workload", "default", "w"]["spec"]
    world.pod("w-launcher", workload="w", group="launcher")
    for name in ("w-worker-0", "w-worker-2"):
        world.pod(name, workload="w", group="workers")
    world.object("Workload", "w", {**spec, "active": True})
    world.run()
    assert sorted(world.where()) == ["w-launcher", "w-worker-0", "w-worker-1", "w-worker-2"]
    world.restart()
    world.run()
    assert world.objects["Workload", "default", "w"]["spec"]["active"] is True
    world.finish("w-worker-2", phase="Failed")
    world.run()
    assert world.objects["Workload", "default", "w"]["spec"]["active"] is False


def test_a_failure_while_nobody_looks_counts(world):
    launched(world, failurePolicy={"onMemberFailure": "Deactivate"})
    failed = world.pods["default", "w-worker-1"]
    world.pods["default", "w-worker-1"] = replaced(failed, status=replaced(failed.status, phase="Failed"))
    world.restart()
    world.run()
    assert world.objects["Workload", "default", "w"]["spec"]["active"] is False
