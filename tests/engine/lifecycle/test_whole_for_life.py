"""A gang is whole for its whole life: who counts as a member, what is kept for successors, and when it starts anew."""

from __future__ import annotations

import pytest

from tests.engine.admission.test_extenders import FILTER, tell
from tests.engine.world import GPU, World, replaced
from tutti.api.core import PodCondition
from tutti.api.selectors import Taint
from tutti.engine.lifecycle.member_loss import kept_from
from tutti.engine.records.decisions import Evict
from tutti.engine.records.observations import NodeSeen
from tutti.engine.records.workloads import Phase, Workload

GONE_QUIET = [Taint("node.kubernetes.io/unreachable", effect="NoExecute")]
WINDOW = 300


def evicted(world: World) -> list[str]:
    return sorted(d.name for d in world.log if isinstance(d, Evict))


def die(world: World, node: str) -> None:
    """The kubelet of a node is gone: its pods are told to end, and nobody says that they have."""
    before = world.nodes[node]
    world.node(node, gpus=before.status.allocatable[GPU], labels=before.metadata.labels, taints=GONE_QUIET)
    world.begin_deleting(*(name for name, where in world.where().items() if where == node))


def come_back(world: World, node: str) -> None:
    before = world.nodes[node]
    world.node(node, gpus=before.status.allocatable[GPU], labels=before.metadata.labels)


def degraded(world: World, kind: str = "PodGroup", name: str = "g") -> str:
    return world.condition(kind, name, "Degraded")["status"]


def running(*, nodes: int = 2, gpus: int = 2, size: int = 4, quota: int = 4, **spec) -> World:
    """A gang that fills its queue, spread over all nodes, and a spare node of the same size."""
    world = World()
    world.flavor()
    world.queue("cq", quota)
    for index in range(nodes):
        world.node(f"n{index}", gpus=gpus)
    world.pod_group("g", size, queueName="queue", **spec)
    for rank in range(size):
        world.pod(f"g-{rank}", group="g")
    world.run()
    assert len(world.where("g")) == size
    return world


def successors(world: World, *ranks: int) -> None:
    for rank in ranks:
        world.pod(f"g-{rank}-again", group="g")
    world.run()


# Who counts.


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


# The window.


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
        "w",
        {"name": "leader", "count": 1},
        {"name": "worker", "count": 3, "onMemberLoss": {"windowSeconds": 20}},
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


# The end of the window.


def test_a_gang_that_starts_again_goes_before_others_of_its_priority_that_waited_longer():
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n0", gpus=4)
    world.pod_group("rival", 4, queueName="queue")
    world.now += 10
    world.pod_group("g", 4, queueName="queue")
    for rank in range(4):
        world.pod(f"g-{rank}", group="g")
    world.run()
    for rank in range(4):
        world.pod(f"rival-{rank}", group="rival")
    world.run()
    assert len(world.where("g")) == 4
    world.hold_evictions = True
    world.delete("g-0")
    world.until(WINDOW + 1)
    leaving = evicted(world)
    assert leaving == ["g-1", "g-2", "g-3"]
    for name in leaving:
        world.delete(name)
        world.run()
    assert not world.where("rival")
    successors(world, 0, 1, 2, 3)
    assert len(world.where("g")) == 4
    assert not world.where("rival")


def test_what_is_kept_for_a_gang_that_starts_again_is_free_when_it_had_its_turn_or_time():
    world = running()
    world.pod("rival", queue="queue")
    world.delete("g-1")
    world.until(WINDOW + 1)
    assert not world.where("g")
    assert "rival" not in world.where()
    world.until(WINDOW)
    assert "rival" in world.where()  # nobody has made its members again


