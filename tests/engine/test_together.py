"""Equal single pods that are admitted together fare as if each had been tried by itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.world import World
from tutti.engine.admitting import together
from tutti.engine.decisions import AnyDecision, Bind

QUEUES = ("", "a", "b", "c")
POLICIES = ({}, {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"})
ORDERINGS = ("", "BorrowedShare", "DominantShare", "Proportion")

several = st.tuples(
    st.just("pods"),
    st.integers(1, 7),
    st.sampled_from(QUEUES),
    st.sampled_from(["1", "3"]),
    st.integers(0, 1),
    st.sampled_from([0, 0, 1]),
)
gang = st.tuples(st.just("gang"), st.integers(1, 4), st.sampled_from(QUEUES), st.integers(0, 1))
others = st.one_of(
    st.tuples(st.just("finish"), st.integers(0, 30)),
    st.tuples(st.just("node"), st.sampled_from([2, 8])),
    st.tuples(st.just("gated"), st.sampled_from(QUEUES)),
    st.tuples(st.just("decide"), st.sampled_from([0.0, 0.5, 30.0])),
)
steps = st.lists(st.one_of(several, several, gang, others), min_size=2, max_size=14)


def play(script: list[tuple[Any, ...]], clusters: dict[str, Any]) -> list[list[AnyDecision]]:
    """What is decided in each turn of a history."""
    fair = {"enable": True, "ordering": clusters["ordering"]} if clusters["ordering"] else {}
    world = World(fair_sharing=fair)
    turns: list[list[AnyDecision]] = []
    world.flavor("default")
    world.flavor("other")
    for name, gpus in zip("abc", clusters["quotas"], strict=True):
        spec = {"preemption": clusters["policy"], "queueingStrategy": clusters["strategies"]["abc".index(name)]}
        world.queue(name, gpus, cohort="all", local=name, flavors=clusters["flavors"], **spec)
    for number, (gpus, cpu) in enumerate(clusters["nodes"]):
        world.node(f"n{number}", gpus=gpus, cpu=cpu)
    for number, (what, *said) in enumerate([*script, ("decide", 0.0)]):
        _take(world, number, what, said)
        if what == "decide":
            world.now += said[0]
            turns += [world.decide() for _ in range(4)]
    return turns


def _take(world: World, number: int, what: str, said: list[Any]) -> None:
    match what:
        case "pods":
            count, queue, cpu, priority, gpus = said
            for i in range(count):
                world.pod(f"p{number}-{i}", queue=queue, cpu=cpu, priority=priority, gpus=gpus)
        case "gang":
            size, queue, priority = said
            world.gang(f"g{number}", size, priority=priority)
            world.pod_group(f"g{number}", size, queueName=queue)
        case "finish":
            bound = [name for (_, name), pod in world.pods.items() if pod.spec.node_name and not pod.terminated]
            world.finish(*bound[: said[0]])
        case "node":
            world.node(f"m{number}", cpu=said[0])
        case "gated":
            world.pod(f"p{number}", queue=said[0], annotations={"scheduling.tutti.dev/gate": "audit"})


@settings(max_examples=150, deadline=None)
@given(
    steps,
    st.fixed_dictionaries(
        {
            "ordering": st.sampled_from(ORDERINGS),
            "quotas": st.lists(st.sampled_from([0, 2, 5, 50]), min_size=3, max_size=3),
            "policy": st.sampled_from(POLICIES),
            "strategies": st.lists(st.sampled_from(["BestEffortFIFO", "StrictFIFO"]), min_size=3, max_size=3),
            "flavors": st.sampled_from([("default",), ("default", "other")]),
            "nodes": st.lists(st.tuples(st.sampled_from([0, 4]), st.sampled_from([4, 7, 16])), min_size=1, max_size=4),
        }
    ),
)
def test_together_or_one_after_the_other_is_decided_alike(script, clusters):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(together, "MOST", 1)
        expected = play(script, clusters)
    assert play(script, clusters) == expected
