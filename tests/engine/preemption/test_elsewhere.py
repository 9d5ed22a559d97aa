"""Whoever waits for victims does not wait for them when room has come up elsewhere, and spares those it can."""

from __future__ import annotations

import pytest

from tests.engine.world import World
from tutti.engine.preemption.nominations import REFIT_SECONDS
from tutti.engine.records.decisions import Evict

RANK = {"withinClusterQueue": "LowerPriority"}


def waiting(strategy: str = "BestEffortFIFO", *, refused: bool = False, low: int = 4) -> World:
    """A more important gang of 2 pods of 2 GPUs waits for a lesser one on the only node."""
    world = World(victims_timeout_seconds=10_000)
    world.flavor()
    world.queue("cq", 2 * low, preemption=RANK, queueingStrategy=strategy)
    world.node("n0", gpus=low)
    world.gang("low", low, queue="queue")
    world.run()
    world.now += 1.0
    world.hold_evictions, world.refuse_evictions = True, refused
    world.gang("high", 2, gpus=2, queue="queue", priority=10)
    world.run()
    assert len(evicted(world)) == low
    assert world.reason("PodGroup", "high") == "WaitingForVictims"
    return world


def evicted(world: World) -> list[str]:
    return [one.name for one in world.log if isinstance(one, Evict)]


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_who_waits_for_slow_victims_starts_where_room_has_come_up(strategy):
    world = waiting(strategy)
    world.node("n1", gpus=4)
    world.run()
    assert world.where("high") == {"high-0": "n1", "high-1": "n1"}
    assert len(evicted(world)) == 4
    assert world.engine.state.nominations.ours == {}
    world.delete(*(f"low-{rank}" for rank in range(4)))
    world.run()
    assert world.used("cq") == 4


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_who_waits_for_slow_victims_starts_when_its_queue_is_given_more_quota(strategy):
    world = World(victims_timeout_seconds=10_000)
    world.flavor()
    spec = {"preemption": RANK, "queueingStrategy": strategy}
    world.queue("cq", 4, **spec)
    world.node("n0", gpus=8)
    world.gang("low", 4, queue="queue")
    world.run()
    world.hold_evictions = True
    world.pod("high", queue="queue", priority=10)
    world.run()
    assert world.reason("Pod", "high") == "WaitingForVictims"
    world.queue("cq", 5, **spec)
    world.until(REFIT_SECONDS)
    assert "high" in world.where()


def test_what_victims_have_left_counts_together_with_what_has_come_up():
    world = waiting()
    world.delete("low-0", "low-1")
    world.run()
    assert world.where("high") == {}
    world.node("n1", gpus=2)
    world.until(REFIT_SECONDS)
    assert sorted(world.where("high").values()) == ["n0", "n1"]


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_nothing_is_tried_where_there_is_not_room_enough(strategy):
    world = waiting(strategy)
    tried = world.engine.evaluated
    world.node("n1", gpus=3)
    world.run()
    world.delete("low-0")
    world.run()
    assert world.engine.evaluated == tried
    assert world.reason("PodGroup", "high") == "WaitingForVictims"


def test_however_often_room_comes_up_it_is_looked_at_once_in_a_while():
    world = waiting()
    world.node("n1", gpus=3)
    world.run()
    tried = world.engine.evaluated
    for number in range(2, 12):  # each has room enough, and takes no pods
        world.node(f"n{number}", gpus=4, cordoned=True)
        world.run()
        world.now += 0.01
    world.until(REFIT_SECONDS)
    assert world.engine.evaluated <= tried + 2
    world.node("n2", gpus=4)
    world.until(REFIT_SECONDS)
    assert len(world.where("high")) == 2


def test_room_that_does_not_help_for_other_reasons_changes_nothing():
    world = waiting()
    world.node("n1", gpus=4, labels={"kind": "x"}, cordoned=True)
    world.run()
    assert world.where("high") == {}
    assert world.reason("PodGroup", "high") == "WaitingForVictims"
    assert world.used("cq") == 4  # what the victims use is handed over: it is counted once
    world.delete(*(f"low-{rank}" for rank in range(4)))
    world.run()
    assert sorted(world.where("high").values()) == ["n0", "n0"]
    assert len(evicted(world)) == 4


