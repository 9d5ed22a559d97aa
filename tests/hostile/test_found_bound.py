"""Pods that a tenant binds himself, into a queue that never admitted them."""

from __future__ import annotations

import pytest

from tests.engine.world import World
from tutti.api.selectors import Taint


@pytest.mark.parametrize("named", ["queue", "group"])
def test_a_pod_that_names_a_dead_node_itself_takes_no_quota_of_its_cohort(named: str) -> None:
    """It asks for any amount, and no kubelet is there to refuse it."""
    world = World(namespaces=("default", "theirs"))
    world.node("n0", gpus=8)
    world.node("dead", gpus=8, taints=[Taint("node.kubernetes.io/unreachable", effect="NoSchedule")])
    world.flavor()
    world.queue("honest", 4, cohort="all")
    world.queue("theirs", 4, cohort="all", namespace="theirs")
    world.pod_group("g", 1, "theirs", queueName="queue")
    names = {"queue": "queue"} if named == "queue" else {"group": "g"}
    world.pod("t", namespace="theirs", node="dead", gpus=1000, **names)
    world.run()
    world.pod("works", queue="queue", gpus=4)
    world.run()
    assert world.where() == {"works": "n0"}
    world.restart()
    world.run()
    assert world.used("theirs") == 0
