"""What becomes of the queues themselves: their counts, their deletion, what they refer to."""

from __future__ import annotations

from tests.engine.world import World
from tutti.engine.observations import ObjectSeen


def test_a_queue_that_is_being_deleted_admits_nobody_any_more():
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 8)
    world.gang("first", 2, queue="queue")
    world.run()
    found = world.objects["ClusterQueue", "", "cq"]
    found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.tell(ObjectSeen("ClusterQueue", found))
    world.gang("second", 2, queue="queue")
    world.run()

    assert len(world.where("first")) == 2  # what runs goes on
    assert world.where("second") == {}
    assert "being deleted" in world.why("PodGroup", "second").message


def test_counts_that_went_stale_while_nobody_looked_are_corrected_at_the_start():
    world = World(synced=False)
    world.flavor()
    world.queue("cq", 8)
    stale = {"pendingWorkloads": 3, "reservingWorkloads": 1, "admittedWorkloads": 1}
    for kind, name in (("ClusterQueue", "cq"), ("LocalQueue", "queue")):
        world.objects[kind, "default" if kind == "LocalQueue" else "", name]["status"] = dict(stale)
    world.restart()
    world.run()

    for kind, name in (("ClusterQueue", "cq"), ("LocalQueue", "queue")):
        status = world.status(kind, name)
        assert {key: status[key] for key in stale} == dict.fromkeys(stale, 0)


def test_the_time_of_the_next_try_is_taken_off_the_status_with_the_try():
    world = World(permitTimeoutSeconds=10)
    world.node("n1")
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    world.object("Workload", "w", {"podGroups": [{"name": "main", "count": 1, "template": template}]})
    world.run()
    world.until(10)
    assert "at" in world.status("Workload", "w")["requeue"]
    world.until(5)

    assert world.status("Workload", "w")["requeue"].get("at") is None
