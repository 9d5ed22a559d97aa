"""`tutti explain` finds what waits suspended by the name of the Job that its user knows."""

from __future__ import annotations

from tests.engine.held_owners import HeldWorld
from tutti.cli.views.explain.lookup import find_workload
from tutti.cli.views.listing import Listed


def test_a_job_without_pods_is_found_by_its_name():
    world = HeldWorld()
    world.flavor()
    world.queue("team", 2, manage="Suspend")
    world.node("n", gpus=8)
    world.job("train", 3)
    world.run()

    found = find_workload(world.engine.state, Listed(seen=()), "default", "train")

    assert found[0] == "PodGroup"
    assert world.engine.state.workloads[found].explanation.reason == "ExceedsMaxQuota"
    assert "there is no" in find_workload(world.engine.state, Listed(seen=()), "other", "train")
