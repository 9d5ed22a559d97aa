"""Elastic gangs that say how fast they are with how many members: who grows, how far, and what that is good for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.world import World
from tutti.api.conventions.speed_by_members import read_speed
from tutti.engine.records.decisions import EmitEvent
from tutti.quota.speed_curves import SpeedCurve, amdahl, curve_of

SPEED = "scheduling.tutti.dev/speed-by-members"


def cluster(gpus: int, *, order: str = "BySpeed", nodes: int = 1, **spec: Any) -> World:
    world = World()
    for number in range(nodes):
        world.node(f"n{number}", gpus=gpus)
    world.flavor()
    world.queue("cq", gpus * nodes, surplusOrder=order, **spec)
    return world


def elastic(world: World, name: str, size: int, speed: str = "", *, least: int = 1, **pod: Any) -> None:
    said = {SPEED: speed} if speed else {}
    world.gang(name, size, min_count=least, queue="queue", annotations=said, **pod)


def members(world: World, *names: str) -> dict[str, int]:
    return {name: len(world.where(name)) for name in names}


def curve(text: str) -> SpeedCurve:
    said = read_speed(text)
    assert said is not None
    return curve_of(said.points) if said.points else amdahl(said.parallel)


def test_the_next_member_goes_where_it_gains_most():
    world = cluster(8)
    elastic(world, "flat", 8, "1=1,2=1.5,3=1.8,4=1.9,8=2")
    elastic(world, "steep", 8, "1=1,8=7.3")
    world.run()

    # steep gains 0.9 by each, flat half, 0.3 and less
    assert members(world, "flat", "steep") == {"flat": 1, "steep": 7}
    why = world.why("PodGroup", "flat")
    assert why is not None
    assert why.message.endswith("; members go to the gang that gains most from them, and one more makes it 50 % faster")


def test_without_the_order_of_the_queue_the_older_takes_all():
    world = cluster(8, order="InTurn")
    elastic(world, "flat", 8, "1=1,2=1.5,3=1.8,4=1.9,8=2.5")
    elastic(world, "steep", 8, "1=1,8=7.3")
    world.run()

    assert members(world, "flat", "steep") == {"flat": 8, "steep": 0}


def test_a_gang_takes_no_member_from_which_it_gains_nothing_in_any_queue():
    world = cluster(8, order="InTurn")
    elastic(world, "g", 8, "1=1,2=1.9,4=3.4")
    world.run()

    assert members(world, "g") == {"g": 4}
    why = world.why("PodGroup", "g")
    assert why is not None
    assert (why.reason, why.message) == (
        "NothingGained",
        "it has 4 members, and by what it says of its speed it gains nothing from one more",
    )


def test_its_minimum_counts_whatever_it_says_of_its_speed():
    world = cluster(8)
    elastic(world, "g", 8, "1=1,2=1", least=6)
    world.run()
    assert members(world, "g") == {"g": 6}


def test_equal_gains_are_shared_out_and_the_older_has_the_odd_one():
    world = cluster(9)
    elastic(world, "a", 8, "parallel=0.9")
    elastic(world, "b", 8, "parallel=0.9")
    world.run()
    assert members(world, "a", "b") == {"a": 5, "b": 4}


def test_a_member_that_takes_twice_as_much_has_to_gain_twice_as_much():
    world = cluster(9)
    elastic(world, "wide", 4, "1=1,4=3.1", gpus=2)
    elastic(world, "slim", 8, "1=1,8=5")
    world.run()
    # slim gains 0.57 for one GPU, wide 0.7 for two
    assert members(world, "wide", "slim") == {"wide": 1, "slim": 7}


def test_the_more_important_grows_first_whatever_it_gains():
    world = cluster(8)
    elastic(world, "slow", 8, "1=1,8=1.5", priority=10)
    elastic(world, "fast", 8, "1=1,8=8")
    world.run()
    assert members(world, "slow", "fast") == {"slow": 7, "fast": 1}


def test_who_does_not_say_it_grows_last():
    world = cluster(8)
    elastic(world, "silent", 8)
    elastic(world, "says", 4, "1=1,4=2")
    world.run()
    assert members(world, "silent", "says") == {"silent": 4, "says": 4}
    why = world.why("PodGroup", "silent")
    assert why is not None
    assert "it does not say what it gains from one more" in why.message


def test_room_that_comes_later_goes_to_whoever_gains_most_then():
    world = cluster(4)
    elastic(world, "a", 8, "1=1,2=1.9,8=2.5")
    elastic(world, "b", 8, "1=1,2=1.5,8=5")
    world.run()
    assert members(world, "a", "b") == {"a": 2, "b": 2}
    world.node("n1", gpus=3)
    world.object("ClusterQueue", "cq", {**world.objects["ClusterQueue", "", "cq"]["spec"]})
    spec = world.objects["ClusterQueue", "", "cq"]["spec"]
    spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = 7
    world.object("ClusterQueue", "cq", spec)
    world.run()
    assert members(world, "a", "b") == {"a": 2, "b": 5}


@pytest.mark.parametrize(("order", "placed"), [("BySpeed", (1, 1)), ("InTurn", (2, 0))])
def test_whoever_waits_for_its_minimum_goes_before_those_that_grow(order, placed):
    """The first member of a gang gains as much as any can."""
    world = cluster(2, order=order)
    world.pod("other", queue="queue")
    elastic(world, "old", 8, "1=1,8=8")
    world.run()
    world.now += 10
    elastic(world, "new", 8, "parallel=0.5")
    world.run()
    assert members(world, "old", "new") == {"old": 1, "new": 0}
    world.finish("other")
    world.run()
    assert tuple(members(world, "old", "new").values()) == placed


def test_it_starts_in_the_flavor_that_has_quota_for_most_of_it():
    world = World()
    for kind, gpus in (("small", 2), ("large", 8)):
        world.node(kind, gpus=gpus, labels={"kind": kind})
        world.flavor(kind, nodeLabels={"kind": kind})
    quotas = [{"name": "cpu", "nominalQuota": 1000}, {"name": "memory", "nominalQuota": "1Ti"}]
    flavors = [
        {"name": kind, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": gpus}, *quotas]}
        for kind, gpus in (("small", 2), ("large", 8))
    ]
    group = {"coveredResources": ["nvidia.com/gpu", "cpu", "memory"], "flavors": flavors}
    world.object("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": [group], "surplusOrder": "BySpeed"})
    world.object("LocalQueue", "queue", {"clusterQueue": "cq"})
    elastic(world, "g", 6, "parallel=1", least=2)
    world.run()
    assert set(world.where("g").values()) == {"large"}
    assert members(world, "g") == {"g": 6}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("fast", "'fast' cannot be read: write members with their speed"),
        ("1=NaN", "'1=NaN' cannot be read"),
        ("1=1,2=-3", "'2=-3' cannot be read"),
        ("1=inf", "'1=inf' cannot be read"),
        ("0=1", "'0=1' cannot be read"),
        ("1=0", "'1=0' cannot be read"),
        ("9999999999=1", "'9999999999=1' cannot be read"),
        ("1=1,2=1.9,4=1.2", "it is slower with 4 members than with 2 (1.2, 1.9): give only as many members as make it"),
        ("1=1,2=2.5", "2 members cannot be 2.5 times as fast as 1: 2 times is the most that counts"),
        ("1=1,1=2", "it has two speeds with 1 member: give one"),
        ("parallel=1.5", "'parallel=1.5' cannot be read: parallel is one part from 0 to 1"),
        ("parallel=0.5,1=1", "'parallel=0.5,1=1' cannot be read: parallel is one part from 0 to 1"),
        (",".join(f"{one}={one}" for one in range(1, 66)), "it has 65 points: give at most 64"),
        ("1=1," * 600, "it has more than 2048 characters: give at most 64 points"),
        ("²=1", "'²=1' cannot be read"),
    ],
)
def test_a_curve_that_cannot_be_read_is_told_of_once_and_counts_for_nothing(said, message):
    world = cluster(8)
    elastic(world, "g", 8, said)
    world.run()
    world.run()

    assert members(world, "g") == {"g": 8}
    told = [one.note for one in world.log if isinstance(one, EmitEvent) and one.reason == "SpeedIgnored"]
    assert len(told) == 1
    assert message in told[0]
    assert f"metadata.annotations[{SPEED}]" in told[0]


def test_what_the_pod_group_says_goes_before_what_its_pods_say():
    world = cluster(8, order="InTurn")
    elastic(world, "g", 8, "1=1,8=8")
    raw = world.objects["PodGroup", "default", "g"]
    raw["metadata"]["annotations"] = {SPEED: "1=1,3=2"}
    world.object("PodGroup", "h", raw["spec"])
    world.objects["PodGroup", "default", "h"]["metadata"]["annotations"] = {SPEED: "1=1,3=2"}
    world.restart()
    world.run()
    assert members(world, "g") == {"g": 3}


def test_a_process_that_starts_anew_goes_on_growing_by_the_same_rule():
    world = cluster(8, nodes=2)
    elastic(world, "a", 16, "1=1,2=1.9,16=3")
    elastic(world, "b", 16, "1=1,2=1.5,16=9")
    world.run()
    before = members(world, "a", "b")
    assert sum(before.values()) == 16
    world.restart()
    world.run()
    assert members(world, "a", "b") == before


def test_a_thousand_members_are_given_out_in_one_moment():
    world = cluster(1000)
    world.node("n0", gpus=1000, cpu=2000, extra={"pods": "2000", "memory": "2Ti"})
    for name, part in (("a", "0.999"), ("b", "0.998"), ("c", "0.997")):
        elastic(world, name, 500, f"parallel={part}")
    world.run()  # which takes no more than 30 turns
    assert sum(members(world, "a", "b", "c").values()) == 1000


texts = st.one_of(
    st.floats(0, 1).map(lambda part: f"parallel={part:.3f}"),
    st.lists(st.integers(0, 100), min_size=1, max_size=5).map(
        lambda parts: ",".join(
            f"{members}={speed:.4f}" for members, speed in zip((1, 2, 3, 4, 6, 8), _rising(parts), strict=False)
        )
    ),
)


def _rising(parts: list[int]) -> list[float]:
    """Speeds of 1, 2, 3, 4, 6 and 8 members of which each is gained by no more than the one before."""
    found, gain = [1.0], 1.0
    for part, more in zip(parts, (1, 1, 1, 2, 2), strict=False):
        gain *= part / 100
        found.append(found[-1] + gain * more)
    return found


@given(st.lists(st.tuples(texts, st.integers(1, 8)), min_size=2, max_size=4), st.integers(4, 20))
@settings(max_examples=40, deadline=None)
def test_the_sum_of_speeds_is_not_less_than_without(gangs, gpus):
    """Of gangs whose members take alike: what those gain that go first is at least what the others would have."""

    def total(order: str) -> float:
        world = cluster(gpus, order=order)
        for number, (said, size) in enumerate(gangs):
            elastic(world, f"g{number}", size, said)
        world.run()
        has = [len(world.where(f"g{number}")) for number in range(len(gangs))]
        assert all(one <= size for one, (_, size) in zip(has, gangs, strict=True))
        return sum(curve(said).speed(one) for one, (said, _) in zip(has, gangs, strict=True))

    assert total("BySpeed") >= total("InTurn") - 1e-6


def run_of(world: World, name: str, size: int, parallel: float) -> None:
    """A gang runs with so many members for as long as the law says, and ends."""
    elastic(world, name, size)
    world.run()
    assert members(world, name) == {name: size}
    world.start(*(f"{name}-{rank}" for rank in range(size)))
    world.now += round(3600 * ((1 - parallel) + parallel / size))
    world.finish(*(f"{name}-{rank}" for rank in range(size)))
    world.run()
    for rank in range(size):
        world.delete(f"{name}-{rank}")
    world.run()


def test_who_says_nothing_of_its_speed_goes_by_how_long_others_of_its_kind_took_also_after_a_restart():
    world = cluster(8)
    for number in range(3):
        for size in (1, 4):
            run_of(world, f"half-{number}{size}", size, 0.5)
            run_of(world, f"most-{number}{size}", size, 0.95)
    told = {one["of"]: one["seconds"] for one in world.status("LocalQueue", "queue")["runTimes"]}
    assert told["4 members of half up to 1"] == [2250] * 3
    elastic(world, "half-9", 8)
    elastic(world, "most-9", 8)
    world.run()
    world.restart()
    world.run()

    assert members(world, "half-9", "most-9") == {"half-9": 1, "most-9": 7}
    why = world.why("PodGroup", "half-9")
    assert why is not None
    assert why.message.endswith("makes it 33 % faster (by 6 runs of its kind with 1 to 4 members, ± 0 %)")
    assert world.replay().differences == []


def test_what_a_gang_says_of_its_speed_counts_before_what_others_took():
    world = cluster(8)
    for number in range(3):
        for size in (1, 4):
            run_of(world, f"half-{number}{size}", size, 0.5)
    elastic(world, "half-9", 8, "1=1,8=8")
    world.run()
    assert members(world, "half-9") == {"half-9": 8}
    assert world.engine.state.workloads["PodGroup", "default", "half-9"].speed_learned is None


def test_nothing_is_learned_where_members_do_not_go_by_speed():
    world = cluster(8, order="InTurn")
    for number in range(3):
        for size in (1, 4):
            run_of(world, f"half-{number}{size}", size, 0.0)
    elastic(world, "half-9", 8)
    world.run()
    assert members(world, "half-9") == {"half-9": 8}
    assert not world.engine.state.run_times
