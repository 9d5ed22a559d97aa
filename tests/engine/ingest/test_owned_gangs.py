"""Gangs that only the owners of pods describe: they start whole or not at all, whatever is made first.

Shapes and orders: the projects' own controllers at the versions in `tutti.api.frameworks.kinds`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.ingest.owners import (
    IN_QUEUE,
    INDEX,
    JOB_SET,
    a_world,
    indexed,
    job_set,
    of_job,
    pods,
    template,
    waiting,
)
from tutti.api.core import OwnerReference
from tutti.engine.ingest.membership import PATIENCE_SECONDS
from tutti.engine.records.decisions import CreatePodGroup
from tutti.engine.records.observations import OwnerKindFollowed, OwnerSeen
from tutti.engine.records.workloads import Phase


def test_an_indexed_job_starts_whole_in_the_queue_of_its_label():
    world = a_world()
    job = world.owner("Job", "train", labels=IN_QUEUE, spec=indexed(4))
    pods(world, job, 3)
    world.run()
    assert world.where() == {}
    assert waiting(world)[0] == "WaitingForMembers"
    world.pod("train-3", owner=job, labels={INDEX: "3"})
    world.run()
    assert len(world.where()) == 4
    assert world.used("team") == 4


@pytest.mark.parametrize(("gpus", "quota"), [(3, 100), (16, 3)], ids=["room for one less", "quota for one less"])
def test_nothing_of_a_job_starts_where_one_pod_has_no_place(gpus, quota):
    world = a_world(gpus, quota=quota)
    pods(world, world.owner("Job", "train", labels=IN_QUEUE, spec=indexed(4)), 4)
    world.run()
    assert world.where() == {}
    assert world.used("team") == 0
    assert "4" in waiting(world)[1]


def test_what_a_gang_waits_for_is_told_to_what_people_wrote():
    world = a_world(3)
    top, jobs = job_set(world, JOB_SET)
    for number, (job, count) in enumerate(zip(jobs, (1, 3, 3), strict=True)):
        of_job(world, job, "workers" if number else "driver", count, max(0, number - 1))
    world.run()
    told = world.events("FailedScheduling")
    assert {(one.kind, one.name, one.uid) for one in told} == {("JobSet", "js", top.uid)}
    world.node("more", gpus=4)
    world.run()
    (event,) = world.events("Scheduled")
    assert (event.kind, event.uid) == ("JobSet", top.uid)


def test_a_job_without_indexes_starts_pod_by_pod_in_its_queue():
    world = a_world(3)
    pods(world, world.owner("Job", "many", labels=IN_QUEUE, spec={"parallelism": 4, "completions": 40}), 4)
    world.run()
    assert len(world.where()) == 3
    assert world.used("team") == 3


def test_the_owner_may_come_after_its_pods():
    world = a_world(3)
    job = world.owner("Job", "train", spec=indexed(4), seen=False)
    pods(world, job, 4)
    world.run()
    assert world.where() == {}
    world.tell(OwnerSeen(world.owners[job.uid]))
    world.run()
    assert world.where() == {}
    assert waiting(world)[0] == "Unschedulable"


def test_what_is_known_counts_where_the_owner_above_never_comes():
    world = a_world(3)
    above = OwnerReference("jobset.x-k8s.io/v1alpha2", "JobSet", "gone", "nobody", controller=True)
    pods(world, world.owner("Job", "train", controller=above, spec=indexed(4)), 4)
    world.run()
    world.decide(PATIENCE_SECONDS)
    world.run()
    assert world.where() == {}
    assert waiting(world)[0] == "Unschedulable"


def test_pods_of_an_owner_that_may_not_be_read_start_one_by_one():
    world = a_world(3)
    world.tell(OwnerKindFollowed("batch", "Job", followed=False))
    pods(world, OwnerReference("batch/v1", "Job", "train", "unseen", controller=True), 4)
    world.run()
    assert len(world.where()) == 3


@pytest.mark.parametrize(("gpus", "bound"), [(3, []), (4, ["vllm-0"])], ids=["room for one less", "room for all"])
def test_the_leader_of_a_set_that_may_not_be_read_starts_where_others_like_it_have_room(gpus, bound):
    """Its workers come when it exists, or runs: nobody has seen what these ask for."""
    world = a_world(gpus)
    world.tell(OwnerKindFollowed("leaderworkerset.x-k8s.io", "LeaderWorkerSet", followed=False))
    unseen = OwnerReference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "vllm", "unseen", controller=True)
    prefix = "leaderworkerset.sigs.k8s.io/"
    marks = {f"{prefix}group-key": "k", f"{prefix}worker-index": "0"}
    world.pod("vllm-0", owner=unseen, labels=marks, annotations={f"{prefix}size": "4"})
    world.run()
    assert list(world.where()) == bound


def test_a_wrong_number_holds_back_the_pods_of_its_owner_alone():
    world = a_world()
    pods(world, world.owner("Job", "wrong", spec=indexed(4) | {"parallelism": -4}), 2)
    pods(world, world.owner("Job", "right", spec=indexed(2)), 2)
    world.run()
    assert sorted(world.where()) == ["right-0", "right-1"]
    assert "spec.parallelism" in world.why("Pod", "wrong-0").message


def ray(least: int, now: int, most: int) -> dict[str, Any]:
    group = {"groupName": "w", "replicas": now, "minReplicas": least, "maxReplicas": most, "template": template()}
    return {"enableInTreeAutoscaling": True, "headGroupSpec": {"template": template()}, "workerGroupSpecs": [group]}


def test_a_ray_cluster_starts_with_its_least_and_grows_and_shrinks():
    world = a_world(4)
    cluster = world.owner("RayCluster", "ray", labels=IN_QUEUE, spec=ray(2, 2, 6))
    kind, group = "ray.io/node-type", "ray.io/group"
    world.pod("ray-head", owner=cluster, labels={kind: "head", group: "headgroup"})
    world.pod("ray-w-0", owner=cluster, labels={kind: "worker", group: "w"})
    world.run()
    assert world.where() == {}
    world.pod("ray-w-1", owner=cluster, labels={kind: "worker", group: "w"})
    world.run()
    assert len(world.where()) == 3
    world.owner("RayCluster", "ray", labels=IN_QUEUE, spec=ray(2, 5, 6))
    for index in range(2, 5):
        world.pod(f"ray-w-{index}", owner=cluster, labels={kind: "worker", group: "w"})
    world.run()
    assert len(world.where()) == 4
    world.owner("RayCluster", "ray", labels=IN_QUEUE, spec=ray(2, 2, 6))
    world.delete("ray-w-2", "ray-w-3", "ray-w-4")
    world.until(1000)
    assert sorted(world.where()) == ["ray-head", "ray-w-0", "ray-w-1"]


def test_spark_executors_join_one_by_one_in_the_queue_of_the_application():
    world = a_world(4, quota=3)
    spec = {
        "mode": "cluster",
        "driver": {"schedulerName": "tutti"},
        "executor": {"instances": 3, "schedulerName": "tutti"},
    }
    app = world.owner("SparkApplication", "pi", labels=IN_QUEUE, spec=spec)
    driver = world.pod("pi-driver", owner=app, labels={"spark-role": "driver"})
    world.run()
    assert len(world.where()) == 1
    above = OwnerReference("v1", "Pod", "pi-driver", driver.metadata.uid, controller=True)
    for index in range(3):
        world.pod(f"pi-exec-{index}", owner=above, labels={"spark-role": "executor"})
    world.run()
    assert len(world.where()) == 3
    assert world.used("team") == 3


def test_a_gang_by_owner_shows_itself_as_a_pod_group_of_what_makes_it():
    world = a_world()
    top, (driver, first, second) = job_set(world, JOB_SET)
    of_job(world, driver, "driver", 1)
    of_job(world, first, "workers", 3)
    of_job(world, second, "workers", 3, index=1)
    (asked,) = [one for one in world.run() if isinstance(one, CreatePodGroup)]
    assert [one.uid for one in asked.owners] == [top.uid]
    (made,) = [raw for (kind, _, _), raw in world.objects.items() if kind == "PodGroup"]
    assert made["spec"]["schedulingPolicy"] == {"gang": {"minCount": 7}}
    assert made["status"]["phase"] == "Scheduled"


def test_a_restart_finds_gangs_by_owner_as_they_were():
    world = a_world(8)
    job = world.owner("Job", "train", labels=IN_QUEUE, spec=indexed(4))
    pods(world, job, 4)
    world.run()
    before = world.where()
    world.restart()
    world.until(60)
    assert world.where() == before
    assert world.used("team") == 4
    (found,) = world.engine.state.workloads.values()
    assert found.phase is Phase.SCHEDULED


def plain_ray(workers: int) -> dict[str, Any]:
    group = {"groupName": "w", "replicas": workers, "minReplicas": 0, "maxReplicas": 20, "template": template()}
    return {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [group]}


@pytest.mark.parametrize("restarts", [False, True], ids=["", "operator restarts"])
def test_what_an_owner_adds_to_a_running_gang_joins_as_there_is_room(restarts):
    world = a_world(6)
    cluster = world.owner("RayCluster", "ray", labels=IN_QUEUE, spec=plain_ray(4))
    kind, group = "ray.io/node-type", "ray.io/group"
    world.pod("ray-head", owner=cluster, labels={kind: "head", group: "headgroup"})
    for index in range(4):
        world.pod(f"ray-w-{index}", owner=cluster, labels={kind: "worker", group: "w"})
    world.run()
    world.owner("RayCluster", "ray", labels=IN_QUEUE, spec=plain_ray(7))
    for index in range(4, 7):
        world.pod(f"ray-w-{index}", owner=cluster, labels={kind: "worker", group: "w"})
    world.run()
    if restarts:
        world.restart()
    world.until(1000)
    assert len(world.where()) == 6  # the one for which there is room, and nobody has left
    assert all(one.degraded_since is None for one in world.engine.state.workloads.values())
    world.delete("ray-w-0")  # one of those that ran is missed
    world.run()
    assert len(world.where()) == 6  # an added one has its place


def test_a_member_that_was_lost_while_nobody_looked_is_missed():
    world = a_world(5)
    cluster = world.owner("RayCluster", "ray", labels=IN_QUEUE, spec=plain_ray(4))
    kind, group = "ray.io/node-type", "ray.io/group"
    world.pod("ray-head", owner=cluster, labels={kind: "head", group: "headgroup"})
    for index in range(4):
        world.pod(f"ray-w-{index}", owner=cluster, labels={kind: "worker", group: "w"})
    world.run()
    del world.pods["default", "ray-w-3"]
    world.restart()
    world.pod("rival", priority=-1)
    world.run()
    (found,) = [one for one in world.engine.state.workloads.values() if one.key[0] == "PodGroup"]
    assert (found.required, found.degraded_since is not None) == (5, True)


def test_members_that_have_succeeded_are_missed_no_more_and_the_others_are():
    world = a_world(4)
    job = world.owner("Job", "train", labels=IN_QUEUE, spec=indexed(4))
    pods(world, job, 4)
    world.run()
    world.finish("train-0")
    world.run()
    world.owner("Job", "train", labels=IN_QUEUE, spec=indexed(4), status={"succeeded": 1})
    world.run()
    (found,) = world.engine.state.workloads.values()
    assert (found.required, found.degraded_since) == (4, None)
    world.delete("train-1")
    world.run()
    assert found.degraded_since is not None
    world.pod("train-1b", owner=job, labels={INDEX: "1"})
    world.run()
    assert (len(world.where()), found.degraded_since) == (4, None)


def test_executors_are_in_the_queue_of_an_application_whose_driver_another_scheduler_places():
    world = a_world(quota=1)
    spec = {"driver": {"schedulerName": ""}, "executor": {"instances": 3, "schedulerName": "tutti"}}
    app = world.owner("SparkApplication", "pi", labels=IN_QUEUE, spec=spec)
    theirs = {"scheduler": "default-scheduler", "node": "n0", "labels": {"spark-role": "driver"}}
    driver = world.pod("pi-driver", owner=app, **theirs)
    above = OwnerReference("v1", "Pod", "pi-driver", driver.metadata.uid, controller=True)
    for index in range(2):
        world.pod(f"pi-exec-{index}", owner=above, labels={"spark-role": "executor"})
    world.run()
    assert len(world.where("pi-exec")) == world.used("team") == 1


def test_the_reason_of_roles_of_one_says_how_many_start_together():
    world = a_world(1)
    group = {"groupName": "small", "replicas": 1, "template": template()}
    spec = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [group]}
    cluster = world.owner("RayCluster", "ray", labels=IN_QUEUE, spec=spec)
    world.pod("head", owner=cluster, labels={"ray.io/group": "headgroup"})
    world.pod("worker", owner=cluster, labels={"ray.io/group": "small"})
    world.run()
    assert world.where() == {}
    assert "together with 1 other pod of the gang" in waiting(world)[1]
