"""What becomes of gangs that lose members while something else happens to them, or after they were restarted whole."""

from __future__ import annotations

import pytest

from tests.engine.test_whole_for_life import WINDOW, come_back, die, evicted, running, successors
from tests.engine.world import World
from tutti.engine.workloads import Phase

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
    assert (world.status("PodGroup", "g")["phase"], world.status("PodGroup", "g")["bound"]) == ("Scheduled", 4)
    assert sorted(world.where("g-0-") | world.where("g-1-") | world.where("g-2-") | world.where("g-3-")) == [
        "g-0-again",
        "g-1-again",
        "g-2-again",
        "g-3-again",
    ]


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
