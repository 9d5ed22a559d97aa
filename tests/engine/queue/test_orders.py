"""Orders of queues: who is tried first by what, who is never starved, and that restarts and replays agree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.world import START, World

SECONDS, PROGRESS, USER = (f"scheduling.tutti.dev/{key}" for key in ("expected-seconds", "progress", "user"))


def ordering(*factors: str | tuple[str, int], **more: Any) -> dict[str, Any]:
    named = [one if isinstance(one, tuple) else (one, 1) for one in factors]
    return {"factors": [{"factor": name, "weight": weight} for name, weight in named], **more}


def world_of(
    order: dict[str, Any], *, gpus: int = 8, configuration: dict[str, Any] | None = None, **queue: Any
) -> World:
    world = World(**(configuration or {}))
    world.node("n1", gpus=gpus)
    world.flavor()
    world.queue("team", gpus=gpus, ordering=order, **queue)
    return world


def fill(world: World, gpus: int = 8) -> None:
    world.pod("first", gpus=gpus, queue="queue")
    world.run()


def pod(world: World, name: str, gpus: int = 8, **said: Any) -> None:
    keys = {"seconds": SECONDS, "progress": PROGRESS, "user": USER}
    more = {key: said.pop(key) for key in ("priority", "owner") if key in said}
    world.pod(
        name, gpus=gpus, queue="queue", annotations={keys[key]: str(value) for key, value in said.items()}, **more
    )


def ends(world: World) -> list[str]:
    """Let one after the other run and end; returns in which order they started."""
    started: list[str] = []
    while True:
        new = [
            name
            for name in world.where()
            if name not in started and world.pods["default", name].status.phase != "Succeeded"
        ]
        if not new:
            return started
        started += sorted(new)
        world.finish(*new)
        world.run()


def in_line(world: World) -> list[str]:
    return [one.key[2] for one in world.engine.state.queue_positions.heads("team", 100)]


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
@pytest.mark.parametrize(
    ("factor", "expected"),
    [("Shortest", ["b", "c", "a"]), ("Longest", ["a", "c", "b"])],
)
def test_by_expected_run_time(factor, expected, strategy):
    world = world_of(ordering(factor), queueingStrategy=strategy)
    fill(world)
    for name, seconds in (("a", 9000), ("b", 60), ("c", 600)):
        pod(world, name, seconds=seconds)
    world.run()
    assert in_line(world) == expected
    assert ends(world) == ["first", *expected]
    assert world.replay().differences == []


@pytest.mark.parametrize(("factor", "expected"), [("Smallest", ["b", "c", "a"]), ("Largest", ["a", "c", "b"])])
def test_by_size(factor, expected):
    world = world_of(ordering(factor), queueingStrategy="StrictFIFO")
    fill(world)
    for name, gpus in (("a", 7), ("b", 5), ("c", 6)):
        pod(world, name, gpus=gpus)
    world.run()
    assert ends(world) == ["first", *expected]


def test_who_has_less_of_the_queue_goes_first():
    world = world_of(ordering("Share"), configuration={"users": {"by": "Annotation"}})
    pod(world, "a0", gpus=4, user="anna")
    pod(world, "filler", gpus=4, user="fred")
    world.run()
    pod(world, "a1", gpus=4, user="anna")
    pod(world, "b1", gpus=4, user="bert")
    world.run()
    world.finish("filler")
    world.run()
    assert "b1" in world.where()
    assert "a1" not in world.where()


def test_who_has_more_waiting_goes_first_and_with_share_who_also_has_less():
    for factor, first in (("Demand", "a1"), ("DemandAndShare", "b1")):
        world = world_of(ordering(factor), configuration={"users": {"by": "Annotation"}})
        pod(world, "a0", gpus=4, user="anna")
        pod(world, "filler", gpus=4, user="fred")
        world.run()
        for number in range(1, 5):
            pod(world, f"a{number}", gpus=1, user="anna")
        for number in range(1, 4):
            pod(world, f"b{number}", gpus=1, user="bert")
        world.run()
        assert in_line(world)[0] == first


def test_who_still_makes_progress_goes_before_who_has_converged():
    world = world_of(ordering("Progress"), queueingStrategy="StrictFIFO")
    fill(world)
    pod(world, "converged", progress=0.01)
    pod(world, "progressing", progress=0.8)
    pod(world, "new")
    pod(world, "odd", progress="NaN")
    world.run()
    assert ends(world) == ["first", "new", "odd", "progressing", "converged"]


def test_a_higher_priority_goes_first_unless_the_order_is_that_of_all():
    for among, expected in (("Priority", ["urgent", "short"]), ("All", ["short", "urgent"])):
        world = world_of(ordering("Shortest", among=among), queueingStrategy="StrictFIFO")
        fill(world)
        pod(world, "urgent", seconds=9000, priority=10)
        pod(world, "short", seconds=60)
        world.run()
        assert ends(world) == ["first", *expected]


def test_by_response_ratio_the_order_turns_round_while_they_wait():
    world = world_of(ordering("ResponseRatio"), queueingStrategy="StrictFIFO")
    fill(world)
    pod(world, "long", seconds=10_000)
    world.run()
    world.now += 1000
    pod(world, "short", seconds=500)
    world.run()
    assert in_line(world) == ["long", "short"]
    world.until(120)  # (1120 + 10000) / 10000 = 1.11, (120 + 500) / 500 = 1.24
    assert in_line(world) == ["short", "long"]
    assert world.reason("Pod", "long") == "BehindHead"
    assert ends(world) == ["first", "short", "long"]


def test_who_has_waited_for_long_enough_is_the_head_at_that_moment_and_others_come_behind():
    order = ordering("Shortest", maxWaitSeconds=1000)
    world = world_of(order, backfill="Reserved", defaultMaximumExecutionTimeSeconds=100_000)
    fill(world)
    pod(world, "long", seconds=9000)
    world.run()
    for number in range(3):
        pod(world, f"s{number}", seconds=60 + number)
    world.run()
    assert in_line(world)[-1] == "long"
    due = world.engine.wakeup()
    assert due is not None
    world.until(1000)
    assert in_line(world)[0] == "long"
    assert world.engine.state.backfill_reservations.of["team"].workload == ("Pod", "default", "long")
    assert ends(world)[:2] == ["first", "long"]


def test_of_equals_the_older_goes_first_and_then_the_name_decides():
    world = world_of(ordering("Shortest", "Age"), queueingStrategy="StrictFIFO")
    fill(world)
    pod(world, "z", seconds=60)
    world.now += 1
    pod(world, "b", seconds=60)
    pod(world, "a", seconds=60)
    world.run()
    assert ends(world) == ["first", "z", "a", "b"]


def test_run_times_are_learned_by_kind_kept_in_the_status_and_known_after_a_restart():
    world = world_of(ordering("Shortest"), queueingStrategy="StrictFIFO")
    for number, seconds in enumerate((100, 120, 110)):
        for kind, factor in (("quick", 1), ("slow", 50)):
            name = f"{kind}-{number}"
            pod(world, name)
            world.run()
            world.now += seconds * factor
            world.finish(name)
            world.run()
    told = {one["of"]: one["seconds"] for one in world.status("LocalQueue", "queue")["runTimes"]}
    assert told["quick up to 1"] == [100, 120, 110]
    assert told["slow up to 1"] == [5000, 6000, 5500]
    for again in (False, True):
        if again:
            world.restart()
        fill(world) if not again else world.run()
        if not again:
            pod(world, "slow-9")
            pod(world, "quick-9")
            pod(world, "liar-slow-9")
        world.run()
        facts = world.engine.state.run_times["default/queue"]
        assert facts.expected("quick up to 1").seconds == 110
        assert facts.expected("quick up to 1").error == 10
        assert in_line(world)[0] == "quick-9"
    pod(world, "slow-10", seconds=1)
    world.run()
    assert in_line(world)[0] == "quick-9"  # it says a second, and a quarter of its kind ran for 5000
    assert world.replay().differences == []


def test_positions_that_are_told_are_those_of_the_order():
    world = world_of(ordering("Shortest"), queueingStrategy="StrictFIFO")
    fill(world)
    for name, seconds in (("a", 900), ("b", 60), ("c", 600)):
        world.workload(name, {"name": "main", "count": 1}, queueName="queue")
        world.pod(f"{name}-0", workload=name, gpus=8, annotations={SECONDS: str(seconds)})
    world.until(60)
    assert {name: world.status("Workload", name)["pending"]["position"] for name in "abc"} == {"a": 3, "b": 1, "c": 2}


def test_an_order_that_is_written_anew_counts_at_once():
    world = world_of(ordering("Shortest"), queueingStrategy="StrictFIFO")
    fill(world)
    for name, seconds in (("a", 900), ("b", 60)):
        pod(world, name, seconds=seconds)
    world.run()
    spec = world.objects["ClusterQueue", "", "team"]["spec"]
    world.object("ClusterQueue", "team", {**spec, "ordering": ordering("Longest")})
    world.run()
    assert in_line(world) == ["a", "b"]
    del spec["ordering"]
    world.object("ClusterQueue", "team", spec)
    world.run()
    assert ends(world) == ["first", "a", "b"]


_jobs = st.lists(
    st.tuples(st.integers(1, 8), st.integers(1, 5000), st.sampled_from(["anna", "bert", "cleo"]), st.integers(0, 2)),
    min_size=2,
    max_size=8,
)
_mixes = st.dictionaries(
    st.sampled_from(
        ["Age", "Largest", "Smallest", "Share", "Longest", "Shortest", "ResponseRatio", "Demand", "Progress"]
    ),
    st.integers(1, 1000),
    min_size=1,
    max_size=4,
)


@settings(max_examples=30)
@given(_jobs, _mixes, st.permutations(range(8)))
def test_who_is_next_depends_neither_on_who_was_seen_first_nor_on_a_restart(jobs, mix, order):
    lines, runs = [], []
    users = {"users": {"by": "Annotation"}}
    for arrival in (range(len(jobs)), [one for one in order if one < len(jobs)]):
        world = world_of(ordering(*mix.items()), configuration=users, queueingStrategy="StrictFIFO")
        fill(world)
        for number in arrival:
            gpus, seconds, user, priority = jobs[number]
            pod(world, f"j{number}", gpus=gpus, seconds=seconds, user=user, priority=priority)
        world.run()
        lines.append(in_line(world))
        world.restart(backwards=True)
        world.run()
        lines.append(in_line(world))
        runs.append(ends(world))
        assert world.replay().differences == []
    assert lines[0] == lines[1] == lines[2] == lines[3]
    assert runs[0] == runs[1]


@settings(max_examples=6)
@given(st.lists(st.integers(10, 40), min_size=4, max_size=8), st.integers(60, 150))
def test_no_stream_of_short_work_starves_what_is_long_beyond_the_bound(short, bound):
    """One GPU: whoever is overdue waits for what runs, and for those that are overdue before it."""
    world = world_of(ordering("Shortest", maxWaitSeconds=bound), gpus=1, backfill="Reserved")
    fill(world, gpus=1)
    pod(world, "long", gpus=1, seconds=100_000)
    started, ends_at, number = None, world.now + 10, 0
    while started is None and world.now < START + 10 * bound:
        for _ in range(2):  # always more short ones than can run
            pod(world, f"s{number}", gpus=1, seconds=short[number % len(short)])
            number += 1
        world.run()
        world.until(ends_at - world.now)
        running = [name for name in world.where() if world.pods["default", name].status.phase != "Succeeded"]
        world.finish(*running)
        world.run()
        running = [name for name in world.where() if world.pods["default", name].status.phase != "Succeeded"]
        if running == ["long"]:
            started = world.now
        else:
            ends_at = world.now + short[int(running[0][1:]) % len(short)]
    assert started is not None
    assert started - START <= bound + max(short)
