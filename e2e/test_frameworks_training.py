"""Kubeflow's training jobs, version 1, and MPIJobs as people submit them.

Shapes: training-operator release-1.9 (kubeflow.org/v1), mpi-operator caa3c47 (v2beta1). How many must start at once is
said as these projects' own integrations with Volcano count it: minAvailable, else elasticPolicy.minReplicas, else all.
"""

from __future__ import annotations

import pytest

from e2e.harness.controllers import kubeflow_pods, mpi_launcher, mpi_workers
from e2e.harness.frameworks import QUEUE, TEMPLATE, Player
from e2e.harness.plays import MPI_KIND, PYTORCH_KIND, mpi_job, pytorch_job
from e2e.harness.story import Story

ELASTIC = "{minReplicas: 3, maxReplicas: 6, rdzvBackend: c10d}"


def test_a_training_job_is_one_gang_of_all_its_roles(story: Story) -> None:
    player = Player(story, PYTORCH_KIND)
    story.queue(QUEUE, 8)
    story.start_operator()
    job = player.make(pytorch_job(7))
    kubeflow_pods(player, job, "Master")
    kubeflow_pods(player, job, "Worker", range(6))
    player.wait_sizes(8)
    assert not player.bound()

    kubeflow_pods(player, job, "Worker", [6])

    player.wait_bound(8)
    player.wait_used(8)


def test_a_stated_minimum_is_enough_to_start_and_the_rest_join(story: Story) -> None:
    player = Player(story, PYTORCH_KIND)
    story.queue(QUEUE, 8)
    player.fill(4)
    story.start_operator()
    job = player.make(pytorch_job(7, policy="schedulingPolicy: {minAvailable: 5}"))
    kubeflow_pods(player, job, "Master")
    kubeflow_pods(player, job, "Worker")
    player.wait_waiting("Unschedulable", 5)
    assert not player.bound()

    player.clear()
    player.wait_bound(5)

    player.clear(3)
    player.wait_bound(8)
    player.wait_used(8)


def test_an_elastic_job_starts_with_its_fewest_and_follows_what_it_is_scaled_to(story: Story) -> None:
    player = Player(story, PYTORCH_KIND)
    story.queue(QUEUE, 8)
    player.fill(2)
    story.start_operator()
    job = player.make(pytorch_job(4, elastic=ELASTIC))
    kubeflow_pods(player, job, "Worker")
    player.wait_waiting("Unschedulable", 3)
    player.clear()
    player.wait_bound(3)
    player.clear(3)
    player.wait_bound(4)

    job = player.change(job, {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 6}}}})
    kubeflow_pods(player, job, "Worker", [4, 5])
    player.wait_bound(6)

    job = player.change(job, {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}}})
    player.delete_pods("torch-worker-5", "torch-worker-4", "torch-worker-3")
    player.wait_used(3)
    assert player.bound() == {f"torch-worker-{index}" for index in range(3)}  # nobody is evicted for it


def test_a_job_that_is_made_smaller_while_it_waits_starts_with_what_is_left(story: Story) -> None:
    player = Player(story, PYTORCH_KIND)
    story.queue(QUEUE, 8)
    player.fill(2)
    story.start_operator()
    job = player.make(pytorch_job(3))
    for name in ("Master", "Worker"):
        kubeflow_pods(player, job, name)
    player.wait_waiting("Unschedulable", 4)
    player.change(job, {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}}})
    player.delete_pods("torch-worker-1", "torch-worker-2")
    player.wait_bound(2)


def test_queue_and_priority_are_read_from_the_scheduling_policy(story: Story) -> None:
    player = Player(story, PYTORCH_KIND)
    story.queue(QUEUE, 4)
    high = story.priority_class("high", 1000)
    story.start_operator()
    rival = player.rival()
    story.wait(lambda: story.node_of(rival), "somebody else to run")
    for name, more in [("plain", ""), ("urgent", f", priorityClass: {high}")]:
        policy = f"schedulingPolicy: {{queue: {QUEUE}{more}}}"
        job = player.make(pytorch_job(3, policy=policy, labels="{}").replace("name: torch", f"name: {name}"))
        for role in ("Master", "Worker"):
            kubeflow_pods(player, job, role)
    player.wait_waiting("WaitingForQuota", 4)

    player.end(rival)

    player.wait_bound(4)
    assert {pod.partition("-")[0] for pod in player.bound()} == {"urgent"}
    player.wait_used(4)


def test_a_kind_that_is_installed_while_the_operator_runs_is_followed_from_then_on(story: Story) -> None:
    player = Player(story)
    story.queue(QUEUE, 3)
    story.start_operator()
    story.pod("probe")
    story.wait(lambda: story.where("probe"), "the operator to be at work")
    player.serve("kubeflow.org/v1/XGBoostJob")
    labels = f"{{kueue.x-k8s.io/queue-name: {QUEUE}}}"
    job = player.make(f"""
apiVersion: kubeflow.org/v1
kind: XGBoostJob
metadata: {{name: boost, labels: {labels}}}
spec:
  xgbReplicaSpecs:
    Master: {{replicas: 1, template: {TEMPLATE}}}
    Worker: {{replicas: 3, template: {TEMPLATE}}}
""")
    for name in ("Master", "Worker"):
        kubeflow_pods(player, job, name)
    player.wait_waiting("ExceedsMaxQuota", 4)

    story.resize_queue(QUEUE, 4)

    player.wait_bound(4)


# ---- MPIJob


@pytest.mark.parametrize("worker_too", [False, True])
def test_launcher_and_workers_that_are_made_at_once_start_at_once(story: Story, *, worker_too: bool) -> None:
    player = Player(story, MPI_KIND)
    story.queue(QUEUE, 5)
    story.start_operator()
    job = player.make(mpi_job(runLauncherAsWorker="true" if worker_too else "false"))
    mpi_workers(player, job)
    player.wait_sizes(5)
    assert not player.bound()

    mpi_launcher(player, job)

    player.wait_bound(5)
    player.wait_used(5)


def test_a_launcher_that_waits_for_its_workers_has_a_place_kept_and_stands_in_no_second_line(story: Story) -> None:
    player = Player(story, MPI_KIND)
    story.queue(QUEUE, 5)
    story.start_operator()
    job = player.make(mpi_job(launcherCreationPolicy="WaitForWorkersReady"))
    mpi_workers(player, job)
    player.wait_bound(4)
    rival = player.rival()
    story.wait(lambda: story.pod_condition(rival)[0] == "WaitingForQuota", "another pod to wait: the quota is promised")

    mpi_launcher(player, job)

    player.wait_bound(5)
    player.wait_used(5)
    assert not story.node_of(rival)
    player.end(*player.pods)
    story.wait(lambda: story.node_of(rival), "its turn to come when the job has ended")


def test_the_room_that_is_kept_for_a_launcher_is_free_again_when_the_job_is_deleted(story: Story) -> None:
    player = Player(story, MPI_KIND)
    story.queue(QUEUE, 5)
    story.start_operator()
    job = player.make(mpi_job(launcherCreationPolicy="WaitForWorkersReady"))
    workers = mpi_workers(player, job)
    player.wait_bound(4)
    player.delete(job, *workers)
    story.gang("next", 5, queue=QUEUE)
    story.wait(lambda: len(story.where("next")) == 5, "the next gang to have all of the quota")
