"""Who waits behind the head of a strict queue is told of one that is there, and nobody is written to in a storm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.world import World
from tutti.engine.queue.behind_heads import MOST_NAMED, MOST_NAMED_PODS
from tutti.engine.records.decisions import SetPodCondition
from tutti.engine.records.explanation import REFRESH_SECONDS

NAMED = "ClusterQueue cq is StrictFIFO and Pod/default/{} is before it"
UNNAMED = "ClusterQueue cq is StrictFIFO and others are before it"


def strict(quota: int = 1, used: int = 0) -> World:
    """A strict queue of so much quota, all of which `s0` uses, or so much."""
    world = World()
    world.flavor()
    world.node("n1", gpus=8)
    world.queue("cq", quota, queueingStrategy="StrictFIFO")
    single(world, "s0", gpus=used or quota)
    world.run()
    return world


def single(world: World, name: str, gpus: int = 1) -> None:
    world.now += 1
    world.pod(name, gpus=gpus, queue="queue")


def said(world: World, name: str) -> str:
    condition = world.pod_condition(name)
    return condition.message if condition is not None else ""


def test_a_head_that_is_gone_is_named_by_nobody_any_more():
    world = strict()
    for number in range(1, 6):
        single(world, f"s{number}")
    world.run()
    assert [said(world, f"s{number}") for number in (2, 3, 4, 5)] == [NAMED.format("s1")] * 4
    world.delete("s1")
    world.run()
    assert world.reason("Pod", "s2") == "WaitingForQuota"
    world.until(REFRESH_SECONDS)
    assert [said(world, f"s{number}") for number in (3, 4, 5)] == [NAMED.format("s2")] * 3


def test_only_those_who_are_next_are_told_the_name_of_a_head():
    world = strict()
    many = 300
    for number in range(1, many + 1):
        single(world, f"s{number}")
    world.until(2 * REFRESH_SECONDS)
    assert said(world, f"s{1 + MOST_NAMED}") == NAMED.format("s1")
    assert {said(world, f"s{number}") for number in range(2 + MOST_NAMED, many)} == {UNNAMED}

    before = len(world.log)
    world.delete("s1")
    world.until(3 * REFRESH_SECONDS)
    told = [one.name for one in world.log[before:] if isinstance(one, SetPodCondition)]
    assert sorted(told) == sorted(f"s{number}" for number in range(2, 3 + MOST_NAMED))
    assert said(world, f"s{2 + MOST_NAMED}") == NAMED.format("s2")


def test_a_gang_of_many_pods_is_not_written_to_for_the_sake_of_a_name():
    world = strict()
    single(world, "s1")
    world.now += 1
    world.gang("large", MOST_NAMED_PODS + 1, queue="queue")
    world.run()
    assert said(world, "large-0") == UNNAMED


def test_who_comes_to_stand_farther_behind_is_told_no_name_any_more():
    world = strict()
    for number in range(1, MOST_NAMED + 2):
        single(world, f"s{number}")
    world.run()
    last = f"s{MOST_NAMED + 1}"
    assert said(world, last) == NAMED.format("s1")
    world.now += 1
    world.pod("urgent", queue="queue", priority=1)
    world.until(2 * REFRESH_SECONDS)
    assert said(world, "s1") == NAMED.format("urgent")
    assert said(world, last) == UNNAMED


@pytest.mark.parametrize(
    ("quota", "why"),
    [(4, "asks for more than it can ever have there: take it back"), (20, "fits no node that there is")],
    ids=["quota", "nodes"],
)
def test_what_to_do_about_a_head_that_can_never_start_is_told_to_those_behind_it(quota, why):
    world = strict(quota, used=1)
    single(world, "head", gpus=9)
    single(world, "behind")
    world.run()
    assert said(world, "behind").startswith(NAMED.format("head") + f", which {why}")


steps = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.integers(1, 5), st.integers(0, 1)),
        st.tuples(st.just("go"), st.integers(0, 30)),
        st.tuples(st.just("end"), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.integers(0, 12)),
    ),
    max_size=25,
)


@given(steps)
@examples(40)
def test_nobody_is_told_for_long_of_a_head_that_is_not_there(script):
    world = strict(4)
    there = ["s0"]
    for number, step in enumerate(script, start=1):
        match step:
            case "come", gpus, priority:
                world.now += 1
                world.pod(f"p{number}", gpus=gpus, queue="queue", priority=priority)
                there.append(f"p{number}")
            case "go", which if which < len(there):
                world.delete(there.pop(which))
            case "end", which if which < len(there) and there[which] in world.where():
                world.finish(there.pop(which))
            case "wait", seconds:
                world.until(seconds)
        world.run()
    world.until(REFRESH_SECONDS + 1)
    heads = {name for name in there if name not in world.where() and world.reason("Pod", name) != "BehindHead"}
    for name in there:
        if world.reason("Pod", name) == "BehindHead":
            assert said(world, name) == UNNAMED or any(NAMED.format(head) in said(world, name) for head in heads)
