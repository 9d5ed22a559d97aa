"""The quota of those whose victims are leaving is theirs after a restart as it was before."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.world import World

BOTH_WAYS = pytest.mark.parametrize("backwards", [False, True], ids=["in order", "backwards"])
TAKES_BACK = {"preemption": {"reclaimWithinCohort": "Any"}}


def lent(*, spare: int = 0, **more: Any) -> World:
    """All that is a queue's own is lent to another one, whose pods are as important, on nodes with `spare` room."""
    world = World(**more)
    world.hold_evictions = True
    world.flavor()
    world.queue("own", 2, cohort="c", local="own", **TAKES_BACK)
    world.queue("guest", 2, cohort="c", local="guest")
    world.node("n0", gpus=4 + spare)
    for number in range(4):
        world.pod(f"guest-{number}", queue="guest")
    world.run()
    assert world.used("guest") == 4
    return world


def leaving(world: World) -> list[str]:
    return sorted(name for (_, name), pod in world.pods.items() if pod.metadata.deletion_timestamp is not None)


def used(world: World) -> tuple[int, int]:
    return world.used("own"), world.used("guest")


@BOTH_WAYS
@pytest.mark.parametrize("spare", [0, 4], ids=["no room", "room beside"])
@pytest.mark.parametrize("kind", ["a pod", "a gang"])
def test_quota_that_victims_leave_is_charged_for_whom_they_leave(kind, spare, backwards):
    world = lent(spare=spare)
    if kind == "a pod":
        world.pod("mine", gpus=2, queue="own")
    else:
        world.pod_group("mine", 2, queueName="own")
        world.pod("mine-0", group="mine")
        world.pod("mine-1", group="mine")
    world.run()
    victims = leaving(world)
    assert len(victims) == 2
    assert used(world) == (2, 2)
    world.restart(backwards=backwards)
    world.pod("guest-more", queue="guest")
    world.run()
    assert leaving(world) == victims
    assert used(world) == (2, 2)
    world.delete(*victims)
    world.run()
    assert world.where("mine")
    assert not world.where("guest-more")
    assert used(world) == (2, 2)
    assert not world.replay().differences


@BOTH_WAYS
def test_who_takes_back_quota_before_its_checks_holds_it_again(backwards):
    world = lent()
    world.admission_check("budget")
    spec = world.objects["ClusterQueue", "", "own"]["spec"]
    checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]}}
    world.object("ClusterQueue", "own", {**spec, **checks})
    world.workload("mine", {"count": 2}, queueName="own")
    world.pod("mine-0", workload="mine")
    world.pod("mine-1", workload="mine")
    world.run()
    victims = leaving(world)
    assert len(victims) == 2
    world.restart(backwards=backwards)
    world.pod("guest-more", queue="guest")
    world.run()
    assert used(world) == (2, 2)
    assert leaving(world) == victims
    world.delete(*victims)
    world.run()
    assert not world.where("guest-more")
    assert world.why("Workload", "mine").gate == "Checks"
    assert used(world) == (2, 2)


def borrowing(*, spare: int = 8) -> World:
    """One that borrows waits for a victim, and an older one that would borrow as well has come too late."""
    world = World()
    world.hold_evictions = True
    world.flavor()
    policy = {"borrowWithinCohort": {"policy": "LowerPriority"}, "reclaimWithinCohort": "LowerPriority"}
    world.queue("own", 1, cohort="c", local="own", preemption=policy)
    world.queue("guest", 2, cohort="c", local="guest")
    world.queue("idle", 1, cohort="c", local="idle")
    world.queue("third", 0, cohort="c", local="third", stopPolicy="Hold")
    world.node("n0", gpus=3 + spare)
    for number in range(3):
        world.pod(f"guest-{number}", queue="guest")
    world.run()
    world.pod("older", queue="third", priority=5)
    world.now += 1
    world.pod("mine", gpus=2, queue="own", priority=5)
    world.run()
    assert len(leaving(world)) == 1
    third = world.objects["ClusterQueue", "", "third"]["spec"]
    world.object("ClusterQueue", "third", {**third, "stopPolicy": "None"})
    world.run()
    assert (used(world), world.where("older")) == ((2, 2), {})
    return world


@BOTH_WAYS
def test_quota_that_was_free_beside_what_victims_leave_is_not_given_to_who_is_tried_first(backwards):
    world = borrowing()
    victims = leaving(world)
    world.restart(backwards=backwards)
    world.run()
    assert not world.where("older")
    assert used(world) == (2, 2)
    assert leaving(world) == victims


@BOTH_WAYS
def test_who_comes_back_to_find_all_victims_gone_has_what_they_have_left(backwards):
    world = borrowing()
    world.delete(*leaving(world))
    world.restart(backwards=backwards)
    world.run()
    assert world.where("mine")
    assert not world.where("older")
    assert not leaving(world)


def equal(*, leave: bool) -> World:
    """One that takes back its own waits for room of pods as important as it; another one is older, and was stopped."""
    world = lent()
    world.queue("third", 4, local="third", stopPolicy="Hold")
    world.pod("older", queue="third")
    world.now += 1
    world.pod("mine", gpus=2, queue="own")
    world.run()
    world.object("ClusterQueue", "third", {**world.objects["ClusterQueue", "", "third"]["spec"], "stopPolicy": "None"})
    if leave:
        world.delete(*leaving(world))
    return world


@BOTH_WAYS
@pytest.mark.parametrize("leave", [False, True], ids=["victims there", "victims gone"])
def test_room_that_pods_of_the_same_priority_leave_is_kept_from_who_is_tried_first(leave, backwards):
    world = equal(leave=leave)
    world.restart(backwards=backwards)
    world.run()
    world.delete(*leaving(world))
    world.run()
    assert world.where("mine")
    assert not world.where("older")


@BOTH_WAYS
def test_who_waits_for_victims_behind_a_head_is_told_of_the_head_and_has_its_room_and_quota_again(backwards):
    world = World()
    world.hold_evictions = True
    world.flavor()
    world.queue("own", 3, cohort="c", local="own", queueingStrategy="StrictFIFO", **TAKES_BACK)
    world.queue("guest", 2, cohort="c", local="guest")
    world.node("n0", gpus=5)
    for number in range(5):
        world.pod(f"guest-{number}", queue="guest")
    world.run()
    world.pod("mine", gpus=2, queue="own")
    world.run()
    world.pod("head", queue="own", priority=5)
    world.run()
    assert world.reason("Pod", "mine") == "BehindHead"
    before = held(world)
    assert sorted(before) == ["head", "mine"]
    world.restart(backwards=backwards)
    world.run()
    assert held(world) == before
    assert used(world) == (3, 2)


def held(world: World) -> dict[str, list[str]]:
    """For whom room is held, on which nodes."""
    return {key[2]: found.nodes for key, found in world.engine.state.nominations.ours.items()}


def test_what_is_held_is_held_no_longer_after_a_restart():
    world = lent(victims_timeout_seconds=60)
    world.pod("mine", gpus=2, queue="own")
    world.until(50)
    until = world.engine.state.nominations.ours["Pod", "default", "mine"].until
    world.restart()
    world.run()
    assert int(world.engine.state.nominations.ours["Pod", "default", "mine"].until) == int(until)
