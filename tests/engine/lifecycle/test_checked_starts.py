"""Jobs that wait suspended in a queue with admission checks: quota is held first, and the start comes after the answers."""

from __future__ import annotations

import copy

import pytest

from tests.engine.held_owners import HeldWorld
from tests.engine.train_world import TrainWorld, nodes
from tutti.engine.records.decisions import StartOwner, SuspendOwner
from tutti.engine.records.workloads import Phase

LABELS = {"pool": "a"}
CHECKS = {"admissionChecks": [{"name": "budget"}]}


def a_world(kind=HeldWorld, *, quota=100, gpus=4):
    world = kind()
    world.flavor(nodeLabels=LABELS)
    world.admission_check("budget")
    world.queue(
        "team",
        quota,
        manage="Suspend",
        admissionChecksStrategy=CHECKS,
        preemption={"withinClusterQueue": "LowerPriority"},
    )
    world.node("n0", gpus=gpus, labels=LABELS)
    return world


def only(world):
    (found,) = [one for one in world.engine.state.workloads.values() if one.managed is not None]
    return found


def answer(world, state, **more):
    world.answer_check("budget", state, "PodGroup", only(world).key[2], **more)


def asked(world, kind):
    return [one for one in world.log if isinstance(one, kind)]


def test_it_holds_quota_suspended_until_the_check_is_ready_and_is_started_then():
    world = a_world()
    uid = world.job("train", 4)
    world.run()

    assert only(world).phase is Phase.CHECKING
    assert world.used("team") == 4
    assert world.waits(uid)
    assert only(world).explanation.reason == "ChecksPending"
    answer(world, "Ready")
    world.run()

    assert len(world.placed(uid)) == 4
    assert world.used("team") == 4
    assert len(asked(world, StartOwner)) == 1
    assert world.replay().differences == []


def test_a_trainjob_as_well():
    world = a_world(TrainWorld)
    world.runtime(nodes(4))
    uid = world.train_job("train")
    world.run()
    assert world.used("team") == 4
    assert world.waits(uid)
    answer(world, "Ready")
    world.run()
    assert len(world.placed(uid)) == 4


def test_the_quota_that_is_held_is_nobody_elses():
    world = a_world(quota=4)
    first, second = world.job("first", 4), world.job("second", 1)
    world.run()

    assert world.used("team") == 4
    assert world.waits(first)
    assert world.waits(second)
    assert not asked(world, StartOwner)


def test_retry_gives_the_quota_back_and_it_stays_as_its_user_wrote_it():
    world = a_world()
    uid = world.job("train", 4)
    before = copy.deepcopy(world.spec(uid))
    world.run()
    answer(world, "Retry", requeueAfterSeconds=60)
    world.run()
    assert world.used("team") == 0
    assert world.spec(uid) == before

    world.until(120)
    assert world.used("team") == 4  # a new round
    answer(world, "Ready")
    world.run()
    assert len(world.placed(uid)) == 4


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
def test_a_check_that_changes_its_mind_has_what_runs_suspended(state):
    world = a_world()
    uid = world.job("train", 4)
    before = copy.deepcopy(world.spec(uid))
    world.run()
    answer(world, "Ready")
    world.run()
    assert len(world.placed(uid)) == 4
    answer(world, state)
    world.run()

    assert asked(world, SuspendOwner)
    assert world.spec(uid) == before
    assert not world.placed(uid)


def test_one_that_is_drained_is_checked_anew_before_it_is_started_again():
    world = a_world()
    uid = world.job("train", 4)
    before = copy.deepcopy(world.spec(uid))
    world.run()
    answer(world, "Ready")
    world.run()
    checks = {"manage": "Suspend", "admissionChecksStrategy": CHECKS}
    world.queue("team", 100, stopPolicy="HoldAndDrain", **checks)
    world.run()
    assert world.spec(uid) == before
    assert world.used("team") == 0

    world.queue("team", 100, **checks)
    world.until(60)
    assert world.used("team") == 4
    assert world.waits(uid)  # the answer of the first round is not one of this
    assert len(asked(world, StartOwner)) == 1
    answer(world, "Ready")
    world.until(60)
    assert len(world.placed(uid)) == 4


def test_while_there_are_no_nodes_quota_is_kept_for_a_bounded_time_and_nothing_is_started():
    world = a_world(gpus=3)
    uid = world.job("train", 4)
    world.run()
    answer(world, "Ready")
    world.run()

    assert world.waits(uid)
    assert world.used("team") == 4
    assert only(world).explanation.reason == "Unschedulable"
    world.node("n1", gpus=1, labels=LABELS)
    world.run()
    assert len(world.placed(uid)) == 4


@pytest.mark.parametrize("ready", [False, True])
def test_a_restart_holds_the_same_quota_and_starts_nothing_twice(ready):
    world = a_world()
    uid = world.job("train", 4)
    world.run()
    if ready:
        answer(world, "Ready")
    world.restart()
    world.run()
    assert world.used("team") == 4
    assert world.waits(uid) is not ready
    if not ready:
        answer(world, "Ready")
        world.run()
    assert len(world.placed(uid)) == 4
    assert len(asked(world, StartOwner)) == 1


def test_one_that_is_deleted_while_checks_are_asked_leaves_nothing_behind():
    world = a_world()
    uid = world.job("train", 4)
    world.run()
    world.remove(uid)
    world.run()
    assert world.used("team") == 0
    assert not world.engine.state.workloads


def test_a_user_who_asks_for_more_while_checks_are_asked_is_asked_about_anew():
    world = a_world(gpus=8)
    uid = world.job("train", 4)
    world.run()
    world.change(uid, parallelism=6, completions=6)
    world.until(30)
    assert world.waits(uid)
    assert world.used("team") in (0, 6)
    answer(world, "Ready")
    world.until(30)
    answer(world, "Ready")
    world.until(30)
    assert len(world.placed(uid)) == 6
    assert world.used("team") == 6