def test_a_gang_bound_to_a_rack_that_has_lost_a_node_for_good_starts_again_elsewhere_at_once():
    world = World()
    for rack in ("a", "b"):
        for index in range(2):
            world.node(f"{rack}{index}", gpus=2, labels={"rack": rack})
    constraints = {"topology": [{"key": "rack", "mode": "Required"}]}
    world.pod_group("g", 4, schedulingConstraints=constraints)
    for rank in range(4):
        world.pod(f"g-{rank}", group="g")
    world.run()
    (rack,) = {node[0] for node in world.where("g").values()}
    other = "b" if rack == "a" else "a"
    lost = [name for name, node in world.where("g").items() if node == f"{rack}1"]
    world.remove_node(f"{rack}1")
    world.delete(*lost)
    world.run()
    assert evicted(world) == []
    successors(world, 0, 1)
    assert len(evicted(world)) == 2  # the others
    successors(world, 2, 3)
    assert {node[0] for node in world.where("g").values()} == {other}
    assert len(world.where("g")) == 4


def pass_all(world: World) -> None:
    """The extender lets pass whatever it is asked about."""
    while world.asks:
        tell(world, *world.asks[0].nodes, ask=world.asks[0])


def in_a_rack_that_has_lost_a_node(**configuration) -> World:
    """A gang of four in one of two racks of two nodes, one of which is deleted, with the two members on it."""
    world = World(**configuration)
    for rack in ("a", "b"):
        for index in range(2):
            world.node(f"{rack}{index}", gpus=2, labels={"rack": rack})
    world.pod_group("g", 4, schedulingConstraints={"topology": [{"key": "rack", "mode": "Required"}]})
    for rank in range(4):
        world.pod(f"g-{rank}", group="g")
    world.run()
    pass_all(world)
    node = max(world.where("g").values())
    lost = [name for name, where in world.where("g").items() if where == node]
    assert len(lost) == 2
    world.remove_node(node)
    world.delete(*lost)
    world.node(node + "-anew", gpus=2, labels={"rack": node[0]})
    world.run()
    return world


def test_successors_that_an_extender_is_asked_about_do_not_have_their_gang_start_again():
    world = in_a_rack_that_has_lost_a_node(extenders=[FILTER])
    successors(world, 0, 1)
    assert world.why("PodGroup", "g").reason == "WaitingForExtender"
    assert evicted(world) == []
    pass_all(world)
    assert len(world.where("g")) == 4
    assert evicted(world) == []


def test_successors_whose_volumes_are_missing_do_not_have_their_gang_start_again():
    """In no other rack would they find any."""
    world = in_a_rack_that_has_lost_a_node()
    for rank in (0, 1):
        world.pod(f"g-{rank}-again", group="g", claims=("missing",))
    world.run()
    assert world.why("PodGroup", "g").reason == "VolumesNotReady"
    assert evicted(world) == []
    world.until(WINDOW + 1)
    assert len(evicted(world)) == 2


def test_a_gang_whose_queue_has_become_too_small_does_not_wait_for_the_end_of_the_window():
    world = running()
    world.delete("g-1")
    world.run()
    world.queue("cq", 3, local="")
    world.pod("g-1-again", group="g")
    world.until(1)
    assert len(evicted(world)) == 3
    assert "can never have" in world.condition("PodGroup", "g", "Evicted")["message"]


# Restarts of the operator.


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


# What is seen.


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


def test_a_time_that_is_yet_to_come_makes_no_window_longer():
    world = running()
    world.delete("g-1")
    world.run()
    raw = world.objects["PodGroup", "default", "g"]
    conditions = [{**one, "lastTransitionTime": "2999-01-01T00:00:00Z"} for one in raw["status"]["conditions"]]
    world.objects["PodGroup", "default", "g"] = {**raw, "status": {**raw["status"], "conditions": conditions}}
    world.restart()
    world.until(WINDOW + 1)
    assert len(evicted(world)) == 3


def test_a_gang_is_not_taken_out_while_its_queue_could_not_admit_it_again():
    world = running()
    world.delete("g-1")
    world.run()
    world.queue("cq", 4, local="", stopPolicy="Hold")
    world.until(10 * WINDOW)
    assert evicted(world) == []
    world.queue("cq", 4, local="")
    world.until(1)
    assert len(evicted(world)) == 3
