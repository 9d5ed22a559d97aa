"""Owners that cannot be read or are wrong, and kinds that users describe themselves.

What is said of an owner that may not be read is KAI's rule (d5bc503a): the last one that can be read decides.
"""

from __future__ import annotations

import pytest
import yaml

from e2e.harness.controllers import (
    job_pods,
    kubeflow_pods,
    lws_leader,
    lws_leaders,
    lws_workers,
    ray_head,
    ray_workers,
    replicated_job,
)
from e2e.harness.frameworks import QUEUE, TEMPLATE, Player
from e2e.harness.plays import (
    INDEXED_JOB,
    JOBSET_KIND,
    LWS_KIND,
    PYTORCH_KIND,
    RAY_KINDS,
    any_order,
    job_set,
    leader_worker_set,
    pytorch_job,
    ray_group,
    ray_object,
    ray_spec,
    role,
)
from e2e.harness.processes import PATIENCE
from e2e.harness.rights import unreadable
from e2e.harness.story import Story

SOLVER = """
group: solvers.example.com
kind: Solver
plural: solvers
versions: [v1]
gang: Together
roles:
- {name: coordinator, path: spec.coordinator, templates: [podTemplate]}
- {form: Map, path: spec.pools, replicas: {path: count}, size: {path: hosts}, templates: [podTemplate]}
podRoles: {labels: [solvers.example.com/pool], names: {main: coordinator}}
minimum: spec.quorum
queue: spec.queue
"""
SOLVER_KIND = "solvers.example.com/v1/Solver"


# ---- owners that may not be read


def test_the_jobs_of_a_jobset_that_may_not_be_read_are_gangs_of_their_own_and_one_is_told_why(story: Story) -> None:
    player = Player(story, JOBSET_KIND)
    player.fill(4)
    with unreadable(story, "jobset.x-k8s.io", "jobsets"):
        story.start_operator()
        found = player.make(job_set(role("workers", 2, 3)))
        for one in replicated_job(player, found, "workers"):
            job_pods(player, one)
        player.wait_bound(3)
        player.wait_waiting("Unschedulable", 3)
        story.wait(
            lambda: all(text in player.told() for text in ("JobSet set", "is not read")),
            "somebody to be told which owner is not read",
        )


def test_the_replicas_of_a_leader_worker_set_that_may_not_be_read_are_gangs_by_what_their_pods_say(
    story: Story,
) -> None:
    """Nobody knows whether the leader must be ready first: so it starts when there is room for all."""
    player = Player(story, LWS_KIND)
    player.fill(3)
    with unreadable(story, "leaderworkerset.x-k8s.io", "leaderworkersets"):
        story.start_operator()
        found = player.make(leader_worker_set(1, 4))
        leaders = lws_leaders(player, found)
        lws_workers(player, lws_leader(player, leaders, found, 0), found, 0)
        player.wait_waiting("Unschedulable", 4, pods=("vllm-0",))
        assert not player.bound()
        player.clear()
        player.wait_bound(4)


def test_a_kind_that_may_be_read_after_all_counts_from_then_on(story: Story) -> None:
    player = Player(story, *RAY_KINDS)
    story.queue(QUEUE, 3)
    spec = ray_spec(ray_group("small", 2))
    with unreadable(story, "ray.io", "rayclusters"):
        story.start_operator()
        cluster = player.make(ray_object("RayCluster", "one", spec))
        head, *workers = ray_head(player, cluster) + ray_workers(player, cluster, "small")
        player.wait_bound(3)
    if story.operator is None:  # as somebody else it had to end
        story.start_operator()
    listed = '"resource":"rayclusters.ray.io","objects"'
    story.wait(lambda: listed in story.log.read_text(errors="replace"), "the kind to be read")
    second = player.make(ray_object("RayCluster", "two", spec))
    more = ray_head(player, second) + ray_workers(player, second, "small")
    player.wait_bound(6)
    player.wait_used(3)  # what runs was admitted to no queue: it uses nothing of one, and nobody is taken out
    assert player.bound() >= {head, *workers}
    third = player.make(ray_object("RayCluster", "three", spec))
    ray_head(player, third)
    ray_workers(player, third, "small")
    player.wait_waiting("WaitingForQuota", 3)
    assert player.bound() == {head, *workers, *more}


# ---- owners that are wrong


