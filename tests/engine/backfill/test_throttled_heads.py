"""Heads that wait for a throttle: when they start by the clock and by known ends, and what is kept for them until then."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.engine.admission.test_throttling import at, throttle
from tests.engine.backfill.heads import ends, job, runs
from tests.engine.world import START, World
from tests.quota.trees import unhurried
from tutti.api.conditions import timestamp

LABELS = {"app": "x"}


def world_of(gpus: int = 8, nodes: int = 1, mode: str = "Reserved", **spec: Any) -> World:
    """A queue that keeps room for its head, nodes of 8 GPUs, and throttles switched on."""
    world = World(throttles={"name": "kube-throttler"})
    world.flavor()
    world.queue("cq", gpus, local="queue", backfill=mode, **spec)
    for number in range(nodes):
        world.node(f"n{number}", gpus=8)
    return world


def override(begin: float, end: float, pods: int) -> dict[str, Any]:
    return {"begin": at(begin), "end": at(end), "threshold": {"resourceCounts": {"pod": pods}}}


def throttled(world: World, name: str, gpus: int, seconds: int | None = None, **more: Any) -> None:
    job(world, name, gpus, seconds, labels=LABELS, **more)


def starts_at(world: World) -> float | None:
    """When the head of the queue starts by what is kept for it, in seconds from the beginning."""
    kept = world.engine.state.backfill_reservations.of["cq"].starts_at
    return None if kept is None else round(kept - START, 1)


def opens_at_600() -> World:
    """A throttle lets nobody start until 600 s; the head wants 6 of 8 GPUs of the only node, and may start then."""
    world = world_of()
    world.throttle("Throttle", throttle(pods=0, overrides=[override(600, 9000, 1)]))
    throttled(world, "head", 6)
    world.run()
    assert not runs(world, "head")
    return world


@pytest.mark.parametrize(
    ("gpus", "seconds", "goes"),
    [(8, 540, True), (8, 610, False), (8, None, False), (2, None, True), (2, 1000, True)],
    ids=["ends in time", "ends too late", "ends nobody knows when", "fits beside", "beside, late"],
)
def test_room_is_kept_for_a_head_until_an_override_begins(gpus, seconds, goes):
    world = opens_at_600()
    job(world, "other", gpus, seconds)
    world.run()
    assert runs(world, "other") == goes
    world.until(601)
    if goes and seconds is not None and gpus == 8:
        ends(world, "other")
    assert runs(world, "head")


def test_it_is_told_when_it_starts_and_those_behind_whom_they_would_delay():
    world = opens_at_600()
    job(world, "other", 8)
    world.run()
    why = world.why("Workload", "head")
    assert (why.gate, why.reason, why.details["startsAt"]) == ("Throttle", "Throttled", timestamp(START + 600))
    assert why.message.endswith(f"it starts at {timestamp(START + 600)} at the latest, on node n0 kept for it")
    world.until(120)  # positions are told anew every now and then
    assert world.status("Workload", "head")["pending"]["estimatedStart"] == at(600)
    behind = world.why("Workload", "other")
    assert (behind.reason, behind.details["startsAt"]) == ("WouldDelay", timestamp(START + 600))


def test_a_head_for_nodes_that_a_throttle_will_not_let_start_then_is_promised_a_later_time():
    world = world_of()
    world.throttle("Throttle", throttle(pods=1, overrides=[override(50, 200, 0)]))
    job(world, "first", 8, 100)
    world.run()
    throttled(world, "head", 8)
    world.run()
    assert starts_at(world) == 200
    job(world, "small", 8, 90)
    world.until(101)
    assert runs(world, "small")  # from 100 s on there is time for it
    world.until(90)
    assert not runs(world, "head")
    world.until(10)
    assert runs(world, "head")


def test_what_ends_for_a_throttle_at_a_known_time_is_waited_for():
    world = world_of()
    world.throttle("Throttle", throttle(pods=2))
    throttled(world, "hundred", 1, 100)
    throttled(world, "fifty", 1, 50)
    world.run()
    throttled(world, "head", 1, pods=2)
    world.run()
    assert starts_at(world) == 100
    throttled(world, "late", 1, 80)
    throttled(world, "short", 1, 30)
    world.until(51)
    assert [runs(world, name) for name in ("late", "short", "head")] == [False, True, False]
    assert world.reason("Workload", "late") == "WouldDelay"
    world.until(50)
    assert runs(world, "head")


@pytest.mark.parametrize(("pods", "goes"), [(2, False), (3, True)])
def test_of_a_threshold_to_come_others_may_have_what_the_head_will_not_need(pods, goes):
    """Now one may start; from 600 s on `pods`, of which the head needs two: one more stays beside it, if there is any."""
    world = world_of()
    world.throttle("Throttle", throttle(pods=1, overrides=[override(600, 9000, pods)]))
    throttled(world, "head", 1, pods=2)
    throttled(world, "other", 1)
    world.run()
    assert runs(world, "other") == goes
    world.until(601)
    assert runs(world, "head")


def test_a_throttle_is_kept_from_nobody_whom_it_is_not_about():
    world = world_of()
    world.throttle("Throttle", throttle(pods=0, overrides=[override(600, 9000, 2)]))
    throttled(world, "head", 1, pods=2)
    job(world, "other", 6)
    world.run()
    assert runs(world, "other")


def test_a_stream_through_a_throttle_does_not_starve_a_gang_whose_start_nobody_knows():
    world = world_of(reservationSeconds=500)
    world.throttle("Throttle", throttle(pods=2))
    for name in ("a", "b"):
        throttled(world, name, 1)
    world.run()
    throttled(world, "head", 1, pods=2)
    world.until(1)
    throttled(world, "c", 1)
    job(world, "whole", 6)  # room is not kept for what only a throttle keeps from starting
    world.run()
    assert starts_at(world) is None
    assert runs(world, "whole")
    assert "what throttles come to allow is kept for it until" in world.why("Workload", "head").message
    ends(world, "a")
    assert not runs(world, "c")
    ends(world, "b")
    assert runs(world, "head")


def test_nothing_is_kept_for_a_head_that_no_threshold_to_come_lets_start_and_the_next_is_kept_for():
    world = world_of()
    world.throttle("Throttle", throttle(pods=0))
    throttled(world, "never", 1)
    job(world, "first", 4, 100)
    world.run()
    job(world, "head", 8)
    job(world, "small", 4, 500)
    world.run()
    kept = world.engine.state.backfill_reservations.of["cq"]
    assert kept.workload[2] == "head"
    assert not runs(world, "small")


def test_a_threshold_that_is_raised_by_hand_has_the_head_start_at_once():
    world = opens_at_600()
    job(world, "other", 1, 10_000)
    world.run()
    world.throttle("Throttle", throttle(pods=1))
    world.run()
    assert runs(world, "head")
    assert not world.engine.state.backfill_reservations.of


def test_a_restarted_operator_promises_the_same():
    world = opens_at_600()
    job(world, "other", 8)
    world.run()
    world.until(100)
    world.restart()
    world.run()
    assert starts_at(world) == 600
    assert not runs(world, "other")
    assert not world.replay().differences


def test_the_estimates_of_those_in_line_count_those_before_them_and_known_ends():
    world = world_of(mode="BestEffort")
    world.throttle("Throttle", throttle(pods=2, overrides=[override(1000, 2000, 0)]))
    throttled(world, "running", 1, 300, pods=2)
    world.run()
    for name, seconds in (("a", 400), ("b", 10), ("c", None)):
        throttled(world, name, 1, seconds, pods=2)
    world.until(120)
    said = [world.status("Workload", name)["pending"].get("estimatedStart") for name in "abc"]
    assert said == [at(300), at(700), at(710)]


@unhurried
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(10, 300)), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 500), st.integers(1, 300), st.integers(0, 8)), max_size=3),
    st.integers(1, 4),
    st.integers(1, 3),
    st.lists(
        st.tuples(st.integers(1, 3), st.none() | st.integers(1, 400), st.integers(1, 30), st.booleans()), max_size=10
    ),
)
def test_a_throttled_head_starts_no_later_than_it_was_first_told(running, overrides, usual, pods, stream):
    world = world_of(gpus=1000, nodes=2)
    spans = [override(begin, begin + length, most) for begin, length, most in overrides]
    world.throttle("Throttle", throttle(pods=usual, overrides=spans))
    for number, (gpus, seconds) in enumerate(running):
        throttled(world, f"r{number}", gpus, seconds)
        world.run()
    throttled(world, "head", 3, pods=pods)
    world.run()
    assume(not runs(world, "head"))
    kept = world.engine.state.backfill_reservations.of.get("cq")
    assume(kept is not None and kept.workload[2] == "head" and kept.starts_at is not None)
    promised = kept.starts_at
    for number, (gpus, seconds, pause, is_about) in enumerate(stream):
        (throttled if is_about else job)(world, f"s{number}", gpus, seconds)
        world.until(pause)
    world.until(max(0.0, promised - world.now) + 0.01)
    assert runs(world, "head")
    assert not world.replay().differences
