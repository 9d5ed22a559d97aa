"""Who is protected until it has run for as long as its queue says."""

from __future__ import annotations

import pytest

from tests.engine.lifecycle.workloads_to_evict import create, one_node, running
from tests.engine.world import World
from tutti.engine.lifecycle import quota_usage


@pytest.fixture
def world() -> World:
    return one_node()


def test_a_young_workload_is_protected_until_it_has_run_for_the_minimum(world):
    world.queue("cq", 8, preemption={"minimumRuntimeSeconds": 600})
    world.workload("w", {"name": "main", "count": 2}, queueName="queue")
    world.run()
    state = world.engine.state
    workload = state.workloads["Workload", "default", "w"]
    assert quota_usage.protected_until(state, workload) == 0.0
    create(world)
    world.run()
    began = world.now
    world.until(100)
    assert quota_usage.protected_until(state, workload) == began + 600


def test_without_a_minimum_nobody_is_protected(world):
    running(world)
    state = world.engine.state
    assert quota_usage.protected_until(state, state.workloads["Workload", "default", "w"]) == 0.0


@pytest.mark.parametrize("restarted", [False, True])
def test_a_queue_that_cannot_be_read_goes_on_protecting(world, restarted):
    """It used to protect nobody then. What it says of this can be read, also by a process that never could the rest."""
    minimum = {"minimumRuntimeSeconds": 600}
    world.queue("cq", 8, preemption=minimum)
    running(world)
    began = world.now
    world.queue("cq", 8, queueingStrategy="Random", preemption=minimum)
    world.run()
    if restarted:
        world.restart()
        world.run()
    state = world.engine.state
    assert quota_usage.protected_until(state, state.workloads["Workload", "default", "w"]) == began + 600
    world.object("ClusterQueue", "cq", {"queueingStrategy": "Random"})
    world.run()
    assert quota_usage.protected_until(state, state.workloads["Workload", "default", "w"]) == 0.0


@pytest.mark.parametrize(
    "spec", ["no spec", ["neither"], {"preemption": 3}, {"preemption": {"minimumRuntimeSeconds": "long"}}]
)
def test_where_that_itself_cannot_be_read_the_last_that_could_goes_on_protecting(world, spec):
    world.queue("cq", 8, preemption={"minimumRuntimeSeconds": 600})
    running(world)
    began = world.now
    for _ in range(2):
        world.object("ClusterQueue", "cq", spec)
        world.run()
    state = world.engine.state
    workload = state.workloads["Workload", "default", "w"]
    assert quota_usage.protected_until(state, workload) == began + 600
    world.remove_object("ClusterQueue", "cq")
    world.run()
    assert quota_usage.protected_until(state, workload) == 0.0
