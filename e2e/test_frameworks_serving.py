"""LeaderWorkerSets, Deployments and StatefulSets as people submit them.

Shapes: LeaderWorkerSet 060ab4d (leaderworkerset.x-k8s.io/v1), apps/v1 of Kubernetes 1.36.
"""

from __future__ import annotations

import yaml

from e2e.harness.controllers import LWS, deployment_pods, lws_leader, lws_leaders, lws_workers
from e2e.harness.frameworks import QUEUE, TEMPLATE, Made, Player
from e2e.harness.plays import KUEUE, LWS_KIND, leader_worker_set
from e2e.harness.story import Story

RACK = "e2e/rack"


def test_each_replica_is_a_gang_of_its_own(story: Story) -> None:
    player = Player(story, LWS_KIND)
    story.queue(QUEUE, 100)
    player.fill(5)
    story.start_operator()
    found = player.make(leader_worker_set(2, 3))
    leaders = lws_leaders(player, found)
    for group in range(2):
        lws_workers(player, lws_leader(player, leaders, found, group), found, group)
    player.wait_bound(3)
    assert len({pod[: len("vllm-0")] for pod in player.bound()}) == 1
    player.wait_waiting("Unschedulable", 3)
    player.wait_sizes(3, 3)

    player.clear()

    player.wait_bound(6)
    player.wait_used(6)


def test_a_leader_that_must_be_ready_first_has_room_kept_for_its_workers(story: Story) -> None:
    player = Player(story, LWS_KIND)
    story.queue(QUEUE, 100)
    player.fill(4)
    story.start_operator()
    found = player.make(leader_worker_set(1, 4, more="startupPolicy: LeaderReady"))
    leader = lws_leader(player, lws_leaders(player, found), found, 0)
    player.wait_bound(1)
    rival = player.rival()
    story.wait(lambda: story.pod_condition(rival)[0] == "Unschedulable", "another pod to find no room")

    lws_workers(player, leader, found, 0)

    player.wait_bound(4)
    player.wait_used(4)
    assert not story.node_of(rival)


def test_a_leader_of_exclusive_topology_waits_for_a_rack_with_room_for_its_replica(story: Story) -> None:
    """The StatefulSet of the workers is made when the leader has a node, and its pods are sent to that domain."""
    player = Player(story, LWS_KIND)
    story.queue(QUEUE, 100)
    for index, node in enumerate(story.cluster.nodes):
        story.label_nodes((node,), {RACK: f"rack-{index // 2}"})
    player.fill(2)  # two of rack 0
    story.start_operator()
    found = player.make(leader_worker_set(1, 3, annotations=f"{{{LWS}/exclusive-topology: {RACK}}}"))
    leader = lws_leader(player, lws_leaders(player, found), found, 0)
    player.wait_waiting("Unschedulable")
    assert not player.bound()

    player.clear(6)
    player.wait_bound(1)
    node = story.core.read_node(story.node_of("vllm-0"))
    selected = {**found["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]}
    selected["nodeSelector"] = {RACK: node.metadata.labels[RACK]}
    found["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"] = selected
    lws_workers(player, leader, found, 0)

    player.wait_bound(3)
    story.label_nodes(story.cluster.nodes, {RACK: None})


def test_a_replica_whose_leader_is_deleted_is_made_anew_and_gathered_whole(story: Story) -> None:
    """With RecreateGroupOnPodRestart the StatefulSet of a leader, and its workers, go with it."""
    player = Player(story, LWS_KIND)
    story.queue(QUEUE, 6)
    story.start_operator()
    found = player.make(leader_worker_set(2, 3))
    leaders = lws_leaders(player, found)
    for group in range(2):
        lws_workers(player, lws_leader(player, leaders, found, group), found, group)
    player.wait_bound(6)
    kept = {pod: story.node_of(pod) for pod in player.pods if pod.startswith("vllm-1")}
    player.delete(
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "vllm-0"}},
        *(pod for pod in player.pods if pod.startswith("vllm-0")),
    )

    leader = lws_leader(player, leaders, found, 0)
    player.wait_gathering()
    assert player.bound() == {*kept}
    lws_workers(player, leader, found, 0)

    player.wait_bound(6)
    player.wait_used(6)
    assert {pod: story.node_of(pod) for pod in kept} == kept


def test_a_rolling_update_to_another_size_asks_for_as_many_as_each_pod_says(story: Story) -> None:
    player = Player(story, LWS_KIND)
    story.queue(QUEUE, 5)
    story.start_operator()
    found = player.make(leader_worker_set(2, 3))
    leaders = lws_leaders(player, found)
    lws_workers(player, lws_leader(player, leaders, found, 0), found, 0)
    player.wait_bound(3)

    player.change(found, {"spec": {"leaderWorkerTemplate": {"size": 2}}})
    leader = lws_leader(player, leaders, found, 1, size=2)  # the last replica is updated first
    player.wait_gathering()
    assert len(player.bound()) == 3
    lws_workers(player, leader, found, 1, size=2)

    player.wait_bound(5)
    player.wait_used(5)


# ---- apps/v1


def deployment(replicas: int) -> Made:
    """A Deployment; its pods may not say when they are not started again."""
    template = yaml.safe_load(TEMPLATE)
    template["spec"]["restartPolicy"] = "Always"
    template["metadata"] = {"labels": {"app": "web"}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    meta = {"name": "web", "labels": yaml.safe_load(KUEUE)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def test_the_pods_of_a_deployment_start_alone_and_in_its_queue(story: Story) -> None:
    player = Player(story)
    story.queue(QUEUE, 2)
    story.start_operator()
    deployment_pods(player, deployment(3))
    player.wait_bound(2)
    player.wait_waiting("WaitingForQuota")
    assert player.sizes() == []
    player.wait_used(2)


def stateful_set(**spec: object) -> Made:
    """A StatefulSet of three."""
    manifest = deployment(3)
    meta = {"name": "db", "labels": yaml.safe_load(KUEUE)}
    return {
        **manifest,
        "kind": "StatefulSet",
        "metadata": meta,
        "spec": {**manifest["spec"], "serviceName": "db", **spec},
    }


def test_the_pods_of_a_stateful_set_start_one_by_one_as_they_are_made(story: Story) -> None:
    """OrderedReady is the default: each pod is made when the one before it is Ready."""
    player = Player(story)
    story.queue(QUEUE, 2)
    story.start_operator()
    owner = player.make(stateful_set())
    for index in range(2):
        _ordinal(player, owner, index)
        player.wait_bound(index + 1)
    _ordinal(player, owner, 2)
    player.wait_waiting("WaitingForQuota")
    assert player.sizes() == []


def test_a_parallel_stateful_set_that_asks_for_it_is_a_gang(story: Story) -> None:
    player = Player(story)
    story.queue(QUEUE, 3)
    story.start_operator()
    manifest = stateful_set(podManagementPolicy="Parallel")
    manifest["metadata"]["annotations"] = {"scheduling.tutti.dev/gang": "Together"}
    owner = player.make(manifest)
    _ordinal(player, owner, 0)
    _ordinal(player, owner, 1)
    player.wait_sizes(3)
    assert not player.bound()

    _ordinal(player, owner, 2)

    player.wait_bound(3)


def _ordinal(player: Player, owner: Made, index: int) -> None:
    name = f"db-{index}"
    labels = {"apps.kubernetes.io/pod-index": str(index), "statefulset.kubernetes.io/pod-name": name}
    player.pod(name, owner["spec"]["template"], owner, labels=labels)
