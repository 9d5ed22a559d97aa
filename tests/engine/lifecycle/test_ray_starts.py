"""RayClusters and RayJobs that wait suspended; KubeRay changes what it makes pods of."""

from __future__ import annotations

import copy

import msgspec
import pytest

from tests.engine.held_owners import HeldWorld, template
from tutti.api.core import OwnerReference, Pod
from tutti.engine.records.decisions import SuspendOwner
from tutti.engine.records.workloads import Phase

LABELS = {"pool": "a"}
SUBMITTER = {"submissionMode": "K8sJobMode", "submitterPodTemplate": template(1)}


class RayWorld(HeldWorld):
    """KubeRay makes a RayCluster of a RayJob, and pods of that; `sidecar` is put into each pod, as its autoscaler is."""

    def __init__(self) -> None:
        super().__init__()
        self.sidecar = False
        self.flavor(nodeLabels=LABELS)
        self.queue("team", 100, manage="Suspend", preemption={"withinClusterQueue": "LowerPriority"})

    def cluster(self, workers: int) -> dict:
        group = {"groupName": "small", "replicas": workers, "template": template()}
        return {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [group]}

    def _sync(self, uid: str) -> None:
        raw = self.raws[uid]
        is_job = raw["kind"] == "RayJob"
        if raw["spec"]["suspend"]:
            self.delete(*[name for _, name in list(self.pods) if name.startswith(f"{uid}-")])
            if is_job:
                raw["status"] = {"jobDeploymentStatus": "Suspended", "rayClusterName": ""}
                self.show(uid)
            return
        spec, owner = (
            raw["spec"],
            OwnerReference("ray.io/v1", raw["kind"], raw["metadata"]["name"], uid, controller=True),
        )
        if is_job:
            raw["status"] = {"jobDeploymentStatus": "Initializing", "rayClusterName": "rj-abcde"}
            self.show(uid)
            spec = spec["rayClusterSpec"]
            owner = self.owner("RayCluster", "rj-abcde", controller=owner, spec=spec)
        self._ray_pod(uid, owner, "headgroup", 0, spec["headGroupSpec"]["template"])
        for group in spec["workerGroupSpecs"]:
            for index in range(group["replicas"]):
                self._ray_pod(uid, owner, group["groupName"], index, group["template"])

    def _ray_pod(self, uid: str, owner: OwnerReference, group: str, index: int, made_of: dict) -> None:
        name = f"{uid}-{group}-{index}"
        meta = {"name": name, "namespace": "default", "uid": f"pod-{name}-{next(self._uids)}"}
        meta |= {"labels": {"ray.io/group": group}, "ownerReferences": [msgspec.to_builtins(owner)]}
        spec = copy.deepcopy(made_of["spec"])
        if self.sidecar:
            spec["containers"].append({"name": "autoscaler", "resources": {"requests": {"cpu": "500m"}}})
        self.put(msgspec.convert({"metadata": meta, "spec": spec}, Pod))


@pytest.fixture(params=[False, True], ids=["as written", "with a sidecar"])
def world(request):
    found = RayWorld()
    found.sidecar = request.param
    found.node("n0", gpus=4, labels=LABELS)
    return found


def preempted(world, uid, pods):
    before = copy.deepcopy(world.spec(uid))
    world.run()
    assert len(world.placed(uid)) == pods
    assert world.used("team") == pods
    assert world.spec(uid) != before

    world.pod("urgent", gpus=2, priority=100, queue="queue")
    world.until(10)
    assert world.where("urgent")
    assert world.spec(uid) == before
    assert not world.placed(uid)

    world.delete("urgent")
    world.until(60)
    assert len(world.placed(uid)) == pods
    running = [one for one in world.engine.state.workloads.values() if one.managed is not None]
    assert len(running) == 1
    return running[0]


def test_a_ray_cluster_is_started_and_suspended_whole(world):
    uid = world.held("RayCluster", "rc", {"suspend": True, **world.cluster(2)})

    assert preempted(world, uid, 3).phase is Phase.SCHEDULED


def test_a_ray_job_keeps_room_for_its_submitter_too(world):
    spec = {"suspend": True, "shutdownAfterJobFinishes": True, "rayClusterSpec": world.cluster(2), **SUBMITTER}
    uid = world.held("RayJob", "rj", spec)
    world.run()
    assert len(world.placed(uid)) == 3
    assert world.used("team") == 4  # one of them is to be made
    (group,) = set(world.spec(uid)["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]) & {"nodeSelector"}
    assert group


def test_a_ray_job_without_a_submitter_comes_and_goes_as_a_whole(world):
    spec = {"suspend": True, "shutdownAfterJobFinishes": True, "rayClusterSpec": world.cluster(2)}
    uid = world.held("RayJob", "rj", spec | {"submissionMode": "HTTPMode"})

    preempted(world, uid, 3)


def test_a_ray_job_that_kube_ray_would_not_suspend_says_so(world):
    uid = world.held("RayJob", "rj", {"suspend": True, "rayClusterSpec": world.cluster(2)})
    world.run()

    assert world.waits(uid)
    assert "shutdownAfterJobFinishes is true" in world.events("InvalidGang")[0].note


def test_a_cluster_of_a_ray_job_is_suspended_by_that(world):
    spec = {"suspend": True, "shutdownAfterJobFinishes": True, "rayClusterSpec": world.cluster(5)}
    job = world.held("RayJob", "rj", spec)
    above = OwnerReference("ray.io/v1", "RayJob", "rj", job, controller=True)
    world.owner("RayCluster", "rj-abcde", controller=above, spec={"suspend": True, **world.cluster(1)})
    world.run()

    assert list(world.engine.state.managed_owners) == [job]
    assert not [one for one in world.log if isinstance(one, SuspendOwner)]


def test_one_that_has_ended_is_left_alone(world):
    spec = {"suspend": True, "shutdownAfterJobFinishes": True, "rayClusterSpec": world.cluster(1)}
    uid = world.held("RayJob", "rj", spec | {"submissionMode": "HTTPMode"})
    world.run()
    world.raws[uid]["status"] = {"jobDeploymentStatus": "Complete", "rayClusterName": "rj-abcde"}
    world.show(uid)
    world.run()

    assert not world.engine.state.managed_owners
