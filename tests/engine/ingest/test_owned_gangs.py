"""Gangs that only the owners of pods describe: they start whole or not at all, whatever is made first.

Shapes and orders: the projects' own controllers at the versions in `tutti.api.frameworks.kinds`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.world import GPU, World
from tutti.api.core import ObjectMeta, OwnerReference, PriorityClass
from tutti.engine.ingest.membership import PATIENCE_SECONDS
from tutti.engine.records.decisions import CreatePodGroup, EmitEvent
from tutti.engine.records.observations import OwnerKindFollowed, OwnerSeen, PriorityClassSeen
from tutti.engine.records.workloads import Phase

KUEUES = "kueue.x-k8s.io/queue-name"
INDEX = "batch.kubernetes.io/job-completion-index"
IN_QUEUE = {KUEUES: "queue"}


def a_world(gpus: int = 16, *, quota: int = 100, **configuration: Any) -> World:
    world = World(**configuration)
    world.follow_owners()
    world.flavor()
    world.queue("team", quota)
    for number in range(gpus // 4):
        world.node(f"n{number}", gpus=4)
    if gpus % 4:
        world.node("rest", gpus=gpus % 4)
    return world


def template(gpus: int = 1) -> dict[str, Any]:
    requests = {"requests": {GPU: str(gpus), "cpu": "1", "memory": "1Gi"}}
    return {"spec": {"schedulerName": "tutti", "containers": [{"name": "c", "resources": requests}]}}


def indexed(count: int, **more: Any) -> dict[str, Any]:
    return {"completionMode": "Indexed", "parallelism": count, "completions": count, "template": template(), **more}


def pods(world: World, owner: OwnerReference, count: int, *, name: str = "", **options: Any) -> None:
    for index in range(count):
        labels = {INDEX: str(index)} | options.get("labels", {})
        world.pod(f"{name or owner.name}-{index}", owner=owner, **(options | {"labels": labels}))


def waiting(world: World) -> tuple[str, str]:
    """The one that waits: reason and message."""
    (found,) = [one for one in world.engine.state.workloads.values() if one.phase is Phase.WAITING]
    assert found.explanation is not None
    return found.explanation.reason, found.explanation.message


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


def test_a_wrong_number_holds_back_the_pods_of_its_owner_alone():
    world = a_world()
    pods(world, world.owner("Job", "wrong", spec=indexed(4) | {"parallelism": -4}), 2)
    pods(world, world.owner("Job", "right", spec=indexed(2)), 2)
    world.run()
    assert sorted(world.where()) == ["right-0", "right-1"]
    assert "spec.parallelism" in world.why("Pod", "wrong-0").message


JOB_SET = {
    "replicatedJobs": [
        {"name": "driver", "template": {"spec": indexed(1)}},
        {"name": "workers", "replicas": 2, "template": {"spec": indexed(3)}},
    ]
}


def job_set(world: World, spec: dict[str, Any], attempt: int = 0) -> tuple[OwnerReference, list[OwnerReference]]:
    top = world.owner("JobSet", "js", labels=IN_QUEUE, spec=spec)
    names = [("driver", 0, 1), ("workers", 0, 3), ("workers", 1, 3)]
    return top, [
        world.owner("Job", f"js-{role}-{index}", controller=top, spec=indexed(count)) for role, index, count in names
    ]


def of_job(world: World, job: OwnerReference, role: str, count: int, index: int = 0, attempt: int = 0) -> None:
    labels = {
        "jobset.sigs.k8s.io/replicatedjob-name": role,
        "jobset.sigs.k8s.io/job-index": str(index),
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
    }
    pods(world, job, count, name=f"{job.name}-{attempt}", labels=labels)


def test_all_jobs_of_a_jobset_are_one_gang():
    world = a_world(6)
    _, (driver, first, second) = job_set(world, JOB_SET)
    of_job(world, driver, "driver", 1)
    of_job(world, first, "workers", 3)
    of_job(world, second, "workers", 3, index=1)
    world.run()
    assert world.where() == {}
    world.node("more", gpus=1)
    world.run()
    assert len(world.where()) == 7


IN_ORDER = JOB_SET | {"startupPolicy": {"startupPolicyOrder": "InOrder"}}


def test_the_first_of_a_jobset_in_order_waits_for_room_for_those_after_it():
    world = a_world(6)
    _, (driver, *_) = job_set(world, IN_ORDER)
    of_job(world, driver, "driver", 1)
    world.run()
    assert world.where() == {}


def test_room_is_kept_for_those_that_are_made_when_the_first_is_ready():
    world = a_world(7, quota=7)
    _, (driver, first, second) = job_set(world, IN_ORDER)
    of_job(world, driver, "driver", 1)
    world.run()
    assert list(world.where()) == ["js-driver-0-0-0"]
    world.pod("rival", queue="queue", priority=10)
    world.pod("rival-without", priority=0)
    world.until(3600)
    assert sorted(world.where()) == ["js-driver-0-0-0"]
    of_job(world, first, "workers", 3)
    of_job(world, second, "workers", 3, index=1)
    world.run()
    assert len(world.where("js")) == 7
    assert not world.replay().differences


def test_kept_room_is_kept_across_a_restart():
    world = a_world(7, quota=7)
    _, (driver, first, second) = job_set(world, IN_ORDER)
    of_job(world, driver, "driver", 1)
    world.run()
    world.restart()
    world.pod("rival", queue="queue")
    world.run()
    assert list(world.where()) == ["js-driver-0-0-0"]
    of_job(world, first, "workers", 3)
    of_job(world, second, "workers", 3, index=1)
    world.run()
    assert len(world.where("js")) == 7


def test_kept_room_is_given_back_when_the_first_ends():
    world = a_world(7, quota=7)
    _, (driver, *_) = job_set(world, IN_ORDER)
    of_job(world, driver, "driver", 1)
    world.run()
    world.finish("js-driver-0-0-0")
    world.run()
    pods(world, world.owner("Job", "next", labels=IN_QUEUE, spec=indexed(7)), 7)
    world.run()
    assert len(world.where("next")) == 7


def test_a_stage_that_begins_when_another_has_succeeded_needs_no_room_before():
    spec = {
        "replicatedJobs": [
            JOB_SET["replicatedJobs"][0],
            JOB_SET["replicatedJobs"][1] | {"dependsOn": [{"name": "driver", "status": "Complete"}]},
        ]
    }
    world = a_world(6)
    _, (driver, first, second) = job_set(world, spec)
    of_job(world, driver, "driver", 1)
    world.run()
    assert len(world.where()) == 1
    world.finish("js-driver-0-0-0")
    of_job(world, first, "workers", 3)
    world.run()
    assert "js-workers-0-0-0" not in world.where()
    of_job(world, second, "workers", 3, index=1)
    world.run()
    assert len(world.where("js-workers")) == 6


def test_a_jobset_that_restarts_is_another_gang():
    world = a_world(14)
    _, (driver, first, second) = job_set(world, JOB_SET)
    for attempt in range(2):
        of_job(world, driver, "driver", 1, attempt=attempt)
        of_job(world, first, "workers", 3, attempt=attempt)
        if attempt:
            world.run()
            assert not any(name.split("-")[-2] == "1" for name in world.where())
        of_job(world, second, "workers", 3, index=1, attempt=attempt)
        world.run()
    assert len(world.where()) == 14


def test_the_launcher_of_an_mpi_job_has_its_room_when_the_workers_start():
    spec = {
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": template()},
            "Worker": {"replicas": 4, "template": template()},
        },
    }
    world = a_world(4)
    job = world.owner("MPIJob", "mpi", labels=IN_QUEUE, spec=spec)
    role = "training.kubeflow.org/replica-type"
    for index in range(4):
        world.pod(f"mpi-worker-{index}", owner=job, labels={role: "worker"})
    world.run()
    assert world.where() == {}
    world.node("more", gpus=1)
    world.run()
    assert len(world.where()) == 4
    world.pod("rival")
    launcher = world.owner("Job", "mpi-launcher", controller=job, spec={"template": template()})
    world.pod("mpi-launcher-x", owner=launcher, labels={role: "launcher"})
    world.run()
    assert len(world.where("mpi")) == 5


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


def test_each_replica_of_a_leader_worker_set_is_a_gang_with_room_for_its_workers():
    spec = {
        "replicas": 2,
        "startupPolicy": "LeaderReady",
        "leaderWorkerTemplate": {"size": 4, "leaderTemplate": template(), "workerTemplate": template()},
    }
    world = a_world(7)
    top = world.owner("LeaderWorkerSet", "vllm", labels=IN_QUEUE, spec=spec)
    leaders = world.owner("StatefulSet", "vllm", controller=top, spec={"replicas": 2, "template": template()})
    prefix = "leaderworkerset.sigs.k8s.io/"
    made = []
    for index in range(2):
        labels = {f"{prefix}group-key": f"k{index}", f"{prefix}worker-index": "0", f"{prefix}name": "vllm"}
        made.append(world.pod(f"vllm-{index}", owner=leaders, labels=labels, annotations={f"{prefix}size": "4"}))
    world.run()
    (leader,) = world.where()
    index = int(leader[-1])
    above = OwnerReference("v1", "Pod", leader, made[index].metadata.uid, controller=True)
    workers = world.owner("StatefulSet", leader, controller=above, spec={"replicas": 3, "template": template()})
    for worker in range(1, 4):
        labels = {f"{prefix}group-key": f"k{index}", f"{prefix}worker-index": str(worker), f"{prefix}name": "vllm"}
        world.pod(f"{leader}-{worker}", owner=workers, labels=labels, annotations={f"{prefix}size": "4"})
    world.run()
    assert sorted(world.where()) == [leader, *(f"{leader}-{worker}" for worker in range(1, 4))]


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


@pytest.mark.parametrize("restarts", [False, True], ids=["", "operator restarts"])
def test_a_run_time_on_an_owner_ends_its_gang_for_good(restarts):
    world = a_world(4)
    limit = {"kueue.x-k8s.io/max-exec-time-seconds": "100"}
    job = world.owner("Job", "train", labels=IN_QUEUE | limit, spec=indexed(2))
    pods(world, job, 2)
    world.until(50)
    if restarts:
        world.restart()
    world.until(49)
    assert len(world.where()) == 2
    world.until(2)
    assert (world.where(), world.used("team")) == ({}, 0)
    pods(world, job, 2, name="again")
    world.run()
    if restarts:
        world.restart()
    world.until(500)
    assert world.where() == {}
    assert waiting(world)[0] == "MaximumExecutionTimeExceeded"


def test_a_pod_may_run_for_as_long_as_its_owner_says():
    world = a_world(4)
    limit = {"scheduling.tutti.dev/max-exec-time-seconds": "100"}
    job = world.owner("Job", "many", labels=IN_QUEUE | limit, spec={"parallelism": 1, "completions": 2})
    pods(world, job, 1)
    world.until(99)
    assert len(world.where()) == 1
    world.until(2)
    assert world.where() == {}
    world.pod("many-again", owner=job)
    world.run()
    assert len(world.where()) == 1


def test_the_default_of_a_queue_counts_for_gangs_by_owner():
    world = a_world(4)
    world.queue("timed", 4, local="timed", defaultMaximumExecutionTimeSeconds=100)
    pods(world, world.owner("Job", "train", labels={KUEUES: "timed"}, spec=indexed(2)), 2)
    world.until(99)
    assert len(world.where()) == 2
    world.until(2)
    assert world.where() == {}


def test_people_are_told_once_which_roles_are_not_counted():
    spec = {
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": {"spec": {"schedulerName": "other"}}},
            "Worker": {"replicas": 2, "template": template()},
        }
    }
    world = a_world()
    job = world.owner("PyTorchJob", "torch", spec=spec)
    told = []
    for index in range(2):
        labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": str(index)}
        world.pod(f"torch-worker-{index}", owner=job, labels=labels)
        told += [one.note for one in world.run() if isinstance(one, EmitEvent) and one.reason == "ReadFromOwner"]
    assert len(world.where()) == 2
    assert told == ["role master is not counted: other places it"]


def test_a_priority_class_that_a_policy_names_counts_in_the_queue():
    world = a_world(2)
    world.tell(PriorityClassSeen(PriorityClass(ObjectMeta(name="high"), 1000)))
    low = world.owner("Job", "low", labels=IN_QUEUE, spec=indexed(2))
    policy = {"schedulingPolicy": {"priorityClass": "high"}}
    roles = {"Worker": {"replicas": 2, "template": template()}}
    high = world.owner("PyTorchJob", "torch", labels=IN_QUEUE, spec={"runPolicy": policy, "pytorchReplicaSpecs": roles})
    pods(world, low, 2)
    pods(world, high, 2, labels={"training.kubeflow.org/replica-type": "worker"})
    world.run()
    assert sorted(world.where()) == ["torch-0", "torch-1"]


EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
SELECTORS = "alpha.jobset.sigs.k8s.io/node-selector"


def racks(*free: int) -> World:
    world = World()
    world.follow_owners()
    world.flavor()
    world.queue("team", 100)
    for index, gpus in enumerate(free):
        world.node(f"n{index}", gpus=gpus, labels={"rack": f"r{index}"})
    return world


def exclusive(world: World, replicas: int = 2, size: int = 3, **more: str) -> list[OwnerReference]:
    notes = {EXCLUSIVE: "rack", **more}
    roles = [{"name": "workers", "replicas": replicas, "template": {"spec": indexed(size)}}]
    top = world.owner("JobSet", "set", labels=IN_QUEUE, annotations=notes, spec={"replicatedJobs": roles})
    return [
        world.owner("Job", f"set-workers-{index}", controller=top, annotations=notes, spec=indexed(size))
        for index in range(replicas)
    ]


def of_replica(world: World, jobs: list[OwnerReference], replica: int, index: int, **more: Any) -> None:
    labels = {
        INDEX: str(index),
        "jobset.sigs.k8s.io/replicatedjob-name": "workers",
        "jobset.sigs.k8s.io/job-index": str(replica),
    }
    world.pod(
        f"set-workers-{replica}-{index}", owner=jobs[replica], annotations={EXCLUSIVE: "rack"}, labels=labels, **more
    )


def test_leaders_wait_until_a_rack_has_room_for_the_followers_of_each():
    world = racks(4, 2)
    jobs = exclusive(world)
    for replica in range(2):
        of_replica(world, jobs, replica, 0)
    world.run()
    assert world.where() == {}
    world.node("n1", gpus=3, labels={"rack": "r1"})
    world.run()
    assert len(world.where()) == 2
    world.pod("rival", gpus=2)
    for replica in range(2):
        for index in range(1, 3):
            of_replica(world, jobs, replica, index)
    world.run()
    assert len(world.where("set")) == 6
    for replica in range(2):
        assert len({node for name, node in world.where(f"set-workers-{replica}").items()}) == 1


def test_with_node_selectors_all_pods_of_a_jobset_are_one_gang():
    world = racks(4, 4)
    jobs = exclusive(world, **{SELECTORS: "true"})
    for replica in range(2):
        for index in range(3):
            of_replica(world, jobs, replica, index, selector={"rack": f"r{replica}"})
    world.run()
    assert len(world.where()) == 6


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


def test_a_topology_that_only_an_owner_asks_for_holds_for_all_of_its_pods():
    world = racks(2, 2, 3)
    notes = {"scheduling.tutti.dev/podset-required-topology": "rack"}
    world.object("Topology", "racks", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]})
    world.flavor(topologyName="racks")
    pods(world, world.owner("Job", "train", labels=IN_QUEUE, annotations=notes, spec=indexed(3)), 3)
    world.run()
    assert set(world.where().values()) == {"n2"}


@pytest.mark.parametrize(("priority", "goes"), [(100, True), (0, False)])
def test_kept_room_yields_to_what_is_more_important_and_the_gang_starts_anew(priority, goes):
    world = a_world(7)
    _, (driver, *_) = job_set(world, IN_ORDER)
    of_job(world, driver, "driver", 1)
    world.run()
    world.pod("rival", gpus=3, priority=priority)
    world.until(10)
    assert ("rival" in world.where()) == goes
    if goes:
        assert list(world.where()) == ["rival"]
        assert world.used("team") == 0
        of_job(world, driver, "driver", 1)
        world.run()
        assert list(world.where()) == ["rival"]
        world.delete("rival")
        world.run()
        assert list(world.where()) == ["js-driver-0-0-0"]
    assert not world.replay().differences
