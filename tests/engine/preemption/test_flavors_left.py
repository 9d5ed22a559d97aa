"""Who has waited for victims gets the flavors in which these have left, where those that come first do for a part only."""

from __future__ import annotations

import pytest

from tests.engine.preemption.full_nodes import evicted
from tests.engine.world import World

WITHIN = {"withinClusterQueue": "LowerPriority"}


def two_flavors(*, first: int = 2, second: int = 1) -> World:
    """A queue with so many GPUs of its own in each of two flavors, all of the first in use by a gang of low priority."""
    world = World()
    for name in "ab":
        world.flavor(name, nodeLabels={"kind": name})
        world.node(name, gpus=8, labels={"kind": name})
    quotas = {name: [{"name": "nvidia.com/gpu", "nominalQuota": n}] for name, n in (("a", first), ("b", second))}
    more = [{"name": "cpu", "nominalQuota": 100}, {"name": "memory", "nominalQuota": "1Ti"}]
    flavors = [{"name": name, "resources": [*one, *more]} for name, one in quotas.items()]
    group = {"coveredResources": ["nvidia.com/gpu", "cpu", "memory"], "flavors": flavors}
    world.object("ClusterQueue", "cq", {"namespaceSelector": {}, "resourceGroups": [group], "preemption": WITHIN})
    world.object("LocalQueue", "queue", {"clusterQueue": "cq"})
    world.pod_group("low", first, queueName="queue")
    for rank in range(first):
        world.pod(f"low-{rank}", group="low", selector={"kind": "a"})
    world.run()
    assert len(world.where("low")) == first
    return world


@pytest.mark.parametrize("slowly", [False, True], ids=["at once", "slowly"])
def test_a_small_pod_does_not_go_where_the_large_one_was_to(slowly):
    """The small one had the second flavor; in the first, which comes before it, there is room for it now as well."""
    world = two_flavors()
    world.hold_evictions = slowly
    world.pod_group("g", 2, queueName="queue")
    world.pod("g-0", group="g", gpus=1, priority=10)
    world.pod("g-1", group="g", gpus=2, priority=10)
    world.run()
    assert sorted(evicted(world)) == ["low-0", "low-1"]
    for name in evicted(world) if slowly else ():
        world.delete(name)
        world.until(20)
    assert world.where() == {"g-1": "a", "g-0": "b"}
    assert not world.replay().differences


def test_those_beyond_the_minimum_go_where_there_is_room_beside_them():
    world = two_flavors(first=3, second=2)
    world.pod_group("g", 2, queueName="queue")
    world.pod("g-0", group="g", gpus=1, priority=10)
    world.pod("g-1", group="g", gpus=3, priority=10)
    world.pod("g-2", group="g", gpus=1, priority=10)
    world.run()
    assert world.where() == {"g-1": "a", "g-0": "b", "g-2": "b"}


def test_a_better_flavor_that_has_come_free_for_all_is_taken():
    world = two_flavors()
    world.hold_evictions = True
    world.pod_group("g", 2, queueName="queue")
    world.pod("g-0", group="g", gpus=1, priority=10)
    world.pod("g-1", group="g", gpus=2, priority=10)
    world.run()
    spec = world.objects["ClusterQueue", "", "cq"]["spec"]
    spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = 3
    world.object("ClusterQueue", "cq", spec)
    world.delete(*evicted(world))
    world.run()
    assert world.where() == {"g-1": "a", "g-0": "a"}


def test_victims_that_come_back_do_not_leave_again():
    world = two_flavors()
    world.pod_group("g", 2, queueName="queue")
    world.pod("g-0", group="g", gpus=1, priority=10)
    world.pod("g-1", group="g", gpus=2, priority=10)
    world.run()
    for rank in range(2):
        world.pod(f"low-{rank}-again", group="low", selector={"kind": "a"})
    world.until(600)
    assert len(evicted(world)) == 2
    assert world.where() == {"g-1": "a", "g-0": "b"}
