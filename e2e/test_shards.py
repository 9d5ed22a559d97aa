"""Two shards, each with a process of its own: each binds its own, and one of them is killed while a node leaves it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.clusters import Cluster
from e2e.harness.replica import replica
from e2e.harness.story import Story

ANNOTATION = "scheduling.tutti.dev/shard"
ELECTION = {"leaseDurationSeconds": 8, "renewDeadlineSeconds": 6, "retryPeriodSeconds": 1}
LEFT, RIGHT = "left", "right"


@pytest.fixture
def right(cluster: Cluster, story: Story, tmp_path: Path) -> Iterator[Story]:
    """The namespace of a tenant of the other shard."""
    told = Story(cluster, f"{story.namespace}-right", tmp_path / RIGHT)
    yield told
    told.close()


@pytest.fixture
def nodes(story: Story) -> Iterator[list[str]]:
    """Two nodes of a pool of the other shard's, as they were before in the end."""
    found = sorted(one.metadata.name for one in story.core.list_node().items)[:2]
    story.label_nodes(tuple(found), {"pool": story.namespace})
    yield found
    story.label_nodes(tuple(found), {"pool": None})
    for one in found:
        story.core.patch_node(one, {"metadata": {"annotations": {ANNOTATION: None}}})


def settings(story: Story) -> dict[str, Any]:
    """The configuration of both: the cohort and the pool are the other shard's."""
    election = {**ELECTION, "leaseName": story.namespace, "leaseNamespace": story.namespace}
    shard = {"name": RIGHT, "cohorts": [story.namespace], "nodes": {"matchLabels": {"pool": story.namespace}}}
    return {"leaderElection": election, "shards": [shard]}


def has(story: Story, node: str) -> str:
    """Which shard has a node by what is written on it."""
    return (story.core.read_node(node).metadata.annotations or {}).get(ANNOTATION, "default")


def test_each_shard_binds_its_own_and_what_leaves_a_dead_one_is_taken_over(
    story: Story, right: Story, nodes: list[str]
) -> None:
    story.queue(f"{story.namespace}-q", 64)
    right.queue(f"{story.namespace}-r", 64, cohortName=story.namespace)
    with replica(story, LEFT, **settings(story)) as left:
        with replica(story, RIGHT, "--shard", RIGHT, **settings(story)) as first:
            story.wait(lambda: left.said("deciding") and first.said("deciding"), "both to lead")
            story.wait(lambda: {has(story, node) for node in nodes} == {RIGHT}, "the pool to be handed over")

            story.gang("a", 2, queue=f"{story.namespace}-q")
            right.gang("b", 2, queue=f"{story.namespace}-r")
            story.wait(lambda: len(story.where("a")) == 2 and len(right.where("b")) == 2, "both gangs to be bound")
            assert not set(story.where("a").values()) & set(nodes)
            assert set(right.where("b").values()) <= set(nodes)
            assert not {pod.metadata.uid for pod in right.pods("b")} & left.bound()

            first.kill()
        gone = next(node for node in nodes)
        story.label_nodes((gone,), {"pool": None})
        story.wait(lambda: has(story, gone) == "default", "the node to be taken over from the dead")
        story.wait(lambda: left.said("stands_in"), "it to say in whose place it is")
        labels = {"scheduling.tutti.dev/queue-name": f"{story.namespace}-q"}
        story.pod("c", selector={"kubernetes.io/hostname": gone}, labels=labels)
        story.wait(lambda: story.node_of("c") == gone, "a pod to be bound there")

        with replica(story, "again", "--shard", RIGHT, **settings(story)) as second:
            story.wait(lambda: second.said("deciding"), "the next process to lead")
            right.gang("d", 2, gpus=0, queue=f"{story.namespace}-r")
            story.wait(lambda: len(right.where("d")) == 2, "a gang to be bound by it")
            assert set(right.where("d").values()) == {one for one in nodes if one != gone}
            assert not {pod.metadata.uid for pod in right.pods("b")} & second.bound()
