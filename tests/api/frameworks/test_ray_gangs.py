"""Clusters of Ray as gangs, and what submits to them.

Source: KubeRay feeaf72f.
"""

from __future__ import annotations

import pytest

from tests.api.frameworks import shapes
from tests.api.frameworks.owners import Objects, later, numbers, parts
from tests.api.frameworks.pods import ray_pod
from tutti.api.frameworks import OwnerAwaited, PlacedAlone


def test_a_ray_cluster_is_one_gang_of_head_and_all_hosts_of_its_groups():
    """KubeRay, batchscheduler/volcano: CalculateDesiredReplicas + 1; a replica has numOfHosts pods."""
    objects = Objects(shapes.RAY_CLUSTER)
    head, worker = (objects.gang(ray_pod(objects, group)) for group in ("headgroup", "hosts"))
    assert numbers(head) == (7, 7, 7)
    assert parts(head) == {"head": (1, 1), "small": (2, 2), "hosts": (4, 4)}
    assert (head.role, worker.role) == ("head", "hosts")
    assert head.group == worker.group


def test_an_autoscaled_ray_cluster_starts_with_its_least_replicas_and_may_grow():
    """KubeRay, batchscheduler/volcano: with enableInTreeAutoscaling CalculateMinReplicas + 1; minReplicas is 0 if unset."""
    objects = Objects(shapes.RAY_CLUSTER)
    objects.change("RayCluster/ray", "spec.enableInTreeAutoscaling", value=True)
    gang = objects.gang(ray_pod(objects, "headgroup"))
    assert numbers(gang) == (2, 7, 2)
    assert gang.most == 100_000  # a group without maxReplicas has no bound of its own
    objects.raw["RayCluster/ray"]["spec"]["workerGroupSpecs"][1]["maxReplicas"] = 2
    assert objects.gang(ray_pod(objects, "headgroup")).most == 1 + 5 + 2 * 4


@pytest.mark.parametrize(
    ("group", "count"),
    [
        ({"replicas": 3}, 3),
        ({"replicas": 3, "suspend": True}, 0),
        ({"replicas": 3, "maxReplicas": 2}, 2),
        ({"replicas": 1, "minReplicas": 2}, 2),
        ({"minReplicas": 2}, 2),
        ({}, 0),
        ({"replicas": 0}, 0),
        ({"replicas": 4, "minReplicas": 3, "maxReplicas": 2}, 3),
    ],
    ids=str,
)
def test_replicas_of_a_worker_group_are_within_its_bounds(group, count):
    """KubeRay, utils/util.go, GetWorkerGroupDesiredReplicas."""
    objects = Objects(shapes.RAY_CLUSTER)
    template = {"spec": {"schedulerName": "tutti"}}
    objects.change("RayCluster/ray", "spec.workerGroupSpecs", [{"groupName": "g", "template": template, **group}])
    assert objects.gang(ray_pod(objects, "headgroup")).minimum == 1 + count


def submitter(objects: Objects):
    """The Job that submits has the name of the RayJob, and is made when the cluster is ready."""
    objects.add(shapes.job_of("rj", "RayJob/rj"))
    return objects.pod("rj-x", "Job/rj")


def test_the_submitter_of_a_ray_job_joins_its_cluster_later():
    """KubeRay, batchscheduler/volcano, handleRayJob: minMember without the submitter, minResources with it."""
    objects = Objects(shapes.RAY_JOB, shapes.RAY_JOB_CLUSTER)
    head = objects.gang(ray_pod(objects, "headgroup", "rj-abcde"))
    joined = objects.gang(submitter(objects))
    assert numbers(head) == numbers(joined) == (7, 8, 8)
    assert later(head) == [("submitter", 1, "", True, True)]
    assert (head.group, head.owner) == (joined.group, "RayJob rj")
    assert (head.joins_later, joined.joins_later) == (False, True)
    assert joined.role == "submitter"


@pytest.mark.parametrize("mode", ["HTTPMode", "SidecarMode", "InteractiveMode"])
def test_other_ray_jobs_have_no_submitter(mode):
    objects = Objects(shapes.RAY_JOB, shapes.RAY_JOB_CLUSTER)
    objects.change("RayJob/rj", "spec.submissionMode", mode)
    assert numbers(objects.gang(ray_pod(objects, "headgroup", "rj-abcde"))) == (7, 7, 7)


def test_each_try_of_a_ray_job_is_a_gang_with_the_numbers_of_its_own_cluster():
    """A RayJob with backoffLimit makes another cluster for each try; an autoscaler changes the cluster, not the RayJob."""
    objects = Objects(shapes.RAY_JOB, shapes.RAY_JOB_CLUSTER)
    first = objects.gang(ray_pod(objects, "headgroup", "rj-abcde"))
    objects.add(shapes.RAY_JOB_CLUSTER.replace("rj-abcde", "rj-fghij"))
    objects.raw["RayCluster/rj-fghij"]["spec"]["workerGroupSpecs"][0]["replicas"] = 1
    second = objects.gang(ray_pod(objects, "headgroup", "rj-fghij"))
    assert first.workload != second.workload
    assert second.minimum == first.minimum - 1


def test_a_submitter_waits_until_it_is_known_which_cluster_is_in_use():
    objects = Objects(shapes.RAY_JOB)
    objects.raw["RayJob/rj"].pop("status")
    assert isinstance(objects.answer(submitter(objects)), OwnerAwaited)


def test_a_submitter_to_a_cluster_of_others_starts_by_itself():
    """With clusterSelector there is no rayClusterSpec: Kueue skips such RayJobs."""
    objects = Objects(shapes.RAY_JOB)
    objects.raw["RayJob/rj"]["spec"].pop("rayClusterSpec")
    assert isinstance(objects.answer(submitter(objects)), PlacedAlone)


def test_a_ray_service_has_a_gang_for_each_of_its_clusters():
    """An upgrade without downtime has two at a time (RayService, activeServiceStatus and pendingServiceStatus)."""
    service = "{apiVersion: ray.io/v1, kind: RayService, metadata: {name: rs}}"
    objects = Objects(service)
    for name in ("rs-1", "rs-2"):
        objects.add(shapes.RAY_JOB_CLUSTER.replace("RayJob/rj", "RayService/rs").replace("rj-abcde", name))
    one, two = (objects.gang(ray_pod(objects, "headgroup", name)) for name in ("rs-1", "rs-2"))
    assert (one.minimum, two.minimum) == (7, 7)
    assert one.workload != two.workload
    assert one.workload_name != two.workload_name
