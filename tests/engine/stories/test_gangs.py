"""Gangs start whole or not at all, and stay so while members come, end and are replaced."""

from __future__ import annotations

import pytest

from bench.simulation.recounting import recounted
from tests.engine.world import World


def test_two_gangs_that_each_need_half_of_more_than_there_is_do_not_deadlock():
    world = World()
    world.node("n1", gpus=4)
    for rank in range(3):  # their pods arrive in turns
        for gang in ("a", "b"):
            if rank == 0:
                world.pod_group(gang, 3)
            world.pod(f"{gang}-{rank}", group=gang)
            world.run()
    assert world.where() == {"a-0": "n1", "a-1": "n1", "a-2": "n1"}
    world.finish("a-0", "a-1", "a-2")
    world.run()
    assert set(world.where("b")) == {"b-0", "b-1", "b-2"}


def test_a_gang_that_does_not_fit_leaves_no_trace():
    world = World()
    world.node("n1", gpus=4)
    world.gang("g", 5)
    before = world.engine.state.cluster.nodes.requested.copy()
    world.run()
    assert world.where() == {}
    assert (world.engine.state.cluster.nodes.requested == before).all()
    assert world.reason("PodGroup", "g") == "Unschedulable"


def test_a_gang_waits_for_its_members_and_says_how_many_are_there():
    world = World()
    world.node("n1")
    world.pod_group("g", 3)
    world.pod("g-0", group="g")
    world.pod("g-1", group="g")
    world.run()
    why = world.why("PodGroup", "g")
    assert (why.reason, why.details) == ("WaitingForMembers", {"members": "2", "minCount": "3"})
    assert "2 of 3 members" in why.message
    world.pod("g-2", group="g")
    world.run()
    assert len(world.where()) == 3


def test_a_workload_with_a_leader_and_workers_starts_whole():
    world = World()
    world.node("n1", gpus=4)
    world.workload("w", {"name": "leader", "count": 1}, {"name": "workers", "count": 4})
    world.pod("leader", workload="w", group="leader", gpus=0)
    for rank in range(4):
        world.pod(f"worker-{rank}", workload="w", group="workers")
    world.node("n1", gpus=3)
    world.run()
    assert world.where() == {}
    world.node("n2", gpus=1)
    world.run()
    assert len(world.where()) == 5


def test_every_group_that_has_too_few_members_is_named():
    world = World()
    world.node("n1")
    world.workload("w", *({"name": name, "count": 2} for name in ("a", "b", "c")))
    world.pod("b-0", workload="w", group="b")
    for rank in range(2):
        world.pod(f"c-{rank}", workload="w", group="c", gated=rank == 0)
    world.run()

    why = world.why("Workload", "w")
    assert (why.reason, why.details) == ("WaitingForMembers", {"members": "2", "minCount": "6"})
    assert why.message == (
        "0 of 2 members of pod group a are there; 1 of 2 members of pod group b is there; "
        "2 members of pod group c are there, 1 gated; it is placed when each of them has all that it needs"
    )


def test_of_many_groups_that_have_too_few_members_the_first_are_named():
    world = World()
    world.node("n1")
    world.workload("w", *({"name": f"g{index}", "count": 1} for index in range(5)))
    world.pod("g4-0", workload="w", group="g4")
    world.run()

    message = world.why("Workload", "w").message
    assert message.startswith("0 of 1 member of pod group g0 is there; ")
    assert "; 1 more pod group has too few; it is placed when each of them has all that it needs" in message


def test_a_workload_waits_for_every_one_of_its_groups():
    world = World()
    world.node("n1")
    world.workload("w", {"name": "leader", "count": 1}, {"name": "workers", "count": 2})
    world.pod("worker-0", workload="w", group="workers")
    world.pod("worker-1", workload="w", group="workers")
    world.run()
    assert world.where() == {}
    assert "0 of 1 member of pod group leader" in world.why("Workload", "w").message
    world.pod("leader", workload="w", group="leader")
    world.run()
    assert len(world.where()) == 3