@pytest.mark.parametrize("cordoned", [True, False])
def test_a_gang_that_is_to_be_whole_again_does_not_wait_either(cordoned):
    world = World(victims_timeout_seconds=10_000)
    world.hold_evictions = True
    world.node("n0", gpus=3)
    world.gang("g", 2, priority=10)
    world.run()
    world.delete("g-0")
    for name in ("low-0", "low-1"):
        world.pod(name, scheduler="another", node="n0")  # which keeps nothing for anybody
    world.run()
    world.pod("g-2", group="g", priority=10)
    world.run()
    (victim,) = evicted(world)
    (until,) = [one.until for one in world.engine.state.nominations.ours.values()]
    world.now += 10
    world.node("n1", gpus=4, cordoned=cordoned)
    world.until(2 * REFIT_SECONDS)
    assert evicted(world) == [victim]
    left = [one.until for one in world.engine.state.nominations.ours.values()]
    assert left == ([until] if cordoned else [])  # it was not made anew
    assert world.where("g-2") == ({} if cordoned else {"g-2": "n1"})
    assert world.reason("PodGroup", "g") == ("WaitingForVictims" if cordoned else "")


def test_quota_of_victims_is_not_to_be_had_before_they_are_gone():
    world = waiting()
    world.object("ClusterQueue", "cq", {**world.objects["ClusterQueue", "", "cq"]["spec"]})
    world.queue("cq", 4, preemption=RANK)
    world.node("n1", gpus=4)
    world.run()
    assert world.where("high") == {}
    world.delete("low-0", "low-1", "low-2", "low-3")
    world.run()
    assert len(world.where("high")) == 2


def test_victims_whose_eviction_was_refused_run_on_when_nobody_needs_them_to_leave():
    world = waiting(refused=True)
    world.node("n1", gpus=4)
    world.run()
    assert set(world.where("high").values()) == {"n1"}
    asked = len(evicted(world))
    world.refuse_evictions = False
    world.until(600.0)
    assert len(evicted(world)) == asked
    assert set(world.where("low")) == {f"low-{rank}" for rank in range(4)}
    assert world.status("PodGroup", "low")["phase"] == "Scheduled"
    assert world.used("cq") == 8
    assert world.events("Spared", "low")


def test_victims_whose_eviction_was_refused_run_on_when_the_preemptor_goes_away():
    world = waiting(refused=True)
    world.delete("high-0", "high-1")
    world.refuse_evictions = False
    world.until(600.0)
    assert len(world.where("low")) == 4


def test_victims_of_which_one_was_asked_leave_as_a_whole():
    world = waiting(refused=True)
    world.begin_deleting("low-1")
    world.node("n1", gpus=4)
    world.run()
    assert len(world.where("high")) == 2
    world.refuse_evictions = False
    world.until(600.0)
    assert set(evicted(world)[4:]) >= {"low-0", "low-2", "low-3"}


def test_victims_that_another_waits_for_are_not_spared():
    world = waiting(refused=True, low=8)
    world.gang("second", 2, gpus=2, queue="queue", priority=5)
    world.run()
    assert world.reason("PodGroup", "second") == "WaitingForVictims"
    world.node("n1", gpus=4)
    world.run()
    started = "high" if world.where("high") else "second"
    other = {"high": "second", "second": "high"}[started]
    world.refuse_evictions = False
    world.hold_evictions = False
    world.until(600.0)
    assert len(world.where(started)) == len(world.where(other)) == 2
    assert world.where("low") == {}


@pytest.mark.parametrize("quota", [3, "none", "held"])
def test_who_cannot_have_its_quota_any_more_waits_for_no_victims(quota: int | str):
    """It used to have them leave until the time for victims was over, and started nowhere."""
    world = waiting(refused=True)
    spec = {"preemption": RANK, "stopPolicy": "Hold" if quota == "held" else "None"}
    if quota == "none":
        world.remove_object("ClusterQueue", "cq")
    else:
        world.queue("cq", 8 if quota == "held" else quota, **spec)
    world.run()
    assert world.engine.state.nominations.ours == {}
    asked = len(evicted(world))
    world.refuse_evictions = False
    world.until(600.0)
    assert len(evicted(world)) == asked
    assert len(world.where("low")) == 4
    assert world.where("high") == {}
    world.hold_evictions = False
    world.queue("cq", 8, preemption=RANK)
    world.run()
    assert len(world.where("high")) == 2
