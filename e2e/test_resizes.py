"""What a kubelet says of a pod that is resized where it runs, and what its queue is charged of it."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.harness.story import GROUP, Story

QUEUE = "resizing"


def in_use(story: Story) -> str:
    """How much cpu the queue says is in use."""
    usage = story.get("ClusterQueue", QUEUE).get("status", {}).get("flavorsUsage", [])
    return next((str(one["total"]) for of in usage for one in of["resources"] if one["name"] == "cpu"), "")


def resize(story: Story, name: str, cpu: str) -> None:
    body: dict[str, Any] = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    story.core.patch_namespaced_pod_resize(name, story.namespace, body)


def pending(story: Story, name: str) -> str:
    """Why the kubelet has not granted what a pod asks for; "" where it has."""
    conditions = story.core.read_namespaced_pod(name, story.namespace).status.conditions or []
    return next((one.reason for one in conditions if one.type == "PodResizePending"), "")


def test_a_raise_is_charged_once_the_kubelet_has_granted_it(story: Story) -> None:
    if story.cluster.kind in {"embedded", "envtest"}:
        pytest.skip("nobody grants a raise")
    story.queue(QUEUE, 4)
    story.start_operator()
    story.pod("raised", cpu="10m", labels={f"{GROUP}/queue-name": QUEUE})
    story.wait(lambda: in_use(story) == "10m", "it to be charged")
    node = story.where("raised")["raised"]
    story.pod("fills", cpu="600m", selector={"kubernetes.io/hostname": node})
    story.wait(lambda: story.living("fills"), "the rest of its node to be taken")

    resize(story, "raised", "700m")
    story.wait(lambda: pending(story, "raised") == "Deferred", "the kubelet to put it off")
    story.pod("beside", cpu="20m", labels={f"{GROUP}/queue-name": QUEUE})
    story.wait(lambda: in_use(story) == "30m", "what came after it to be charged, and nothing else")

    story.core.delete_namespaced_pod("fills", story.namespace, grace_period_seconds=0)
    story.wait(lambda: in_use(story) == "720m", "the raise to be charged, which is granted now")
    assert not pending(story, "raised")
