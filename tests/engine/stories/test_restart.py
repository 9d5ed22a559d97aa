"""A restarted engine knows what the cluster says, and goes on from there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.lifecycle.test_permit import TEMPLATE
from tests.engine.world import World, replaced
from tutti.api.core import PodCondition
from tutti.engine.records.decisions import Bind, EmitEvent, Evict, PatchStatus
from tutti.engine.records.observations import Synced
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION

BOTH_WAYS = pytest.mark.parametrize("backwards", [False, True], ids=["in order", "backwards"])


@BOTH_WAYS
def test_a_restart_in_the_middle_of_binding_completes_the_gang(backwards):
    world = World()
    world.node("n1", gpus=4)
    world.hold_binds = True
    world.gang("g", 4)
    world.run()
    for bind in world.pending_binds[:2]:
        world.land(bind)
    world.restart(backwards=backwards)
    world.hold_binds = False
    world.run()
    assert len(world.where()) == 4
    assert world.condition("PodGroup", "g", "Scheduled")["status"] == "True"


def test_a_restart_in_the_middle_of_binding_takes_the_gang_out_if_it_cannot_be_completed():
    world = World()
    world.node("n1", gpus=2)
    world.node("n2", gpus=2)
    world.hold_binds = True
    world.gang("g", 4)
    world.run()
    landed = [bind for bind in world.pending_binds if bind.node == "n1"]
    for bind in landed:
        world.land(bind)
    world.remove_node("n2")
    world.restart()
    world.until(59.0)
    assert len(world.where()) == 2
    world.until(2.0)
    assert world.where() == {}
    assert {d.name for d in world.log if isinstance(d, Evict)} == {bind.name for bind in landed}


@BOTH_WAYS
def test_a_restart_changes_nothing_about_what_runs(backwards):
    world = World()
    world.flavor()
    world.queue("cq", 8)
    world.node("n1")
    world.gang("g", 3, queue="queue")
    world.workload("w", {"count": 1}, queueName="queue")
    world.pod("w-0", workload="w")
    world.pod("alone", queue="queue")
    world.run()
    assert world.used("cq") == 5
    world.restart(backwards=backwards)
    written = world.run()
    assert [d for d in written if isinstance(d, Bind | Evict | EmitEvent | PatchStatus)] == []
    assert world.used("cq") == 5


def test_a_restart_does_not_touch_a_running_gang_that_has_lost_a_member():
    world = World()
    world.node("n1")
    world.gang("g", 3)
    world.run()
    world.finish("g-0", phase="Failed")
    world.run()
    world.restart()
    world.until(200.0)
    assert not [d for d in world.log if isinstance(d, Evict)]
    assert world.engine.state.workloads["PodGroup", "default", "g"].was_scheduled


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_restart_says_nothing_of_what_is_over(phase):
    world = World()
    world.node("n1")
    world.gang("g", 2)
    world.pod("alone")
    world.run()
    world.finish("g-0", "g-1", "alone", phase=phase)
    world.run()
    told = world.condition("PodGroup", "g", "Finished")
    world.restart()
    assert world.run() == []
    assert world.condition("PodGroup", "g", "Finished") == told


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_gang_that_was_bound_and_ended_while_nobody_looked_is_told_to_have_run(phase):
    world = World()
    world.node("n1")
    world.hold_binds = True
    world.gang("g", 2)
    world.run()
    assert world.condition("PodGroup", "g", "Scheduled")["status"] == "False"
    for bind in world.pending_binds:
        world.land(bind)
    world.finish("g-0", "g-1", phase=phase)
    world.restart()
    world.run()
    assert world.condition("PodGroup", "g", "Finished")["status"] == "True"
    assert world.condition("PodGroup", "g", "Scheduled")["status"] == "True"


def test_a_gang_whose_pods_were_failed_before_they_had_nodes_has_not_been_scheduled():
    world = World()
    world.gang("g", 2)
    world.run()
    world.finish("g-0", "g-1", phase="Failed")
    world.run()
    assert world.condition("PodGroup", "g", "Finished")["status"] == "True"
    assert world.condition("PodGroup", "g", "Scheduled")["status"] == "False"


def two_flavors() -> World:
    world = World()
    world.flavor("a", nodeLabels={"kind": "a"})
    world.flavor("b", nodeLabels={"kind": "b"})
    world.queue("cq", 1, flavors=("a", "b"))
    world.node("na", gpus=8, labels={"kind": "a"})
    world.node("nb", gpus=8, labels={"kind": "b"})
    for name in ("p", "q"):
        world.pod(name, queue="queue")
        world.run()
    return world


def test_usage_is_recovered_from_the_admission_annotation():
    world = two_flavors()
    assert (world.used("cq", "a"), world.used("cq", "b")) == (1, 1)
    world.flavor("b", nodeLabels={"kind": "renamed"})
    world.restart()
    world.run()
    assert (world.used("cq", "a"), world.used("cq", "b")) == (1, 1)


def test_usage_is_recovered_of_a_gang_whose_pod_group_is_gone():
    """Its pods run on, and their room in the quota is not free."""
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n1")
    world.object("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 2}}, "queueName": "queue"})
    for rank in range(2):
        world.pod(f"g-{rank}", group="g")
    world.run()
    world.remove_object("PodGroup", "g")
    world.run()
    assert world.used("cq") == 2
    world.restart()
    world.run()
    assert world.used("cq") == 2


def test_pods_that_name_no_pod_group_there_is_cannot_take_the_quota_of_another_namespace():
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n1")
    said = '{"clusterQueue": "cq", "flavors": {"nvidia.com/gpu": "default"}}'
    world.pod("thief", namespace="elsewhere", group="g", node="n1", annotations={ADMISSION_ANNOTATION: said})
    world.run()
    assert world.used("cq") == 0


def test_usage_is_recovered_from_the_node_where_there_is_no_annotation():
    world = two_flavors()
    for key, pod in world.pods.items():
        world.pods[key] = replaced(pod, metadata=replaced(pod.metadata, annotations={}))
    world.restart()
    world.run()
    assert (world.used("cq", "a"), world.used("cq", "b")) == (1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"clusterQueue": "cq"}',
        '{"clusterQueue": 1, "flavors": {}}',
        '{"clusterQueue": "cq", "flavors": {"nvidia.com/gpu": ["a"]}}',
        '{"clusterQueue": "cq", "flavors": "gpu"}',
        '{"clusterQueue": "another", "flavors": {"nvidia.com/gpu": "a"}}',
    ],
)
def test_an_annotation_that_somebody_wrote_over_is_not_believed(text):
    world = two_flavors()
    for key, pod in world.pods.items():
        annotations = {"scheduling.tutti.dev/admission": text}
        world.pods[key] = replaced(pod, metadata=replaced(pod.metadata, annotations=annotations))
    world.restart()
    world.run()
    assert (world.used("cq", "a"), world.used("cq", "b")) == (1, 1)
    assert world.engine.state.ledger.queues() == ["cq"]


def test_a_pod_without_a_queue_cannot_charge_another_by_annotation():
    world = two_flavors()
    forged = {"scheduling.tutti.dev/admission": '{"clusterQueue": "cq", "flavors": {"nvidia.com/gpu": "a"}}'}
    world.pod("forged", annotations=forged)
    world.run()
    world.restart()
    world.run()
    assert world.used("cq", "a") == 1


def test_a_restart_takes_up_a_reservation_again():
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n1")
    world.workload("w", {"count": 2, "template": TEMPLATE}, queueName="queue")
    world.run()
    world.restart()
    world.run()
    assert world.used("cq") == 2
    for rank in range(2):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    assert len(world.where()) == 2


def test_a_restart_tells_no_pod_again_what_its_condition_says():
    world = World()
    world.node("n1", gpus=1)
    world.pod("big", gpus=2)
    world.run()
    condition = world.pod_condition("big")
    assert (condition.status, condition.reason) == ("False", "Unschedulable")
    world.restart()
    assert [type(d).__name__ for d in world.run()] == ["EmitEvent"]


def test_a_process_that_stood_by_knows_what_pods_were_told_last():
    world = World()
    world.node("n1", gpus=1)
    world.pod("big", gpus=2)
    world.run()
    first = world.pods["default", "big"]
    other = PodCondition("PodScheduled", "False", "WaitingForVictims", "what it waited for a moment ago")
    last = replaced(first, status=replaced(first.status, conditions=[other]))
    world.restart(synced=False)
    world.put(last)
    world.tell(Synced())
    world.run()
    condition = world.pod_condition("big")
    assert (condition.status, condition.reason) == ("False", "Unschedulable")


def test_a_restart_says_nothing_again_of_an_object_that_cannot_be_read():
    world = World()
    world.pod_group("g", 0)
    world.run()
    assert len(world.events("Invalid")) == 1
    world.restart()
    assert world.run() == []


def test_what_runs_of_a_workload_whose_object_is_gone_is_left_alone_until_it_is_back():
    world = World()
    world.node("n0", gpus=2)
    groups = {"name": "leader", "count": 1}, {"name": "workers", "count": 1}
    world.workload("w", *groups)
    world.pod("w-leader", workload="w", group="leader")
    world.pod("w-0", workload="w", group="workers")
    world.run()
    world.remove_object("Workload", "w")
    world.delete("w-0")
    world.pod("w-1", gpus=8, workload="w", group="workers")
    world.run()
    world.restart()
    world.until(2 * world.configuration.bind_window_seconds)
    assert world.where() == {"w-leader": "n0"}
    assert world.reason("Workload", "w") == "WorkloadNotFound"
    world.workload("w", *groups)
    world.until(2 * world.configuration.bind_window_seconds)
    assert world.where() == {}  # it never comes to be whole now


def test_a_process_that_stands_by_forgets_what_has_gone():
    """It is told everything and decides nothing, for weeks; it used to remember every workload that there had been."""
    world = World()
    for number in range(3):
        world.gang(f"g{number}", 2)
        world.delete(f"g{number}-0", f"g{number}-1")
        world.remove_object("PodGroup", f"g{number}")
        world.pod(f"p{number}")
        world.delete(f"p{number}")
    world.gang("stays", 2)
    state = world.engine.state
    assert list(state.workloads) == [("PodGroup", "default", "stays")]
    assert list(state.members) == [("default", "stays-0"), ("default", "stays-1")]
    world.node("n")
    world.run()
    assert len(world.where("stays")) == 2


def reserved_beside_an_older_one(**workload: Any) -> World:
    """Two of two GPUs are reserved for a workload that waits for its members; one that is older has come too late."""
    world = World()
    world.flavor()
    world.queue("cq", 2)
    world.queue("other", 2, local="others", stopPolicy="Hold")
    world.node("n1", gpus=2)
    world.pod("older", queue="others")
    world.now += 1
    world.workload("w", {"count": 2, "template": TEMPLATE}, queueName="queue", **workload)
    world.run()
    assert world.reason("Workload", "w") == "WaitingForMembers"
    other = world.objects["ClusterQueue", "", "other"]["spec"]
    world.object("ClusterQueue", "other", {**other, "stopPolicy": "None"})
    world.run()
    assert world.where() == {}
    return world


@BOTH_WAYS
def test_who_had_a_reservation_has_it_again_before_others_are_tried(backwards):
    world = reserved_beside_an_older_one()
    world.restart(backwards=backwards)
    world.run()
    assert world.where() == {}
    assert world.used("cq") == 2
    for rank in range(2):
        world.pod(f"w-{rank}", workload="w")
    world.run()
    assert len(world.where("w")) == 2


def test_who_was_taken_out_and_has_left_meanwhile_goes_before_nobody():
    world = World()
    world.hold_evictions = True
    world.flavor()
    world.queue("cq", 2, preemption={"withinClusterQueue": "LowerPriority"})
    world.node("n1", gpus=2)
    world.workload("victim", {"count": 1}, queueName="queue")
    world.pod("victim-0", gpus=2, workload="victim")
    world.run()
    world.pod("more-important", gpus=1, priority=5, queue="queue")
    world.run()
    assert world.condition("Workload", "victim", "QuotaReserved")["status"] == "True"
    world.delete("victim-0")
    world.pod("victim-0-again", workload="victim")
    world.pod("another", gpus=1, priority=5, queue="queue")
    world.restart()
    world.run()
    assert set(world.where()) == {"more-important", "another"}


def test_a_reservation_is_held_no_longer_after_a_restart():
    world = reserved_beside_an_older_one(scheduleTimeoutSeconds=60)
    world.until(40)
    world.restart()
    world.until(18)
    assert world.reason("Workload", "w") == "WaitingForMembers"
    world.until(3)
    assert set(world.where()) == {"older"}


def test_a_gang_that_leaves_says_why_after_a_restart():
    world = World()
    world.hold_evictions = True
    world.node("n1", gpus=2)
    world.gang("g", 2)
    world.run()
    world.pod("more-important", gpus=2, priority=5)
    world.run()
    told = world.status("PodGroup", "g")["pendingReason"]
    world.restart()
    world.run()
    assert world.status("PodGroup", "g")["pendingReason"] == told
    assert told["reasons"][0]["reason"] == "Preempted"