def test_an_elastic_gang_starts_with_its_minimum_and_grows_when_there_is_room():
    world = World()
    world.node("n1", gpus=3)
    world.gang("g", 5, min_count=2)
    world.run()
    assert len(world.where()) == 3
    world.node("n2", gpus=1)
    world.run()
    assert len(world.where()) == 4
    world.node("n3", gpus=8)
    world.run()
    assert len(world.where()) == 5
    assert world.why("PodGroup", "g") is None


def test_surplus_that_is_deleted_is_not_explained_any_more():
    world = World()
    world.node("n1", gpus=2)
    world.gang("g", 3, min_count=2)
    world.run()
    assert world.reason("PodGroup", "g") == "Unschedulable"
    world.delete("g-2")
    world.run()
    assert world.why("PodGroup", "g") is None
    assert "pendingReason" not in world.status("PodGroup", "g")


def test_an_elastic_gang_below_its_minimum_waits():
    world = World()
    world.node("n1", gpus=1)
    world.gang("g", 5, min_count=2)
    world.run()
    assert world.where() == {}


def test_a_late_member_of_a_running_gang_is_placed_at_once():
    world = World()
    world.node("n1")
    world.gang("g", 2)
    world.run()
    world.pod("g-2", group="g")
    world.run()
    assert set(world.where()) == {"g-0", "g-1", "g-2"}


def test_a_replaced_member_of_a_running_gang_is_placed_at_once():
    world = World()
    world.node("n1", gpus=2)
    world.gang("g", 2)
    world.run()
    world.delete("g-1")
    world.run()
    world.pod("g-1", group="g")
    world.run()
    assert set(world.where()) == {"g-0", "g-1"}


def test_a_gang_that_has_failed_as_a_whole_starts_again_as_a_whole():
    world = World()
    world.node("n1", gpus=4)
    world.gang("g", 4)
    world.run()
    world.pod("other", gpus=2, node="", priority=0)
    world.finish("g-0", "g-1", "g-2", "g-3", phase="Failed")
    world.run()
    assert world.where("other") == {"other": "n1"}  # two devices are left
    for rank in range(4, 8):
        world.pod(f"g-{rank}", group="g")
        world.run()
    assert not {f"g-{rank}" for rank in range(4, 8)} & set(world.where())
    world.node("n2", gpus=2)
    world.run()
    assert {f"g-{rank}" for rank in range(4, 8)} <= set(world.where())


def test_a_member_that_is_replaced_after_the_others_succeeded_runs_alone():
    world = World()
    world.node("n1", gpus=2)
    world.gang("g", 2)
    world.run()
    world.finish("g-0")
    world.finish("g-1", phase="Failed")
    world.run()
    assert world.condition("PodGroup", "g", "Finished")["status"] == "True"
    world.pod("g-2", group="g")
    world.run()
    assert "g-2" in world.where()


def test_a_gated_member_keeps_its_gang_waiting():
    world = World()
    world.node("n1")
    world.pod_group("g", 2)
    world.pod("g-0", group="g")
    world.pod("g-1", group="g", gated=True)
    world.run()
    assert world.where() == {}
    assert "1 gated" in world.why("PodGroup", "g").message
    world.ungate("g-1")
    world.run()
    assert len(world.where()) == 2


def test_a_gated_pod_beyond_the_minimum_does_not_keep_its_gang_waiting():
    world = World()
    world.node("n1")
    world.pod_group("g", 1)
    world.pod("g-0", group="g")
    world.pod("g-1", group="g", gated=True)
    world.run()
    assert world.where() == {"g-0": "n1"}


def test_a_member_that_is_being_deleted_is_not_bound_and_does_not_count():
    world = World()
    world.node("n1")
    world.pod_group("g", 2)
    world.pod("g-0", group="g")
    world.pod("g-1", group="g")
    world.begin_deleting("g-1")
    world.run()
    assert world.where() == {}
    assert "1 terminating" in world.why("PodGroup", "g").message


def test_a_pod_recreated_under_its_name_is_another_pod():
    world = World()
    world.node("n1", gpus=1)
    world.hold_binds = True
    world.pod("p")
    world.run()
    (bind,) = world.pending_binds
    old = world.pods["default", "p"]
    world.pod("p")  # the watch shows the successor only
    world.run()
    assert world.pods["default", "p"].metadata.uid != old.metadata.uid
    world.answer(bind)  # becomes Gone: the uid does not match
    world.run()
    world.answer(world.pending_binds[0])
    world.run()
    assert world.where() == {"p": "n1"}
    assert (world.engine.state.cluster.nodes.requested == recounted(world.engine.state.cluster)).all()


