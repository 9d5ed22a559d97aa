"""A running gang that loses a member has `readyTimeoutSeconds` to get another; then it is taken out and queued again."""

from __future__ import annotations

import pytest

from tests.engine.world import World, replaced
from tutti.engine.records.decisions import Evict


def lose(world: World, name: str, how: str) -> None:
    """Have a member end as it does in a cluster."""
    match how:
        case "deleted":
            world.begin_deleting(name)
            world.run()
            world.delete(name)
        case "its node died":  # taken off the node by the cluster's controllers
            node = world.where()[name]
            world.remove_node(node)
            world.begin_deleting(name)
            world.run()
            world.delete(name)
        case reason:  # by the kubelet, which may refuse a pod or evict it
            pod = world.pods["default", name]
            world.put(replaced(pod, status=replaced(pod.status, phase="Failed", reason=reason, conditions=[])))
    world.run()


LOSSES = ["deleted", "its node died", "OutOfcpu", "Evicted", "NodeShutdown", "NodeAffinity"]


def running(**spec) -> World:
    world = World()
    for node in ("n1", "n2"):
        world.node(node, gpus=1)
    world.flavor()
    world.queue("cq", 2)
    requeue = {"backoffBaseSeconds": 10, "backoffMaxSeconds": 40, "limit": 2}
    world.workload("w", {"count": 2}, queueName="queue", readyTimeoutSeconds=30, requeue=requeue, **spec)
    for rank in range(2):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    assert len(world.where()) == 2
    world.become_ready("w-0", "w-1")
    world.run()
    return world


@pytest.mark.parametrize("how", LOSSES)
def test_a_gang_that_does_not_recover_is_taken_out_and_waits_for_its_backoff(how):
    world = running()
    lose(world, "w-1", how)
    assert world.used("cq") == 2  # its quota is kept for its successor
    world.until(29)
    assert not [d for d in world.log if isinstance(d, Evict)]
    world.until(2)
    assert [d.name for d in world.log if isinstance(d, Evict)] == ["w-0"]
    evicted = world.condition("Workload", "w", "Evicted")
    assert (evicted["status"], evicted["reason"]) == ("True", "PodsReadyTimeout")
    assert "1 of 2 required members is ready again after 30 s" in evicted["message"]
    assert ("failed: w-1" in evicted["message"]) == (how not in ("deleted", "its node died"))
    assert (f"w-1 ({how})" in evicted["message"]) == (how not in ("deleted", "its node died"))
    assert world.status("Workload", "w")["requeue"]["count"] == 1
    assert world.used("cq") == 0


@pytest.mark.parametrize("how", LOSSES)
def test_a_gang_that_recovers_in_time_goes_on(how):
    world = running()
    lose(world, "w-1", how)
    world.node("n3", gpus=1)
    world.until(20)
    world.pod("w-2", workload="w")
    world.run()
    assert world.where()["w-2"] in ("n2", "n3")
    world.become_ready("w-2")
    world.until(100)
    assert not [d for d in world.log if isinstance(d, Evict)]
    assert world.condition("Workload", "w", "PodsReady")["status"] == "True"


def test_a_member_that_the_kubelet_refuses_at_once_counts_against_the_window_of_the_start():
    world = World()
    world.node("n1", gpus=2)
    world.workload("w", {"count": 2}, readyTimeoutSeconds=30)
    for rank in range(2):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    lose(world, "w-1", "OutOfcpu")
    world.become_ready("w-0")
    world.until(31)
    evicted = world.condition("Workload", "w", "Evicted")
    assert "1 of 2 required members is ready after 30 s" in evicted["message"]
    assert "failed: w-1 (OutOfcpu)" in evicted["message"]


def test_a_gang_that_loses_members_again_and_again_is_set_inactive_with_the_reason():
    world = running()
    for _ in range(3):
        for rank in range(2):
            if ("default", f"w-{rank}") in world.pods:
                world.delete(f"w-{rank}")
        for rank in range(2):
            world.pod(f"w-{rank}", workload="w")
        while len(world.where()) < 2:  # the backoff
            world.until(1)
        world.become_ready("w-0", "w-1")
        world.run()
        lose(world, "w-1", "OutOfcpu")
        world.until(31)
    assert world.objects["Workload", "default", "w"]["spec"]["active"] is False
    evicted = world.condition("Workload", "w", "Evicted")
    assert evicted["reason"] == "DeactivatedDueToRequeuingLimitExceeded"
    assert "w-1 (OutOfcpu)" in evicted["message"]


def test_a_failure_policy_names_why_the_member_failed():
    world = running(failurePolicy={"onMemberFailure": "Deactivate"})
    lose(world, "w-1", "OutOfcpu")
    assert "its member w-1 (OutOfcpu) has failed" in world.condition("Workload", "w", "Evicted")["message"]


def test_quota_goes_back_with_each_member_that_ends():
    world = running()
    for rank, left in ((0, 1), (1, 0)):
        world.finish(f"w-{rank}")
        world.run()
        assert world.used("cq") == left
    assert world.condition("Workload", "w", "Finished")["reason"] == "Succeeded"
