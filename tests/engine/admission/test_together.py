"""Equal single pods that are admitted together fare as if each had been tried by itself."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from tests.engine.world import World, replaced
from tutti.api.core import Pod, TopologySpreadConstraint
from tutti.engine.admission import batches
from tutti.engine.records.decisions import AnyDecision, Bind
from tutti.engine.records.workloads import Phase

QUEUES = ("", "a", "b", "c")
POLICIES = ({}, {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"})
ORDERINGS = ("", "", "", "", "BorrowedShare", "DominantShare", "Proportion")
STRATEGIES = ("BestEffortFIFO", "StrictFIFO")
Step = tuple[Any, ...]


def history(drawn: Random) -> list[Step]:
    """Steps of which most bring equal single pods, or a few gangs beside them."""
    steps = [
        _step(drawn, drawn.choice(["pods"] * 6 + ["gang", "finish", "node", "gated", "decide"])) for _ in range(14)
    ]
    return [_step(drawn, "pods"), _step(drawn, "pods"), *steps, ("decide", 0.0)]


def _step(drawn: Random, what: str) -> Step:
    queue, priority = drawn.choice(QUEUES), drawn.choice((0, 0, 0, 1))
    match what:
        case "pods":
            apart = drawn.choice(("", "", "", "ScheduleAnyway", "DoNotSchedule"))
            return what, drawn.randint(1, 7), queue, drawn.choice("113"), priority, drawn.choice((0, 0, 0, 1)), apart
        case "gang":
            return what, drawn.randint(1, 4), queue, priority
        case "finish":
            return what, drawn.randint(0, 30)
        case "node":
            return what, drawn.choice((2, 8))
        case "gated":
            return what, queue
        case _:
            return what, drawn.choice((0.0, 0.5, 30.0))


def cluster(drawn: Random) -> World:
    """Three queues of a cohort, and a few nodes."""
    ordering, policy = drawn.choice(ORDERINGS), drawn.choice(POLICIES)
    world = World(fair_sharing={"enable": True, "ordering": ordering} if ordering else {})
    flavors = drawn.choice((("default",), ("default", "other")))
    for name in ("default", "other"):
        world.flavor(name)
    for name in "abc":
        spec = {"preemption": policy, "queueingStrategy": drawn.choice(STRATEGIES)}
        world.queue(name, drawn.choice((0, 2, 9, 50, 50)), cohort="all", local=name, flavors=flavors, **spec)
    for number in range(drawn.randint(1, 4)):
        world.node(f"n{number}", gpus=drawn.choice((0, 4)), cpu=drawn.choice((4, 9, 16, 40)))
    return world


def spread(pod: Pod, when: str) -> Pod:
    """The same pod, spread over nodes with those like it."""
    raw = {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": 2,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    labels = {**pod.metadata.labels, "app": "x"}
    constraints = [msgspec.convert(raw, TopologySpreadConstraint)]
    spec = replaced(pod.spec, topology_spread_constraints=constraints)
    return replaced(pod, metadata=replaced(pod.metadata, labels=labels), spec=spec)


def play(world: World, steps: list[Step]) -> list[list[AnyDecision]]:
    """What is decided in each turn of a history."""
    turns: list[list[AnyDecision]] = []
    for number, (what, *said) in enumerate(steps):
        _take(world, number, what, said)
        if what == "decide":
            world.now += said[0]
            turns += [world.decide() for _ in range(4)]
    return turns


def _take(world: World, number: int, what: str, said: list[Any]) -> None:
    match what:
        case "pods":
            count, queue, cpu, priority, gpus, apart = said
            for i in range(count):
                pod = world.pod(f"p{number}-{i}", queue=queue, cpu=cpu, priority=priority, gpus=gpus)
                if apart:
                    world.put(spread(pod, apart))
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
            world.pod(f"p{number}", queue=said[0], annotations={"scheduling.tutti.dev/admission-gate": "audit"})


def bound(decisions: list[AnyDecision]) -> list[str]:
    return [one.name for one in decisions if isinstance(one, Bind)]


def test_a_head_that_blocks_its_strict_line_is_passed_by_nobody_who_is_equal_to_one_before_it():
    world = World()
    world.flavor()
    world.queue("cq", 50, queueingStrategy="StrictFIFO")
    world.node("n1", gpus=0, cpu=8)
    world.pod("m", queue="queue", cpu="9", gpus=0)
    world.decide()
    for name in "abn":  # made in the same second, they stand in the order of their names
        world.pod(name, queue="queue", gpus=0)
    assert bound(world.decide()) == ["a", "b"]


def test_pods_that_ask_for_an_approval_are_each_held_until_it_is_given():
    world = World()
    world.node("n1")
    for name in "abc":
        world.pod(name, annotations={"scheduling.tutti.dev/admission-gate": "audit"})
    assert bound(world.decide()) == []
    assert [one.phase for one in world.engine.state.workloads.values()] == [Phase.RESERVED] * 3


@pytest.mark.parametrize("seed", range(60))
def test_together_or_one_after_the_other_is_decided_alike(seed, monkeypatch):
    def decided() -> list[list[AnyDecision]]:
        drawn = Random(seed)
        return play(cluster(drawn), history(drawn))

    found = decided()
    monkeypatch.setattr(batches, "MOST_IN_BATCH", 1)
    assert decided() == found
