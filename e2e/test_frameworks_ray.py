"""RayClusters, RayJobs and RayServices as people submit them: a queue label on them, `schedulerName` in the templates.

Shapes: KubeRay feeaf72f (ray.io/v1), whose own rule counts: without autoscaling all replicas of all groups, with it
minReplicas (utils/util.go); the submitter is left out of the minimum (batchscheduler/volcano).
"""

from __future__ import annotations

import yaml

from e2e.harness.controllers import ray_cluster, ray_head, ray_submitter, ray_workers
from e2e.harness.frameworks import QUEUE, Player
from e2e.harness.plays import RAY_JOB, RAY_KINDS, ray_group, ray_job_cluster, ray_object, ray_spec
from e2e.harness.story import Story

AUTOSCALED = "enableInTreeAutoscaling: true,"


def test_a_cluster_is_one_gang_of_its_head_and_all_hosts_of_all_replicas(story: Story) -> None:
    player = Player(story, *RAY_KINDS)
    story.queue(QUEUE, 7)
    story.start_operator()
    groups = [ray_group("small", 2), ray_group("hosts", 1, more="numOfHosts: 4,")]
    cluster = player.make(ray_object("RayCluster", "ray", ray_spec(*groups)))
    ray_head(player, cluster)
    ray_workers(player, cluster, "small")
    player.wait_sizes(7)
    assert not player.bound()

    ray_workers(player, cluster, "hosts")

    player.wait_bound(7)
    player.wait_used(7)


def test_a_group_that_is_suspended_is_not_waited_for(story: Story) -> None:
    player = Player(story, *RAY_KINDS)
    story.queue(QUEUE, 8)
    story.start_operator()
    groups = [ray_group("small", 2), ray_group("idle", 3, more="suspend: true,")]
    cluster = player.make(ray_object("RayCluster", "ray", ray_spec(*groups)))
    ray_head(player, cluster)
    ray_workers(player, cluster, "small")
    player.wait_bound(3)

    player.change(cluster, {"spec": yaml.safe_load(ray_spec(ray_group("small", 2), ray_group("idle", 3)))})
    ray_workers(player, cluster, "idle")

    player.wait_bound(6)
    player.wait_used(6)


def test_an_autoscaled_cluster_starts_with_its_fewest_and_grows_and_shrinks(story: Story) -> None:
    player = Player(story, *RAY_KINDS)
    story.queue(QUEUE, 8)
    player.fill(1)
    story.start_operator()

    def spec(replicas: int) -> str:
        return ray_spec(ray_group("small", replicas, least=1, most=5), more=AUTOSCALED)

    cluster = player.make(ray_object("RayCluster", "ray", spec(1)))
    ray_head(player, cluster)
    first = ray_workers(player, cluster, "small")
    player.wait_waiting("Unschedulable", 2)
    player.clear()
    player.wait_bound(2)

    cluster = player.change(cluster, {"spec": yaml.safe_load(spec(4))})
    more = ray_workers(player, cluster, "small", range(1, 4))
    player.clear(2)
    player.wait_bound(4)
    player.wait_waiting("Unschedulable")  # the fourth worker, alone
    player.clear()
    player.wait_bound(5)

    player.change(cluster, {"spec": yaml.safe_load(spec(2))})
    player.delete_pods(*more[:2])
    player.wait_used(3)
    assert player.bound() >= {*first, more[2]}


def test_workers_beyond_the_fewest_make_room_first_and_the_cluster_goes_on(story: Story) -> None:
    player = Player(story, *RAY_KINDS)
    story.queue(QUEUE, 4, preemption={"withinClusterQueue": "LowerPriority"})
    high = story.priority_class("high", 1000)
    story.start_operator()
    spec = ray_spec(ray_group("small", 3, least=1, most=5), more=AUTOSCALED)
    cluster = player.make(ray_object("RayCluster", "ray", spec))
    (head,) = ray_head(player, cluster)
    workers = ray_workers(player, cluster, "small")
    player.wait_bound(4)
    story.gang("urgent", 2, queue=QUEUE, priority_class=high)
    story.wait(lambda: len({*story.living("")} & {*player.pods}) == 2, "two workers to be told to leave")
    story.let_leave("ray-")
    story.wait(lambda: len(story.where("urgent")) == 2, "the urgent gang to start")
    assert head in story.living("")
    assert len({*workers} & {*story.living("")}) == 1


