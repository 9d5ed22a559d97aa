"""How long workloads may take until they are ready, how long they may run, and who says so."""

from __future__ import annotations

import pytest

from tests.engine.lifecycle.workloads_to_evict import conditions, create, evicted, one_node, running, stop
from tests.engine.world import World
from tutti.api.conditions import timestamp
from tutti.engine.records.decisions import Deactivate


@pytest.fixture
def world() -> World:
    return one_node()


def test_a_workload_that_is_not_ready_in_time_waits_longer_each_time_and_is_set_inactive_in_the_end(world):
    policy = {"backoffBaseSeconds": 10, "backoffMaxSeconds": 15, "limit": 2}
    world.workload("w", {"name": "main", "count": 2}, queueName="queue", readyTimeoutSeconds=30, requeue=policy)
    waits = []
    for times in (1, 2):
        create(world)
        world.run()
        assert len(world.where()) == 2
        world.until(29)
        assert len(world.where()) == 2
        world.until(1)
        assert world.where() == {}
        assert conditions(world)["Evicted"] == ("True", "PodsReadyTimeout")
        assert conditions(world)["Requeued"] == ("False", "PodsReadyTimeout")
        assert world.status("Workload", "w")["requeue"]["count"] == times
        waits.append(world.engine.state.workloads["Workload", "default", "w"].not_before - world.now)
        world.until(waits[-1])
        assert conditions(world)["Requeued"] == ("True", "BackoffFinished")
    assert 10 <= waits[0] <= 12.5  # base, and up to a quarter more
    assert 15 <= waits[1] <= 18.75  # twice the base would be 20
    create(world)
    world.run()
    world.until(30)

    assert world.where() == {}
    assert world.objects["Workload", "default", "w"]["spec"]["active"] is False
    assert conditions(world)["Evicted"] == ("True", "DeactivatedDueToRequeuingLimitExceeded")
    assert conditions(world)["DeactivationTarget"] == ("False", "Deactivated")
    assert world.reason("Workload", "w") == "Deactivated"
    assert "0 of 2 required members are ready" in world.why("Workload", "w").message


def test_members_that_are_ready_in_time_stay(world):
    running(world, readyTimeoutSeconds=30)
    world.until(300)
    assert len(world.where()) == 2


def test_a_running_gang_that_loses_a_member_and_gets_no_other_in_time_is_taken_out(world):
    running(world, readyTimeoutSeconds=30)
    world.until(100)
    world.finish("w-0", phase="Failed")
    world.run()
    assert conditions(world)["PodsReady"] == ("False", "WaitForRecovery")
    world.until(29)
    assert "w-1" in world.where()
    world.until(1)
    assert [one.name for one in evicted(world)] == ["w-1"]
    assert "is ready again after 30 s" in world.condition("Workload", "w", "Evicted")["message"]


def test_a_running_gang_that_gets_a_new_member_in_time_goes_on(world):
    running(world, readyTimeoutSeconds=30)
    world.delete("w-0")
    world.until(20)
    world.pod("w-0", workload="w")
    world.run()
    world.become_ready("w-0")
    world.until(100)
    assert len(world.where()) == 2
    assert not evicted(world)


def test_the_ready_window_and_the_backoff_outlive_a_restart(world):
    policy = {"backoffBaseSeconds": 100, "backoffMaxSeconds": 1000}
    world.workload("w", {"name": "main", "count": 2}, queueName="queue", readyTimeoutSeconds=30, requeue=policy)
    create(world)
    world.run()
    world.until(20)
    world.restart()
    world.until(9)
    assert len(world.where()) == 2
    world.until(1)
    assert world.where() == {}
    create(world)
    world.until(10)
    world.restart()
    world.until(80)
    assert world.where() == {}
    assert world.status("Workload", "w")["requeue"]["count"] == 1
    world.until(40)
    assert len(world.where()) == 2


@pytest.mark.parametrize(
    ("ready", "spec"), [(False, {"readyTimeoutSeconds": 30}), (True, {"maximumExecutionTimeSeconds": 30})]
)
def test_what_a_process_wrote_whose_clock_was_ahead_gives_no_more_time_than_from_now_on(world, ready, spec):
    world.now += 86400.0
    world.workload("w", {"name": "main", "count": 2}, queueName="queue", **spec)
    create(world)
    if ready:
        world.run()
        world.become_ready("w-0", "w-1")
    world.run()
    world.now -= 86400.0
    world.restart()
    world.until(29)
    assert len(world.where()) == 2
    world.until(2)
    assert world.where() == {}


def test_what_a_process_wrote_whose_clock_was_ahead_puts_nobody_off_for_longer_than_its_backoff(world):
    world.now += 86400.0
    policy = {"backoffBaseSeconds": 10, "backoffMaxSeconds": 15}
    world.workload("w", {"name": "main", "count": 2}, queueName="queue", readyTimeoutSeconds=30, requeue=policy)
    create(world)
    world.until(30)
    assert conditions(world)["Requeued"] == ("False", "PodsReadyTimeout")
    world.now -= 86400.0
    world.restart()
    create(world)
    world.until(19)
    assert len(world.where()) == 2


def test_one_that_is_set_active_again_starts_counting_anew(world):
    running(world, readyTimeoutSeconds=30, requeue={"limit": 0})
    world.finish("w-0", phase="Failed")
    world.until(30)
    spec = world.objects["Workload", "default", "w"]["spec"]
    assert spec["active"] is False
    world.delete("w-0")
    create(world)
    world.object("Workload", "w", {**spec, "active": True, "requeue": {"limit": 1}})
    world.run()
    assert len(world.where()) == 2
    world.until(30)
    assert world.status("Workload", "w")["requeue"]["count"] == 1
    assert world.objects["Workload", "default", "w"]["spec"]["active"] is True


