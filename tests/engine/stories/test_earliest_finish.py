"""A workload takes the flavor in which it ends first, waiting included, and waits no longer than that saves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.admission.test_throttling import at, throttle
from tests.engine.world import START, World
from tutti.engine.admission.expected_starts import expected_end

SECONDS = "scheduling.tutti.dev/expected-seconds-by-flavor"
FAST = {SECONDS: "a100=3600,t4=9000"}
KIND = "example.com/kind"


def cluster(
    *, a100: int = 1, t4: int = 1, preference: str | None = "EarliestFinish", throttles: bool = False, **spec: Any
) -> World:
    """Nodes of eight GPUs each, of a fast and of a slow kind, which stands first in the queue."""
    world = World(**({"throttles": {"name": "kube-throttler"}} if throttles else {}))
    for kind, count in (("a100", a100), ("t4", t4)):
        for number in range(count):
            world.node(f"{kind}-{number}", labels={KIND: kind})
        world.flavor(kind, nodeLabels={KIND: kind})
    if preference:
        spec["flavorFungibility"] = {"preference": preference}
    world.queue("cq", 64, flavors=("t4", "a100"), **spec)
    return world


def runs(world: World, name: str, seconds: int, kind: str = "a100", gpus: int = 8) -> None:
    """Somebody has a whole node of a kind and must end by a known time."""
    spec = {"podGroups": [{"name": "main", "count": 1}], "maximumExecutionTimeSeconds": seconds, "queueName": "queue"}
    world.object("Workload", name, spec)
    world.pod(f"{name}-0", workload=name, group="main", gpus=gpus, selector={KIND: kind})
    world.run()


def said(world: World, name: str, kind: str = "PodGroup") -> tuple[str, str]:
    found = world.why(kind, name)
    assert found is not None
    return found.reason, found.message


def test_of_those_that_are_free_the_fastest_is_taken_whatever_stands_first():
    world = cluster()
    world.gang("g", 4, queue="queue", annotations=FAST)
    world.gang("plain", 4, queue="queue")
    world.run()

    assert set(world.where("g").values()) == {"a100-0"}
    assert set(world.where("plain").values()) == {"t4-0"}


def test_what_the_queue_does_not_ask_for_changes_nothing():
    world = cluster(preference=None)
    world.gang("g", 4, queue="queue", annotations=FAST)
    world.run()

    assert set(world.where("g").values()) == {"t4-0"}


def test_it_waits_for_the_faster_one_where_it_then_ends_sooner():
    world = cluster()
    runs(world, "now", 600)
    world.gang("g", 8, queue="queue", annotations=FAST)
    world.run()

    assert not world.where("g")
    reason, message = said(world, "g")
    assert reason == "WaitingForFlavor"
    assert message == (
        "There is room in flavor t4, where it would end at 1970-01-12T16:16:40Z; it waits for a100, where it is "
        "expected to start at 1970-01-12T13:56:40Z and to end at 1970-01-12T14:56:40Z, for 5400 s at most"
    )
    world.finish("now-0")
    world.run()
    assert set(world.where("g").values()) == {"a100-0"}


def test_it_takes_what_is_there_where_the_faster_one_comes_too_late():
    world = cluster()
    runs(world, "now", 2 * 3600)
    world.gang("g", 8, queue="queue", annotations=FAST)
    world.run()

    assert set(world.where("g").values()) == {"t4-0"}


@pytest.mark.parametrize(
    ("overrides", "starts"),
    [
        ([], 600),
        ([(0, 300, 100)], None),  # closed for good before the fast one is free
        ([(0, 1000, 100)], 600),
        ([(0, 300, 100), (1200, 9000, 100)], 1200),  # open again while it still pays
        ([(0, 300, 100), (5000, 9000, 100)], None),  # open again when it does not
        ([(500, 2000, 0)], 2000),
    ],
)
def test_what_throttles_will_let_start_counts_by_the_clock(overrides: list[tuple[int, int, int]], starts: int | None):
    world = cluster(throttles=True)
    runs(world, "now", 600)
    said_later = [
        {"begin": at(begin), "end": at(end), "threshold": {"resourceCounts": {"pod": pods}}}
        for begin, end, pods in overrides
    ]
    closes = bool(overrides) and overrides[0][0] == 0
    world.throttle("Throttle", throttle(pods=0 if closes else 100, overrides=said_later))
    world.gang("g", 8, queue="queue", annotations=FAST, labels={"app": "x"})
    world.run()

    if starts is None:
        assert set(world.where("g").values()) == {"t4-0"}
        return
    assert said(world, "g")[0] == "WaitingForFlavor"
    found = world.why("PodGroup", "g")
    assert found is not None
    assert found.details["expectedStart"][:16] == at(starts)[:16]
    assert world.replay().differences == []


def test_where_nobody_knows_when_the_faster_one_is_free_it_takes_what_is_there():
    world = cluster()
    world.pod("for-ever", node="a100-0", gpus=8)
    world.gang("g", 8, queue="queue", annotations=FAST)
    world.run()

    assert set(world.where("g").values()) == {"t4-0"}


def test_it_waits_no_longer_than_that_saves_also_after_a_restart():
    world = cluster()
    runs(world, "now", 600)
    world.gang("g", 8, queue="queue", annotations=FAST)
    world.run()
    since = world.now

    for _ in range(9):  # who runs is given ten more minutes each time
        world.until(550)
        if world.where("g"):
            break
        spec = world.objects["Workload", "", "now"]["spec"] if ("Workload", "", "now") in world.objects else {}
        spec = spec or world.objects["Workload", "default", "now"]["spec"]
        world.object("Workload", "now", {**spec, "maximumExecutionTimeSeconds": int(world.now - START) + 600})
        world.restart()
        world.run()
    else:
        world.until(600)

    assert set(world.where("g").values()) == {"t4-0"}
    assert 4800 <= world.now - since <= 6000


def test_those_who_wait_for_the_same_one_count_for_one_another():
    """Two would fit in the fast flavor one after the other: the second would end no sooner than at hand."""
    world = cluster()
    runs(world, "now", 3000)
    for name in ("g", "h"):
        world.gang(name, 8, queue="queue", annotations=FAST)
        world.now += 1
    world.run()

    assert said(world, "g")[0] == "WaitingForFlavor"
    assert set(world.where("h").values()) == {"t4-0"}


def test_what_runs_is_expected_to_end_when_it_said():
    world = cluster()
    world.gang("first", 8, queue="queue", annotations={SECONDS: "a100=600,t4=6000"})
    world.run()
    assert set(world.where("first").values()) == {"a100-0"}

    world.gang("g", 8, queue="queue", annotations=FAST)
    world.run()
    assert said(world, "g")[0] == "WaitingForFlavor"
    status = world.objects["PodGroup", "default", "g"]["status"]["pendingReason"]
    assert status["reasons"][0]["details"]["expectedStart"] == "1970-01-12T13:56:40Z"
    assert world.replay().differences == []


def test_owners_and_objects_say_it_for_their_pods_and_what_cannot_be_read_is_told():
    world = cluster()
    world.follow_owners()
    owner = world.owner("Job", "j", annotations=FAST, spec={"parallelism": 1, "completions": 1})
    world.pod("j-0", owner=owner, queue="queue", gpus=1)
    world.pod("bad", queue="queue", gpus=1, annotations={SECONDS: "a100=soon"})
    world.run()

    assert world.where("j") == {"j-0": "a100-0"}
    reason, message = said(world, "bad", "Pod")
    assert reason == "InvalidGang"
    assert "'a100=soon' cannot be read: write flavors with commas between them" in message


def test_nobody_is_taken_out_for_a_faster_flavor_that_is_awaited():
    world = cluster(preemption={"withinClusterQueue": "LowerPriority"})
    runs(world, "now", 600)
    world.gang("g", 8, queue="queue", annotations=FAST, priority=10)
    world.run()

    assert set(world.where()) == {"now-0"}


def test_how_long_a_kind_takes_in_which_flavor_is_learned_and_known_after_a_restart():
    """Nobody says anything: three runs in each tell, which are kept in the status of the LocalQueue."""
    world = cluster()
    for number in range(3):
        for kind, seconds in (("a100", 1000), ("t4", 5000)):
            name = f"train-{kind[0]}{number}"
            world.pod(name, queue="queue", gpus=8, selector={KIND: kind})
            world.run()
            world.now += seconds + number
            world.finish(name)
            world.run()
    told = {one["of"]: one["seconds"] for one in world.status("LocalQueue", "queue")["runTimes"]}
    assert told["train up to 1 in a100"] == [1000, 1001, 1002]
    assert told["train up to 1 in t4"] == [5000, 5001, 5002]

    for number, again in enumerate((False, True)):
        if again:
            world.restart()
        free, taken = f"train-7{number}", f"train-8{number}"
        world.pod(free, queue="queue", gpus=8)
        world.run()
        assert world.where(free) == {free: "a100-0"}, "the faster one, though the other stands first"
        world.pod(taken, queue="queue", gpus=8)
        world.run()
        assert said(world, taken, "Pod")[0] == "WaitingForFlavor"
        world.now += 1001
        world.finish(free)
        world.run()
        assert world.where(taken) == {taken: "a100-0"}
        world.finish(taken)
        world.run()
    assert world.replay().differences == []


def test_who_says_less_than_its_kind_takes_gains_nothing():
    world = cluster()
    for number in range(3):
        world.pod(f"train-{number}", queue="queue", gpus=8, selector={KIND: "a100"})
        world.run()
        world.now += 9000
        world.finish(f"train-{number}")
        world.run()
    world.pod("train-9", queue="queue", gpus=8, annotations={SECONDS: "a100=1,t4=8000"})
    world.run()
    assert world.where("train-9") == {"train-9": "t4-0"}


def test_nothing_is_kept_where_no_queue_asks_for_it():
    world = cluster(preference=None)
    world.pod("train-1", queue="queue", gpus=8)
    world.run()
    world.finish("train-1")
    world.run()
    assert "runTimes" not in world.status("LocalQueue", "queue")


SPEED = "scheduling.tutti.dev/speed-by-members"


@pytest.mark.parametrize(
    ("speed", "kind", "count"),
    [
        ("1=1,8=8", "t4", 8),  # 9,000 s / 8 on eight T4s, 3,600 / 2 on two A100s
        ("1=1,2=1.9,8=2", "a100", 2),  # 9,000 / 2 there, 3,600 / 1.9 here
        ("", "t4", 8),  # who does not say it gets as many as there are
    ],
)
def test_of_an_elastic_gang_it_counts_how_many_members_it_would_have(speed, kind, count):
    world = cluster()
    world.pod("other", gpus=6, selector={KIND: "a100"}, queue="queue")
    world.run()
    said = {SECONDS: "a100=3600,t4=9000", **({SPEED: speed} if speed else {})}
    world.gang("g", 8, min_count=1, queue="queue", annotations=said)
    world.run()

    placed = world.where("g")
    assert ({node.rpartition("-")[0] for node in placed.values()}, len(placed)) == ({kind}, count)


@pytest.mark.parametrize(("speed", "waits"), [("1=1,8=8", False), ("1=1,2=1.1", True)])
def test_it_waits_for_no_faster_flavor_where_more_members_make_up_for_it(speed, waits):
    """9,000 s on eight T4s are 1,125; in 600 s there are A100s, on which 3,600 are 450, or 3,273 with two members."""
    world = cluster()
    runs(world, "now", 1200)
    world.gang("g", 8, min_count=1, queue="queue", annotations={SECONDS: "a100=3600,t4=9000", SPEED: speed})
    world.run()

    assert (not world.where("g")) is waits


def test_what_runs_with_more_members_is_expected_to_end_sooner():
    world = cluster(a100=2, t4=0)
    said = {SECONDS: "a100=3600", SPEED: "1=1,8=8"}
    world.gang("wide", 8, min_count=1, queue="queue", annotations=said)
    world.run()
    (workload,) = world.engine.state.expected.values()
    assert expected_end(world.engine.state, workload) == START + 450
