"""A node is drained as administrators do it, member by member under a budget, and the gang that ran there is whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes import client

from e2e.harness.installing import Administrator
from e2e.harness.story import Story
from e2e.test_whole_for_life import two_and_two


@pytest.fixture
def administrator(story: Story) -> Iterator[Administrator]:
    """Somebody who drains nodes, and uncordons them in the end."""
    if not story.cluster.kubelets:
        pytest.skip("nobody makes the pods of a controller anew, and nobody says what a budget allows")
    one = Administrator(story.cluster)
    yield one
    one.kubectl("uncordon", *story.cluster.nodes)


def ready(story: Story) -> int:
    """How many members of the gang are ready."""
    return int(story.get("PodGroup", "train").get("status", {}).get("ready", 0))


@pytest.mark.parametrize("killed", [False, True], ids=["", "operator killed meanwhile"])
def test_members_of_a_node_that_is_drained_go_elsewhere_and_the_others_stay(
    story: Story, administrator: Administrator, *, killed: bool
) -> None:
    """The queue is of the gang's size, and the budget lets the next one go when the one before has a successor."""
    story.queue(story.namespace, 4)
    story.start_operator()
    _, drained = two_and_two(story, story.namespace)
    budget = {"minAvailable": 3, "selector": {"matchLabels": {"app": "train"}}}
    client.PolicyV1Api(story.api).create_namespaced_pod_disruption_budget(
        story.namespace, {"metadata": {"name": "train"}, "spec": budget}
    )
    story.wait(lambda: ready(story) == 4, "the gang to run")
    before = story.living("train")
    stay = {name: node for name, node in before.items() if node != drained}

    if killed:
        story.kill_operator()
    leaving = administrator.begin("kubectl", "drain", drained, "--pod-selector=app=train", "--timeout=150s")
    if killed:
        story.wait(lambda: len(story.living("train")) == 3, "the first to leave")
        story.start_operator()

    said, _ = leaving.communicate(timeout=160)
    assert leaving.returncode == 0, said
    story.wait(lambda: ready(story) == 4, "the gang to be whole")
    after = story.living("train")
    assert len(after) == 4
    assert drained not in after.values()
    assert stay.items() <= after.items()
    assert story.condition("PodGroup", "train", "Degraded").get("status") != "True"
