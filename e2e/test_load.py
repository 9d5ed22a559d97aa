"""The user stories about measured load: figures of metrics.k8s.io decide, and a hot node takes nobody."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.harness.guests import serve
from e2e.harness.story import Story

GROUP, VERSION, PLURAL = "metrics.k8s.io", "v1beta1", "nodes"
LOAD: dict[str, Any] = {
    "profiles": [
        {"schedulerName": "tutti", "load": {"policy": "LeastUsed", "thresholds": [{"metric": "cpu", "above": 65}]}}
    ],
    "measurements": {"intervalSeconds": 5},
}


class Meter:
    """What measures nodes: it says how many cores are in use on each."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.known: set[str] = set()

    def say(self, **cores: int) -> None:
        """State what is used now of some nodes."""
        for node, used in cores.items():
            figures = {"timestamp": datetime.now(UTC).isoformat(), "usage": {"cpu": str(used), "memory": "1Gi"}}
            if node in self.known:
                self._story.custom.patch_cluster_custom_object(GROUP, VERSION, PLURAL, node, figures)
                continue
            whole = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "NodeMetrics", "metadata": {"name": node}, **figures}
            self._story.custom.create_cluster_custom_object(GROUP, VERSION, PLURAL, whole)
            self.known.add(node)


@pytest.fixture
def meter(story: Story) -> Iterator[Meter]:
    serve(story.api, GROUP, VERSION, "NodeMetrics", plural=PLURAL, scope="Cluster")
    found = Meter(story)
    yield found
    for node in found.known:
        story.custom.delete_cluster_custom_object(GROUP, VERSION, PLURAL, node)


def test_hot_nodes_take_nobody_until_they_have_cooled(story: Story, meter: Meter) -> None:
    nodes = story.cluster.nodes[:2]
    story.label_nodes(nodes, {"e2e.example.com/measured": story.namespace})
    meter.say(**dict.fromkeys(nodes, 1_000))
    story.start_operator(**LOAD)
    story.gang("ring", 2, gpus=1, selector={"e2e.example.com/measured": story.namespace})
    story.wait(
        lambda: "measured cpu above 65" in story.why("ring").get("message", ""), "the gang to say that nodes are hot"
    )
    story.kill_operator()
    story.start_operator(**LOAD)

    meter.say(**{nodes[1]: 0})  # a hollow kubelet has one core in all

    story.wait(lambda: set(story.where("ring").values()) == {nodes[1]}, "the gang to be bound where it is cool")
    story.label_nodes(nodes, {"e2e.example.com/measured": None})
