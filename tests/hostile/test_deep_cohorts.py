"""Chains of thousands of cohorts, and rings as long."""

from __future__ import annotations

import pytest

from tests.engine.world import World
from tutti.quota.references import MOST_COHORTS_ABOVE

LENGTH = 3000


def world_of(length: int, end: str = "") -> World:
    """A queue at the lower end of so many cohorts, and one that is in none."""
    world = World()
    world.node("node", gpus=8)
    world.flavor()
    for number in range(length):
        parent = f"c{number + 1}" if number + 1 < length else end
        world.object("Cohort", f"c{number}", {"parentName": parent} if parent else {})
    world.queue("below", 4, cohort="c0", local="below")
    world.queue("apart", 4, local="apart")
    for queue in ("below", "apart"):
        for number in range(3):
            world.pod(f"{queue}-{number}", queue=queue)
    world.run()
    return world


@pytest.mark.parametrize(("end", "reason"), [("", "CohortTooDeep"), ("c0", "CohortRing")])
def test_a_queue_below_thousands_of_cohorts_waits_and_says_why_and_others_go_on(end: str, reason: str) -> None:
    """Every pod of such a queue was set aside, and one turn took a minute."""
    world = world_of(LENGTH, end)
    assert sorted(world.where()) == ["apart-0", "apart-1", "apart-2"]
    assert not world.engine.state.faults
    assert world.engine.state.catalog.queues["below"].problem.reason == reason
    assert world.reason("Pod", "below-0") == "ClusterQueueInactive"


def test_as_many_cohorts_as_may_be_above_one_are_gone_through() -> None:
    world = world_of(MOST_COHORTS_ABOVE + 1)
    assert len(world.where()) == 6
    assert world.used("below") == 3
