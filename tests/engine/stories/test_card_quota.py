"""Quota of shared cards: their memory, percent and number, however they are asked for."""

from __future__ import annotations

from tests.engine.hami_world import HamiWorld
from tests.engine.world import GPU, replaced
from tutti.api.hami import MEMORY, PERCENTAGE
from tutti.engine.records.explanation import Gate
from tutti.engine.records.observations import NodeSeen


def test_quota_counts_memory_of_all_cards_and_closes_the_other_way_to_ask():
    world = HamiWorld()
    world.machine("a", 4)
    world.flavor()
    group = {
        "coveredResources": [GPU, MEMORY, "cpu", "memory"],
        "flavors": [
            {
                "name": "default",
                "resources": [
                    {"name": GPU, "nominalQuota": 10},
                    {"name": MEMORY, "nominalQuota": 20000},
                    {"name": "cpu", "nominalQuota": 100},
                    {"name": "memory", "nominalQuota": "1000Gi"},
                ],
            }
        ],
    }
    world.object("ClusterQueue", "team", {"namespaceSelector": {}, "resourceGroups": [group]})
    world.object("LocalQueue", "queue", {"clusterQueue": "team"})
    world.card_pod("first", 6000, count=2, queue="queue")
    world.card_pod("second", 9000, queue="queue")
    world.card_pod("by-percent", percent=10, queue="queue")
    world.run()

    assert set(world.where()) == {"first"}
    assert world.used("team", resource=MEMORY) == 12000
    second, by_percent = world.why("Pod", "second"), world.why("Pod", "by-percent")
    assert second is not None
    assert by_percent is not None
    assert second.gate is Gate.QUOTA
    assert by_percent.reason == "ResourceNotCovered"
    assert PERCENTAGE in by_percent.message
    world.delete("second", "by-percent")
    world.card_pod("third", 8000, queue="queue")
    world.run()
    assert "third" in world.where()


def test_quota_of_gpus_in_percent_counts_whole_cards_too():
    world = HamiWorld()
    world.machine("a", 4)
    world.flavor()
    names = {GPU: 10, PERCENTAGE: 250, "cpu": 100, "memory": "1000Gi"}
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in names.items()]
    group = {"coveredResources": list(names), "flavors": [{"name": "default", "resources": quotas}]}
    world.object("ClusterQueue", "team", {"namespaceSelector": {}, "resourceGroups": [group]})
    world.object("LocalQueue", "queue", {"clusterQueue": "team"})
    world.card_pod("whole", count=2, queue="queue")
    world.card_pod("half", percent=50, queue="queue")
    world.run()
    world.card_pod("more", percent=1, queue="queue")
    world.run()
    assert set(world.where()) == {"whole", "half"}
    assert world.used("team", resource=PERCENTAGE) == 250


def test_a_queue_that_limits_neither_memory_nor_percent_lets_both_in():
    world = HamiWorld()
    world.machine("a", 4)
    world.flavor()
    world.queue("team", 10)
    world.card_pod("mib", 4000, cores=30, queue="queue")
    world.card_pod("percent", percent=10, queue="queue")
    world.run()
    assert set(world.where()) == {"mib", "percent"}


def test_shared_and_mig_resources_are_counted_as_they_are():
    world = HamiWorld(hami=None)
    world.node("a", gpus=0)
    offers = {**world.nodes["a"].status.allocatable, "nvidia.com/gpu.shared": "4", "nvidia.com/mig-1g.5gb": "7"}
    world.nodes["a"] = replaced(world.nodes["a"], status=replaced(world.nodes["a"].status, allocatable=offers))
    world.tell(NodeSeen(world.nodes["a"]))
    world.flavor()
    names = {"nvidia.com/gpu.shared": 3, "nvidia.com/mig-1g.5gb": 2, "cpu": 100, "memory": "1000Gi"}
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in names.items()]
    group = {"coveredResources": list(names), "flavors": [{"name": "default", "resources": quotas}]}
    world.object("ClusterQueue", "team", {"namespaceSelector": {}, "resourceGroups": [group]})
    world.object("LocalQueue", "queue", {"clusterQueue": "team"})
    world.sharing_gang("shared", 3, limits={"nvidia.com/gpu.shared": "1"}, queue="queue")
    for at in range(3):
        world.card_pod(f"mig-{at}", limits={"nvidia.com/mig-1g.5gb": "1"}, queue="queue")
    world.run()
    assert len(world.where("shared")) == 3
    assert len(world.where("mig")) == 2
    assert world.used("team", resource="nvidia.com/gpu.shared") == 3
