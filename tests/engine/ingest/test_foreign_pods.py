"""Pods that carry a gang's label and another schedulerName: the commonest slip, so it is told."""

from __future__ import annotations

from tests.engine.world import World


def test_a_gang_whose_members_name_another_scheduler_says_so():
    world = World()
    world.node("n1")
    world.pod_group("g", 2)
    world.pod("g-0", group="g")
    world.pod("g-1", group="g", scheduler="default-scheduler")
    world.run()
    world.until(15)  # a newer text under the same reason is told after a while

    (reason,) = world.status("PodGroup", "g")["pendingReason"]["reasons"]
    assert reason["message"].startswith("1 of 2 members of pod group g is there")
    assert "; 1 more pod carries its label but has schedulerName default-scheduler: give it tutti" in reason["message"]


def test_a_stranger_that_is_gone_is_told_of_no_more():
    world = World()
    world.node("n1")
    world.pod_group("g", 2)
    world.pod("g-0", group="g")
    world.pod("g-1", group="g", scheduler="default-scheduler")
    world.run()
    world.delete("g-1")
    world.until(15)

    assert "schedulerName" not in world.why("PodGroup", "g").message
    assert world.engine.state.foreign_pods == {}
    assert world.engine.state.foreign_pod_group_of == {}
