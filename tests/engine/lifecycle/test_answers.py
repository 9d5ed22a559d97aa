"""What the engine makes of answers that say no, and of amounts of nothing."""

from __future__ import annotations

import itertools

import msgspec

from tests.engine.world import World
from tutti.engine.records.decisions import CreatePodGroup, Evict, PatchStatus
from tutti.engine.records.observations import EvictFinished, PodGroupWritten, PodSeen
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION

PREFIX = "gang-scheduling.preferred.jp/gang"


def test_an_annotation_that_names_a_resource_the_pod_has_none_of_charges_nothing():
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 8)
    said = {"clusterQueue": "cq", "flavors": {"nvidia.com/gpu": "default", "cpu": "default"}}
    annotations = {ADMISSION_ANNOTATION: msgspec.json.encode(said).decode()}
    for name in ("a", "b"):
        world.pod(name, gpus="0", queue="queue", node="n1", annotations=annotations)
    world.run()
    world.finish("a")
    world.run()
    world.finish("b")
    world.run()

    assert world.engine.state.ledger.queues() == []


def half_bound() -> tuple[World, Evict]:
    """A gang of 2 of which one cannot be bound within the window, so the other is to leave, and does not."""
    world = World(bindWindowSeconds=10)
    world.hold_binds = True
    world.node("n1", gpus=2)
    world.gang("g", 2)
    world.decide()
    first, second = list(world.pending_binds)
    world.answer(first)
    world.node("n1", gpus=1)
    world.answer(second, "Failed")
    world._evict = lambda decision: None  # evictions are answered below
    evictions = [d for d in world.until(30) if isinstance(d, Evict)]
    return world, evictions[0]


def test_a_refused_eviction_is_asked_again_only_after_a_while():
    world, eviction = half_bound()
    world.tell(EvictFinished(eviction.namespace, eviction.name, eviction.uid, done=False, message="forbidden"))
    assert not [d for d in world.decide() if isinstance(d, Evict)]

    again = [d for d in world.until(30) if isinstance(d, Evict)]

    assert [one.name for one in again] == [eviction.name]


def test_a_pod_group_that_could_not_be_made_is_asked_for_again_after_a_while():
    world = World()
    world.node("n1")
    for rank in range(2):
        world.pod(f"p-{rank}", annotations={f"{PREFIX}-name": "p", f"{PREFIX}-size": "2"})
    first = [d for d in world.engine.decide(world.now) if isinstance(d, CreatePodGroup)]
    assert len(first) == 1
    world.tell(PodGroupWritten("default", "p", done=False))
    assert not [d for d in world.engine.decide(world.now) if isinstance(d, CreatePodGroup)]

    assert [d for d in world.until(15) if isinstance(d, CreatePodGroup)] == first


def test_a_pod_group_that_is_refused_on_end_is_asked_for_less_and_less_often():
    world = World()
    world.node("n1")
    for rank in range(2):
        world.pod(f"p-{rank}", annotations={f"{PREFIX}-name": "p", f"{PREFIX}-size": "2"})
    asked: list[float] = []
    end = world.now + 3600
    while world.now < end:
        decided = world.engine.decide(world.now)
        if any(isinstance(one, CreatePodGroup) for one in decided):
            asked.append(world.now)
            world.tell(PodGroupWritten("default", "p", done=False))
            world.tell(
                PodSeen(world.pods["default", "p-0"])
            )  # whatever else is seen of it does not have it asked for sooner
        due = world.engine.wakeup()
        world.now = min(end, max(world.now, due if due is not None else end))
    pauses = [after - before for before, after in itertools.pairwise(asked)]
    assert 10 <= pauses[0] < 20
    assert all(after > before for before, after in itertools.pairwise(pauses[:5]))
    assert 300 <= pauses[-1] <= 375
    assert len(asked) < 20


def test_a_position_that_a_workload_has_no_more_is_taken_off_its_status():
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("cq", 1)
    world.gang("g", 2, queue="queue")
    world.run()
    assert world.status("PodGroup", "g")["pendingReason"]["position"] == 1
    world.remove_object("LocalQueue", "queue")
    world.until(30)

    assert world.status("PodGroup", "g")["pendingReason"]["reasons"][0]["reason"] == "LocalQueueNotFound"
    assert "position" not in world.status("PodGroup", "g")["pendingReason"]


def test_a_queue_that_cannot_be_read_gets_an_event_and_its_condition_is_left_to_the_controller():
    world = World()
    world.flavor()
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": 1}]}
    group = {"coveredResources": ["cpu"], "flavors": [flavor, flavor]}
    world.object("ClusterQueue", "cq", {"resourceGroups": [group]})
    decisions = world.run()

    assert [e.name for e in world.events("Invalid")] == ["cq"]
    assert not [d for d in decisions if isinstance(d, PatchStatus) and d.kind == "ClusterQueue"]
