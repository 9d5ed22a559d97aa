"""Free GPUs that are scattered become whole nodes: what runs is moved, and everybody has a node in the end."""

from __future__ import annotations

import pytest
import yaml

from e2e.harness.frameworks import TEMPLATE
from e2e.harness.story import Story

QUEUE = "moving"


def scattered(story: Story, **consolidation: object) -> None:
    """On each of four nodes one of two GPUs is in use, by a Job of its own."""
    if not story.cluster.kubelets:
        pytest.skip("nobody makes the pods of a controller anew")
    story.wait(lambda: not others(story), "what other stories have run here to be gone")
    story.queue(QUEUE, 16, **({"consolidation": consolidation} if consolidation else {}))
    nodes = story.cluster.nodes
    assert len(nodes) == 4
    for node in nodes:
        fill(story, f"filler-{node}", node)
    story.start_operator(victimsTimeoutSeconds=600)
    for number in range(4):
        story.crew(f"steady-{number}", 1, queue=QUEUE)
    story.wait(lambda: len(story.where("steady")) == 4, "each Job to have its node")
    assert len(set(story.where("steady").values())) == 4
    for node in nodes:
        story.core.delete_namespaced_pod(f"filler-{node}", story.namespace, grace_period_seconds=0)


def others(story: Story) -> list[str]:
    """The pods that are on a node of the cluster."""
    pods = story.core.list_pod_for_all_namespaces().items
    return [pod.metadata.name for pod in pods if pod.spec.node_name in story.cluster.nodes]


def fill(story: Story, name: str, node: str) -> None:
    """A pod that somebody else has placed takes one GPU."""
    spec = {**yaml.safe_load(TEMPLATE)["spec"], "schedulerName": "default-scheduler", "nodeName": node}
    story.core.create_namespaced_pod(story.namespace, {"metadata": {"name": name}, "spec": spec})


def moves(story: Story) -> list[dict[str, object]]:
    return list(story.get("ClusterQueue", QUEUE).get("status", {}).get("moves", []))


def test_a_gang_that_needs_whole_nodes_has_what_runs_moved_and_all_have_nodes(story: Story) -> None:
    scattered(story, maxMoves=4, movable=True)
    before = story.where("steady")

    story.gang("whole", 2, gpus=2, queue=QUEUE)

    story.wait(lambda: len(story.where("whole")) == 2, "the gang to be bound")
    story.wait(lambda: len(story.living("steady")) == 4, "all Jobs to have nodes again")
    assert set(story.living("steady").values()).isdisjoint(story.where("whole").values())
    moved = before.keys() - story.living("steady").keys()
    assert len(moved) == 2
    story.wait(lambda: len(moves(story)) == 2 and not any(one.get("pods") for one in moves(story)), "it to be told")
    assert {one["movedFor"] for one in moves(story)} == {f"PodGroup/{story.namespace}/whole"}


def test_nobody_is_moved_where_nobody_has_opted_in(story: Story) -> None:
    scattered(story, maxMoves=4)
    before = story.where("steady")

    story.gang("whole", 1, gpus=2, queue=QUEUE)

    story.wait(lambda: story.why("whole").get("gate") == "Placement", "the gang to say that it does not fit")
    assert story.living("steady") == before


def test_an_operator_that_is_killed_while_it_moves_comes_to_the_same_end(story: Story) -> None:
    scattered(story, maxMoves=4, movable=True)
    before = story.where("steady")
    story.gang("whole", 2, gpus=2, queue=QUEUE)
    story.wait(lambda: moves(story), "the moves to be written down")

    story.kill_operator()
    story.start_operator(victimsTimeoutSeconds=600)

    story.wait(lambda: len(story.where("whole")) == 2, "the gang to be bound")
    story.wait(lambda: len(story.living("steady")) == 4, "all Jobs to have nodes again")
    assert len(before.keys() - story.living("steady").keys()) == 2
