"""Amounts up to the largest that the API server takes add up; nothing wraps around to less than nothing."""

from __future__ import annotations

import numpy as np
import pytest

from bench.simulation.recounting import recounted
from tests.engine.world import GPU, World, replaced
from tutti.api.core import NodeStatus, ResourceRequirements
from tutti.cluster.capacity import allocatable_of_nodes, sum_over_nodes
from tutti.cluster.columns import MOST_AMOUNT
from tutti.engine.records.observations import NodeSeen

HUGE = "8Ei"  # 2**63, which is read as 2**63 - 1


def requested(world: World, node: str, resource: str) -> int:
    nodes = world.engine.state.cluster.nodes
    return int(nodes.requested[nodes.rows[node], nodes.resource_index.column(resource)])


@pytest.mark.filterwarnings("error")
def test_pods_that_are_on_a_node_without_being_asked_leave_no_room_however_much_they_ask_for():
    world = World()
    world.node("n0")
    world.node("n1")
    world.pod("runs", selector={"kubernetes.io/hostname": "n0"})
    world.run()
    for number in range(3):
        world.pod(f"f{number}", node="n0", scheduler="other", memory=HUGE, cpu=HUGE, gpus=HUGE)
    assert requested(world, "n0", "memory") > 0
    assert requested(world, "n0", GPU) > 0
    world.pod("p", gpus=4, selector={"kubernetes.io/hostname": "n0"})
    world.pod("q", gpus=4)
    world.run()
    assert "Insufficient" in world.why("Pod", "p").message
    assert world.where("q") == {"q": "n1"}
    for number in range(3):
        world.delete(f"f{number}")
    world.run()
    assert world.where("p") == {"p": "n0"}
    cluster = world.engine.state.cluster
    assert (cluster.nodes.requested == recounted(cluster)).all()
    assert requested(world, "n0", GPU) == 5


def test_a_thousand_of_them_add_up():
    world = World()
    world.node("n0")
    for number in range(1000):
        world.pod(f"f{number}", node="n0", scheduler="other", memory=HUGE)
    assert requested(world, "n0", "memory") > MOST_AMOUNT
    world.pod("p")
    world.run()
    assert world.where("p") == {}


@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_a_part_of_what_nodes_offer_is_never_less_than_nothing(nodes):
    world = World()
    for number in range(nodes):
        world.node(f"n{number}", gpus=HUGE)
    world.node("plain", gpus=8)
    world.flavor()
    world.queue("cq", "80%")
    world.pod("p", gpus=4, queue="queue")
    world.run()
    nominal = world.engine.state.ledger.tree.queues["cq"].nominal(("default", GPU))
    assert nominal >= 0.8 * MOST_AMOUNT
    assert world.where("p")


def test_who_asks_for_more_than_is_told_apart_fits_nowhere():
    world = World()
    world.node("n0", gpus=HUGE)
    world.pod("p", gpus=HUGE)
    world.run()
    assert world.where() == {}
    assert "A pod asks for 9223372036854775807 nvidia.com/gpu" in world.why("Pod", "p").message


def test_sums_over_nodes_end_at_the_largest_number():
    most = 2**63 - 1
    amounts = np.array([[most, 1, 0], [most, 2, 0], [1, most - 3, 0]], dtype=np.int64)
    assert sum_over_nodes(amounts).tolist() == [most, most, 0]
    assert sum_over_nodes(np.full((4000, 1), MOST_AMOUNT, dtype=np.int64)).tolist() == [most]
    assert sum_over_nodes(np.zeros((0, 2), dtype=np.int64)).tolist() == [0, 0]


def test_what_many_nodes_offer_together_is_not_less_than_nothing():
    world = World()
    for number in range(2100):
        world.node(f"n{number}", gpus=HUGE)
    nodes = world.engine.state.cluster.nodes
    assert allocatable_of_nodes(nodes, ())[nodes.resource_index.column(GPU)] == 2**63 - 1


def test_made_up_resources_cost_no_columns_and_are_insufficient():
    world = World()
    world.node("n1")
    pod = world.pod("greedy")
    for name in ("greedy", "other"):
        made_up = {f"{name}.example/{number}": "1" for number in range(500)}
        container = replaced(pod.spec.containers[0], resources=ResourceRequirements({"cpu": "1", **made_up}))
        world.put(
            replaced(
                pod,
                metadata=replaced(pod.metadata, name=name, uid=name),
                spec=replaced(pod.spec, containers=[container]),
            )
        )
    world.pod_group("g", 2)  # what a status says was lost is no more than what tenants say
    said = {"podGroup": "g", "node": "n1", "requests": {f"kept.example/{number}": "1" for number in range(60)}}
    raw = world.objects["PodGroup", "default", "g"]
    lost = {
        "type": "Degraded",
        "status": "True",
        "reason": "MemberLost",
        "message": "",
        "lastTransitionTime": "1970-01-12T13:46:30Z",
    }
    world.put_object("PodGroup", {**raw, "status": {"kept": [said], "conditions": [lost]}})
    world.pod("g-0", group="g", node="n1")
    world.run()
    assert set(world.engine.state.cluster.nodes.resource_index.names) == {
        "cpu",
        "memory",
        "ephemeral-storage",
        "pods",
        "",
        GPU,
    }
    why = world.why("Pod", "greedy")
    assert why.pod_reason == "Unschedulable"
    assert why.message.startswith(
        "0/1 nodes are available: 1 Insufficient greedy.example/0, 1 Insufficient greedy.example/1,"
    )
    assert len(why.message) <= 4096
    world.pod("honest")
    world.run()
    assert world.where("honest") == {"honest": "n1"}
    world.nodes["n1"] = replaced(
        world.nodes["n1"], status=NodeStatus({"cpu": "8", "pods": "110", "greedy.example/0": "1"})
    )
    world.tell(NodeSeen(world.nodes["n1"]))
    world.run()
    assert "greedy.example/0" in world.engine.state.cluster.nodes.resource_index
    assert (world.engine.state.cluster.nodes.requested == recounted(world.engine.state.cluster)).all()
    assert not world.replay().differences
