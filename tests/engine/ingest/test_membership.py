"""Who counts as a member, and when a gang has enough of them.

Counted are members that exist and have not ended, and those that have succeeded; gated ones count as being there, not as
ready to be placed.
"""

from __future__ import annotations

import itertools

import pytest

from tests.engine.world import World


@pytest.mark.parametrize("order", list(itertools.permutations(["pods", "pod group", "workload"])))
def test_members_pod_group_and_workload_may_come_in_any_order(order):
    world = World()
    world.node("n1")
    for index, what in enumerate(order):
        if index == 2:
            assert world.where() == {}
        if what == "pods":
            for rank in range(2):
                world.pod(f"p-{rank}", group="g")
        elif what == "pod group":
            world.pod_group("g", 2, workloadRef={"name": "w", "podGroup": "workers"})
        else:
            world.workload("w", {"name": "workers", "count": 2})
        world.run()
    assert len(world.where()) == 2
    assert list(world.engine.state.workloads) == [("Workload", "default", "w")]


@pytest.mark.parametrize(
    ("state", "counts"),
    [
        ("waiting", True),
        ("succeeded", True),
        ("failed", False),
        ("being deleted", False),
        ("of another scheduler", False),
        ("bound by another", True),
        ("running", True),
    ],
)
def test_which_members_count(state, counts):
    """A gang of three with two members that wait, and one that is as it is."""
    world = World()
    world.node("n1")
    world.pod_group("g", 3)
    world.pod("g-0", group="g")
    world.pod("g-1", group="g")
    other = "default-scheduler" if state == "of another scheduler" else "tutti"
    node = "n1" if state in ("succeeded", "failed", "running", "bound by another") else ""
    world.pod("g-2", group="g", node=node, scheduler=other)
    match state:
        case "succeeded":
            world.finish("g-2")
        case "failed":
            world.finish("g-2", phase="Failed")
        case "being deleted":
            world.begin_deleting("g-2")
    world.run()
    assert ({"g-0", "g-1"} <= set(world.where())) == counts


def test_a_gated_member_is_there_and_is_not_placed():
    world = World()
    world.node("n1")
    world.pod_group("g", 3)
    world.pod("g-0", group="g")
    world.pod("g-1", group="g", gated=True)
    world.run()
    assert world.reason("PodGroup", "g") == "WaitingForMembers"
    world.pod("g-2", group="g")
    world.run()
    why = world.why("PodGroup", "g")
    assert (why.gate, why.reason) == ("Gather", "SchedulingGated")
    assert why.message == ("3 members of pod group g are there, 1 gated; it is placed when 3 have no scheduling gates")
    assert world.where() == {}
    world.ungate("g-1")
    world.run()
    assert len(world.where()) == 3


def test_one_member_is_told_of_in_the_singular():
    world = World()
    world.node("n1")
    world.workload("w", {"name": "main", "count": 1})
    world.pod("w-0", workload="w", gated=True)
    world.run()
    assert world.why("Workload", "w").message == (
        "1 member of pod group main is there, 1 gated; it is placed when 1 has no scheduling gates"
    )


def test_more_members_than_a_workload_declares_wait_for_one_to_leave():
    world = World()
    world.node("n1")
    world.workload("w", {"name": "main", "count": 2})
    for rank in range(3):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    assert set(world.where()) == {"w-0", "w-1"}
    assert world.reason("Workload", "w") == "GangFull"
    assert "has 2 members at once" in world.why("Workload", "w").message
    world.finish("w-0", phase="Failed")
    world.run()
    assert "w-2" in world.where()
    assert world.why("Workload", "w") is None


def test_a_full_group_does_not_keep_the_others_from_room_that_comes():
    world = World()
    world.node("n1", gpus=3)
    world.workload("w", {"name": "leader", "count": 1}, {"name": "workers", "count": 3, "minCount": 1})
    for rank in range(2):
        world.pod(f"leader-{rank}", workload="w", group="leader")
    for rank in range(3):
        world.pod(f"worker-{rank}", workload="w", group="workers")
    world.run()
    assert set(world.where()) == {"leader-0", "worker-0", "worker-1"}
    assert world.reason("Workload", "w") == "Unschedulable"
    world.node("n2", gpus=4)
    world.run()
    assert set(world.where()) == {"leader-0", "worker-0", "worker-1", "worker-2"}
    assert world.reason("Workload", "w") == "GangFull"


def test_a_job_with_more_completions_than_run_at_once_goes_on_with_the_next():
    world = World()
    world.node("n1")
    world.flavor()
    world.queue("cq", 2)
    world.workload("w", {"name": "main", "count": 2}, queueName="queue")
    for rank in range(2):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    for rank in range(2, 5):
        world.finish(f"w-{rank - 2}")
        world.pod(f"w-{rank}", workload="w")
        world.run()
        assert f"w-{rank}" in world.where()
        assert world.used("cq") == 2


def test_fewer_members_than_the_minimum_start_when_the_minimum_is_lowered():
    world = World()
    world.node("n1")
    world.pod_group("g", 3)
    world.pod("g-0", group="g")
    world.pod("g-1", group="g")
    world.run()
    assert world.where() == {}
    world.pod_group("g", 2)
    world.run()
    assert len(world.where()) == 2


