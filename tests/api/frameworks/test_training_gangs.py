"""Kubeflow's training jobs and MPIJobs as gangs.

Sources: training-operator release-1.9; mpi-operator caa3c47; KAI d5bc503a.
"""

from __future__ import annotations

import pytest

from tests.api.frameworks import shapes
from tests.api.frameworks.owners import Objects, later, numbers, parts

KUBEFLOW = "training.kubeflow.org/"


@pytest.mark.parametrize(
    ("kind", "at", "roles"),
    [
        ("PyTorchJob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 3}),
        ("TFJob", "tfReplicaSpecs", {"Chief": 1, "PS": 2, "Worker": 4, "Evaluator": 1}),
        ("XGBoostJob", "xgbReplicaSpecs", {"Master": 1, "Worker": 2}),
        ("PaddleJob", "paddleReplicaSpecs", {"Master": 1, "Worker": 2}),
        ("JAXJob", "jaxReplicaSpecs", {"Worker": 3}),
    ],
)
def test_a_training_job_is_one_gang_of_all_its_roles(kind, at, roles):
    """training-operator release-1.9, controller.v1/common/job.go: minMember is the sum of replicas."""
    objects = Objects(shapes.kubeflow(kind, at, ", ".join(shapes.replica(*role) for role in roles.items())))
    for role, count in roles.items():
        labels = {f"{KUBEFLOW}replica-type": role.lower(), f"{KUBEFLOW}replica-index": "0"}
        gang = objects.gang(objects.pod(f"train-{role.lower()}-0", f"{kind}/train", labels=labels))
        total = sum(roles.values())
        assert numbers(gang) == (total, total, total)
        assert gang.role == role.lower()
        assert parts(gang)[gang.role] == (count, count)


def test_the_first_label_that_names_a_role_counts():
    """training-operator marks masters in another label than roles, and both are on its pods (common/pod.go)."""
    objects = Objects(
        shapes.kubeflow("MPIJob", "mpiReplicaSpecs", f"{shapes.replica('Launcher')}, {shapes.replica('Worker', 2)}")
    )
    labels = {f"{KUBEFLOW}job-role": "master", f"{KUBEFLOW}replica-type": "launcher"}
    assert objects.gang(objects.pod("l", "MPIJob/train", labels=labels)).role == "launcher"


def test_replicas_that_are_not_given_are_one():
    objects = Objects(shapes.kubeflow("PyTorchJob", "pytorchReplicaSpecs", shapes.replica("Master")))
    assert numbers(objects.gang(objects.pod("m", "PyTorchJob/train"))) == (1, 1, 1)


def pytorch(policy: str = "", more: str = "") -> Objects:
    roles = f"{shapes.replica('Master', 1)}, {shapes.replica('Worker', 7)}"
    return Objects(shapes.kubeflow("PyTorchJob", "pytorchReplicaSpecs", roles, policy=policy, more=more))


def test_min_available_is_the_minimum_of_a_training_job():
    """controller.v1/common/job.go: schedulingPolicy.minAvailable goes before the sum."""
    objects = pytorch("schedulingPolicy: {minAvailable: 5}", "elasticPolicy: {minReplicas: 2}")
    assert numbers(objects.gang(objects.pod("m", "PyTorchJob/train"))) == (5, 8, 5)


def test_an_elastic_training_job_starts_with_its_least_workers_and_the_master():
    """elasticPolicy.minReplicas, and the master; KAI counts minReplicas (pytorch_grouper.go)."""
    objects = pytorch(more="elasticPolicy: {minReplicas: 2, maxReplicas: 12}")
    gang = objects.gang(objects.pod("m", "PyTorchJob/train"))
    assert numbers(gang) == (3, 8, 3)
    assert gang.most == 13


def test_a_role_of_another_scheduler_is_left_out_and_named():
    """A minimum with roles that somebody else places is never reached."""
    others = "{spec: {schedulerName: default-scheduler}}"
    roles = f"{shapes.replica('Master', 1, others)}, {shapes.replica('Worker', 3)}"
    objects = Objects(shapes.kubeflow("PyTorchJob", "pytorchReplicaSpecs", roles))
    gang = objects.gang(objects.pod("w", "PyTorchJob/train", labels={f"{KUBEFLOW}replica-type": "worker"}))
    assert numbers(gang) == (3, 3, 3)
    assert gang.notes == ("role master is not counted: default-scheduler places it",)


def test_where_a_webhook_names_the_scheduler_templates_that_name_none_count():
    """A TrainJob has no field for it, so neither has its JobSet."""
    roles = f"{shapes.replica('Master', 1, '{spec: {}}')}, {shapes.replica('Worker', 3, '{spec: {}}')}"
    objects = Objects(shapes.kubeflow("PyTorchJob", "pytorchReplicaSpecs", roles))
    labels = {f"{KUBEFLOW}replica-type": "worker"}
    assert objects.gang(objects.pod("w", "PyTorchJob/train", labels=labels)).minimum == 4


@pytest.mark.parametrize(
    "template",
    [
        "{metadata: {labels: {scheduling.tutti.dev/pod-group: mine}}, spec: {schedulerName: tutti}}",
        "{metadata: {labels: {kueue.x-k8s.io/pod-group-name: mine}}, spec: {schedulerName: tutti}}",
        "{metadata: {annotations: {scheduling.k8s.io/group-name: mine}}, spec: {schedulerName: tutti}}",
        "{metadata: {annotations: {scheduling.tutti.dev/gang: Apart}}, spec: {schedulerName: tutti}}",
        "{spec: {schedulerName: tutti, schedulingGroup: {podGroupName: mine}}}",
    ],
)
def test_a_role_whose_template_says_its_own_gang_is_left_out(template):
    roles = f"{shapes.replica('Master', 1, template)}, {shapes.replica('Worker', 3)}"
    objects = Objects(shapes.kubeflow("PyTorchJob", "pytorchReplicaSpecs", roles))
    gang = objects.gang(objects.pod("w", "PyTorchJob/train", labels={f"{KUBEFLOW}replica-type": "worker"}))
    assert gang.minimum == 3
    assert gang.notes[0].startswith("role master is not counted")


def mpi(policy: str = "", run_policy: str = "") -> Objects:
    roles = f"{shapes.replica('Launcher', 1)}, {shapes.replica('Worker', 4)}"
    more = f"launcherCreationPolicy: {policy}" if policy else ""
    objects = Objects(shapes.kubeflow("MPIJob", "mpiReplicaSpecs", roles, policy=run_policy, more=more))
    objects.add(shapes.job_of("train-launcher", "MPIJob/train"))
    return objects


def mpi_pods(objects: Objects):
    """Workers are pods of the MPIJob, the launcher is one of a Job (mpi-operator, mpi_job_controller.go)."""
    worker = objects.pod("train-worker-0", "MPIJob/train", labels={f"{KUBEFLOW}job-role": "worker"})
    launcher = objects.pod("train-launcher-x", "Job/train-launcher", labels={f"{KUBEFLOW}job-role": "launcher"})
    return objects.gang(worker), objects.gang(launcher)


@pytest.mark.parametrize("policy", ["", "AtStartup"])
def test_workers_and_launcher_of_an_mpi_job_are_one_gang(policy):
    """mpi-operator, podgroup.go, calculateMinAvailable: workers + 1."""
    worker, launcher = mpi_pods(mpi(policy))
    assert numbers(worker) == numbers(launcher) == (5, 5, 5)
    assert worker.group == launcher.group
    assert (worker.role, launcher.role) == ("worker", "launcher")
    assert not launcher.joins_later


def test_a_launcher_that_waits_for_workers_joins_them_later_and_has_room():
    """LauncherCreationPolicy WaitForWorkersReady (apis/kubeflow/v2beta1/types.go)."""
    worker, launcher = mpi_pods(mpi("WaitForWorkersReady"))
    assert numbers(worker) == numbers(launcher) == (4, 5, 5)
    assert worker.group == launcher.group
    assert later(worker) == [("launcher", 1, "", True, True)]
    assert (worker.joins_later, launcher.joins_later) == (False, True)


def test_min_available_of_an_mpi_job_cannot_count_a_launcher_that_comes_later():
    worker, _ = mpi_pods(mpi("WaitForWorkersReady", "schedulingPolicy: {minAvailable: 5}"))
    assert numbers(worker) == (4, 5, 5)
