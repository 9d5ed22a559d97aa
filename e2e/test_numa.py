"""The user stories about NUMA zones: nobody is sent to a kubelet that would refuse to align it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from kubernetes import client

from e2e.harness.guests import serve
from e2e.harness.story import Story

GROUP, VERSION, PLURAL = "topology.node.k8s.io", "v1alpha2", "noderesourcetopologies"
GPU = "nvidia.com/gpu"
CPU = "400m"
"""What two pods have beside each other on a node of one CPU, as those of pretended kubelets are."""
WITH_ZONES = {"profiles": [{"schedulerName": "tutti", "nodeResourceTopologyMatch": {}}]}


class Agent:
    """What reports of the zones of one node: two of them with a GPU each."""

    def __init__(self, story: Story, node: str) -> None:
        self._story, self._node = story, node

    def report(self, gpus: Sequence[int], **more: Any) -> None:
        """Say how many GPUs each zone has left."""
        zones = [
            {
                "name": f"node-{at}",
                "type": "Node",
                "resources": [
                    {"name": name, "capacity": whole, "allocatable": whole, "available": left}
                    for name, whole, left in ((GPU, "1", str(free)), ("cpu", "4", "4"), ("memory", "8Gi", "8Gi"))
                ],
            }
            for at, free in enumerate(gpus)
        ]
        attributes = [{"name": "topologyManagerPolicy", "value": "single-numa-node"}]
        body = {"attributes": attributes, "zones": zones, **more}
        with contextlib.suppress(client.ApiException):  # there may be none yet
            self._story.custom.patch_cluster_custom_object(GROUP, VERSION, PLURAL, self._node, body)
            return
        whole = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "NodeResourceTopology", "metadata": {"name": self._node}}
        self._story.custom.create_cluster_custom_object(GROUP, VERSION, PLURAL, {**whole, **body})

    def end(self) -> None:
        """Take the report away."""
        self._story.custom.delete_cluster_custom_object(GROUP, VERSION, PLURAL, self._node)


@pytest.fixture
def agent(story: Story) -> Iterator[Agent]:
    serve(story.api, GROUP, VERSION, "NodeResourceTopology", plural=PLURAL, scope="Cluster")
    node = story.cluster.nodes[0]
    found = Agent(story, node)
    story.label_nodes((node,), {"e2e.example.com/zones": story.namespace})
    found.report([1, 1])
    yield found
    story.label_nodes((node,), {"e2e.example.com/zones": None})
    found.end()


def pair(story: Story, name: str) -> None:
    """A gang of two, each with one GPU, on the node with zones."""
    selector = {"e2e.example.com/zones": story.namespace}
    story.gang(name, 2, gpus=1, cpu=CPU, guaranteed=True, selector=selector)


def test_zones_are_given_once_while_the_agent_reports_late(story: Story, agent: Agent) -> None:
    selector = {"e2e.example.com/zones": story.namespace}
    story.start_operator(**WITH_ZONES)
    story.pod("wide", gpus=2, cpu=CPU, guaranteed=True, selector=selector)
    story.wait(lambda: "cannot align container" in story.pod_condition("wide")[1], "the wide pod to say why it waits")
    said = story.pod_condition("wide")[1]
    assert (
        f"On 1 node no NUMA zone has 2 nvidia.com/gpu, {CPU} cpu and 8Mi memory free; "
        "the largest hole is 1 nvidia.com/gpu, 4 cpu and 8Gi memory" in said
    )

    pair(story, "first")
    story.wait(lambda: len(story.where("first")) == 2, "the first pair to be bound, one to each zone")
    agent.report([0, 0])
    story.finish("first")
    pair(story, "second")
    story.wait(
        lambda: "cannot align container" in story.why("second").get("message", ""),
        "the second pair to wait for the agent",
    )
    story.kill_operator()
    story.start_operator(**WITH_ZONES)
    assert not story.where("second")

    agent.report([1, 1])

    story.wait(lambda: len(story.where("second")) == 2, "the second pair to be bound once zones are free")


def test_a_report_that_cannot_be_right_is_told_on_the_report(story: Story, agent: Agent) -> None:
    story.start_operator(**WITH_ZONES)
    agent.report(
        [1, 1], zones=[{"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "available": "much"}]}]
    )
    pair(story, "late")
    story.wait(
        lambda: "invalid node topology data" in story.why("late").get("message", ""), "the pair to say why it waits"
    )
    node = story.cluster.nodes[0]
    story.wait(
        lambda: any(reason == "InvalidNodeTopology" for reason, _ in _events(story, node)), "the event on the report"
    )

    agent.report([1, 1])

    story.wait(lambda: len(story.where("late")) == 2, "the pair to be bound")


def _events(story: Story, name: str) -> list[tuple[str, str]]:
    found = story.custom.list_cluster_custom_object("events.k8s.io", "v1", "events")["items"]
    return [(one["reason"], one.get("note", "")) for one in found if one["regarding"]["name"] == name]