def test_a_pod_group_without_a_gang_policy_places_its_members_one_by_one():
    world = World()
    world.node("n1", gpus=1)
    world.object("PodGroup", "g", {"schedulingPolicy": {"basic": {}}})
    world.pod("g-0", group="g")
    world.pod("g-1", group="g")
    world.run()
    assert len(world.where()) == 1


def test_neighbouring_ranks_are_neighbours():
    world = World(profiles=[{"schedulerName": "tutti", "scoringStrategy": {"type": "MostAllocated"}}])
    world.node("n1", gpus=6)
    world.node("n2", gpus=6)
    world.gang("g", 12)
    world.run()
    assert {world.where()[f"g-{rank}"] for rank in range(6)} == {"n1"}
    assert {world.where()[f"g-{rank}"] for rank in range(6, 12)} == {"n2"}


def test_a_bare_pod_is_placed_like_a_gang_of_one():
    world = World()
    world.node("n1")
    world.pod("p")
    world.run()
    assert world.where() == {"p": "n1"}
    (event,) = world.events("Scheduled")
    assert (event.kind, event.note) == ("Pod", "Successfully assigned Pod/default/p to n1")


def test_two_groups_of_unequal_pods_never_share_a_verdict():
    """One workload that cannot be placed says nothing of another that asks for less."""
    world = World()
    world.flavor()
    world.queue("cq", 100)
    world.node("n1", gpus=4)
    big = {"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "8"}}}]}}
    small = {"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]}}
    world.workload("a", {"count": 2, "template": big}, queueName="queue")
    world.workload("b", {"count": 2, "template": small}, queueName="queue")
    world.run()
    assert world.reason("Workload", "a") == "Impossible"
    assert world.why("Workload", "b").gate == "Permit"


def test_surplus_members_never_take_the_room_of_required_ones():
    world = World()
    world.node("n1", gpus=4)
    world.pod_group("g", 3)
    for name, gpus in (("g-0", 2), ("g-1", 1), ("g-2", 1), ("g-3", 2)):  # the hardest to place is also surplus
        world.pod(name, group="g", gpus=gpus)
    world.run()
    assert set(world.where()) == {"g-0", "g-1", "g-2"}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_gang_that_has_ended_stays_so_while_its_pods_are_cleaned_up(phase):
    """As a Job's pods are, after its time to live."""
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n1")
    world.gang("g", 2, queue="queue")
    world.run()
    world.finish("g-0", "g-1", phase=phase)
    world.run()
    told = world.status("PodGroup", "g")["conditions"]
    for rank in range(2):
        world.delete(f"g-{rank}")
        world.run()
        assert world.status("PodGroup", "g")["phase"] == "Finished"
        assert world.status("PodGroup", "g")["conditions"] == told
    assert world.status("ClusterQueue", "cq")["pendingWorkloads"] == 0
    world.restart()
    world.until(60.0)
    assert world.status("PodGroup", "g")["phase"] == "Finished"
    assert world.status("PodGroup", "g")["conditions"] == told
    world.pod("g-0", group="g", queue="queue")
    world.run()
    assert world.status("PodGroup", "g")["phase"] == "Waiting"
    assert world.condition("PodGroup", "g", "Finished")["status"] == "False"
    assert world.condition("PodGroup", "g", "Scheduled")["status"] == "False"
    world.pod("g-1", group="g", queue="queue")
    world.run()
    assert world.condition("PodGroup", "g", "Scheduled")["status"] == "True"
    assert world.used("cq") == 2


def test_a_gang_that_lost_members_says_how_many_have_a_node_now():
    world = World()
    world.node("n1")
    world.gang("g", 3)
    world.run()
    assert world.condition("PodGroup", "g", "Scheduled")["message"] == "all required members have a node"
    world.delete("g-1")
    world.run()
    said = world.condition("PodGroup", "g", "Scheduled")
    assert said["status"] == "True"
    assert said["message"] == "all required members have had a node; 2 of 3 have one now"
