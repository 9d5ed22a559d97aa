"""A head of which nobody knows when it starts: what becomes free is gathered for it, for as long as its queue says."""

from __future__ import annotations

from tests.engine.backfill.heads import HOUR, ends, job, reserved, runs
from tests.engine.world import START, World
from tutti.api.conditions import timestamp


def starved(seconds: int = HOUR) -> World:
    """Four nodes of 2 GPUs, full of jobs of which nobody knows how long they run; the head wants two nodes."""
    world = reserved(gpus=100, nodes=4, each=2, reservationSeconds=seconds)
    for number in range(8):
        job(world, f"j{number}", 1)
    world.run()
    job(world, "head", 2, pods=2)
    world.run()
    return world


def neighbours(world: World) -> dict[str, list[str]]:
    """The jobs that run on each node."""
    found: dict[str, list[str]] = {}
    for pod, node in world.where().items():
        if world.pods["default", pod].status.phase != "Succeeded":
            found.setdefault(node, []).append(pod.rsplit("-", 1)[0])
    return found


def test_room_is_gathered_for_a_head_of_which_nobody_knows_when_it_starts():
    world = starved()
    why = world.why("Workload", "head")
    assert "nobody knows when: what becomes free on 2 nodes is kept for it until" in why.message
    assert why.details["keptUntil"] == timestamp(START + HOUR)
    for number in range(20):
        job(world, f"stream{number}", 1)
    world.run()
    for _ in range(16):
        for names in neighbours(world).values():
            if not runs(world, "head"):
                ends(world, names[0])
    assert runs(world, "head")
    assert sum(len(names) for names in neighbours(world).values()) == 2 + 4  # the other two nodes stayed in use


def test_room_is_given_to_others_again_when_it_was_kept_in_vain():
    world = starved(seconds=60)
    world.until(61)
    assert "keptUntil" not in world.why("Workload", "head").details
    first = next(iter(neighbours(world).values()))[0]
    ends(world, first)
    job(world, "other", 1)
    world.run()
    assert runs(world, "other")
    world.until(60)
    assert "keptUntil" in world.why("Workload", "head").details  # for another while
    world.until(61)
    assert "keptUntil" not in world.why("Workload", "head").details
    world.until(60)
    assert "keptUntil" not in world.why("Workload", "head").details  # twice as long this time
    world.until(61)
    assert "keptUntil" in world.why("Workload", "head").details


def test_while_nothing_is_kept_for_the_head_the_next_one_is_kept_for():
    world = starved(seconds=60)
    job(world, "next", 2)
    world.until(61)
    assert "keptUntil" in world.why("Workload", "next").details


def test_nothing_is_kept_for_what_can_never_start():
    world = starved()
    world.remove_object("Workload", "head")
    world.delete("head-0", "head-1")
    world.run()
    job(world, "never", 4)  # no node is so large
    world.run()
    assert "keptUntil" not in world.why("Workload", "never").details
    ends(world, "j0")
    job(world, "small", 1)
    world.run()
    assert runs(world, "small")


def test_what_belongs_to_nobody_s_workload_is_taken_to_stay():
    world = reserved(gpus=100)
    world.pod("daemon", gpus=1, node="n0", scheduler="default-scheduler")
    job(world, "running", 7)
    world.run()
    job(world, "whole", 8)
    job(world, "rest", 7)
    world.run()
    assert "keptUntil" not in world.why("Workload", "whole").details
    assert "keptUntil" in world.why("Workload", "rest").details


def test_a_head_that_loses_and_makes_anew_a_member_time_and_again_has_no_more_kept_for_it():
    """Each time that it was whole again it had another while, and never paused."""
    world = starved(seconds=60)
    kept = 0
    for _ in range(24):
        world.until(50)
        kept += "keptUntil" in world.why("Workload", "head").details
        member = world.pods["default", "head-1"]
        world.delete("head-1")
        world.run()
        world.put(member)
        world.run()
    assert 1 <= kept <= 6
