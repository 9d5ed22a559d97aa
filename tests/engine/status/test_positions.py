"""Positions and expected starts: right in the end, and never told in a storm."""

from __future__ import annotations

import bisect
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.world import START, World
from tutti.api.kinds import KINDS
from tutti.engine.records.decisions import PatchStatus
from tutti.engine.records.queue_positions import QueuePositions
from tutti.engine.records.workloads import Workload
from tutti.engine.status.reporting import LOOK_SECONDS, MOST_WRITES


def waiting(number: int, *, quota: int = 1, **spec) -> World:
    """A queue of so much quota, that `w0` uses, and so many Workloads that wait for it, the oldest first."""
    world = World()
    world.flavor()
    world.node("n1", gpus=8)
    world.queue("cq", quota, **spec)
    for index in range(number + 1):
        single(world, f"w{index}")
    world.run()
    return world


def single(world: World, name: str, **spec) -> None:
    world.now += 1
    world.workload(name, {"name": "main", "count": 1}, queueName="queue", **spec)
    world.pod(f"{name}-0", workload=name)


def told(world: World) -> dict[str, int]:
    """The positions that objects say."""
    said = {key[2]: raw["status"].get("pending") or {} for key, raw in world.objects.items() if key[0] == "Workload"}
    return {name: one["position"] for name, one in said.items() if "position" in one}


def starts(world: World, name: str) -> float | None:
    """When an object says that it expects to start, in seconds from the beginning."""
    said = world.status("Workload", name)["pending"].get("estimatedStart")
    return datetime.fromisoformat(said).timestamp() - START if said else None


def position_writes(decisions) -> list[str]:
    """Whom a position was written for its own sake: nothing else of why it waits is in the patch."""
    return [
        one.name
        for one in decisions
        if isinstance(one, PatchStatus)
        and one.kind == "Workload"
        and set(one.status) == {"pending"}
        and one.status["pending"]
    ]


def test_the_columns_say_queue_position_admitted_and_why():
    assert [column.name for column in KINDS["Workload"].COLUMNS if not column.priority] == [
        "Queue",
        "Position",
        "Admitted",
        "Why",
        "Age",
    ]
    assert [column.name for column in KINDS["PodGroup"].COLUMNS if not column.priority][:2] == ["Queue", "Position"]


def test_everybody_is_told_a_position_and_it_becomes_right_again_after_each_admission():
    world = waiting(3)
    assert told(world) == {"w1": 1, "w2": 2, "w3": 3}

    world.finish("w0-0")
    world.run()
    assert told(world) == {"w2": 2, "w3": 3}  # not yet: nothing was written for the sake of a position

    world.until(LOOK_SECONDS)
    assert told(world) == {"w2": 1, "w3": 2}


def test_an_admission_is_no_storm_and_those_who_are_next_are_told_first():
    many = 250
    world = waiting(many)

    world.finish("w0-0")
    at_once = world.run()
    first = world.until(LOOK_SECONDS)
    second = world.until(LOOK_SECONDS)
    third = world.until(LOOK_SECONDS)
    rest = world.until(600)

    assert position_writes(at_once) == []
    assert position_writes(first) == [f"w{index}" for index in range(2, MOST_WRITES + 2)]
    assert len(position_writes(second)) == MOST_WRITES
    assert len(position_writes(third)) == many - 1 - 2 * MOST_WRITES
    assert position_writes(rest) == []
    assert sorted(told(world).values()) == list(range(1, many))


def test_while_a_queue_moves_fast_few_positions_are_written():
    world = waiting(60)
    written = []
    for index in range(50):  # one admission a second
        world.finish(f"w{index}-0")
        written += world.until(1)

    # Without a rule it would be one write for everybody behind, each time: 59 + 58 + ... + 10 = 1725.
    assert len(position_writes(written)) <= (50 / LOOK_SECONDS + 1) * 60 / 2
    world.until(2 * LOOK_SECONDS)
    assert told(world) == {f"w{index}": index - 50 for index in range(51, 61)}


