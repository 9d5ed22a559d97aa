"""What becomes of gangs that lose members while something else happens to them, or after they were restarted whole."""

from __future__ import annotations

import pytest

from tests.engine.ingest.owners import IN_QUEUE, a_world, indexed, pods
from tests.engine.lifecycle.degraded_gangs import WINDOW, come_back, die, evicted, running, successors
from tests.engine.world import World
from tutti.engine.records.workloads import Phase

# A gang that was restarted whole, with members of before that are there still.


def test_a_gang_that_starts_again_has_started_only_when_all_of_its_new_members_are_bound():
    world = running()
    die(world, "n0")
    die(world, "n1")
    world.node("n2", gpus=4)
    world.until(WINDOW + 1)
    world.hold_binds = True
    successors(world, 0, 1, 2, 3)
    world.answer(world.pending_binds[0])
    world.run()
    assert world.engine.state.workloads["PodGroup", "default", "g"].phase is Phase.BINDING
    for bind in list(world.pending_binds):
        world.answer(bind)
    world.run()
    assert world.events("Scheduled")[-1].note == "Successfully assigned all 4 pods of PodGroup/default/g to n2"
    assert len(world.events("Degraded")) == 1
    assert world.condition("PodGroup", "g", "Degraded")["reason"] == "WholeAgain"


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("when", ["before its members are made", "while it is bound"])
def test_members_of_before_whose_node_comes_back_are_none_of_a_gang_that_starts_again(when, restarted):
    """Two of before that are ending and two new ones are no whole gang."""
    world = running(nodes=2)
    die(world, "n1")
    world.node("n2", gpus=4)
    world.until(WINDOW + 1)
    world.hold_binds = True
    if when == "while it is bound":
        successors(world, 0, 1, 2, 3)
        world.answer(world.pending_binds[0])
        world.answer(world.pending_binds[0])
    if restarted:
        world.restart()
        world.run()
    come_back(world, "n1")
    world.run()
    if when != "while it is bound":
        assert world.used("cq") == 4  # theirs until they have ended, the rest is kept
        successors(world, 0, 1, 2, 3)
        assert world.pending_binds == []
        world.delete("g-2", "g-3")
        world.run()
    assert world.status("PodGroup", "g")["phase"] == "Binding"
    for bind in list(world.pending_binds):
        world.answer(bind)
    world.run()
    world.delete(*(name for name in ("g-2", "g-3") if name in world.where()))
    world.run()
    assert (world.status("PodGroup", "g")["phase"], world.status("PodGroup", "g")["bound"]) == ("Scheduled", 4)
    assert sorted(world.where("g-")) == ["g-0-again", "g-1-again", "g-2-again", "g-3-again"]
    assert len(world.events("Degraded")) == 1


# Who waits for gangs that leave whole.


@pytest.mark.parametrize("by", ["priority", "quota"])
def test_whose_room_is_free_does_not_wait_for_the_other_members_of_a_gang_that_leaves_whole(by):
    """A gang of four makes room for one pod; its members may take long to end, each on its own."""
    world = World()
    world.flavor()
    world.queue("cq", 4 if by == "quota" else 100, preemption={"withinClusterQueue": "LowerPriority"})
    for index in range(4):
        world.node(f"n{index}", gpus=1)
    world.gang("low", 4, queue="queue")
    world.run()
    world.hold_evictions = True
    world.gang("high", 1, queue="queue", priority=10)
    world.run()
    assert evicted(world) == ["low-0", "low-1", "low-2", "low-3"]
    gone, *others = evicted(world)
    room = world.where()[gone]
    world.delete(gone)
    world.until(5)
    assert world.where("high") == {"high-0": room}
    world.delete(*others)
    world.run()
    assert world.used("cq") == 1


# Members that fail, and others that are lost.


@pytest.mark.parametrize("restarted", [False, True])
def test_a_gang_of_which_one_has_failed_and_the_others_are_lost_has_not_ended(restarted):
    world = running(nodes=1, gpus=4)
    world.pod("rival", queue="queue")
    die(world, "n0")
    world.node("n1", gpus=4)
    world.run()
    world.finish("g-0", phase="Failed")
    world.run()
    if restarted:
        world.restart()
        world.run()
    assert world.status("PodGroup", "g")["phase"] == "Scheduled"
    assert world.used("cq") == 4
    assert "rival" not in world.where()
    successors(world, 0, 1, 2, 3)
    assert sorted(world.where("g-").values()).count("n1") == 4


# What an owner says, which may have grown meanwhile, does not tell how many members a gang has had; its object does.


@pytest.mark.parametrize("unseen", [False, True], ids=["seen", "lost while nobody looked"])
@pytest.mark.parametrize("restarts", [0, 1, 2])
@pytest.mark.parametrize("lost", [1, 3])
def test_a_gang_of_an_owner_misses_as_many_members_in_another_process(lost, restarts, unseen):
    world = a_world(0)
    for node in range(4):
        world.node(f"n{node}", gpus=1)
    job = world.owner("Job", "g", labels=IN_QUEUE, spec=indexed(4))
    pods(world, job, 4)
    world.run()
    assert len(world.where("g-")) == 4
    if unseen:
        world.restart()
    for node in range(lost):
        die(world, f"n{node}")
    for rank in range(lost):
        world.pod(f"again-{rank}", owner=job)
    world.run()
    for _ in range(restarts):
        world.restart()
        world.run()
    name = gang_of(world)
    assert world.status("PodGroup", name)["started"] == 4
    assert world.condition("PodGroup", name, "Degraded")["message"].startswith(f"{4 - lost} of 4 required members")
    world.until(WINDOW + 1)
    assert world.condition("PodGroup", name, "Evicted")["reason"] == "MemberLost"


