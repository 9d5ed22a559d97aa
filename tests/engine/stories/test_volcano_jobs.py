"""Jobs of Volcano: its controller makes no pod before the phase of their PodGroup is another than Pending.

The controller is played by its own rule (ed72c7c8, pkg/controllers/job/job_controller_actions.go, syncJob: `pg.Status.Phase
!= "" && pg.Status.Phase != PodGroupPending`), with what createOrUpdatePodGroup and createJobPod write.
"""

from __future__ import annotations

import cProfile
import pstats
from typing import Any

import pytest

from tests.engine.world import World
from tutti.api.core import OwnerReference
from tutti.engine.records.decisions import PatchStatus

API = "scheduling.volcano.sh/v1beta1"
GROUP = "batch.volcano.sh"


class Controller:
    """Volcano's controller, for one Job."""

    def __init__(self, world: World, name: str, tasks: dict[str, int], **spec: Any) -> None:
        self.world, self.name, self.tasks = world, name, tasks
        template = {"spec": {"containers": [{"name": "c"}]}}
        listed = [{"name": task, "replicas": n, "template": template} for task, n in tasks.items()]
        self.spec = {"minAvailable": sum(tasks.values()), "schedulerName": "tutti", **spec, "tasks": listed}
        self.owner: OwnerReference | None = None

    def make_job(self) -> None:
        self.owner = self.world.owner("Job", self.name, group=GROUP, spec=self.spec)

    def make_pod_group(self) -> None:
        spec = {
            "minMember": self.spec["minAvailable"],
            "minTaskMember": self.tasks,
            "queue": self.spec.get("queue", "default"),
        }
        self.world.gang_object(
            API,
            self.pod_group,
            spec,
            owners=[self.owner or OwnerReference(f"{GROUP}/v1alpha1", "Job", self.name, f"Job-{self.name}", True)],
        )

    @property
    def pod_group(self) -> str:
        return f"{self.name}-0123"

    @property
    def phase(self) -> str:
        phase: str = self.world.gang_objects[API, "PodGroup", "default", self.pod_group]["status"].get("phase", "")
        return phase

    def sync(self) -> bool:
        """Make the pods, where the phase allows it."""
        if self.phase in ("", "Pending"):
            return False
        for task, count in self.tasks.items():
            for rank in range(count):
                said = {"scheduling.k8s.io/group-name": self.pod_group, "volcano.sh/task-spec": task}
                self.world.pod(f"{self.name}-{task}-{rank}", annotations=said, owner=self.owner)
        return True


def played(world: World, name: str = "job", **spec: Any) -> Controller:
    job = Controller(world, name, {"ps": 1, "worker": 2}, **spec)
    job.make_job()
    job.make_pod_group()
    world.run()
    return job


def test_a_job_of_ours_gets_its_pods_made_and_runs_as_one_gang():
    world = World()
    world.node("n0", gpus=3)
    job = played(world)
    assert job.phase == "Inqueue"
    assert job.sync()
    world.run()
    assert len(world.where("job-")) == 3
    assert job.phase == "Running"
    world.become_ready(*world.where("job-"))
    world.finish(*world.where("job-"))
    world.run()
    assert job.phase == "Completed"
    assert not world.replay().differences


def test_it_waits_whole_with_one_place_too_few():
    world = World()
    world.node("n0", gpus=2)
    job = played(world)
    assert job.sync()
    world.run()
    assert (world.where(), job.phase) == ({}, "Inqueue")
    world.node("n1", gpus=1)
    world.run()
    assert len(world.where("job-")) == 3


def test_its_queue_counts():
    world = World()
    world.node("n0", gpus=8)
    world.flavor()
    world.queue("cq", 2, local="team")
    job = played(world, queue="team")
    assert job.sync()
    world.run()
    assert world.where() == {}
    assert (
        world.reason("PodGroup", job.pod_group) == "QuotaExceeded"
        or "quota" in world.why("PodGroup", job.pod_group).message
    )