def test_nothing_is_written_and_nothing_is_waited_for_in_a_queue_at_rest():
    world = waiting(5)
    world.until(60)

    assert world.until(3600) == []
    assert world.engine.wakeup() is None


def test_a_restart_writes_no_positions():
    world = waiting(5)
    world.finish("w0-0")
    world.until(60)
    world.restart()
    before = told(world)

    assert position_writes(world.until(60)) == []
    assert told(world) == before == {f"w{index}": index - 1 for index in range(2, 6)}


@examples(25)
@given(st.lists(st.tuples(st.sampled_from(["come", "urgent", "end", "wait"]), st.integers(0, 30)), max_size=25))
def test_positions_are_right_at_rest_whatever_happened(steps):
    world = waiting(3)
    for number, (what, amount) in enumerate(steps):
        match what:
            case "come":
                single(world, f"x{number}")
            case "urgent":
                single(world, f"x{number}", priority=amount)
            case "end":
                running = world.where()
                world.finish(*list(running)[:1])
        world.until(amount)
    world.until(300)

    state = world.engine.state
    line = [one for one in state.workloads.values() if one.counted[2] == "pending"]
    orders = sorted(one.order for one in line)
    assert told(world) == {one.key[2]: bisect.bisect_left(orders, one.order) + 1 for one in line}


def test_a_start_is_expected_when_running_work_must_end():
    world = World()
    world.flavor()
    world.node("n1", gpus=8)
    world.queue("cq", 8, queueingStrategy="StrictFIFO")
    began = world.now
    for index, seconds in enumerate((1200, 600)):
        world.workload(f"r{index}", {"count": 4}, queueName="queue", maximumExecutionTimeSeconds=seconds)
        for rank in range(4):
            world.pod(f"r{index}-{rank}", workload=f"r{index}")
    world.run()
    for name, count in (("small", 4), ("large", 8), ("after", 8)):
        world.now += 1
        world.workload(name, {"count": count}, queueName="queue", maximumExecutionTimeSeconds=300)
        for rank in range(count):
            world.pod(f"{name}-{rank}", workload=name)
    world.until(LOOK_SECONDS)

    since = began - START
    assert [starts(world, name) for name in ("small", "large", "after")] == [since + 600, since + 1200, since + 1500]


def test_what_is_lent_comes_back_when_the_borrower_must_end():
    world = World()
    world.flavor()
    world.node("n1", gpus=8)
    world.queue("owner", 4, cohort="all")
    world.queue("borrower", 4, cohort="all", local="other")
    world.workload("guest", {"count": 6}, queueName="other", maximumExecutionTimeSeconds=900)
    for rank in range(6):
        world.pod(f"guest-{rank}", workload="guest")
    world.run()
    world.workload("host", {"count": 4}, queueName="queue")
    for rank in range(4):
        world.pod(f"host-{rank}", workload="host")
    world.until(LOOK_SECONDS)

    said = world.status("Workload", "host")["pending"]
    assert (
        "needs 4 nvidia.com/gpu in default; 2 free now (2 of its own 4, 0 of 4 to borrow)"
        in said["reasons"][0]["message"]
    )
    assert "2 lent to borrower" in said["reasons"][0]["message"]
    assert starts(world, "host") == 900


@pytest.mark.parametrize("limit", [None, 10_000])
def test_an_expected_start_is_told_only_where_it_is_known_and_taken_back_when_it_is_not_any_more(limit):
    world = waiting(1)
    seconds = {} if limit is None else {"maximumExecutionTimeSeconds": limit}
    world.object("Workload", "w0", {"podGroups": [{"count": 1}], "queueName": "queue", **seconds})
    world.until(2 * LOOK_SECONDS)
    assert (starts(world, "w1") is None) == (limit is None)

    world.object("Workload", "w0", {"podGroups": [{"count": 1}], "queueName": "queue"})
    world.until(2 * LOOK_SECONDS)
    assert starts(world, "w1") is None