@pytest.mark.parametrize(
    ("replicas", "said"),
    [(-1, "-1"), ("many", "many"), (1 << 40, "beyond all bounds"), ({"of": 3}, "replicas")],
    ids=["negative", "text", "too-many", "object"],
)
def test_of_an_owner_with_a_number_that_is_none_only_its_pods_wait_and_the_field_is_named(
    story: Story, replicas: object, said: str
) -> None:
    player = Player(story, PYTORCH_KIND)
    story.queue(QUEUE, 8)
    story.start_operator()
    manifest = yaml.safe_load(pytorch_job(3).replace("name: torch", "name: wrong"))
    manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = replicas
    wrong = player.make(manifest)
    bad = kubeflow_pods(player, wrong, "Master") + kubeflow_pods(player, wrong, "Worker", range(3))
    good = player.make(pytorch_job(3))
    beside = kubeflow_pods(player, good, "Master") + kubeflow_pods(player, good, "Worker")
    player.wait_bound(4)
    assert player.bound() == {*beside}
    story.wait(lambda: all(story.pod_condition(pod)[0] for pod in bad), "its pods to say why they wait")
    story.wait(lambda: "spec.pytorchReplicaSpecs.Worker.replicas" in player.told(), "the field to be named")
    story.wait(lambda: said in player.told(), "what it says to be told")

    player.change(wrong, {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}}})

    player.wait_bound(8)


def test_of_an_owner_with_more_roles_than_anybody_has_only_its_pods_wait(story: Story) -> None:
    player = Player(story, JOBSET_KIND)
    story.queue(QUEUE, 8)
    story.start_operator()
    manifest = yaml.safe_load(job_set(role("workers", 1, 2)))
    manifest["metadata"]["name"] = "huge"
    manifest["spec"]["replicatedJobs"] += [{"name": f"r{number}"} for number in range(10_000)]
    huge = player.make(manifest)
    job_pods(player, *replicated_job(player, huge, "workers"))
    waiting = [*player.pods]
    for _ in any_order(player):  # a JobSet as it should be
        pass
    player.wait_bound(7)
    assert not player.bound() & {*waiting}
    story.wait(lambda: "spec.replicatedJobs" in player.told(), "somebody to be told the field")


def test_a_queue_that_cannot_be_one_is_told_and_its_pods_wait(story: Story) -> None:
    player = Player(story)
    story.queue(QUEUE, 8)
    story.start_operator()
    manifest = yaml.safe_load(INDEXED_JOB)
    manifest["metadata"] = {"name": "wrong", "labels": {"kueue.x-k8s.io/queue-name": "No_Queue"}}
    bad = job_pods(player, player.make(manifest))
    job_pods(player, player.make(INDEXED_JOB))
    player.wait_bound(4)
    assert not player.bound() & {*bad}
    story.wait(lambda: "No_Queue" in player.told(), "somebody to be told")


# ---- kinds that users describe


def test_a_kind_that_a_user_describes_is_read_as_described(story: Story) -> None:
    player = Player(story, SOLVER_KIND)
    story.queue(QUEUE, 5)
    story.start_operator(frameworks=[yaml.safe_load(SOLVER)])
    solver = player.make(f"""
apiVersion: solvers.example.com/v1
kind: Solver
metadata: {{name: s}}
spec:
  queue: {QUEUE}
  coordinator: {{podTemplate: {TEMPLATE}}}
  pools: {{fast: {{count: 2, hosts: 2, podTemplate: {TEMPLATE}}}}}
""")
    template = yaml.safe_load(TEMPLATE)
    player.pod("s-main", template, solver, labels={"solvers.example.com/pool": "main"})
    for index in range(3):
        player.pod(f"s-fast-{index}", template, solver, labels={"solvers.example.com/pool": "fast"})
    player.wait_sizes(5)
    assert not player.bound()
    player.pod("s-fast-3", template, solver, labels={"solvers.example.com/pool": "fast"})
    player.wait_bound(5)
    player.wait_used(5)


def test_a_description_that_is_wrong_is_told_at_the_start(story: Story) -> None:
    wrong = {**yaml.safe_load(SOLVER), "gang": "Sometimes"}
    story.start_operator(frameworks=[yaml.safe_load(SOLVER), wrong])
    assert story.operator is not None
    assert story.operator.wait(PATIENCE) == 2
    assert "frameworks[1].gang: must be 'Together', 'Requested', 'Alone'" in story.log.read_text()
    story.operator = None
