"""Owners of pods as their controllers make them, with their pods, in small clusters."""

from __future__ import annotations

from typing import Any

from tests.engine.world import GPU, World
from tutti.api.core import OwnerReference
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


JOB_SET = {
    "replicatedJobs": [
        {"name": "driver", "template": {"spec": indexed(1)}},
        {"name": "workers", "replicas": 2, "template": {"spec": indexed(3)}},
    ]
}


IN_ORDER = JOB_SET | {"startupPolicy": {"startupPolicyOrder": "InOrder"}}


def job_set(world: World, spec: dict[str, Any]) -> tuple[OwnerReference, list[OwnerReference]]:
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


def racks(*free: int) -> World:
    world = World()
    world.follow_owners()
    world.flavor()
    world.queue("team", 100)
    for index, gpus in enumerate(free):
        world.node(f"n{index}", gpus=gpus, labels={"rack": f"r{index}"})
    return world


def held(world: World) -> int:
    """How many members that are yet to be made have room kept for them."""
    groups = (group for one in world.engine.state.workloads.values() for group in one.groups.values())
    return sum(len(group.holds) for group in groups)