def test_an_expected_start_that_is_near_enough_is_not_told_again():
    world = waiting(1)
    spec = {"podGroups": [{"count": 1}], "queueName": "queue"}
    world.object("Workload", "w0", {**spec, "maximumExecutionTimeSeconds": 10_000})
    world.until(2 * LOOK_SECONDS)
    before = starts(world, "w1")

    world.object("Workload", "w0", {**spec, "maximumExecutionTimeSeconds": 10_100})
    assert position_writes(world.until(2 * LOOK_SECONDS)) == []
    world.object("Workload", "w0", {**spec, "maximumExecutionTimeSeconds": 20_000})
    assert position_writes(world.until(2 * LOOK_SECONDS)) == ["w1"]
    assert starts(world, "w1") == before + 10_000


def by_past_use() -> World:
    """LocalQueues a, that has used 8 GPUs for an hour, and b, in a queue of 8, that runs something for 900 s more."""
    world = World(admissionFairSharing={"usageHalfLifeSeconds": 3600, "usageSamplingIntervalSeconds": 300})
    world.flavor()
    world.node("n1", gpus=8)
    world.queue("cq", 8, local="", admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"})
    for name in ("a", "b"):
        world.object("LocalQueue", name, {"clusterQueue": "cq"})
    world.pod("big", queue="a", gpus=8)
    world.run()
    world.now += 3600
    world.delete("big")
    world.workload("runs", {"count": 1}, queueName="b", maximumExecutionTimeSeconds=900)
    world.pod("runs-0", workload="runs", gpus=8)
    world.run()
    return world


def test_positions_and_expected_starts_follow_past_use():
    world = by_past_use()
    for name, queue, priority in (("a1", "a", 9), ("b1", "b", 0), ("a2", "a", 0), ("b2", "b", 1)):
        world.now += 1
        world.workload(name, {"count": 1}, queueName=queue, maximumExecutionTimeSeconds=100)
        world.pod(f"{name}-0", workload=name, gpus=8, priority=priority)
    world.until(LOOK_SECONDS)
    assert told(world) == {"b2": 1, "b1": 2, "a1": 3, "a2": 4}
    assert [starts(world, name) - starts(world, "b2") for name in ("b2", "b1", "a1", "a2")] == [0, 100, 200, 300]


def test_positions_become_right_when_one_has_used_more_than_the_other_by_now():
    world = by_past_use()
    for queue in ("a", "b"):
        world.now += 1
        world.workload(f"{queue}1", {"count": 1}, queueName=queue)
        world.pod(f"{queue}1-0", workload=f"{queue}1", gpus=8)
    world.until(LOOK_SECONDS)
    assert told(world) == {"b1": 1, "a1": 2}
    world.workload("runs", {"count": 1}, queueName="b")
    world.until(4 * 3600)
    assert told(world) == {"a1": 1, "b1": 2}


STEPS = st.tuples(
    st.sampled_from(["put", "put", "put", "go", "use"]),
    st.integers(0, 9),
    st.sampled_from(["a", "b", "c"]),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.0, 1.0]),
)


@given(st.lists(STEPS, max_size=30))
def test_places_are_those_of_the_whole_line_in_order(steps):
    places, used, line = QueuePositions(), dict.fromkeys("abc", 0.0), {}
    places.used = lambda door: used[door]
    for what, number, door, amount, rank in steps:
        workload = Workload(("Workload", "default", f"w{number}"), priority=amount, rank=rank)
        if what == "use":
            used[door] = float(amount)
        elif what == "put":
            workload.counted = ("", "cq", "pending")
            places.put(workload, door)
            line[workload.key] = (workload, door)
        else:
            places.put(workload)
            line.pop(workload.key, None)
    order = sorted(line.values(), key=lambda one: (one[0].rank, used[one[1]], one[0].order))
    everybody = [one for one, _ in order]
    assert [places.of(one) for one in everybody] == list(range(1, len(order) + 1))
    for most in (2, 99):
        assert [one.key for one in places.heads("cq", most)] == [one.key for one in everybody[:most]]
    for one in everybody:
        places.note(one, {"position": 1000})
    wrong = places.most_wrong(["cq"] if order else [], 99)
    assert [(at, one.key) for at, one in wrong] == [(at, one.key) for at, one in enumerate(everybody, start=1)]
