"""What is kept for a head while things change: the head, its queue, nodes, the operator, and what runs too long."""

from __future__ import annotations

from tests.engine.backfill.heads import easy, job, reserved, runs
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
