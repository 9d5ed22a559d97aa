"""Heads whose admission checks come before nodes: quota is kept for them, and no room."""

from __future__ import annotations

import pytest

from tests.engine.backfill.heads import ends, job, reserved, runs
from tests.engine.checked import ONE
from tests.engine.world import World


def checked(mode: str = "Reserved", **spec) -> World:
    """Two of 8 GPUs are free; 4 are given back after 100 s at the latest, 2 nobody knows when. The head wants 5."""
    world = reserved(mode=mode, admissionChecksStrategy=ONE, **spec)
    world.admission_check("budget")
    for name, gpus, seconds in (("hundred", 4, 100), ("ever", 2, None)):
        job(world, name, gpus, seconds)
        world.run()
        world.answer_check("budget", "Ready", of=name)
        world.run()
        assert runs(world, name)
    job(world, "head", 5)
    world.run()
    return world


def test_a_head_is_told_when_it_gets_quota_and_nobody_takes_that():
    world = checked()
    why = world.why("Workload", "head")
    assert why.reason == "WaitingForQuota"
    assert "it gets its quota at" in why.message
    job(world, "small", 2)
    world.run()
    assert world.used("cq") == 6
    world.until(100)
    world.run()
    assert world.used("cq") == 7
    assert world.why("Workload", "head").reason == "ChecksPending"


def test_where_nobody_knows_when_the_head_says_what_is_kept():
    world = checked()
    ends(world, "hundred")
    assert world.used("cq") == 7  # the head has its quota now
    job(world, "next", 3)
    world.run()
    assert "what quota becomes free is kept for it until" in world.why("Workload", "next").message


@pytest.mark.parametrize("patience", [10, 0])
def test_a_head_that_has_waited_for_its_turn_by_shares(patience):
    world = World(fairSharing={"enable": True, "patienceSeconds": patience})
    world.flavor()
    world.admission_check("budget")
    world.queue("a", 2, cohort="c", local="a", admissionChecksStrategy=ONE)
    world.queue("b", 2, cohort="c", local="b")
    world.node("n0", gpus=4)
    world.pod_group("one", 1, queueName="b")
    world.pod("one-0", group="one", gpus=3)
    world.run()
    world.pod_group("head", 1, queueName="a")
    world.pod("head-0", group="head", gpus=2)
    world.until(30)
    world.pod_group("two", 1, queueName="b")
    world.pod("two-0", group="two", gpus=1)
    world.until(30)
    world.finish("one-0")
    world.until(30)
    assert world.used("a") == 2
