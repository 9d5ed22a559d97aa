"""Who would run for longer than his queue lets him, or be protected for longer, by what he does to his own objects."""

from __future__ import annotations

import pytest

from tests.engine.world import World
from tutti.engine.lifecycle.quota_usage import protected_until

LIMIT, MINIMUM = 1000, 600


def limited() -> World:
    """A node, and a queue that ends what runs in it after a while and protects what is young."""
    world = World()
    world.node("n0", gpus=8)
    world.flavor()
    world.queue("cq", 8, preemption={"minimumRuntimeSeconds": MINIMUM}, defaultMaximumExecutionTimeSeconds=LIMIT)
    return world


def made_anew(world: World, kind: str) -> None:
    """Delete an object and make it again, as it was."""
    spec = world.objects[kind, "default", "g"]["spec"]
    world.remove_object(kind, "g")
    world.run()
    world.object(kind, "g", spec)
    world.run()


@pytest.mark.parametrize("kind", ["PodGroup", "Workload"])
@pytest.mark.parametrize("restarted", [False, True])
def test_who_makes_the_object_of_his_gang_anew_runs_no_longer_and_is_protected_no_longer(kind, restarted):
    world = limited()
    if kind == "PodGroup":
        world.pod_group("g", 2, queueName="queue")
    else:
        world.workload("g", {"name": "main", "count": 2}, queueName="queue")
    for rank in range(2):
        world.pod(f"g-{rank}", group="g" if kind == "PodGroup" else "main", workload="g" * (kind == "Workload"), gpus=4)
    world.run()
    assert len(world.where()) == 2
    for rank in range(2):
        world.start(f"g-{rank}")
    began = world.now
    for _ in range(3):
        world.until(LIMIT / 4)
        made_anew(world, kind)
        if restarted:
            world.restart()
            world.run()
        state = world.engine.state
        assert protected_until(state, state.workloads[kind, "default", "g"]) == began + MINIMUM
    assert len(world.where()) == 2
    world.until(LIMIT / 4)
    assert world.where() == {}


def test_a_pod_runs_no_longer_than_its_queue_says_however_often_the_operator_starts():
    world = limited()
    world.pod("p", queue="queue", gpus=8)
    world.run()
    world.start("p")
    for _ in range(3):
        world.until(LIMIT / 4)
        world.restart()
        world.run()
        assert world.where() == {"p": "n0"}
    world.until(LIMIT / 4)
    assert world.where() == {}


def test_an_object_that_is_made_anew_while_nobody_looks_has_run_since_as_many_as_it_needs_were_taken_over():
    """One that has joined later makes it no younger."""
    world = limited()
    world.pod_group("g", 2, queueName="queue")
    for names in (("g-0", "g-1"), ("g-2",)):
        for name in names:
            world.pod(name, group="g", gpus=2)
        world.run()
        for name in names:
            world.start(name)
        world.until(LIMIT / 4)
    spec = world.objects["PodGroup", "default", "g"]["spec"]
    world.remove_object("PodGroup", "g")
    world.object("PodGroup", "g", spec)
    world.restart()
    world.run()
    assert len(world.where()) == 3
    world.until(LIMIT / 2)
    assert world.where() == {}


def test_who_deletes_the_object_of_his_gang_while_it_is_bound_runs_no_longer_and_is_not_protected_for_ever():
    """Nobody says any more how many it needs: what runs of it is left alone, and was so beyond every limit."""
    world = limited()
    world.hold_binds = True
    world.pod_group("g", 2, queueName="queue")
    for rank in range(2):
        world.pod(f"g-{rank}", group="g", queue="queue", gpus=4)
    world.run()
    first, second = world.pending_binds
    world.answer(first)
    world.start("g-0")
    began = world.now
    world.remove_object("PodGroup", "g")
    world.delete("g-1")
    world.answer(second, "Gone")
    world.until(LIMIT / 2)
    state = world.engine.state
    assert world.where() == {"g-0": "n0"}
    assert protected_until(state, state.workloads["PodGroup", "default", "g"]) == began + MINIMUM
    world.until(LIMIT / 2)
    assert world.where() == {}
