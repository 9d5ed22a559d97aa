"""Kubernetes' own pod groups, 1.36 and 1.37: a minimum that changes, and groups that a parent delegates (KEP-5547, KEP-6089)."""

from __future__ import annotations

import pytest

from tests.engine.stories.manifests_of_users import put
from tests.engine.world import World, replaced
from tutti.api.core import OwnerReference, SchedulingGroup
from tutti.engine.records.decisions import EmitEvent, Evict, PatchStatus

NATIVE = "scheduling.k8s.io/v1beta1"


def native(world: World, size: int, least: int, *, room: int = 8) -> None:
    """A native gang of `size` pods that needs `least`, and runs."""
    world.node("n1", gpus=room)
    world.gang_object(NATIVE, "g", {"schedulingPolicy": {"gang": {"minCount": least}}})
    for rank in range(size):
        put(world, f"p-{rank}", "spec: {schedulingGroup: {podGroupName: g}}")
    world.run()


def needs(world: World, least: int) -> None:
    """The Job controller writes another minimum: minCount is mutable from 1.37 on (KEP-5547)."""
    world.gang_object(NATIVE, "g", {"schedulingPolicy": {"gang": {"minCount": least}}})
    world.run()


def test_a_native_gang_that_waits_starts_with_the_minimum_that_it_has_by_then():
    world = World()
    native(world, 4, 4, room=3)
    assert world.where() == {}
    needs(world, 3)
    assert len(world.where()) == 3
    assert not world.replay().differences


def test_a_native_gang_that_waits_and_needs_more_by_now_goes_on_waiting():
    world = World()
    native(world, 2, 3, room=2)
    needs(world, 4)
    for rank in (2, 3):
        put(world, f"p-{rank}", "spec: {schedulingGroup: {podGroupName: g}}")
    world.run()
    assert world.where() == {}
    world.node("n2", gpus=2)
    world.run()
    assert len(world.where()) == 4


def test_a_native_gang_that_runs_shrinks_without_anybody_being_taken_out():
    world = World()
    native(world, 4, 4)
    needs(world, 2)
    world.delete("p-3", "p-2")
    world.until(900)
    assert sorted(world.where()) == ["p-0", "p-1"]
    assert not [one for one in world.log if isinstance(one, Evict)]


def test_a_native_gang_that_runs_grows_as_there_is_room_and_is_not_taken_out_for_it():
    world = World()
    native(world, 2, 2, room=2)
    needs(world, 4)
    for rank in (2, 3):
        put(world, f"p-{rank}", "spec: {schedulingGroup: {podGroupName: g}}")
    world.until(900)  # longer than the window for lost members
    assert {"p-0", "p-1"} <= set(world.where())
    assert not [one for one in world.log if isinstance(one, Evict)]
    world.node("n2", gpus=2)
    world.until(30)
    assert len(world.where()) == 4
    assert not world.replay().differences


def test_a_native_gang_that_shrinks_and_grows_again_misses_nobody_and_one_that_loses_a_member_does():
    world = World()
    native(world, 4, 4)
    needs(world, 2)
    world.delete("p-3", "p-2")
    world.run()
    needs(world, 4)
    world.restart()
    world.until(900)
    assert sorted(world.where()) == ["p-0", "p-1"]
    world.delete("p-1")
    world.until(5)
    assert world.engine.state.workloads["PodGroup", "default", "g"].degraded_since is not None


@pytest.mark.parametrize("parent", ["parent-composite-podgroup", "parent-compositepodgroup"])
def test_a_native_pod_group_that_a_parent_delegates_is_the_gang_and_not_the_parent(parent):
    """KEP-6089 and KEP-5547 spell the annotation of a delegated Job in two ways; its PodGroup says the minimum anyhow."""
    world = World()
    world.node("n1", gpus=4)
    said = {"scheduling.k8s.io/group-template-name": "workers", f"scheduling.k8s.io/{parent}": "js-composite"}
    role = {
        "name": "workers",
        "replicas": 2,
        "template": {"spec": {"parallelism": 2, "completions": 2, "template": {"spec": {"schedulerName": "tutti"}}}},
    }
    top = world.owner("JobSet", "js", spec={"replicatedJobs": [role]})
    for index in range(2):
        spec = {
            "parallelism": 2,
            "completions": 2,
            "completionMode": "Indexed",
            "template": {"spec": {"schedulerName": "tutti"}},
        }
        job = world.owner("Job", f"js-workers-{index}", group="batch", controller=top, annotations=said, spec=spec)
        world.gang_object(NATIVE, f"g-{index}", {"schedulingPolicy": {"gang": {"minCount": 2}}})
        group = OwnerReference(NATIVE, "PodGroup", f"g-{index}", f"uid-g-{index}")
        for rank in range(2 - index):  # the second lacks a pod
            pod = world.pod(f"js-{index}-{rank}", owner=job, annotations=said)
            meta = replaced(pod.metadata, owner_references=[job, group])
            world.put(
                replaced(pod, metadata=meta, spec=replaced(pod.spec, scheduling_group=SchedulingGroup(f"g-{index}")))
            )
    world.run()
    assert sorted(world.where()) == ["js-0-0", "js-0-1"]  # each is a gang of its own, whatever the JobSet makes
    assert world.reason("PodGroup", "g-1") == "WaitingForMembers"


def test_a_native_group_with_a_composite_parent_says_that_it_starts_without_the_others():
    """Kubernetes 1.37, scheduling.k8s.io/v1beta1 PodGroupSpec: parentCompositePodGroupName, by an alpha gate."""
    world = World()
    world.node("n1", gpus=2)
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    for name in ("a", "b"):
        world.gang_object(NATIVE, name, {**policy, "parentCompositePodGroupName": "whole"})
        for rank in range(2):
            put(world, f"{name}-{rank}", f"spec: {{schedulingGroup: {{podGroupName: {name}}}}}")
    world.run()

    assert sorted(world.where()) == ["a-0", "a-1"]
    notes = [one.note for one in world.log if isinstance(one, EmitEvent) and one.reason == "ParentNotRead"]
    assert len(notes) == 2
    assert "spec.parentCompositePodGroupName is 'whole'" in notes[0]
    assert world.engine.state.workloads["PodGroup", "default", "b"].notes == (notes[0],)
    told = [
        one.status["conditions"][-1]["message"]
        for one in world.log
        if isinstance(one, PatchStatus) and one.name == "b" and one.api_version == NATIVE
    ]
    assert "starts by itself" in told[-1]
    world.restart()
    world.until(5)
    assert not world.replay().differences


@pytest.mark.parametrize("parent", [None, ""])
def test_a_native_group_without_one_has_nothing_to_say(parent):
    world = World()
    world.gang_object(
        NATIVE, "g", {"schedulingPolicy": {"gang": {"minCount": 1}}, "parentCompositePodGroupName": parent}
    )
    put(world, "p", "spec: {schedulingGroup: {podGroupName: g}}")
    world.node("n1", gpus=2)
    world.run()

    assert sorted(world.where()) == ["p"]
    assert not [one for one in world.log if isinstance(one, EmitEvent) and one.reason == "ParentNotRead"]
