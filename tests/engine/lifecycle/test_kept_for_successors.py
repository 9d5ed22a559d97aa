"""What is kept for the successors of lost members, from whom, and for how long."""

from __future__ import annotations

import pytest

from tests.engine.lifecycle.degraded_gangs import WINDOW, degraded, die, evicted, fail, running, successors
from tests.engine.world import World


def test_a_rival_takes_neither_quota_nor_room_before_the_successor_comes():
    world = running()
    world.pod("rival", queue="queue")
    world.run()
    assert world.reason("Pod", "rival") == "WaitingForQuota"
    world.finish("g-1", phase="Failed")
    world.until(60)
    assert "rival" not in world.where()
    successors(world, 1)
    assert "g-1-again" in world.where()
    assert degraded(world) == "False"
    assert "rival" not in world.where()


def test_a_rival_without_a_queue_does_not_take_the_room_either():
    world = running(quota=100)
    world.pod("rival")
    world.run()
    world.delete("g-1")
    world.until(60)
    assert "rival" not in world.where()
    successors(world, 1)
    assert "g-1-again" in world.where()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize(
    "steps",
    [
        ("successor", "run", "end", "gone"),
        ("successor", "run", "end", "run", "gone"),
        ("end", "run", "successor", "gone"),
        ("end", "run", "gone", "successor"),
        ("end", "restart", "gone", "successor"),
    ],
    ids="-".join,
)
def test_a_member_that_is_deleted_is_missed_however_it_ends(steps, phase):
    # A Deployment's pod whose containers end well when they are told to is Succeeded by the kubelet (1.27 and later).
    world = World()
    for index in range(2):
        world.node(f"n{index}", gpus=2)
    world.pod_group("g", 2)
    for rank in range(2):
        world.pod(f"g-{rank}", group="g", gpus=2, restart_policy="Always")
    world.run()
    world.start("g-0", "g-1")
    world.pod("rival", gpus=2)
    world.run()
    world.begin_deleting("g-1")
    for step in steps:
        if step == "successor":
            world.pod("g-1-again", group="g", gpus=2, restart_policy="Always")
        elif step == "end":
            world.finish("g-1", phase=phase)
        elif step == "gone":
            world.delete("g-1")
        elif step == "restart":
            world.restart()
        else:
            world.run()
    world.until(3)
    assert set(world.where()) == {"g-0", "g-1-again"}


def test_who_has_succeeded_before_it_is_deleted_is_not_missed():
    world = World()
    world.node("n0", gpus=2)
    world.pod_group("g", 2)
    for rank in range(2):
        world.pod(f"g-{rank}", group="g", restart_policy="Always")
    world.run()
    world.finish("g-1")
    world.run()
    world.begin_deleting("g-1")
    world.run()
    world.delete("g-1")
    world.run()
    world.pod("rival")
    world.run()
    assert set(world.where()) == {"g-0", "rival"}


def test_a_rival_that_is_more_important_may_take_the_room():
    world = running(quota=100)
    world.delete("g-1")
    world.run()
    world.pod("rival", priority=5)
    world.run()
    assert "rival" in world.where()


def test_room_and_quota_are_not_kept_longer_than_the_window():
    world = running()
    world.pod("rival", queue="queue")
    world.delete("g-1")
    world.until(WINDOW - 1)
    assert "rival" not in world.where()
    assert evicted(world) == []
    world.until(2)
    assert evicted(world) == ["g-0", "g-2", "g-3"]
    assert world.condition("PodGroup", "g", "Evicted")["reason"] == "MemberLost"


def test_what_a_gang_needs_to_be_whole_is_placed_together_or_not_at_all():
    world = running(nodes=4, gpus=1)
    victims = ["g-0", "g-1"]
    for name in victims:
        world.remove_node(world.where()[name])
        world.delete(name)
    world.run()
    successors(world, 0)
    world.node("spare", gpus=1)
    world.run()
    assert "g-0-again" not in world.where()
    successors(world, 1)
    assert not {"g-0-again", "g-1-again"} & set(world.where())  # there is room for one
    world.node("more", gpus=1)
    world.run()
    assert {"g-0-again", "g-1-again"} <= set(world.where())


def test_a_gang_that_keeps_takes_successors_as_they_come_and_its_window_has_no_end():
    world = running(nodes=4, gpus=1, onMemberLoss={"action": "Keep"})
    world.pod("rival", queue="queue")
    world.delete("g-0", "g-1")
    world.run()
    world.until(30 * 86_400)
    assert evicted(world) == []
    assert "rival" not in world.where()
    successors(world, 0)
    assert "g-0-again" in world.where()
    assert degraded(world) == "True"
    assert "onMemberLoss: Keep" in world.condition("PodGroup", "g", "Degraded")["message"]


def test_the_configuration_says_what_becomes_of_gangs_that_do_not_say():
    world = World(on_member_loss={"action": "Restart", "window_seconds": 10})
    world.node("n0", gpus=2)
    world.gang("g", 2)
    world.run()
    world.delete("g-0")
    world.until(9)
    assert evicted(world) == []
    world.until(2)
    assert evicted(world) == ["g-1"]


