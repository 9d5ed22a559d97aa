"""What another process knows of members that gangs have lost: windows, quota and room go on."""

from __future__ import annotations

import pytest

from tests.engine.lifecycle.degraded_gangs import WINDOW, die, evicted, running, successors
from tests.engine.world import GPU, World
from tutti.engine.lifecycle.member_loss import kept_from
from tutti.engine.records.workloads import Workload


def test_members_of_a_workload_that_have_succeeded_and_are_cleaned_up_are_not_missed_after_a_restart():
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n0", gpus=8)
    world.workload("w", {"count": 4}, queueName="queue")
    for rank in range(4):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    world.finish("w-0")
    world.run()
    world.delete("w-0")
    world.run()
    world.restart()
    world.until(10 * WINDOW)
    assert evicted(world) == []


@pytest.mark.parametrize("after", [0, 100, 299])
def test_the_window_goes_on_after_a_restart(after):
    world = running()
    world.pod("rival", queue="queue")
    world.delete("g-1")
    world.until(after)
    used = world.used("cq")
    world.restart()
    world.run()
    assert world.used("cq") == used == 4
    world.until(WINDOW - after - 2)
    assert "rival" not in world.where()
    assert evicted(world) == []
    world.until(4)
    assert len(evicted(world)) == 3


def test_room_is_kept_after_a_restart():
    world = running(quota=100)
    world.delete("g-1")
    world.run()
    world.pod("rival")
    world.restart()
    world.until(60)
    assert "rival" not in world.where()
    successors(world, 1)
    assert "g-1-again" in world.where()


def test_a_gang_that_starts_again_goes_on_with_it_after_a_restart():
    world = running()
    world.hold_evictions = True
    world.pod("rival", queue="queue")
    world.delete("g-1")
    world.until(WINDOW + 1)
    world.restart()
    world.run()
    for name in ("g-0", "g-2", "g-3"):
        world.delete(name)
        world.run()
    assert "rival" not in world.where()
    successors(world, 0, 1, 2, 3)
    assert len(world.where("g")) == 4


def test_what_a_loss_was_is_told_by_the_pods_when_the_operator_ended_before_it_wrote_it_down():
    world = running()
    world.pod("rival", queue="queue")
    world.run()
    pod = world.pods.pop(("default", "g-1"))
    assert pod.spec.node_name
    world.restart()
    world.until(100)
    assert world.used("cq") == 4
    assert "rival" not in world.where()


def test_a_gang_of_which_nothing_runs_any_more_is_waited_for_after_a_restart_too():
    world = running()
    world.pod("rival", queue="queue")
    world.delete("g-0", "g-1", "g-2")
    world.pod("g-0-again", group="g")
    world.run()
    world.delete("g-3")
    world.run()
    assert world.used("cq") == 4
    world.restart()
    world.run()
    assert world.used("cq") == 4
    assert "rival" not in world.where()
    successors(world, 1, 2, 3)
    assert len(world.where("g")) == 4


@pytest.mark.parametrize("how", ["its node is dead", "it has failed"])
def test_quota_is_kept_after_a_restart_for_members_whose_pods_are_there_still(how):
    world = running()
    world.pod("rival", queue="queue")
    world.run()
    if how == "it has failed":
        world.finish("g-1", phase="Failed")
    else:
        die(world, "n1")
    world.run()
    world.restart()
    world.until(60)
    assert world.used("cq") == 4
    assert "rival" not in world.where()


def test_what_a_status_says_is_kept_is_believed_as_far_as_the_node_has_it():
    world = running(quota=100, nodes=4, gpus=1)
    world.delete("g-1")
    world.run()
    raw = world.objects["PodGroup", "default", "g"]
    kept = [
        {
            "podGroup": "g",
            "node": raw["status"]["kept"][0]["node"],
            "count": 1,
            "requests": {GPU: "3", "cpu": "6000", "example.com/unheard-of": "5"},
            "flavors": {GPU: "default"},
        }
    ]
    world.objects["PodGroup", "default", "g"] = {**raw, "status": {**raw["status"], "kept": kept}}
    world.restart()
    world.run()
    rival = Workload(("Pod", "default", "rival"))
    ((node, amounts),) = kept_from(world.engine.state, rival, 0)
    nodes = world.engine.state.cluster.nodes
    has = dict(zip(nodes.resource_index.names, nodes.allocatable[nodes.rows[node]].tolist(), strict=True))
    assert "example.com/unheard-of" not in has
    assert amounts == {GPU: has[GPU], "cpu": min(6_000_000, has["cpu"]), "pods": 1}
    assert world.used("cq") == 6


@pytest.mark.parametrize("lost", [("w-head-0",), ("w-worker-0", "w-worker-1")], ids=len)
def test_what_the_only_member_of_a_pod_group_had_is_kept_by_another_process_as_well(lost):
    """Nobody like it is left; what it had is told by the status alone."""
    world = World()
    world.flavor()
    world.queue("cq", 4)
    for i in range(4):
        world.node(f"n{i}", gpus=2)
    world.workload("w", {"name": "head", "count": 1}, {"name": "worker", "count": 2}, queueName="queue")
    for name, gpus in (("w-head-0", 2), ("w-worker-0", 1), ("w-worker-1", 1)):
        world.pod(name, workload="w", group=name.split("-")[1], gpus=gpus)
    world.run()
    assert len(world.where()) == 3
    world.delete(*lost)
    world.run()
    before = world.engine.state.kept_for_successors["Workload", "default", "w"]
    assert world.used("cq") == 4
    world.restart()
    world.run()
    assert world.used("cq") == 4
    assert sorted(world.engine.state.kept_for_successors["Workload", "default", "w"].spots, key=str) == sorted(
        before.spots, key=str
    )
    world.pod("rival", queue="queue", gpus=1)
    world.run()
    assert "rival" not in world.where()
