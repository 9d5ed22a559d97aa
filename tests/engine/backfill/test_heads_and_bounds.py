"""Beside heads for which room is kept, only who can be helped is tried again, and those heads."""

from __future__ import annotations

import random

import pytest

from tests.engine.backfill.heads import ends, job, reserved, runs
from tests.engine.queue.full_nodes import BOTH, LOWER, RECLAIM, tried
from tests.engine.world import World
from tutti.engine.records.decisions import Bind, Evict

HOST = "kubernetes.io/hostname"


def test_who_is_larger_than_what_was_left_is_not_tried_behind_a_head():
    world = reserved(100, nodes=3)
    for number in range(3):
        job(world, f"has-{number}", 4)
        job(world, f"ends-{number}", 3, 1000)
    job(world, "head", 8)
    for gpus in range(5, 8):
        job(world, f"behind-{gpus}", gpus)
    world.run()
    world.finish("ends-1-0")
    assert tried(world) <= 1, "but for the head, nobody asks for less than 5"


def test_the_next_head_is_kept_for_when_the_first_has_gone_though_nothing_fits_it():
    world = reserved(100, nodes=2)
    job(world, "short", 8, 100)
    job(world, "long", 8, 1000)
    job(world, "head", 8)
    job(world, "next", 7)
    world.run()
    world.delete("head-0")
    world.remove_object("Workload", "head")
    world.run()
    job(world, "small", 1, 500)
    ends(world, "short")
    assert runs(world, "next")


def beside_foreign_pods(**spec) -> World:
    """One node is full of pods of which nobody knows when they end; the other is taken for a while."""
    world = reserved(100, nodes=2, **spec)
    world.pod("foreign", gpus=4, node="n0", scheduler="default-scheduler", priority=100)
    world.pod("daemon", gpus=1, node="n0", scheduler="default-scheduler", priority=100)
    job(world, "low", 3, priority=-5, selector={HOST: "n0"})
    job(world, "long", 8, 1000, priority=10)
    world.run()
    return world


def test_the_next_head_is_kept_for_when_one_starts_for_whom_nothing_could_be_kept():
    world = beside_foreign_pods()
    job(world, "head", 4, selector={HOST: "n0"})
    job(world, "next", 8)
    world.run()
    assert kept_for(world) == {}
    world.finish("foreign")
    world.run()
    assert runs(world, "head")
    assert kept_for(world) == {"cq": "next"}


def test_the_next_head_is_kept_for_when_one_waits_for_victims():
    world = beside_foreign_pods(preemption={"withinClusterQueue": "LowerPriority"})
    job(world, "head", 6, selector={HOST: "n0"}, priority=5)
    job(world, "next", 8)
    world.run()
    assert kept_for(world) == {}
    world.hold_evictions = True
    world.finish("foreign")
    world.run()
    assert kept_for(world) == {"cq": "next"}


def test_whom_past_use_makes_the_head_is_kept_for_when_there_is_room_that_nobody_fits():
    world = World(admissionFairSharing={"usageHalfLifeSeconds": 3600, "resourceWeights": {"memory": 0, "cpu": 0}})
    world.flavor()
    by_use = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    world.queue("cq", 100, local="", admissionScope=by_use, backfill="Reserved")
    for name in "ab":
        world.object("LocalQueue", name, {"clusterQueue": "cq"})
    for number in range(3):
        world.node(f"n{number}", gpus=8)
    world.pod("small", gpus=1, node="n2", scheduler="default-scheduler")
    world.pod("rest", gpus=7, node="n2", scheduler="default-scheduler")
    job(world, "of-b", 8, 20000, queue="b")
    world.run()
    world.until(600)
    job(world, "of-a", 8, 10000, queue="a")
    world.run()
    job(world, "head-a", 8, queue="a")
    job(world, "head-b", 7, queue="b")
    world.run()
    assert kept_for(world) == {"cq": "head-a"}
    node = world.where("of-b")["of-b-0"]
    world.delete("of-b-0")
    world.remove_object("Workload", "of-b")
    world.pod("taken", gpus=8, node=node, scheduler="default-scheduler")
    world.until(7200)

    world.finish("small")
    world.run()

    assert kept_for(world) == {"cq": "head-b"}


def test_heads_that_lack_quota_are_not_tried_when_a_pod_of_others_ends():
    world = World()
    world.flavor()
    world.node("n", gpus=100)
    for number in range(5):
        world.queue(f"q{number}", 8, local=f"l{number}", backfill="Reserved")
        job(world, f"has-{number}", 8, 1000, queue=f"l{number}")
        job(world, f"head-{number}", 8, queue=f"l{number}")
    world.pod("foreign", gpus=1, node="n", scheduler="default-scheduler")
    world.run()
    assert len(kept_for(world)) == 5
    world.finish("foreign")
    assert tried(world) == 0


@pytest.mark.parametrize("seed", range(12))
def test_nobody_who_waits_could_start_and_for_nobody_else_is_kept(seed):
    """Whatever came and went, looking at everybody anew, which any change of a flavor does, comes to nothing else."""
    world = history(seed)
    kept = kept_for(world)
    world.flavor("unheard-of")
    again = world.run(300)
    assert [one.name for one in again if isinstance(one, (Bind, Evict))] == []
    assert kept_for(world) == kept


def kept_for(world: World) -> dict[str, str]:
    """Return for whom each queue keeps room: where that is may be chosen anew when a flavor is written."""
    return {queue: one.workload[2] for queue, one in world.engine.state.backfill_reservations.of.items()}


def history(seed: int) -> World:
    """Return what jobs that come and go as drawn have left."""
    draw = random.Random(seed)
    world = World()
    world.flavor()
    policy = draw.choice([{}, {}, LOWER, RECLAIM, BOTH])
    cohort = draw.choice(["", "all"])
    world.queue("one", draw.choice([8, 16, 100]), local="one", cohort=cohort, backfill="Reserved", **policy)
    mode = draw.choice(["Reserved", "BestEffort", "None"])
    world.queue("two", draw.choice([8, 16]), local="two", cohort=cohort, backfill=mode)
    for number in range(draw.randint(3, 5)):  # each job has a place when all is empty
        world.node(f"n{number}", gpus=draw.choice([6, 8]), cpu=16)
    for number in range(draw.randint(10, 60)):
        match draw.randrange(6):
            case 0 | 1 | 2:
                seconds, pods = draw.choice([None, 50, 300, 1000]), draw.choice([1, 1, 1, 2, 3])
                where = {"queue": draw.choice(["one", "one", "two"]), "priority": draw.choice([0, 0, 0, -5, 5])}
                job(world, f"j{number}", draw.randint(1, 6), seconds, pods=pods, **where)
            case 3 | 4 if world.where():
                world.finish(*draw.sample(sorted(world.where()), min(len(world.where()), draw.randint(1, 3))))
            case 5:
                world.until(draw.choice([10, 100, 700, 4000]))
        world.run(300)
    return world
