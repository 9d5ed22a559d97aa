"""What is kept for a head while things change: the head, its queue, nodes, the operator, and what runs too long."""

from __future__ import annotations

import pytest

from tests.engine.backfill.heads import easy, ends, job, reserved, runs
from tests.engine.world import START
from tutti.api.conditions import timestamp


def test_nothing_is_kept_any_more_when_the_head_goes():
    world = easy()
    job(world, "late", 2)
    world.run()
    assert not runs(world, "late")
    world.remove_object("Workload", "head")
    world.delete("head-0")
    world.run()
    assert runs(world, "late")


def test_nothing_is_kept_any_more_when_the_queue_says_so():
    world = easy()
    job(world, "late", 2)
    world.run()
    spec = world.objects["ClusterQueue", "", "cq"]["spec"]
    world.object("ClusterQueue", "cq", {**spec, "backfill": "BestEffort"})
    world.run()
    assert runs(world, "late")


def test_a_head_whose_node_is_lost_is_promised_another():
    world = reserved(gpus=100, nodes=2)
    job(world, "a", 8, 100)
    job(world, "b", 8, 900)
    world.run()
    job(world, "head", 8)
    world.run()
    assert world.why("Workload", "head").details["startsAt"] == timestamp(START + 100)
    world.remove_node(world.where()["a-0"])
    world.run()
    assert world.why("Workload", "head").details["startsAt"] == timestamp(START + 900)


def test_a_restarted_operator_keeps_room_again():
    world = easy()
    world.restart()
    job(world, "late", 2)
    world.run()
    assert not runs(world, "late")
    assert "startsAt" in world.why("Workload", "head").details
    assert not world.replay().differences


def test_the_limit_of_what_runs_ends_it_and_the_head_starts():
    world = easy()
    world.until(101)
    assert runs(world, "head")
    assert not world.replay().differences


def test_nobody_is_looked_at_again_and_again_while_what_is_overdue_takes_its_time_to_end():
    world = easy()
    job(world, "late", 2)
    world.hold_evictions = True
    world.until(101)
    before = world.engine.evaluated
    for _ in range(10):
        world.decide(advance=0.01)
        due = world.engine.wakeup()
        assert due is None or due > world.now
    assert world.engine.evaluated == before
    assert not runs(world, "late")
    world.delete("hundred-0")
    world.run()
    assert runs(world, "head")


@pytest.mark.parametrize("how", ["raised", "left out", "made anew"])
def test_who_was_let_by_for_it_ends_in_time_cannot_come_to_run_for_longer(how: str):
    """Whoever said 90 s and then more kept the head waiting, which had been promised when it starts."""
    world = easy()
    job(world, "short", 2, 90)
    world.run()
    assert runs(world, "short")
    limit = {} if how == "left out" else {"maximumExecutionTimeSeconds": 10**6}
    if how == "made anew":
        world.remove_object("Workload", "short")
        world.run()
    world.workload("short", {"name": "main", "count": 1, "minCount": 1}, queueName="queue", **limit)
    world.run()
    world.until(89)
    assert runs(world, "short")
    world.until(12)
    ends(world, "hundred")
    assert runs(world, "head")
    assert world.condition("Workload", "short", "Evicted")["message"] == (
        "it has run for 90 s, its maximumExecutionTimeSeconds as it was when it was admitted; it is set inactive"
    )


def test_who_has_been_let_in_may_come_to_run_for_less():
    world = easy()
    job(world, "short", 2, 90)
    world.run()
    for seconds in (40, 60):
        world.workload(
            "short", {"name": "main", "count": 1, "minCount": 1}, queueName="queue", maximumExecutionTimeSeconds=seconds
        )
        world.run()
    world.until(41)
    assert not runs(world, "short")


def test_an_administrator_may_raise_the_default_of_a_queue_for_what_runs():
    world = easy()
    quota = world.objects["ClusterQueue", "", "cq"]["spec"]
    world.object("ClusterQueue", "cq", quota | {"defaultMaximumExecutionTimeSeconds": 90})
    job(world, "short", 2)
    world.run()
    assert runs(world, "short")
    world.object("ClusterQueue", "cq", quota | {"defaultMaximumExecutionTimeSeconds": 200})
    world.until(150)
    assert runs(world, "short")
