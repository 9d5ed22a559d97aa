"""Who is a member of a gang, holds quota and takes room while its node does not work, or while it ends."""

from __future__ import annotations

import pytest

from tests.engine.lifecycle.degraded_gangs import GONE_QUIET, WINDOW, come_back, degraded, die, running, successors
from tests.engine.world import GPU, World, replaced
from tutti.api.core import PodCondition
from tutti.api.selectors import Taint
from tutti.engine.records.observations import NodeSeen
from tutti.engine.records.workloads import Phase


def test_members_that_end_on_a_dead_node_are_no_members_and_hold_no_quota_though_nobody_deletes_the_node():
    world = running()
    world.node("spare", gpus=2)
    dead = sorted(name for name, node in world.where().items() if node == "n1")
    die(world, "n1")
    world.run()
    status = world.status("PodGroup", "g")
    assert (status["bound"], status["lost"]) == (2, 2)
    successors(world, 0, 1)
    assert sorted(world.where("g-").values()).count("spare") == 2
    assert all(name in world.pods["default", name].metadata.name for name in dead)  # they are there still
    assert world.used("cq") == 4
    assert world.condition("PodGroup", "g", "Degraded")["status"] == "False"


def test_the_room_on_a_dead_node_is_taken_until_the_pods_are_gone():
    world = running(quota=100)
    die(world, "n1")
    world.run()
    rows = world.engine.state.cluster.nodes
    assert rows.requested[rows.rows["n1"], rows.resource_index.column(GPU)] == 2


def test_a_member_that_ends_on_a_node_that_works_holds_quota_and_room_until_it_has_ended():
    world = running()
    world.node("spare", gpus=2)
    world.begin_deleting("g-0")
    world.run()
    assert world.used("cq") == 4
    assert world.status("PodGroup", "g")["bound"] == 4
    successors(world, 0)
    assert "g-0-again" not in world.where()
    world.delete("g-0")
    world.run()
    assert "g-0-again" in world.where()
    assert world.used("cq") == 4


@pytest.mark.parametrize("taint", ["not-ready", "unreachable", "out-of-service"])
def test_every_way_in_which_a_node_is_said_not_to_work_counts(taint):
    world = running()
    world.node("n1", gpus=2, taints=[Taint(f"node.kubernetes.io/{taint}", effect="NoExecute")])
    world.begin_deleting(*(name for name, where in world.where().items() if where == "n1"))
    world.run()
    assert world.status("PodGroup", "g")["lost"] == 2


def test_a_node_whose_condition_says_that_it_is_not_ready_does_not_work_either():
    world = running()
    node = world.nodes["n1"]
    world.nodes["n1"] = replaced(node, status=replaced(node.status, conditions=[PodCondition("Ready", "Unknown")]))
    world.tell(NodeSeen(world.nodes["n1"]))
    world.begin_deleting(*(name for name, where in world.where().items() if where == "n1"))
    world.run()
    assert world.status("PodGroup", "g")["lost"] == 2


def test_a_member_that_is_not_told_to_end_counts_on_a_dead_node_still():
    """Kubernetes waits for a node itself, for as long as the pods tolerate it."""
    world = running()
    world.node("n1", gpus=2, taints=GONE_QUIET)
    world.run()
    assert world.status("PodGroup", "g")["bound"] == 4
    assert world.used("cq") == 4


def test_a_node_that_comes_back_has_its_members_end_in_peace():
    world = running()
    die(world, "n1")
    world.run()
    come_back(world, "n1")
    world.run()
    assert world.status("PodGroup", "g")["bound"] == 4
    assert degraded(world) == "False"
    assert world.used("cq") == 4


def test_a_single_pod_that_is_lost_holds_no_quota():
    world = World()
    world.flavor()
    world.queue("cq", 1)
    world.node("n0", gpus=1)
    world.pod("p", queue="queue")
    world.run()
    world.node("n0", gpus=1, taints=GONE_QUIET)
    world.begin_deleting("p")
    world.run()
    assert world.used("cq") == 0


def test_a_gang_that_is_taken_out_does_not_wait_for_members_on_a_dead_node():
    world = running()
    world.hold_evictions = True
    die(world, "n1")
    world.until(WINDOW + 1)
    world.delete(*(name for name, node in world.where().items() if node == "n0"))
    world.run()
    workload = world.engine.state.workloads["PodGroup", "default", "g"]
    assert workload.phase is Phase.WAITING