@pytest.mark.parametrize("scheduler", ["volcano", ""])
def test_the_jobs_of_others_are_left_to_them(scheduler):
    world = World()
    world.node("n0")
    job = played(world, schedulerName=scheduler)
    assert job.phase == ""
    assert not [one for one in world.log if isinstance(one, PatchStatus) and one.api_version == API]


@pytest.mark.parametrize("order", ["job first", "pod group first"])
def test_the_job_and_its_pod_group_may_be_seen_in_any_order(order):
    world = World()
    world.node("n0")
    job = Controller(world, "job", {"worker": 2})
    for make in (job.make_job, job.make_pod_group) if order == "job first" else (job.make_pod_group, job.make_job):
        make()
        world.run()
    assert job.phase == "Inqueue"


def test_nobody_writes_twice_and_another_process_goes_on():
    world = World()
    world.node("n0", gpus=3)
    job = played(world)
    assert job.sync()
    world.run()
    world.restart()
    world.run()
    written = [one.status["phase"] for one in world.log if isinstance(one, PatchStatus) and one.api_version == API]
    assert written == ["Inqueue", "Running"]


def test_a_job_that_is_restarted_has_another_pod_group_which_gets_its_phase_as_well():
    """Volcano, killJob: the PodGroup is deleted with the pods, and made anew by the next run."""
    world = World()
    world.node("n0", gpus=3)
    job = played(world)
    assert job.sync()
    world.run()
    world.delete(*world.where("job-"))
    world.remove_gang_object(API, job.pod_group)
    world.run()
    job.make_pod_group()
    world.run()
    assert job.phase == "Inqueue"
    assert job.sync()
    world.run()
    assert len(world.where("job-")) == 3
    assert set(world.engine.state.gang_objects.phases) == {
        world.gang_objects[API, "PodGroup", "default", job.pod_group]["metadata"]["uid"]
    }


@pytest.mark.parametrize("owners", [None, 5, [None], [{"kind": 3}], [{"kind": "Job", "controller": True}], {"a": 1}])
def test_whatever_stands_among_the_owners_is_read_or_passed_over(owners):
    world = World()
    world.node("n0")
    world.gang_object(API, "odd", {"minMember": 1}, owners=owners)
    world.run()
    assert world.gang_objects[API, "PodGroup", "default", "odd"]["status"] == {}


def test_what_quotas_call_resources_is_nothing_that_must_be_free_on_nodes():
    """Volcano's controller writes it among minResources of every Job (util.GetPodQuotaUsage); no such gang ever started."""
    world = World()
    world.node("n0", gpus=3)
    job = Controller(world, "job", {"worker": 2})
    job.make_job()
    least = {"cpu": "2", "requests.cpu": "2", "limits.nvidia.com/gpu": "2", "pods": "2", "count/pods": "2"}
    world.gang_object(API, job.pod_group, {"minMember": 2, "minResources": least}, owners=[job.owner])
    world.run()
    assert job.sync()
    world.run()
    assert len(world.where("job-")) == 2


def test_one_pod_group_that_changes_has_no_others_looked_at_and_its_job_has_all_that_were_made_for_it():
    calls = [calls_for_one_of(count) for count in (20, 200)]
    assert calls[1] < 1.5 * calls[0]


def calls_for_one_of(count: int) -> int:
    """How many functions are called when one of so many PodGroups, whose Jobs are another scheduler's, changes."""
    world = World()
    theirs = [played(world, f"theirs-{number}", schedulerName="volcano") for number in range(count)]
    waits = Controller(world, "late", {"worker": 1})
    waits.make_pod_group()
    world.run()
    assert waits.phase == ""
    profile = cProfile.Profile()
    profile.enable()
    theirs[0].make_pod_group()
    world.run()
    profile.disable()
    waits.make_job()
    world.run()
    assert waits.phase == "Inqueue"
    return int(pstats.Stats(profile).total_calls)
