"""What becomes of gangs that lose members while something else happens to them, or after they were restarted whole."""

from __future__ import annotations

import pytest

from tests.engine.test_whole_for_life import WINDOW, come_back, degraded, die, evicted, running, successors
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
