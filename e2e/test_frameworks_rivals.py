"""Two objects that each need more than half: pods that come later must not make them wait for one another for ever.

The three families of such deadlocks (stages, leaders first, late launchers and submitters), and what becomes of what is
kept when an object is changed, loses a pod, or goes. Shapes as in `e2e.harness.controllers`.
"""

from __future__ import annotations

import pytest
import yaml

from e2e.harness.controllers import job_pods, lws_leader, lws_leaders, lws_workers, mpi_launcher, mpi_workers
from e2e.harness.frameworks import QUEUE, Player
from e2e.harness.machines import GPUS
from e2e.harness.plays import INDEXED_JOB, LWS_KIND, MPI_KIND, PLAYS, Play, leader_worker_set, mpi_job
from e2e.harness.story import Story

PLENTY = 100


@pytest.mark.parametrize("play", [one for one in PLAYS if one.keeps], ids=str)
@pytest.mark.parametrize("lacking", ["room", "quota"])
def test_of_two_that_do_not_fit_beside_one_another_one_runs_to_its_end_and_then_the_other(
    story: Story, play: Play, lacking: str
) -> None:
    first, second = Player(story, *play.kinds), Player(story, *play.kinds, tag="-too")
    enough = min(2 * play.room - 1, GPUS * len(story.cluster.nodes))
    story.queue(QUEUE, PLENTY if lacking == "room" else enough)
    first.fill(enough)
    if lacking == "quota":
        first.clear(PLENTY)
    story.start_operator()
    acts = {first: play.acts(first), second: play.acts(second)}
    starts = [next(expected for expected in one if expected) for one in acts.values()]
    story.wait(lambda: first.bound() or second.bound(), "one of them to start")
    one, other = (first, second) if first.bound() else (second, first)
    one.wait_bound(starts[0])
    other.wait_waiting("Unschedulable" if lacking == "room" else "WaitingForQuota")
    for expected in acts[one]:
        if expected is not None:
            one.wait_bound(expected)
    assert not other.bound()

    one.leave()

    other.wait_bound(starts[1])
    for expected in acts[other]:
        if expected is not None:
            other.wait_bound(expected)
    other.wait_used(len(other.bound()))


def test_a_worker_that_is_made_anew_has_its_place_and_the_launcher_keeps_its_own(story: Story) -> None:
    player = Player(story, MPI_KIND)
    story.queue(QUEUE, 5)
    story.start_operator()
    job = player.make(mpi_job(launcherCreationPolicy="WaitForWorkersReady"))
    mpi_workers(player, job)
    player.wait_bound(4)
    rival = player.rival()
    story.wait(lambda: story.pod_condition(rival)[0] == "WaitingForQuota", "another pod to wait")
    player.delete_pods("mpi-worker-2")
    labels = {"training.kubeflow.org/job-role": "worker", "training.kubeflow.org/replica-index": "2"}
    player.pod("mpi-worker-2", job["spec"]["mpiReplicaSpecs"]["Worker"]["template"], job, labels=labels)
    player.wait_bound(4)

    mpi_launcher(player, job)

    player.wait_bound(5)
    assert not story.node_of(rival)


def test_a_leader_of_another_replica_does_not_take_what_is_kept_for_workers(story: Story) -> None:
    player = Player(story, LWS_KIND)
    story.queue(QUEUE, PLENTY)
    player.fill(5)
    story.start_operator()
    found = player.make(leader_worker_set(2, 3, more="startupPolicy: LeaderReady"))
    leaders = lws_leaders(player, found)
    pods = [lws_leader(player, leaders, found, group) for group in range(2)]
    story.wait(player.bound, "a leader to start")
    player.wait_waiting("Unschedulable")
    player.wait_bound(1)
    (bound,) = player.bound()
    group = int(bound.removeprefix("vllm-"))
    lws_workers(player, pods[group], found, group)
    player.wait_bound(3)

    player.clear()

    player.wait_bound(4)
    lws_workers(player, pods[1 - group], found, 1 - group)
    player.wait_bound(6)
    player.wait_used(6)


def test_a_replica_that_is_added_is_a_gang_and_one_that_goes_costs_no_other(story: Story) -> None:
    player = Player(story, LWS_KIND)
    story.queue(QUEUE, 6)
    story.start_operator()
    found = player.make(leader_worker_set(1, 3))
    leaders = lws_leaders(player, found)
    lws_workers(player, lws_leader(player, leaders, found, 0), found, 0)
    player.wait_bound(3)
    before = {pod: story.node_of(pod) for pod in player.pods}

    found = player.change(found, {"spec": {"replicas": 2}})
    leader = lws_leader(player, leaders, found, 1)
    player.wait_gathering()
    assert len(player.bound()) == 3
    lws_workers(player, leader, found, 1)
    player.wait_bound(6)

    player.change(found, {"spec": {"replicas": 1}})
    player.delete_pods(*(pod for pod in player.pods if pod not in before))
    player.wait_used(3)
    assert {pod: story.node_of(pod) for pod in player.bound()} == before


def test_a_job_that_is_suspended_has_nothing_kept_and_starts_whole_when_it_goes_on(story: Story) -> None:
    player = Player(story)
    story.queue(QUEUE, 4)
    story.start_operator()
    manifest = yaml.safe_load(INDEXED_JOB)
    manifest["spec"]["suspend"] = True
    job = player.make(manifest)
    rival = player.rival()
    story.wait(lambda: story.node_of(rival), "another pod to start: nothing is kept for a job that is suspended")
    player.change(job, {"spec": {"suspend": False}})
    pods = job_pods(player, job)
    player.wait_waiting("WaitingForQuota", 4)
    player.change(job, {"spec": {"suspend": True}})
    player.delete_pods(*pods)
    player.end(rival)
    player.change(job, {"spec": {"suspend": False}})
    job_pods(player, job)
    player.wait_bound(4)
    player.wait_used(4)


def test_pods_whose_owner_is_deleted_without_them_run_on(story: Story) -> None:
    """`kubectl delete --cascade=orphan`: garbage collection takes the owner off its pods."""
    player = Player(story)
    story.queue(QUEUE, 4)
    story.start_operator()
    job = player.make(INDEXED_JOB)
    pods = job_pods(player, job)
    player.wait_bound(4)
    where = {pod: story.node_of(pod) for pod in pods}
    at = ("batch", "v1", story.namespace, "jobs", "train")
    story.custom.delete_namespaced_custom_object(*at, propagation_policy="Orphan")
    for pod in pods:
        story.core.patch_namespaced_pod(pod, story.namespace, {"metadata": {"ownerReferences": None}})
    story.pod("probe")
    story.wait(lambda: story.where("probe"), "another pod to be bound after that")
    assert {pod: story.node_of(pod) for pod in player.bound()} == where
    player.wait_used(4)  # its quota stays counted
