"""Members that are made when others have a node or run: room is kept for them from the start.

Shapes and orders: the projects' own controllers at the versions in `tutti.api.frameworks.kinds`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.ingest.owners import (
    IN_ORDER,
    IN_QUEUE,
    INDEX,
    JOB_SET,
    a_world,
    indexed,
    job_set,
    of_job,
    pods,
    racks,
    template,
)
from tests.engine.world import World
from tutti.api.core import OwnerReference


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


EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


SELECTORS = "alpha.jobset.sigs.k8s.io/node-selector"


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


@pytest.mark.parametrize("policy", ["AtStartup", "WaitForWorkersReady"])
def test_what_a_lost_worker_had_is_kept_for_its_successor_though_the_launcher_is_not_made_yet(policy):
    world = a_world(8, quota=5)
    roles = {"Launcher": {"template": template()}, "Worker": {"replicas": 4, "template": template()}}
    spec = {"launcherCreationPolicy": policy, "mpiReplicaSpecs": roles}
    job = world.owner("MPIJob", "mpi", labels=IN_QUEUE, spec=spec)
    role = "training.kubeflow.org/job-role"
    for index in range(4):
        world.pod(f"worker-{index}", owner=job, labels={role: "worker"})
    if policy == "AtStartup":
        world.pod("launcher", owner=job, labels={role: "launcher"})
    world.run()
    world.pod("rival", queue="queue")
    world.run()
    assert "rival" not in world.where()
    world.delete("worker-2")
    world.run()
    assert "rival" not in world.where()
    world.pod("worker-2", owner=job, labels={role: "worker"})
    world.run()
    assert "worker-2" in world.where()
    assert "rival" not in world.where()
    if policy == "WaitForWorkersReady":
        world.pod("launcher", owner=job, labels={role: "launcher"})
        world.run()
    assert "launcher" in world.where()
    assert not world.replay().differences


def test_a_gang_that_loses_all_that_ran_before_the_rest_was_made_gathers_anew():
    world = a_world(7, quota=7)
    _, (driver, first, _) = job_set(world, IN_ORDER)
    of_job(world, driver, "driver", 1)
    world.run()
    of_job(world, first, "workers", 3)
    world.run()
    assert len(world.where()) == 4
    for name in list(world.where()):
        world.delete(name)
    of_job(world, first, "workers", 3)
    world.run()
    assert world.where() == {}
    assert world.used("team") == 0