def test_a_pod_group_of_a_workload_says_it_for_itself():
    world = World()
    world.node("n0", gpus=8)
    world.workload(
        "w", {"name": "leader", "count": 1}, {"name": "worker", "count": 3, "onMemberLoss": {"windowSeconds": 20}}
    )
    world.pod("leader", workload="w", group="leader")
    for rank in range(3):
        world.pod(f"worker-{rank}", workload="w", group="worker")
    world.run()
    assert len(world.where()) == 4
    world.delete("worker-1")
    world.until(21)
    assert evicted(world) == ["leader", "worker-0", "worker-2"]
    assert world.condition("Workload", "w", "Evicted")["reason"] == "MemberLost"


def test_members_that_have_succeeded_are_not_missed_nor_are_they_when_they_are_cleaned_up():
    world = running()
    world.finish("g-0", "g-1")
    world.run()
    world.delete("g-0")
    world.until(10 * WINDOW)
    assert evicted(world) == []
    assert world.used("cq") == 2
    world.restart()
    world.until(10 * WINDOW)
    assert evicted(world) == []


def test_a_degraded_gang_says_how_many_it_has_what_it_waits_for_and_when_it_starts_again():
    world = running()
    world.delete("g-1")
    world.run()
    said = world.condition("PodGroup", "g", "Degraded")
    assert (said["status"], said["reason"]) == ("True", "MemberLost")
    assert "3 of 4 required members have a node that works since" in said["message"]
    assert "waits for 1 successor to be created" in said["message"]
    assert "it is restarted whole at" in said["message"]
    assert [e.reason for e in world.events("Degraded")] == ["Degraded"]
    successors(world, 1)
    assert [e.reason for e in world.events("WholeAgain")] == ["WholeAgain"]


def test_a_gang_that_ends_while_it_is_degraded_is_degraded_no_more():
    world = running()
    world.finish("g-1", phase="Failed")
    world.run()
    world.finish("g-0", "g-2", "g-3")
    world.run()
    assert degraded(world) == "False"
    assert world.used("cq") == 0


def test_a_gang_that_has_lost_all_of_it_is_placed_again_in_its_own_quota():
    world = running(nodes=1, gpus=4)
    world.pod("rival", queue="queue")
    die(world, "n0")
    world.node("n1", gpus=4)
    world.run()
    assert "rival" not in world.where()
    successors(world, 0, 1, 2, 3)
    assert sum(node == "n1" for node in world.where("g").values()) == 4
    assert "rival" not in world.where()


def test_a_gang_that_is_deleted_keeps_nothing():
    world = running()
    world.pod("rival", queue="queue")
    world.delete("g-0", "g-1", "g-2", "g-3")
    world.run()
    assert "rival" in world.where()


def test_a_gang_of_a_strict_queue_that_waits_for_victims_of_its_successors_is_not_tried_over_and_over():
    """Found by the simulation (seed 86)."""
    world = World()
    world.flavor()
    world.queue("cq", 4, queueingStrategy="StrictFIFO", preemption={"withinClusterQueue": "LowerPriority"})
    world.node("n0", gpus=4)
    world.gang("low", 2, queue="queue")
    world.run()
    world.gang("high", 2, queue="queue", priority=10)
    world.run()
    world.hold_evictions = True
    world.pod("taken", scheduler="another", node="n0")  # where the lost member was
    world.delete("high-0")
    world.pod("high-2", group="high", queue="queue", priority=10)
    world.run()
    assert world.reason("PodGroup", "high") == "WaitingForVictims"


def test_a_gang_whose_minimum_is_raised_keeps_nothing_that_it_never_had():
    world = World()
    world.flavor()
    world.queue("cq", 4, cohort="c")
    world.queue("own", 16, cohort="c", local="own")
    world.node("n0", gpus=20)
    world.gang("g", 2, queue="queue")
    world.run()
    world.pod_group("g", 1000, queueName="queue", onMemberLoss={"action": "Keep"})
    world.run()
    world.pod("p", queue="own")
    world.run()
    assert world.used("cq") == 2
    assert "p" in world.where()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_degraded_gang_says_which_members_have_failed_and_why_until_they_have_successors(restarted):
    world = running(onMemberLoss={"windowSeconds": WINDOW})
    for name in ("g-1", "g-2"):
        fail(world, name, "Evicted")
    if restarted:
        world.restart()
        world.run()
    said = world.condition("PodGroup", "g", "Degraded")["message"]
    assert "; failed: g-1 (Evicted), g-2 (Evicted); waits for 2 successors to be created" in said
    successors(world, 1, 2)
    assert degraded(world) == "False"

    fail(world, "g-3", "NodeShutdown")  # and the first two are still there, as a Job keeps them
    assert "; failed: g-3 (NodeShutdown); waits" in world.condition("PodGroup", "g", "Degraded")["message"]
    world.until(WINDOW + 1)
    assert "; failed: g-3 (NodeShutdown), and it was not" in world.condition("PodGroup", "g", "Evicted")["message"]
