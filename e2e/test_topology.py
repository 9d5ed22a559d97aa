"""The user stories about nearness: gangs whose members talk to each other all the time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.harness.story import Story

RACK = "e2e.example.com/rack"
NEAR = {"schedulingConstraints": {"topology": [{"key": RACK, "mode": "Required"}]}}


@pytest.fixture
def racks(story: Story) -> Iterator[dict[str, str]]:
    """Which rack each node is in: two racks of two nodes, with four GPUs each."""
    left, right = story.cluster.nodes[:2], story.cluster.nodes[2:4]
    story.label_nodes(left, {RACK: "left"})
    story.label_nodes(right, {RACK: "right"})
    yield {**dict.fromkeys(left, "left"), **dict.fromkeys(right, "right")}
    story.label_nodes((*left, *right), {RACK: None})


def ring(story: Story, name: str, size: int) -> None:
    """A gang whose members must be in one rack."""
    story.object("PodGroup", name, {"schedulingPolicy": {"gang": {"minCount": size}}, **NEAR})
    for rank in range(size):
        story.pod(f"{name}-{rank}", gpus=1, labels={"scheduling.tutti.dev/pod-group": name})


def test_rings_stay_in_their_racks_and_one_that_fits_in_none_says_so(story: Story, racks: dict[str, str]) -> None:
    story.start_operator()
    for name in ("red", "blue"):
        ring(story, name, 3)
        story.wait(lambda name=name: len(story.where(name)) == 3, f"{name} to be bound")
        assert len({racks[node] for node in story.where(name).values()}) == 1
    ring(story, "late", 2)

    story.wait(lambda: story.why("late").get("gate") == "Placement", "the third to say why it waits")
    assert (
        f"No {RACK} domain has room for all 2 pods; the best of 2, left, has room for 1."
        in story.why("late")["message"]
    )
    story.wait(lambda: story.pod_condition("late-0")[0] == "Unschedulable", "its pods to say so")
    assert not story.where("late")

    story.finish("red")

    story.wait(lambda: len(story.where("late")) == 2, "the third to be bound where the first was")
    assert len({racks[node] for node in story.where("late").values()}) == 1


def test_a_queue_goes_by_the_topology_of_its_flavor(story: Story, racks: dict[str, str]) -> None:
    queue = story.namespace
    story.queue(queue, 8)
    story.object("Topology", queue, {"levels": [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]})
    story.change("ResourceFlavor", queue, {"topologyName": queue})
    story.start_operator()
    near = {"mode": "Required", "level": RACK, "groupName": "all"}
    groups = [{"name": "leader", "count": 1, "topology": near}, {"name": "workers", "count": 3, "topology": near}]
    story.object("Workload", "job", {"queueName": queue, "podGroups": groups})
    for name, group in (("job-0", "leader"), ("job-1", "workers"), ("job-2", "workers"), ("job-3", "workers")):
        labels = {"scheduling.tutti.dev/workload": "job", "scheduling.tutti.dev/pod-group": group}
        story.pod(name, gpus=1, labels=labels)

    story.wait(lambda: len(story.where("job")) == 4, "leader and workers to be bound")
    assert len({racks[node] for node in story.where("job").values()}) == 1
