"""A gang that exists only as annotations is given a PodGroup, so that its status can be seen."""

from __future__ import annotations

import msgspec
import pytest

from tests.engine.world import World
from tutti.api.conventions.membership import is_name
from tutti.api.core import OwnerReference
from tutti.engine.records.decisions import CreatePodGroup, DeletePodGroup

PFNET = "gang-scheduling.preferred.jp/gang"


def member(world: World, name: str, size: int = 2, **pod) -> None:
    world.pod(name, annotations={f"{PFNET}-name": "job", f"{PFNET}-size": str(size)}, **pod)


def test_a_pod_group_is_made_with_the_first_pod_and_removed_with_the_last():
    world = World()
    world.node("n1")
    member(world, "a")
    world.run()
    (made,) = [d for d in world.log if isinstance(d, CreatePodGroup)]
    assert (made.name, made.spec["schedulingPolicy"]) == ("job", {"gang": {"minCount": 2}})
    assert made.labels == {"scheduling.tutti.dev/implicit": "pfnet"}
    assert world.status("PodGroup", "job")["phase"] == "Waiting"
    member(world, "b")
    world.run()
    assert len(world.where()) == 2
    world.delete("a")
    world.run()
    assert ("PodGroup", "default", "job") in world.objects
    world.delete("b")
    world.run()
    assert ("PodGroup", "default", "job") not in world.objects
    assert len([d for d in world.log if isinstance(d, DeletePodGroup)]) == 1
    assert world.engine.state.workloads == {}


def test_the_gang_does_not_wait_for_its_pod_group_to_be_made():
    world = World()
    world.node("n1")
    member(world, "a")
    member(world, "b")
    world.decide()
    assert len(world.where()) == 2


def test_the_queue_and_the_timeout_of_the_pods_go_into_the_pod_group():
    world = World()
    world.flavor()
    world.queue("cq", 8)
    annotations = {
        f"{PFNET}-name": "job",
        f"{PFNET}-size": "2",
        f"{PFNET}-schedule-timeout-seconds": "45",
    }
    world.pod("a", annotations=annotations, queue="queue")
    world.run()
    (made,) = [d for d in world.log if isinstance(d, CreatePodGroup)]
    assert (made.spec["queueName"], made.spec["scheduleTimeoutSeconds"]) == ("queue", 45)


def test_a_pod_group_is_owned_by_what_controls_its_pods():
    """So that it goes with the Job, though nobody runs who would delete it."""
    world = World()
    member(world, "bare")
    pod = world.pods["default", "bare"]
    job = OwnerReference("batch/v1", "Job", "train", "job-1", controller=True)
    world.put(msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, owner_references=[job])))
    world.run()
    (made,) = [d for d in world.log if isinstance(d, CreatePodGroup)]
    assert made.owners == [job]


def test_the_pod_group_of_bare_pods_is_owned_by_nobody():
    """With any one of them as its owner it would go before the last."""
    world = World()
    member(world, "a")
    world.run()
    (made,) = [d for d in world.log if isinstance(d, CreatePodGroup)]
    assert made.owners == []


def test_a_pod_group_that_somebody_wrote_is_not_removed():
    world = World()
    world.node("n1")
    world.pod_group("job", 2)
    member(world, "a")
    world.run()
    world.delete("a")
    world.run()
    assert ("PodGroup", "default", "job") in world.objects
    assert not [d for d in world.log if isinstance(d, CreatePodGroup | DeletePodGroup)]


def test_a_pod_group_that_was_left_behind_is_removed_after_a_restart():
    world = World()
    member(world, "a")
    world.run()
    world.pods.clear()  # the last pod goes while nobody looks
    world.restart()
    world.run()
    assert ("PodGroup", "default", "job") not in world.objects


def test_the_gang_may_come_back_under_its_name():
    world = World()
    world.node("n1")
    member(world, "a")
    world.run()
    world.delete("a")
    world.decide()
    member(world, "c")
    member(world, "d")
    world.run()
    assert len(world.where()) == 2
    assert ("PodGroup", "default", "job") in world.objects


def test_members_made_anew_for_another_queue_are_admitted_there_whatever_was_written_for_those_before():
    """What is written for a gang of annotations is there to be read by people; it took part in the choice of the queue."""
    world = World()
    world.flavor()
    world.node("n1")
    world.queue("full", 0, local="training")
    world.queue("free", 8, local="other")
    for name in ("a", "b"):
        member(world, name, queue="training")
    world.run()
    for before, after in (("a", "c"), ("b", "d")):
        world.delete(before)
        member(world, after, queue="other")
        world.run()
    assert set(world.where()) == {"c", "d"}
    assert (world.used("full"), world.used("free")) == (0, 2)
    assert world.replay().differences == []
    assert world.objects["PodGroup", "default", "job"]["spec"]["queueName"] == "training"
    assert world.status("PodGroup", "job")["queueName"] == "other"


@pytest.mark.parametrize(("later", "told"), [("other", "other"), ("", None)])
def test_the_pod_group_says_in_which_queue_its_gang_is_by_now(later: str, told: str | None):
    world = World()
    world.flavor()
    world.queue("full", 0, local="training")
    member(world, "a", queue="training")
    world.run()
    assert world.status("PodGroup", "job")["queueName"] == "training"
    member(world, "a", queue=later)
    world.run()
    assert world.status("PodGroup", "job").get("queueName") == told


def test_the_pod_group_of_a_workload_says_in_which_queue_that_is():
    world = World()
    world.flavor()
    world.queue("full", 0, local="training")
    world.workload("w", {"count": 1}, queueName="training")
    world.object(
        "PodGroup", "part", {"schedulingPolicy": {"basic": {}}, "workloadRef": {"name": "w", "podGroup": "main"}}
    )
    world.pod("w-0", workload="w")
    world.run()
    assert world.status("PodGroup", "part")["queueName"] == "training"
    spec = world.objects["Workload", "default", "w"]["spec"]
    world.object("Workload", "w", {**spec, "queueName": "none"})
    world.run()
    assert world.status("PodGroup", "part")["queueName"] == "none"


@pytest.mark.parametrize("some_stay", [False, True])
def test_no_pod_group_is_made_again_for_pods_that_are_all_being_deleted(*, some_stay: bool) -> None:
    """Their Job has gone, and its PodGroup with it; they take their time to end."""
    job = OwnerReference("batch/v1", "Job", "job", "uid-of-the-job", controller=True)
    world = World()
    world.node("n1")
    member(world, "a", owner=job)
    member(world, "b", owner=None if some_stay else job)
    world.run()
    assert len(world.where()) == 2
    world.log.clear()
    world.begin_deleting("a", *(() if some_stay else "b"), grace=3600)
    world.remove_object("PodGroup", "job")
    world.until(3000)
    made = [d for d in world.log if isinstance(d, CreatePodGroup)]
    assert [one.owners for one in made] == ([[]] if some_stay else [])
    world.restart()
    world.run()
    assert len([d for d in world.log if isinstance(d, CreatePodGroup)]) == len(made)


@pytest.mark.parametrize("uid", ["A/../B C", "x" * 300, "\u202e"])
def test_a_gang_that_is_named_after_a_reference_has_a_name_that_an_object_can_have(uid: str) -> None:
    world = World()
    world.node("n1")
    owner = OwnerReference("batch/v1", "Job", "job", uid, controller=True)
    world.pod("a", annotations={"scheduling.volcano.sh/group-min-member": "1"}, owner=owner)
    world.run()
    (made,) = [d for d in world.log if isinstance(d, CreatePodGroup)]
    assert is_name(made.name)