def gang_of(world: World) -> str:
    """The name of the PodGroup that was made for the only gang."""
    (name,) = [name for kind, _, name in world.engine.state.workloads if kind == "PodGroup"]
    return name


# What is kept has an end.


@pytest.mark.parametrize("restarted", [False, True])
def test_a_gang_that_keeps_and_of_which_nothing_runs_any_more_starts_again_whole_after_its_window(restarted):
    world = running(onMemberLoss={"action": "Keep"})
    world.pod("rival", queue="queue")
    world.pod("late", group="g", gated=True)
    world.delete("g-0", "g-1", "g-2", "g-3")
    world.until(WINDOW / 2)
    assert "rival" not in world.where()
    if restarted:
        world.restart()
    world.until(WINDOW / 2 + 1)
    assert world.condition("PodGroup", "g", "Evicted")["reason"] == "MemberLost"
    assert "rival" not in world.where()
    world.until(WINDOW)
    assert "rival" in world.where()


@pytest.mark.parametrize("said", [{"windowSeconds": 2**31 - 1}, {"action": "Keep"}], ids=str)
def test_who_needs_no_quota_has_room_kept_for_no_longer_than_the_configuration_says(said):
    world = World()
    world.node("n0", gpus=2)
    world.pod_group("g", 2, onMemberLoss=said)
    for rank in range(2):
        world.pod(f"g-{rank}", group="g")
    world.run()
    world.pod("rival")
    world.delete("g-1")
    world.until(WINDOW - 1)
    assert "rival" not in world.where()
    world.restart()
    world.run()
    assert "rival" not in world.where()
    world.until(2)
    assert "rival" in world.where()
    assert evicted(world) == []


@pytest.mark.parametrize("restarted", [False, True])
def test_what_is_kept_is_counted_in_another_flavor_where_that_takes_the_place_of_the_one_it_had(restarted):
    """So are the members that are left: by the node that they are on."""
    world = running(nodes=1, gpus=8)
    world.flavor("other")
    world.delete("g-0")
    world.run()
    world.queue("cq", 4, flavors=("other",), local="")
    world.run()
    if restarted:
        world.restart()
        world.run()
    assert (world.used("cq", "default"), world.used("cq", "other")) == (0, 4)
    world.pod("rival", queue="queue")
    world.run()
    assert "rival" not in world.where()
    successors(world, 0)
    assert "g-0-again" in world.where()


# What another process finds.


@pytest.mark.parametrize("done", ["w-a-0", "w-b-0"])
@pytest.mark.parametrize("queue", ["", "queue"])
def test_members_that_have_succeeded_and_are_cleaned_up_are_not_missed_by_another_process(queue, done):
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n0", gpus=4)
    world.workload("w", {"name": "a", "count": 2}, {"name": "b", "count": 1}, **({"queueName": queue} if queue else {}))
    for group, rank in (("a", 0), ("a", 1), ("b", 0)):
        world.pod(f"w-{group}-{rank}", workload="w", group=group)
    world.run()
    world.finish(done)
    world.run()
    world.delete(done)
    world.run()
    world.restart()
    world.until(2 * WINDOW)
    assert evicted(world) == []
    assert not [one for one in world.status("Workload", "w")["conditions"] if one["type"] == "Degraded"]


@pytest.mark.parametrize("kind", ["PodGroup", "Workload"])
def test_a_gang_that_was_taken_out_after_members_had_succeeded_waits_for_the_others_only_in_another_process_too(kind):
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n0", gpus=4)
    if kind == "PodGroup":
        world.pod_group("g", 3, queueName="queue")
    else:
        world.workload("g", {"name": "g", "count": 3}, queueName="queue")
    named = {"group": "g"} if kind == "PodGroup" else {"workload": "g"}
    for rank in range(3):
        world.pod(f"g-{rank}", **named)
    world.run()
    world.finish("g-0")
    world.run()
    world.delete("g-0", "g-1")
    world.until(WINDOW + 1)
    assert evicted(world) == ["g-2"]
    world.restart()
    world.run()
    for rank in (1, 2):
        world.pod(f"g-{rank}-again", **named)
    world.run()
    assert sorted(world.where()) == ["g-1-again", "g-2-again"]


def test_the_pod_groups_of_a_workload_are_served_in_the_order_in_which_they_are_written():
    """Another process lists pods in another order, and decides the same."""
    world = World()
    world.node("n0", gpus=2)
    world.workload("w", {"name": "a", "count": 1}, {"name": "b", "count": 1})
    world.pod("w-b", workload="w", group="b")
    world.run()
    world.pod("w-a", workload="w", group="a")
    world.run()
    assert list(world.engine.state.workloads["Workload", "default", "w"].groups) == ["a", "b"]