# ---- RayJob


def test_a_submitter_has_a_place_kept_and_stands_in_no_second_line(story: Story) -> None:
    player = Player(story, *RAY_KINDS)
    story.queue(QUEUE, 4)
    story.start_operator()
    job = player.make(RAY_JOB)
    cluster = ray_job_cluster(player, job, "rj-abcde")
    ray_head(player, cluster)
    ray_workers(player, cluster, "small")
    player.wait_bound(3)
    rival = player.rival()
    story.wait(lambda: story.pod_condition(rival)[0] == "WaitingForQuota", "another pod to wait: the quota is promised")

    ray_submitter(player, job)

    player.wait_bound(4)
    player.wait_used(4)
    assert not story.node_of(rival)


def test_the_cluster_of_another_attempt_is_another_gang(story: Story) -> None:
    """With `backoffLimit` a RayJob that has failed gets a cluster of another name; the former one is deleted."""
    player = Player(story, *RAY_KINDS)
    story.queue(QUEUE, 4)
    story.start_operator()
    job = player.make(RAY_JOB)
    first = ray_job_cluster(player, job, "rj-abcde")
    pods = ray_head(player, first) + ray_workers(player, first, "small")
    player.wait_bound(3)
    (submitter,) = ray_submitter(player, job)
    player.wait_bound(4)
    player.end(submitter, phase="Failed")
    player.delete(first, *pods)
    player.delete({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "rj"}}, submitter)

    second = ray_job_cluster(player, job, "rj-fghij")
    ray_head(player, second)
    ray_workers(player, second, "small", [0])
    player.wait_gathering()
    assert not player.bound()
    ray_workers(player, second, "small", [1])

    player.wait_bound(3)
    ray_submitter(player, job)
    player.wait_bound(4)
    player.wait_used(4)


def test_a_submitter_that_another_scheduler_places_is_not_counted_and_one_is_told_so(story: Story) -> None:
    """Without `submitterPodTemplate` KubeRay makes one that names no scheduler."""
    player = Player(story, *RAY_KINDS)
    story.queue(QUEUE, 3)
    player.fill(2)
    story.start_operator()
    manifest = yaml.safe_load(RAY_JOB)
    del manifest["spec"]["submitterPodTemplate"]
    job = player.make(manifest)
    cluster = ray_job_cluster(player, job, "rj-abcde")
    ray_head(player, cluster)
    ray_workers(player, cluster, "small")
    player.wait_waiting("Unschedulable", 3)
    story.wait(lambda: "role submitter is not counted" in player.told(), "somebody to be told")

    player.clear()

    player.wait_bound(3)


# ---- RayService


def test_the_cluster_that_a_service_is_upgraded_to_is_a_gang_beside_the_one_that_runs(story: Story) -> None:
    player = Player(story, *RAY_KINDS)
    story.queue(QUEUE, 5)
    story.start_operator()
    spec = f'{{serveConfigV2: "applications: []", rayClusterConfig: {ray_spec(ray_group("small", 2))}}}'
    service = player.make(ray_object("RayService", "serve", spec))
    config = service["spec"]["rayClusterConfig"]
    active = ray_cluster(player, service, config, "serve-aaaaa")
    pods = ray_head(player, active) + ray_workers(player, active, "small")
    player.wait_bound(3)
    pending = ray_cluster(player, service, config, "serve-bbbbb")
    ray_head(player, pending)
    ray_workers(player, pending, "small")
    player.wait_waiting("WaitingForQuota", 3)
    player.wait_sizes(3, 3)
    assert player.bound() == {*pods}

    story.resize_queue(QUEUE, 6)
    player.wait_bound(6)
    player.delete(active, *pods)
    player.wait_used(3)
