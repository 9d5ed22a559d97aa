"""What was kept for a head is kept by the next operator before it tries anybody, and for as long as was told."""

from __future__ import annotations

import pytest

from tests.engine.backfill.heads import ends, job, reserved, runs
from tests.engine.world import START, World
from tutti.api.conditions import timestamp

BOTH_WAYS = pytest.mark.parametrize("backwards", [False, True], ids=["in order", "backwards"])


def older_elsewhere(*, alone: bool = False, seconds: int | None = 100) -> World:
    """Room of 5 is kept for a head of 5; one of another queue, older than the head, is kept off."""
    world = reserved()
    world.queue("other", 8, local="others", stopPolicy="Hold")
    job(world, "hundred", 4, seconds)
    job(world, "ever", 2)
    job(world, "older", 2, queue="others")
    world.run()
    world.now += 1
    if alone:
        world.pod("head-0", gpus=5, queue="queue")
    else:
        job(world, "head", 5)
    world.run()
    world.object("ClusterQueue", "other", {**world.objects["ClusterQueue", "", "other"]["spec"], "stopPolicy": "None"})
    world.run()
    assert world.reason("Workload", "older") == "WouldDelay"
    return world


def a_head_behind_what_never_ends(alone: bool) -> World:
    """A pod or a gang that is kept for, and one behind it that would fit; nobody knows when there is room."""
    world = reserved(reservationSeconds=60)
    job(world, "ever", 6)
    world.run()
    if alone:
        world.pod("head-0", gpus=5, queue="queue")
    else:
        job(world, "head", 5)
    world.now += 1
    job(world, "small", 2)
    return world


@BOTH_WAYS
@pytest.mark.parametrize("alone", [False, True], ids=["a workload", "a single pod"])
@pytest.mark.parametrize("seconds", [100, None], ids=["known when", "nobody knows when"])
def test_who_is_tried_before_the_head_after_a_restart_is_kept_off_as_before(alone, seconds, backwards):
    world = older_elsewhere(alone=alone, seconds=seconds)
    world.restart(backwards=backwards)
    world.run()
    assert not runs(world, "older")
    ends(world, "hundred")
    assert runs(world, "head")
    assert not world.replay().differences


@pytest.mark.parametrize("alone", [False, True], ids=["a workload", "a single pod"])
def test_a_restart_writes_nothing_new_of_what_is_kept(alone):
    world = older_elsewhere(alone=alone)
    world.restart()
    written = [one for one in world.run() if type(one).__name__ in ("PatchStatus", "SetPodCondition")]
    assert written == []


@pytest.mark.parametrize("alone", [False, True], ids=["a workload", "a single pod"])
def test_restarts_do_not_keep_room_for_longer_where_nobody_knows_when_it_becomes_free(alone):
    world = a_head_behind_what_never_ends(alone)
    world.until(50)
    world.restart()
    world.until(8)
    assert not runs(world, "small")
    world.until(2)
    assert runs(world, "small")


def test_of_two_heads_the_one_that_was_kept_for_first_goes_first_after_a_restart():
    world = reserved(each=4)
    world.queue("other", 8, local="others", backfill="Reserved")
    job(world, "hundred", 2, 100)
    job(world, "long", 2, 200)
    world.run()
    spec = world.objects["ClusterQueue", "", "cq"]["spec"]
    world.object("ClusterQueue", "cq", {**spec, "stopPolicy": "Hold"})
    job(world, "older", 2, 500)
    world.now += 1
    job(world, "first", 2, 50, queue="others")
    world.until(2)
    world.object("ClusterQueue", "cq", spec)
    world.run()
    before = kept(world)
    assert before == {"other": ("first", timestamp(START + 100)), "cq": ("older", timestamp(START + 200))}
    world.restart()
    world.run()
    assert kept(world) == before
    ends(world, "hundred")
    assert runs(world, "first")
    assert not runs(world, "older")


@pytest.mark.parametrize("alone", [False, True], ids=["a workload", "a single pod"])
def test_others_go_first_after_a_restart_whom_a_head_let_go_first_that_was_kept_for_in_vain(alone):
    world = a_head_behind_what_never_ends(alone)
    world.until(62)
    ends(world, "small")
    world.restart()
    job(world, "another", 2)
    world.until(2)
    assert runs(world, "another")
    ends(world, "another")
    world.until(60)
    assert list(world.engine.state.backfill_reservations.of) == ["cq"]
    job(world, "late", 2)
    world.run()
    assert not runs(world, "late")


def test_who_comes_after_a_head_that_was_kept_for_in_vain_keeps_its_promise_after_a_restart():
    world = reserved(16, nodes=2, reservationSeconds=60)
    job(world, "ever", 6)
    job(world, "hundred", 6, 1000)
    world.run()
    job(world, "head", 5, pods=2)
    job(world, "next", 7)
    world.until(62)
    before = kept(world)
    assert before["cq"][0] == "next"
    world.restart()
    world.until(2)
    assert kept(world) == before


def test_no_head_is_promised_what_victims_leave_for_somebody_else():
    """A single pod that is being deleted does not tell for whom; what it leaves is charged for him all the same."""
    world = World()
    world.hold_evictions = True
    world.flavor()
    world.queue("cq", 4, cohort="c", backfill="Reserved", preemption={"reclaimWithinCohort": "Any"})
    world.queue("guest", 2, cohort="c", local="guest")
    for number in range(3):
        world.node(f"n{number}", gpus=2)
    world.pod("ever", gpus=2, queue="queue")
    for number in range(2):
        world.pod(f"guest-{number}", gpus=2, queue="guest")
    world.run()
    world.pod("mine", gpus=2, queue="queue")
    world.run()
    assert world.reason("Pod", "mine") == "WaitingForVictims"
    world.now += 1
    world.pod("head", gpus=2, queue="queue")
    world.run()
    before = world.engine.state.backfill_reservations.of["cq"]
    world.restart()
    world.until(2)
    after = world.engine.state.backfill_reservations.of["cq"]
    assert before.workload == after.workload == ("Pod", "default", "head")
    assert before.starts_at is after.starts_at is None


def kept(world: World) -> dict[str, tuple[str, str]]:
    """For whom each queue keeps something, and when that starts as it was told."""
    of = world.engine.state.backfill_reservations.of
    return {name: (one.workload[2], one.why.details["startsAt"]) for name, one in of.items()}