# Members that are made again, as a Job with retries does.


def test_a_member_that_failed_before_the_gang_started_is_replaced_and_counts_once():
    world = World()
    world.node("n1")
    world.pod_group("g", 2)
    world.pod("g-0", group="g")
    world.finish("g-0", phase="Failed")
    world.pod("g-1", group="g")
    world.run()
    assert world.where() == {}
    assert "1 of 2 members of pod group g is there (1 failed not counted)" in world.why("PodGroup", "g").message
    world.pod("g-2", group="g")
    world.run()
    assert set(world.where()) == {"g-1", "g-2"}


def test_a_member_that_fails_while_others_are_being_bound_is_replaced_in_the_same_window():
    world = World()
    world.node("n1")
    world.hold_binds = True
    world.gang("g", 3)
    world.run()
    first, *others = world.pending_binds
    world.answer(first)
    world.finish(first.name, phase="Failed")
    world.pod("g-3", group="g")
    world.run()
    world.hold_binds = False
    assert [bind.name for bind in world.pending_binds] == [*(bind.name for bind in others), "g-3"]
    for bind in list(world.pending_binds):
        world.answer(bind)
    world.until(5)
    assert {"g-1", "g-2", "g-3"} <= set(world.where())
    assert not world.events("RolledBack")


@pytest.mark.parametrize("retries", [1, 4])
def test_each_retry_of_a_running_gangs_member_is_placed_by_itself(retries):
    world = World()
    world.flavor()
    world.queue("cq", 2)
    world.node("n1", gpus=2)
    world.gang("g", 2, queue="queue")
    world.run()
    last = "g-1"
    for retry in range(retries):
        world.finish(last, phase="Failed")
        last = f"g-1-{retry}"
        world.pod(last, group="g", queue="queue")
        world.run()
        assert last in world.where()
        assert world.used("cq") == 2
    assert world.condition("PodGroup", "g", "Scheduled")["status"] == "True"


# Elastic gangs.


def test_an_elastic_gang_may_shrink_to_its_minimum_and_grow_again():
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n1")
    world.gang("g", 4, min_count=2, queue="queue")
    world.run()
    assert world.used("cq") == 4
    world.delete("g-2", "g-3")
    world.run()
    assert world.used("cq") == 2
    assert world.condition("PodGroup", "g", "Scheduled")["message"] == "all required members have a node"
    for rank in (2, 3):
        world.pod(f"g-{rank}", group="g", queue="queue")
        world.run()
    assert len(world.where()) == 4
    assert world.used("cq") == 4


def test_a_higher_minimum_of_a_running_gang_has_more_members_join_and_moves_nobody():
    world = World()
    world.node("n1", gpus=2)
    world.gang("g", 2)
    world.run()
    before = world.where()
    world.pod_group("g", 3)
    world.pod("g-2", group="g")
    world.until(900)  # longer than the window for lost members
    assert world.where() == before
    world.node("n2", gpus=1)
    world.run()
    assert len(world.where()) == 3
    assert world.condition("PodGroup", "g", "Scheduled")["message"] == "all required members have a node"


def test_surplus_of_an_elastic_gang_waits_without_holding_its_gang_back():
    world = World()
    world.node("n1", gpus=2)
    world.gang("g", 4, min_count=2)
    world.run()
    assert len(world.where()) == 2
    assert world.condition("PodGroup", "g", "Scheduled")["status"] == "True"
    assert world.reason("PodGroup", "g") == "Unschedulable"


def test_a_member_that_comes_after_its_gang_was_told_why_it_waits_is_told_as_well():
    world = World()
    world.node("n1", gpus=1)
    world.pod_group("g", 2)
    world.pod("g-0", group="g")
    world.pod("g-1", group="g")
    world.run()
    told = world.pod_condition("g-0")
    assert told.reason == "Unschedulable"
    world.pod("g-2", group="g")
    world.run()
    found = world.pod_condition("g-2")
    assert (found.reason, found.message) == (told.reason, told.message)


TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": "2"}}}]}}


@pytest.mark.parametrize("phase", ["gathers", "is reserved", "runs"])
def test_a_pod_group_that_a_workload_does_not_have_any_more_is_not_waited_for(phase: str) -> None:
    """Whoever takes it out of the spec is not told to make its pods, nor started again whole for the lack of them."""
    world = World()
    world.node("n1")
    world.flavor()
    world.queue("cq", 8)
    template = {"template": TEMPLATE} if phase == "is reserved" else {}
    world.workload("w", {"name": "a", "count": 1}, {"name": "b", "count": 2, **template}, queueName="queue")
    world.pod("a-0", workload="w", group="a")
    world.run()
    if phase == "runs":
        for name in ("b-0", "b-1"):
            world.pod(name, workload="w", group="b")
        world.run()
        assert len(world.where()) == 3
        world.delete("b-0", "b-1")
        world.run()
    world.workload("w", {"name": "a", "count": 1}, queueName="queue")
    world.until(3600)
    assert world.where() == {"a-0": "n1"}
    assert world.used("cq") == 1
    assert world.condition("Workload", "w", "Scheduled")["message"] == "all required members have a node"
