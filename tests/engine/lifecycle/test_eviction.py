"""Workloads that are taken out: when, how, what their conditions say, and when they come back.

Reasons and conditions are Kueue's (0.20, pkg/workload and pkg/controller/core).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.lifecycle.test_permit import TEMPLATE
from tests.engine.world import World
from tutti.api.conditions import timestamp
from tutti.engine.lifecycle import eviction, quota_usage
from tutti.engine.records.decisions import Deactivate, Evict
from tutti.engine.records.explanation import EvictionReason
from tutti.engine.records.workloads import Phase


@pytest.fixture
def world() -> World:
    world = World(backoff={"baseSeconds": 1, "maxSeconds": 10})
    world.flavor()
    world.node("n1")
    world.queue("cq", 8)
    return world


def running(world: World, name: str = "w", size: int = 2, **spec: Any) -> None:
    """A workload of so many pods that are bound and ready."""
    world.workload(name, {"name": "main", "count": size}, queueName="queue", **spec)
    create(world, name, size)
    world.run()
    world.become_ready(*[f"{name}-{rank}" for rank in range(size)])
    world.run()


def create(world: World, name: str = "w", size: int = 2) -> None:
    for rank in range(size):
        world.pod(f"{name}-{rank}", workload=name)


def evicted(world: World) -> list[Evict]:
    return [one for one in world.log if isinstance(one, Evict)]


def conditions(world: World, name: str = "w", kind: str = "Workload") -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in world.status(kind, name)["conditions"]}


def stop(world: World, kind: str, name: str, policy: str) -> None:
    spec = world.objects[kind, "" if kind == "ClusterQueue" else "default", name]["spec"]
    world.object(kind, name, {**spec, "stopPolicy": policy})


# The contract of `evict`.


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


# Queues that are stopped.


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


# Inactive workloads.


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


# The ready window.


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


# Execution time.


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


# Young victims.


def test_a_young_workload_is_protected_until_it_has_run_for_the_minimum(world):
    world.queue("cq", 8, preemption={"minimumRuntimeSeconds": 600})
    world.workload("w", {"name": "main", "count": 2}, queueName="queue")
    world.run()
    state = world.engine.state
    workload = state.workloads["Workload", "default", "w"]
    assert quota_usage.protected_until(state, workload) == 0.0
    create(world)
    world.run()
    began = world.now
    world.until(100)
    assert quota_usage.protected_until(state, workload) == began + 600


def test_without_a_minimum_nobody_is_protected(world):
    running(world)
    state = world.engine.state
    assert quota_usage.protected_until(state, state.workloads["Workload", "default", "w"]) == 0.0


@pytest.mark.parametrize("restarted", [False, True])
def test_a_queue_that_cannot_be_read_goes_on_protecting(world, restarted):
    """It used to protect nobody then. What it says of this can be read, also by a process that never could the rest."""
    minimum = {"minimumRuntimeSeconds": 600}
    world.queue("cq", 8, preemption=minimum)
    running(world)
    began = world.now
    world.queue("cq", 8, queueingStrategy="Random", preemption=minimum)
    world.run()
    if restarted:
        world.restart()
        world.run()
    state = world.engine.state
    assert quota_usage.protected_until(state, state.workloads["Workload", "default", "w"]) == began + 600
    world.object("ClusterQueue", "cq", {"queueingStrategy": "Random"})
    world.run()
    assert quota_usage.protected_until(state, state.workloads["Workload", "default", "w"]) == 0.0


@pytest.mark.parametrize(
    "spec", ["no spec", ["neither"], {"preemption": 3}, {"preemption": {"minimumRuntimeSeconds": "long"}}]
)
def test_where_that_itself_cannot_be_read_the_last_that_could_goes_on_protecting(world, spec):
    world.queue("cq", 8, preemption={"minimumRuntimeSeconds": 600})
    running(world)
    began = world.now
    for _ in range(2):
        world.object("ClusterQueue", "cq", spec)
        world.run()
    state = world.engine.state
    workload = state.workloads["Workload", "default", "w"]
    assert quota_usage.protected_until(state, workload) == began + 600
    world.remove_object("ClusterQueue", "cq")
    world.run()
    assert quota_usage.protected_until(state, workload) == 0.0


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
