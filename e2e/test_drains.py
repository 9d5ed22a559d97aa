"""A node is drained as administrators do it, member by member under a budget, and the gang that ran there is whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes import client

from e2e.harness.installing import Administrator
from e2e.harness.processes import PATIENCE
from e2e.harness.servers import Server
from e2e.harness.story import Story
from e2e.test_autoscalers import GATE
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


@pytest.mark.parametrize("killed", ["nobody", "operator", "API server"])
def test_members_of_a_node_that_is_drained_go_elsewhere_and_the_others_stay(
    story: Story, administrator: Administrator, request: pytest.FixtureRequest, killed: str
) -> None:
    """The queue is of the gang's size, and the budget lets the next one go when the one before has a successor.

    Another gang waits for the quota of each that goes.
    Its members forgive a node that is silent for as long as the server may be away, as pods do by default.
    """
    server: Server | None = request.getfixturevalue("server") if killed == "API server" else None
    story.queue(story.namespace, 4)
    story.start_operator()
    _, drained = two_and_two(story, story.namespace, patience=300)
    budget = {"minAvailable": 3, "selector": {"matchLabels": {"app": "train"}}}
    client.PolicyV1Api(story.api).create_namespaced_pod_disruption_budget(
        story.namespace, {"metadata": {"name": "train"}, "spec": budget}
    )
    story.wait(lambda: ready(story) == 4, "the gang to run")
    story.gang("next", 1, queue=story.namespace)
    story.wait(lambda: story.why("next").get("gate") == "Quota", "another gang to wait for quota")
    before = story.living("train")
    stay = {name: node for name, node in before.items() if node != drained}

    if killed == "operator":
        story.kill_operator()
    drain = ("kubectl", "drain", drained, "--pod-selector=app=train", f"--timeout={PATIENCE}s")
    leaving = administrator.begin(*drain)
    story.wait(lambda: not before.keys() <= story.living("train").keys(), "the first to leave")
    if killed == "operator":
        story.start_operator()
    if server is not None:
        server.restart(server.api, 3)
        leaving.communicate(timeout=PATIENCE + 10)  # it gives up where nobody answers, and is begun again
        leaving = administrator.begin(*drain)

    said, _ = leaving.communicate(timeout=PATIENCE + 10)
    assert leaving.returncode == 0, said
    story.wait(lambda: ready(story) == 4, "the gang to be whole")
    after = story.living("train")
    assert len(after) == 4
    assert drained not in after.values()
    assert stay.items() <= after.items()
    assert story.condition("PodGroup", "train", "Degraded").get("status") != "True"
    assert story.where("next") == {}


def test_a_gang_that_is_approved_after_a_node_of_it_was_cordoned_is_not_bound_there(
    story: Story, administrator: Administrator
) -> None:
    """It has all nodes there are until it is approved; whoever empties one of them counts on nobody coming any more."""
    nodes = story.cluster.nodes
    story.start_operator()
    story.gang("train", len(nodes), gpus=2, annotations={GATE: "budget"})
    story.wait(lambda: story.why("train").get("reason") == "WaitingForApproval", "the gang to be held")

    administrator.kubectl("cordon", nodes[0])
    for pod in story.pods("train"):
        story.core.patch_namespaced_pod(pod.metadata.name, story.namespace, {"metadata": {"annotations": {GATE: None}}})
    story.wait(lambda: "unschedulable" in story.why("train").get("message", ""), "it to wait for the node")
    assert story.where("train") == {}

    administrator.kubectl("uncordon", nodes[0])
    story.wait(lambda: set(story.where("train").values()) == set(nodes), "the gang to be bound whole")
