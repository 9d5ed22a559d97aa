"""Whoever would only fail again is not tried again, and still is told the numbers as they are in time."""

from __future__ import annotations

import pytest

from tests.engine.queue.test_contest import cohort_of, submit
from tests.engine.queue.test_turns import evaluated
from tests.engine.world import World
from tutti.engine.records.explanation import REFRESH_SECONDS

RUNNING = tuple(f"running-{i}" for i in range(4))
THREES = ("a-three", "b-three")


def crowded(**spec: object) -> World:
    """Two queues of one cohort with two GPUs each, all in use one by one, and in each queue one that wants three."""
    world = cohort_of(("a", 2), ("b", 2), nodes=8, **spec)
    submit(world, *((name, "ab"[i % 2], 1, 0) for i, name in enumerate(RUNNING)))
    world.run()
    submit(world, *((name, name[0], 3, 1) for name in THREES))
    world.run()
    assert set(world.where()) == set(RUNNING)
    return world


def free(world: World, name: str) -> str:
    """What a pod was told last of what is free."""
    said = world.pod_condition(name)
    assert said is not None
    assert said.reason == "WaitingForQuota"
    return said.message.split("; ")[1].split(" free now ")[0]


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_whoever_lacks_quota_still_is_not_tried_but_told_the_new_numbers_in_time(strategy):
    world = crowded(queueingStrategy=strategy)
    before = evaluated(world)
    world.finish(RUNNING[0])
    world.run()
    assert evaluated(world) == before
    assert [free(world, name) for name in THREES] == ["0", "0"]
    world.until(REFRESH_SECONDS)
    assert evaluated(world) == before + 2
    assert [free(world, name) for name in THREES] == ["1", "1"]
    assert "; 1 free now (1 of its own 2" in world.why("Pod", "a-three").message
    world.until(100.0)
    assert evaluated(world) == before + 2  # nothing else has happened


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_whoever_was_not_tried_is_admitted_as_soon_as_there_is_enough(strategy):
    world = crowded(queueingStrategy=strategy)
    for name in RUNNING[:3]:
        assert not set(THREES).intersection(world.where())
        world.finish(name)
        world.run()
    assert "a-three" in world.where()
    world.finish("a-three")
    world.run()
    assert "b-three" in world.where()


def test_quota_that_one_takes_does_not_have_the_others_tried():
    world = crowded()
    submit(world, ("a-one", "a", 1, 0), ("b-one", "b", 1, 0))
    world.run()
    before = evaluated(world)
    world.finish(RUNNING[0])
    world.run()
    assert "a-one" in world.where()
    assert "b-one" not in world.where()
    assert evaluated(world) == before + 1


def test_numbers_that_come_out_the_same_are_not_looked_at_at_every_turn():
    world = crowded()
    submit(world, *((f"a-one-{i}", "a", 1, 0) for i in range(4)))
    world.run()
    world.until(5 * REFRESH_SECONDS)  # what they were told has stood long enough
    before = evaluated(world)
    for name in RUNNING:
        world.finish(name)
        world.run()
    assert sum(f"a-one-{i}" in world.where() for i in range(4)) == 4
    assert evaluated(world) <= before + 4 + len(THREES) + 1  # each that was admitted, and each head once


def test_one_that_joins_those_who_were_not_tried_is_told_why_it_waits():
    world = crowded()
    world.finish(RUNNING[0])
    submit(world, ("a-late", "a", 3, 1))
    world.run()
    world.until(REFRESH_SECONDS)
    assert free(world, "a-late") == "1"


def test_one_that_may_preempt_is_tried_whenever_quota_is_given_back():
    world = crowded(preemption={"withinClusterQueue": "LowerPriority"})
    before = evaluated(world)
    world.finish(RUNNING[0])
    world.run()
    assert evaluated(world) > before


def test_attempts_that_were_left_out_are_left_out_in_a_replay():
    world = crowded()
    for name in RUNNING:
        world.finish(name)
        world.until(4.0)
    assert not world.replay().differences
