"""Kubernetes' own pod groups are told of their gang by a condition, in each version of their API."""

from __future__ import annotations

import pytest

from tests.engine.stories.manifests_of_users import NATIVE, members, native, put
from tests.engine.world import World


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("scheduling.k8s.io/v1alpha2", "PodGroupScheduled"),
        ("scheduling.k8s.io/v1beta1", "PodGroupInitiallyScheduled"),
    ],
)
def test_a_native_pod_group_is_told_when_it_is_scheduled_and_before_that_why_not(version, kind):
    world = World()
    world.node("n1", gpus=1)
    native(world, version)
    members(world, 1)
    world.run()
    key = (version, *NATIVE[1:])
    assert world.gang_objects[key]["status"] == {}  # members are missing yet
    members(world)
    world.run()
    (said,) = world.gang_objects[key]["status"]["conditions"]
    assert (said["type"], said["status"], said["reason"]) == (kind, "False", "Unschedulable")
    assert "1 of 2 pods" in said["message"]
    assert said["observedGeneration"] == 1
    world.node("n2", gpus=1)
    world.run()
    (said,) = world.gang_objects[key]["status"]["conditions"]
    assert (said["status"], said["reason"]) == ("True", "Scheduled")
    for rank in range(2):
        world.finish(f"p-{rank}", phase="Failed")
    world.node("n1", gpus=0)
    world.node("n2", gpus=0)
    put(world, "p-2", "spec: {schedulingGroup: {podGroupName: g}}")
    put(world, "p-3", "spec: {schedulingGroup: {podGroupName: g}}")
    world.run()
    assert world.gang_objects[key]["status"]["conditions"] == [said]  # it stays true


def test_conditions_of_others_on_a_native_pod_group_are_kept():
    world = World()
    world.node("n1")
    native(world)
    other = {"type": "Other", "status": "True", "reason": "Some", "message": "", "lastTransitionTime": "x"}
    thing = world.gang_objects[NATIVE]
    thing["status"] = {"conditions": [other]}
    native(world)
    members(world)
    world.run()
    assert [c["type"] for c in world.gang_objects[NATIVE]["status"]["conditions"]] == ["Other", "PodGroupScheduled"]
    assert world.gang_objects[NATIVE]["status"]["conditions"][0] == other


def test_a_restart_tells_a_native_pod_group_nothing_again():
    world = World()
    world.node("n1", gpus=1)
    native(world)
    members(world)
    world.run()
    before = world.gang_objects[NATIVE]
    world.restart()
    world.run()
    assert world.gang_objects[NATIVE] == before


def test_what_a_native_pod_group_says_of_nearness_and_priority_holds():
    world = World()
    world.node("n1", gpus=1, labels={"rack": "a"})
    world.node("n2", gpus=1, labels={"rack": "b"})
    native(world, schedulingConstraints={"topology": [{"key": "rack"}]}, priority=100, disruptionMode="PodGroup")
    members(world)
    world.run()
    assert world.where() == {}
    workload = world.engine.state.workloads["PodGroup", "default", "g"]
    assert workload.priority == 100
    assert world.objects["PodGroup", "default", "g"]["spec"]["disruptionMode"] == "PodGroup"
    world.node("n3", gpus=1, labels={"rack": "b"})
    world.run()
    assert set(world.where().values()) == {"n2", "n3"}


def test_each_replica_of_a_native_workload_is_a_gang_of_its_own():
    """Kubernetes 1.35: gangs are told apart by the replica key."""
    world = World()
    world.node("n1", gpus=3)
    spec = {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 2}}}]}
    world.gang_object("scheduling.k8s.io/v1alpha1", "w", spec, kind="Workload")
    for key in ("0", "1"):
        for rank in range(2):
            ref = f"{{name: w, podGroup: workers, podGroupReplicaKey: '{key}'}}"
            put(world, f"p-{key}-{rank}", f"spec: {{workloadRef: {ref}}}")
    world.run()
    assert set(world.where()) == {"p-0-0", "p-0-1"}
