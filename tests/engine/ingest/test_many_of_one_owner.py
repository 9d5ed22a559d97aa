"""What one tenant makes under one owner costs in proportion to how much it is: counted in steps, never in seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from tests.engine.ingest.owners import INDEX, indexed
from tests.engine.world import World, replaced

JOBSET = "jobset.sigs.k8s.io/"
EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}

Deed = Callable[[], object]


def steps(act: Deed) -> int:
    """How many instructions of the operator it takes, those of comprehensions included."""
    taken = 0

    def follow(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal taken
        if event == "call":
            if "/tutti/" not in frame.f_code.co_filename:
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        taken += event == "opcode"
        return follow

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        act()
    finally:
        sys.settrace(before)
    return taken


def a_world(nodes: int = 0) -> World:
    world = World()
    world.follow_owners()
    for number in range(nodes):
        world.node(f"n{number}", gpus=800, cpu=100_000, labels={"rack": f"r{number}"})
    return world


def led(world: World, replicas: int, **more: object) -> None:
    """A JobSet whose replicas are each in a rack, and the leader of each replica."""
    roles = [{"name": "w", "replicas": replicas, "template": {"spec": indexed(2)}}]
    owner = world.owner("JobSet", "s", annotations=EXCLUSIVE, spec={"replicatedJobs": roles})
    for number in range(replicas):
        labels = {INDEX: "0", f"{JOBSET}replicatedjob-name": "w", f"{JOBSET}job-index": str(number)}
        world.pod(f"w{number}", owner=owner, gpus=0, labels=labels, **more)


def touching_one_that_is_gated(replicas: int) -> Deed:
    world = a_world()
    led(world, replicas, gated=True)
    world.decide()
    pod = world.pods["default", "w0"]
    world.put(replaced(pod, metadata=replaced(pod.metadata, labels=pod.metadata.labels | {"x": "1"})))
    return world.decide


def placing_led_replicas(replicas: int) -> Deed:
    world = a_world(4)
    led(world, replicas)
    return world.decide


def deleting_from_the_top(jobs: int) -> Deed:
    world = a_world()
    spec = {"replicatedJobs": [{"name": "a", "replicas": 1, "template": {"spec": indexed(1)}}]}
    top = world.owner("JobSet", "js", spec=spec)
    owners = [top, *(world.owner("Job", f"j{number}", controller=top, spec=indexed(1)) for number in range(jobs))]
    return lambda: [world.remove_owner(one) for one in owners]


@pytest.mark.parametrize(
    "deed",
    [touching_one_that_is_gated, placing_led_replicas, deleting_from_the_top],
    ids=lambda deed: deed.__name__,
)
def test_twice_as_many_cost_about_twice_as_much(deed):
    once, twice = (steps(deed(number)) for number in (40, 80))
    assert twice < 2.6 * once, (once, twice)
