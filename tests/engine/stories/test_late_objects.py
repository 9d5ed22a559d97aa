"""What pods name may be seen after them, change, or never come: who waits for it, and when that is told."""

from __future__ import annotations

import msgspec
import pytest

from tests.engine.world import World


def test_members_may_come_before_their_pod_group():
    world = World()
    world.node("n1")
    for rank in range(2):
        world.pod(f"g-{rank}", group="g")
    world.run()
    assert world.reason("PodGroup", "g") == "PodGroupNotFound"
    assert world.where() == {}
    world.pod_group("g", 2)
    world.run()
    assert len(world.where()) == 2


def test_nobody_is_told_of_a_pod_group_that_is_only_seen_after_its_pods():
    """Both were created together; the pods' watch was faster. The gang fits nowhere, and that is what is told."""
    world = World()
    world.node("n1", gpus=1)
    for rank in range(2):
        world.pod(f"g-{rank}", group="g")
    world.run()
    assert world.reason("PodGroup", "g") == "PodGroupNotFound"
    assert world.pod_condition("g-0") is None
    assert not world.events()
    world.now += 1.0
    world.pod_group("g", 2)
    world.run()
    assert world.pod_condition("g-0").reason == "Unschedulable"
    assert [event.reason for event in world.events()] == ["FailedScheduling"]


def test_who_names_a_pod_group_that_nobody_makes_is_told_so_soon():
    world = World()
    world.node("n1", gpus=1)
    world.pod("g-0", group="g")
    world.run()
    assert world.engine.wakeup() == world.now + 2.0
    world.now += 2.0
    world.run()
    told = world.pod_condition("g-0")
    assert (told.reason, told.message.partition(",")[0]) == ("PodGroupNotFound", "PodGroup default/g")
    assert [event.reason for event in world.events()] == ["FailedScheduling"]


@pytest.mark.parametrize("first", ["PodGroup", "LocalQueue"])
def test_what_is_seen_one_after_the_other_is_told_to_nobody(first):
    """Whatever came first, it is the whole time that counts in which something was missing."""
    world = World()
    world.node("n1")
    world.flavor()
    world.pod("g-0", group="g", queue="queue")
    world.run()
    made = {"PodGroup": lambda: world.pod_group("g", 1), "LocalQueue": lambda: world.queue("cq", 16)}
    made.pop(first)()
    world.now += 1.0
    world.run()
    assert not world.events()
    made.popitem()[1]()
    world.run()
    assert world.where() == {"g-0": "n1"}
    assert [event.reason for event in world.events()] == ["Scheduled"]


def test_who_names_a_queue_that_nobody_makes_is_told_so_soon():
    world = World()
    world.node("n1")
    world.pod("p", queue="nowhere")
    world.run()
    assert world.pod_condition("p") is None
    world.now += 2.0
    world.run()
    assert world.pod_condition("p").reason == "LocalQueueNotFound"


def test_who_was_told_something_else_is_told_at_once_that_the_pod_group_is_gone():
    world = World()
    world.node("n1", gpus=1)
    world.gang("g", 2)
    world.run()
    assert world.pod_condition("g-0").reason == "Unschedulable"
    world.remove_object("PodGroup", "g")
    world.run()
    assert world.pod_condition("g-0").reason == "PodGroupNotFound"


def test_members_may_come_before_their_workload():
    world = World()
    world.node("n1")
    world.pod("w-0", workload="w")
    world.run()
    assert world.reason("Workload", "w") == "WorkloadNotFound"
    world.workload("w", {"count": 1})
    world.run()
    assert world.where() == {"w-0": "n1"}


def test_members_move_to_the_workload_that_their_pod_group_turns_out_to_belong_to():
    world = World()
    world.node("n1")
    world.workload("w", {"name": "workers", "count": 2})
    world.pod("p-0", group="g")
    world.pod("p-1", group="g")
    world.run()
    assert world.where() == {}
    world.pod_group("g", 2, workloadRef={"name": "w", "podGroup": "workers"})
    world.run()
    assert len(world.where()) == 2
    assert world.condition("Workload", "w", "Admitted")["status"] == "True"


def test_who_names_a_pod_group_is_forgotten_with_the_last_that_does():
    world = World()
    world.node("n1")
    for rank in range(2):
        world.pod(f"g-{rank}", group="g")
    world.pod("other", group="h")
    naming = world.engine.state.members_by_reference
    assert {name: len(members) for name, members in naming.items()} == {("default", "g"): 2, ("default", "h"): 1}

    world.pod("other", group="g")  # the same name, another pod, another group
    world.delete("g-0")
    assert {name: len(members) for name, members in naming.items()} == {("default", "g"): 2}
    world.delete("g-1", "other")
    assert not naming


def test_what_a_pod_says_of_itself_is_read_again_when_it_changes():
    world = World()
    world.node("n1")
    pod = world.pod("p", gated=True)
    world.run()
    meta = msgspec.structs.replace(pod.metadata, labels={"scheduling.tutti.dev/pod-group": "g"})
    world.put(msgspec.structs.replace(pod, metadata=meta))
    world.run()
    assert world.reason("PodGroup", "g") == "PodGroupNotFound"
