"""Jobs and gangs of pods, without a Workload, that start after others have ended which they name in an annotation."""

from __future__ import annotations

import pytest

from tests.engine.ingest.owners import IN_QUEUE, a_world, indexed, pods
from tests.engine.queue.after import AFTER, a_queue
from tests.engine.world import World


def of_owner(world: World, name: str, *, after: str = "", count: int = 2, **status) -> None:
    said = {AFTER: after} if after else {}
    owner = world.owner("Job", name, labels=IN_QUEUE, annotations=said, spec=indexed(count), status=status)
    if not status:
        pods(world, owner, count)


COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED = {"conditions": [{"type": "Failed", "status": "True"}]}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_job_starts_after_a_job_that_it_names_in_an_annotation(restarts):
    world = a_world(4)
    of_owner(world, "prepare")
    of_owner(world, "train", after="prepare")
    world.run()
    assert list(world.where()) == ["prepare-0", "prepare-1"]
    gang = next(key for key, one in world.engine.state.workloads.items() if one.after)
    assert world.why(gang[0], gang[2]).message == "it starts after others: Job prepare has not ended"
    world.finish("prepare-0", "prepare-1")
    world.delete("prepare-0", "prepare-1")
    world.run()
    assert not world.where("train")  # the Job has the last word: it may retry
    of_owner(world, "prepare", **COMPLETE)
    if restarts:
        world.restart()
    world.run()
    assert len(world.where("train")) == 2


def test_a_job_that_failed_is_named_and_one_that_is_gone_is_waited_for():
    world = a_world(4)
    of_owner(world, "prepare", **FAILED)
    of_owner(world, "train", after="prepare")
    world.run()
    why = next(one.explanation for one in world.engine.state.workloads.values() if one.after)
    assert (why.reason, why.details) == ("PredecessorFailed", {"prepare": "Failed"})
    world.remove_owner(world.owner("Job", "prepare", seen=False))
    world.run()
    why = next(one.explanation for one in world.engine.state.workloads.values() if one.after)
    assert why.details == {"prepare": "Missing"}


def test_jobs_in_a_ring_are_told():
    world = a_world(8)
    of_owner(world, "a", after="b")
    of_owner(world, "b", after="a")
    world.run()
    reasons = {one.explanation.reason for one in world.engine.state.workloads.values() if one.after}
    assert reasons == {"AfterItself"}


def test_single_pods_of_a_job_that_has_begun_do_not_wait_again():
    world = a_world(4)
    of_owner(world, "prepare", **COMPLETE)
    spec = {"parallelism": 1, "completions": 5}
    many = world.owner("Job", "many", labels=IN_QUEUE, annotations={AFTER: "prepare"}, spec=spec)
    world.pod("many-0", owner=many)
    world.run()
    assert "many-0" in world.where()
    world.finish("many-0")
    world.remove_owner(world.owner("Job", "prepare", seen=False))
    world.pod("many-1", owner=many)
    world.restart()
    world.run()
    assert "many-1" in world.where()


def test_a_gang_of_pods_names_others_in_an_annotation_and_keeps_in_its_status_who_has_ended():
    world = a_queue()
    world.gang("prepare", 2)
    world.gang("train", 2, annotations={AFTER: "prepare, load:Finished"})
    world.pod("load")
    world.run()
    assert not world.where("train")
    world.finish("load", phase="Failed")
    world.finish("prepare-0", "prepare-1")
    world.run()
    assert len(world.where("train")) == 2
    said = {one["workload"]: one["outcome"] for one in world.status("PodGroup", "train")["after"]}
    assert said == {"prepare": "Succeeded", "load": "Failed"}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Prepare", "cannot be the name of an object"),
        ("prepare:Ready", "write names with commas between them"),
        (":Finished", "write names with commas between them"),
        (",".join(f"w{n}" for n in range(17)), "name at most 16"),
        ("x" * 10_000, "name at most 16"),
    ],
)
@pytest.mark.parametrize("on_owner", [False, True])
def test_an_annotation_that_cannot_be_read_holds_its_own_pods_back_and_says_why(text, wrong, on_owner):
    world = a_world(4)
    if on_owner:
        of_owner(world, "train", after=text)
    else:
        world.gang("train", 2, annotations={AFTER: text})
    world.gang("other", 2)
    world.run()
    assert list(world.where()) == ["other-0", "other-1"]
    told = [one.explanation.message for one in world.engine.state.workloads.values() if one.explanation]
    assert any(wrong in message and AFTER in message for message in told)
