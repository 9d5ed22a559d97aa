"""What is seen of an object of ours is mostly the echo of a status written here: it costs nothing, and hides nothing."""

from __future__ import annotations

import copy

from tests.engine.world import World
from tutti.engine.records.decisions import PatchStatus
from tutti.engine.records.observations import ObjectSeen


def waiting() -> World:
    world = World()
    world.flavor()
    world.queue("cq", 0)
    world.workload("w", {"name": "main", "count": 1}, queueName="queue")
    world.pod("p", workload="w")
    world.run()
    assert world.reason("Workload", "w") == "ExceedsMaxQuota"
    return world


def test_the_echo_of_a_status_has_nothing_looked_at():
    world = waiting()
    for kind, name in (("Workload", "w"), ("LocalQueue", "queue"), ("ClusterQueue", "cq")):
        key = (kind, "" if kind == "ClusterQueue" else "default", name)
        raw = copy.deepcopy(world.objects[key])
        raw["metadata"] |= {"resourceVersion": "17", "managedFields": [{"manager": "tutti"}]}
        before = world.engine.state.catalog.find(key)
        world.tell(ObjectSeen(kind, raw))
        assert world.engine.state.catalog.find(key) is before
    assert not world.engine.state.dirty


def test_a_change_is_taken_in_though_its_generation_is_the_same():
    world = waiting()
    raw = copy.deepcopy(world.objects["Workload", "default", "w"])
    raw["spec"]["active"] = False
    world.put_object("Workload", raw)
    world.run()
    assert world.reason("Workload", "w") == "Deactivated"


def test_a_successor_of_the_same_name_and_spec_is_another_object():
    world = waiting()
    raw = copy.deepcopy(world.objects["Workload", "default", "w"])
    raw["metadata"]["uid"] = "another"
    raw["status"] = {}
    world.put_object("Workload", raw)
    world.run()
    assert world.engine.state.workloads["Workload", "default", "w"].uid == "another"
    assert world.objects["Workload", "default", "w"]["status"]["pending"]["reasons"][0]["reason"] == "ExceedsMaxQuota"


def test_a_queue_that_many_objects_describe_is_taken_over_once_for_all():
    """A thousand queues that are listed at the start must not each have all of them worked out anew."""
    world = World(synced=False)
    epochs = world.engine.state.ledger.changes.version("q0")
    world.flavor()
    for number in range(20):
        world.queue(f"q{number}", 1, local=f"l{number}")
    assert world.engine.state.ledger.changes.version("q0") == epochs
    world.restart()
    world.run()
    assert world.engine.state.ledger.changes.version("q0") == (epochs[0] + 1, 0)


def test_what_a_former_leader_wrote_to_a_queue_is_put_right_though_it_is_seen_late():
    """This process had begun by what it knew: nobody waits. The other one's last word said that somebody does."""
    world = ended()
    former = copy.deepcopy(world.objects["LocalQueue", "default", "queue"])
    world.restart()
    world.run()
    former["status"] |= {"pendingWorkloads": 1}
    world.put_object("LocalQueue", former)
    world.run()
    assert world.status("LocalQueue", "queue")["pendingWorkloads"] == 0


def test_what_a_former_leader_wrote_of_a_gang_is_put_right_though_it_is_seen_late():
    world = ended()
    former = copy.deepcopy(world.objects["Workload", "default", "w"])
    world.restart()
    world.run()
    former["status"]["conditions"] = [one for one in former["status"]["conditions"] if one["type"] != "Finished"]
    world.put_object("Workload", former)
    world.run()
    assert world.condition("Workload", "w", "Finished")["status"] == "True"


def test_what_a_process_writes_first_is_all_of_it_and_then_what_is_new():
    """So nothing stays of what a former leader wrote after this one had read, seen or not."""
    world = ended()
    world.restart()
    world.run()
    world.log.clear()
    world.pod("q", queue="queue")
    world.run()
    world.pod("r", queue="queue")
    world.run()
    told = [one.status for one in world.log if isinstance(one, PatchStatus) and one.kind == "LocalQueue"]
    assert set(told[0]) > {"pendingWorkloads", "reservingWorkloads", "admittedWorkloads", "flavorsUsage"}
    assert "pendingWorkloads" not in told[-1]


def ended() -> World:
    world = World()
    world.node("n1")
    world.flavor()
    world.queue("cq", 8)
    world.workload("w", {"name": "main", "count": 1}, queueName="queue")
    world.pod("p", workload="w")
    world.run()
    world.finish("p")
    world.run()
    return world
