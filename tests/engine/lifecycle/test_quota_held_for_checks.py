"""Quota that is held without nodes while admission checks are asked: whose it is, how long, and when it is given back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.checked import ONE, checked, states


def test_the_quota_that_is_held_is_nobody_elses():
    world = checked(gpus=3)
    world.node("n1", gpus=8)
    world.run()
    world.workload("v", {"count": 2}, queueName="queue")
    world.pod("v-0", workload="v")
    world.pod("v-1", workload="v")
    world.run()
    assert world.why("Workload", "v").gate == "Quota"
    world.answer_check("budget", "Ready")
    world.run()
    assert set(world.where()) == {"w-0", "w-1"}
    world.finish("w-0", "w-1")
    world.run()
    assert states(world, name="v") == {"budget": "Pending"}


def test_nodes_are_looked_for_with_the_quota_kept_and_for_a_bounded_time():
    world = checked(gpus=2, strategy={**ONE, "placementTimeoutSeconds": 100})
    world.run()
    world.answer_check("budget", "Ready")
    world.run()
    why = world.why("Workload", "w")
    assert why.gate == "Placement"
    assert "its quota is kept until" in why.message
    assert world.pod_condition("w-0").reason == "Unschedulable"
    assert world.used("cq") == 2
    world.workload("v", {"count": 2}, queueName="queue")
    world.pod("v-0", workload="v")
    world.pod("v-1", workload="v")
    world.until(99)
    assert world.why("Workload", "v").gate == "Quota"
    world.until(2)
    assert world.condition("Workload", "w", "Evicted")["reason"] == "AdmissionCheck"
    assert states(world, name="v") == {"budget": "Pending"}
    assert world.used("cq") == 2


@pytest.mark.parametrize("backwards", [False, True])
def test_a_restart_holds_the_same_quota_and_the_clock_goes_on(backwards: bool):
    world = checked(strategy={**ONE, "pendingTimeoutSeconds": 100})
    world.run()
    world.until(60)
    world.restart(backwards=backwards)
    world.workload("v", {"count": 8}, queueName="queue")
    for rank in range(8):
        world.pod(f"v-{rank}", workload="v")
    world.run()
    assert world.used("cq") == 2
    assert world.why("Workload", "v").gate == "Quota"
    assert world.status("Workload", "w")["checksRound"] == 1
    world.until(39)
    assert world.engine.state.workloads["Workload", "default", "w"].held_since is not None
    world.until(2)
    assert world.engine.state.workloads["Workload", "default", "w"].held_since is None
    assert not world.replay().differences


def test_a_restart_between_ready_and_nodes_keeps_the_quota():
    world = checked(gpus=2, strategy={**ONE, "placementTimeoutSeconds": 100})
    world.run()
    world.answer_check("budget", "Ready")
    world.until(60)
    world.restart()
    world.run()
    assert world.used("cq") == 2
    assert world.why("Workload", "w").gate == "Placement"
    world.node("n1", gpus=8)
    world.run()
    assert len(world.where()) == 2
    world.restart()
    world.run()
    assert world.used("cq") == 2


def test_who_holds_quota_without_nodes_may_be_a_victim():
    world = checked(gpus=2, preemption={"withinClusterQueue": "LowerPriority"})
    world.run()
    world.put_object("WorkloadPriorityClass", {"metadata": {"name": "high"}, "value": 10})
    world.workload("v", {"count": 2}, queueName="queue", priorityClassRef={"name": "high"})
    world.pod("v-0", workload="v")
    world.pod("v-1", workload="v")
    world.run()
    assert world.condition("Workload", "w", "Preempted")["status"] == "True"
    assert states(world, name="v") == {"budget": "Pending"}
    assert world.used("cq") == 2
    world.answer_check("budget", "Ready", of="v")
    world.node("n1", gpus=8)
    world.run()
    assert set(world.where()) == {"v-0", "v-1"}


def test_quota_is_given_back_when_the_pods_go():
    world = checked()
    world.run()
    world.delete("w-0", "w-1")
    world.run()
    assert world.used("cq") == 0
    (told,) = world.events("QuotaGivenBack")
    assert told.note == "the quota that it held is given back: none of its pods is there any more"


def test_who_needs_more_quota_than_is_held_is_told_that_the_checks_are_asked_anew():
    world = checked()
    world.pod("w-2", workload="w")
    world.run()
    world.workload("w", {"count": 3}, queueName="queue")
    world.run()
    (told,) = world.events("QuotaGivenBack", "w")
    assert told.note == "the quota that it held is given back: pod group main needs another number of members now"
    assert world.used("cq") == 3
    assert world.status("Workload", "w")["checksRound"] == 2
    assert world.why("Workload", "w").reason == "ChecksPending"


def test_quota_is_given_back_when_the_workload_is_deleted_or_made_anew():
    world = checked()
    world.run()
    world.remove_object("Workload", "w")
    world.run()
    assert world.used("cq") == 0
    world.workload("w", {"count": 2}, queueName="queue")
    world.run()
    assert world.used("cq") == 2
    world.delete("w-0", "w-1")
    world.remove_object("Workload", "w")
    world.run()
    assert world.used("cq") == 0
    assert not world.engine.state.workloads


def test_a_queue_that_is_stopped_takes_the_quota_back():
    world = checked()
    world.run()
    spec = world.objects["ClusterQueue", "", "cq"]["spec"]
    world.object("ClusterQueue", "cq", {**spec, "stopPolicy": "Hold"})
    world.run()
    assert world.used("cq") == 0
    world.object("ClusterQueue", "cq", spec)
    world.run()
    assert world.used("cq") == 2


@pytest.mark.parametrize(
    "part",
    [
        {"name": "main", "count": -5, "held": [{"flavor": "default", "resource": "nvidia.com/gpu", "amount": "2"}]},
        {"name": "main", "count": 2, "held": [{"flavor": "none", "resource": "x/y", "amount": "9e18"}]},
        {"name": "main", "count": 2, "held": [{"flavor": "default", "resource": "nvidia.com/gpu", "amount": "-1"}]},
        {"name": "other", "count": 2, "held": [{"flavor": "default", "resource": "nvidia.com/gpu", "amount": "2"}]},
        {"name": "main", "count": 2**31 - 1, "held": [{"flavor": "", "resource": "\u0000", "amount": "1"}]},
    ],
)
@pytest.mark.parametrize("since", ["2100-01-01T00:00:00Z", "never", ""])
def test_a_status_that_tells_nonsense_holds_nothing_for_long(part: dict[str, Any], since: str):
    world = checked(strategy={**ONE, "pendingTimeoutSeconds": 60})
    world.run()
    found = world.objects["Workload", "default", "w"]
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "lastTransitionTime": since}
    admission = {"clusterQueue": "cq", "podGroups": [part], "round": 7}
    answers = [{"name": "budget", "state": "Ready", "lastTransitionTime": since}]
    status = {"conditions": [reserved], "admission": admission, "admissionChecks": answers, "checksRound": 3}
    world.objects["Workload", "default", "w"] = {**found, "status": status}
    world.restart()
    world.run()
    world.until(200)
    world.node("n1", gpus=8)
    for _ in range(3):
        world.until(100)
        if states(world).get("budget") == "Pending":
            world.answer_check("budget", "Ready")
            world.run()
    assert len(world.where()) == 2
    assert world.used("cq") == 2
    assert world.engine.state.ledger.used("cq").keys() <= {
        ("default", name) for name in ("cpu", "memory", "nvidia.com/gpu")
    }


@pytest.mark.parametrize("backwards", [None, False, True])
def test_pods_that_come_to_ask_for_more_than_a_check_was_asked_about_are_asked_about_anew(backwards: bool | None):
    """Whoever swapped his pods had as much as his queue has for what a budget had allowed little of."""
    world = checked(gpus=100)
    world.node("n1", gpus=100)
    world.run()
    if backwards is not None:
        world.restart(backwards=backwards)
        world.run()
    assert world.used("cq") == 2
    assert world.events("QuotaGivenBack") == []
    for rank in range(2):
        world.pod(f"x-{rank}", workload="w", gpus=16)
        world.delete(f"w-{rank}")
    world.answer_check("budget", "Ready")
    world.run()
    assert world.where() == {}
    (told,) = world.events("QuotaGivenBack", "w")
    assert told.note == "the quota that it held is given back: the pods of pod group main ask for more now"
    assert (world.used("cq"), states(world)) == (32, {"budget": "Pending"})
    world.answer_check("budget", "Ready")
    world.run()
    assert world.where() == {"x-0": "n1", "x-1": "n1"}


def test_pods_that_come_to_ask_for_less_go_on_with_what_the_check_has_said():
    world = checked(gpus=100)
    world.node("n1", gpus=100)
    world.pod("w-0", workload="w", gpus=4)
    world.run()
    world.delete("w-0")
    world.pod("w-0", workload="w", gpus=2)
    world.answer_check("budget", "Ready")
    world.run()
    assert world.where() == {"w-0": "n1", "w-1": "n1"}
    assert world.used("cq") == 3