def test_a_workload_that_has_run_as_long_as_it_may_is_set_inactive(world):
    running(world, maximumExecutionTimeSeconds=100)
    world.until(99)
    assert len(world.where()) == 2
    world.until(1)
    assert world.where() == {}
    assert world.objects["Workload", "default", "w"]["spec"]["active"] is False
    assert conditions(world)["Evicted"] == ("True", "DeactivatedDueToMaximumExecutionTimeExceeded")
    assert world.status("Workload", "w")["accumulatedPastExecutionTimeSeconds"] == 100


def test_execution_time_counts_over_evictions_and_restarts(world):
    running(world, maximumExecutionTimeSeconds=100)
    world.until(60)
    stop(world, "ClusterQueue", "cq", "HoldAndDrain")
    world.until(500)
    assert world.status("Workload", "w")["accumulatedPastExecutionTimeSeconds"] == 60
    stop(world, "ClusterQueue", "cq", "None")
    create(world)
    world.run()
    world.until(20)
    world.restart()
    world.until(19)
    assert len(world.where()) == 2
    world.until(1)
    assert world.where() == {}
    spec = world.objects["Workload", "default", "w"]["spec"]
    assert spec["active"] is False
    create(world)
    world.object("Workload", "w", {**spec, "active": True})
    world.until(99)
    assert len(world.where()) == 2  # one that is set active again starts anew


@pytest.mark.parametrize("spec", [{"maximumExecutionTimeSeconds": 100}, {"readyTimeoutSeconds": 100}])
def test_a_time_that_passes_while_nobody_looks_is_over_when_somebody_does(world, spec):
    world.workload("w", {"name": "main", "count": 2}, queueName="queue", **spec)
    create(world)
    world.run()
    world.now += 500
    world.restart()
    world.run()
    assert world.where() == {}
    assert conditions(world)["Evicted"][0] == "True"


def test_a_workload_is_not_admitted_while_it_is_being_set_inactive(world):
    world.refuse_deactivation = True
    running(world, maximumExecutionTimeSeconds=100)
    world.until(100)
    create(world)
    world.until(30)
    assert world.where() == {}
    assert conditions(world)["DeactivationTarget"] == ("True", "MaximumExecutionTimeExceeded")
    asked = [one for one in world.log if isinstance(one, Deactivate)]
    assert len(asked) > 2
    world.refuse_deactivation = False
    world.restart()  # what was to be done is known from the status
    world.run()
    assert world.objects["Workload", "default", "w"]["spec"]["active"] is False
    assert world.where() == {}


def default_limit(world: World, *, of_cluster_queue: int | None = None, of_local_queue: int | None = None) -> None:
    """Say for how long those may run who do not say so themselves; None takes back what a queue said."""
    for key, seconds in (
        (("ClusterQueue", "", "cq"), of_cluster_queue),
        (("LocalQueue", "default", "queue"), of_local_queue),
    ):
        spec = {**world.objects[key]["spec"], "defaultMaximumExecutionTimeSeconds": seconds}
        world.object(key[0], key[2], {name: said for name, said in spec.items() if said is not None})


@pytest.mark.parametrize(
    ("cluster_queue", "local_queue", "own", "ends_after", "by"),
    [
        (100, None, None, 100, "ClusterQueue cq"),
        (100, 200, None, 200, "LocalQueue default/queue"),
        (None, 50, None, 50, "LocalQueue default/queue"),
        (100, 50, 300, 300, ""),
    ],
    ids=["of the ClusterQueue", "the nearer one counts", "of the LocalQueue", "what it says itself counts"],
)
def test_a_queue_says_how_long_those_may_run_who_do_not_say_so_themselves(
    world, cluster_queue, local_queue, own, ends_after, by
):
    default_limit(world, of_cluster_queue=cluster_queue, of_local_queue=local_queue)
    running(world, **({} if own is None else {"maximumExecutionTimeSeconds": own}))
    world.until(ends_after - 1)
    assert len(world.where()) == 2
    world.until(1)
    assert world.where() == {}
    assert conditions(world)["Evicted"] == ("True", "DeactivatedDueToMaximumExecutionTimeExceeded")
    said = next(one.note for one in world.events("MaximumExecutionTimeExceeded"))
    assert said == f"it has run for {ends_after} s, " + (
        f"the defaultMaximumExecutionTimeSeconds of {by}; it is set inactive"
        if by
        else "its maximumExecutionTimeSeconds; it is set inactive"
    )


def test_a_default_counts_for_those_that_run_from_when_it_is_written_until_it_is_taken_back(world):
    running(world)
    world.until(1000)
    default_limit(world, of_cluster_queue=1100)
    world.run()
    assert len(world.where()) == 2
    default_limit(world)
    world.until(500)
    assert len(world.where()) == 2
    default_limit(world, of_local_queue=1200)
    world.restart()
    world.run()
    assert world.where() == {}


def test_a_default_is_what_a_head_goes_by_that_waits_for_the_end_of_others():
    """A head with room kept for it is told when those end at the latest who say nothing themselves."""
    world = World()
    world.flavor()
    world.node("n1", gpus=8)
    world.queue("cq", 8, backfill="Reserved")
    default_limit(world, of_cluster_queue=600)
    for name, gpus in (("first", 8), ("head", 8)):
        world.workload(name, {"name": "main", "count": 1}, queueName="queue")
        world.pod(f"{name}-0", gpus=gpus, workload=name)
        world.run()
    assert world.why("Workload", "head").details["startsAt"] == timestamp(world.now + 600)
