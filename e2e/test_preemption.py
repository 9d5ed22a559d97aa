"""Work of higher priority takes the place of lower: as a whole or not at all, and only what it needs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes import client

from e2e.harness.kubelets import Kubelets
from e2e.harness.power import SOON
from e2e.harness.story import Story


def leaving(story: Story, prefix: str) -> list[Any]:
    """The pods that have been told to end for the sake of others, as their condition says."""
    return [
        pod
        for pod in story.pods(prefix)
        if any(
            one.type == "DisruptionTarget" and one.reason == "PreemptionByScheduler" for one in pod.status.conditions
        )
    ]


GRACE = 3600
"""For how many seconds who is told to leave may take its time: it is there until the story lets it go."""


def test_a_gang_of_higher_priority_takes_the_place_of_as_few_as_it_needs(story: Story) -> None:
    high = story.priority_class("high", 1000)
    story.start_operator()
    for number in range(8):
        story.pod(f"low-{number}", gpus=1, grace=GRACE)
    story.wait(lambda: len(story.where("low")) == 8, "every GPU to be in use")

    story.gang("urgent", 2, gpus=2, priority_class=high)

    story.wait(lambda: len(leaving(story, "low")) == 4, "four pods to be told to leave")
    story.wait(lambda: story.why("urgent").get("gate") == "Victims", "the gang to say for whom it waits")
    assert "waits for 4 pods of lower priority to leave" in story.why("urgent")["message"]
    victim, *_ = leaving(story, "low")
    nodes = {pod.spec.node_name for pod in leaving(story, "low")}
    story.wait(
        lambda: {pod.status.nominated_node_name for pod in story.pods("urgent")} == nodes,
        "its pods to name their nodes",
    )
    story.wait(
        lambda: "PodGroup/" in dict(story.events(victim.metadata.name)).get("Preempted", ""), "an event that says so"
    )
    story.make_leave("low")
    story.wait(lambda: len(story.where("urgent")) == 2, "the gang to be bound")
    assert len(story.where("low")) == 4


def test_an_operator_that_is_killed_while_it_asks_victims_is_followed_by_one_that_asks_the_rest(story: Story) -> None:
    high = story.priority_class("high", 1000)
    story.start_operator()
    for number in range(8):
        story.pod(f"low-{number}", gpus=1, grace=GRACE)
    story.wait(lambda: len(story.where("low")) == 8, "every GPU to be in use")
    story.gang("urgent", 2, gpus=2, priority_class=high)
    story.wait(lambda: story.why("urgent").get("gate") == "Victims", "the gang to wait for its victims")
    story.wait(lambda: leaving(story, "low"), "the first of four to be told to leave")

    story.kill_operator()
    story.start_operator()
    story.wait(lambda: len(leaving(story, "low")) == 4, "all four to be told, while nobody has left")
    story.pod("small", gpus=1)
    story.wait(lambda: story.pod_condition("small")[0], "another to be told by the next operator that it waits")
    assert len(leaving(story, "low")) == 4
    story.make_leave("low")

    story.wait(lambda: len(story.where("urgent")) == 2, "the gang to be bound")
    assert len(story.where("low")) == 4
    assert not story.where("small")


def test_nobody_leaves_for_a_gang_that_would_not_fit_anyway(story: Story) -> None:
    high = story.priority_class("high", 1000)
    story.start_operator()
    for number in range(8):
        story.pod(f"low-{number}", gpus=1)
    story.wait(lambda: len(story.where("low")) == 8, "every GPU to be in use")

    story.gang("huge", 5, gpus=2, priority_class=high)

    story.wait(lambda: story.why("huge").get("gate") == "Placement", "the gang to say that it does not fit")
    assert len(story.where("low")) == 8
    assert not leaving(story, "low")


@contextmanager
def hanging(story: Story, node: str) -> Iterator[None]:
    """Have a kubelet end no pods, while its node is ready as before; where there is none, nobody ends any."""
    machines = story.cluster.machines
    if not isinstance(machines, Kubelets):
        if story.cluster.kubelets:
            pytest.skip("no kubelet here hangs")
        yield
        return
    over = threading.Event()
    renewing = threading.Thread(target=_renew, args=(story, node, over))
    machines.freeze(node)
    renewing.start()
    try:
        yield
    finally:
        over.set()
        renewing.join()
        machines.thaw(node)


def _renew(story: Story, node: str, over: threading.Event) -> None:
    """Renew the lease of a node in place of its kubelet."""
    with story.cluster.connect() as api:
        leases = client.CoordinationV1Api(api)
        while not over.wait(2):
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            leases.patch_namespaced_lease(node, "kube-node-lease", {"spec": {"renewTime": now}})


def test_in_the_place_of_a_victim_that_hangs_another_leaves_elsewhere_and_no_more_than_one(story: Story) -> None:
    high, middle = story.priority_class("high", 1000), story.priority_class("middle", 10)
    story.start_operator(victimsOverdueSeconds=3)
    story.pod("stuck", gpus=2, grace=1)
    for number in range(3):
        story.pod(f"runs-{number}", gpus=2, grace=GRACE, priority_class=middle)
    story.wait(lambda: len(story.where("stuck") | story.where("runs")) == 4, "every GPU to be in use")
    hung = story.node_of("stuck")

    with hanging(story, hung):
        story.pod("urgent", gpus=2, priority_class=high)
        story.wait(lambda: leaving(story, "stuck"), "the least important to be told to leave")
        story.wait(lambda: leaving(story, "runs"), "another to be told to leave in its place", SOON)
        story.wait(lambda: story.pod_condition("urgent")[0] == "WaitingForOtherVictims", "it to say so")
        (other,) = leaving(story, "runs")
        story.make_leave("runs")
        story.wait(lambda: story.node_of("urgent"), "it to be bound", SOON)

        assert story.node_of("urgent") == other.spec.node_name != hung
        assert len(story.where("runs")) == 2
        assert not leaving(story, "runs")
        assert story.where("stuck")
        story.make_leave("stuck")


KEPT = "example.com/kept"


def test_a_victim_that_only_a_finalizer_holds_makes_room_where_it_was(story: Story) -> None:
    if not story.cluster.kubelets:
        pytest.skip("nobody here says that a pod has ended")
    high = story.priority_class("high", 1000)
    story.start_operator()
    try:
        for number in range(4):
            story.pod(f"low-{number}", gpus=2, grace=1)
            story.core.patch_namespaced_pod(f"low-{number}", story.namespace, {"metadata": {"finalizers": [KEPT]}})
        story.wait(lambda: len(story.where("low")) == 4, "every GPU to be in use")
        story.pod("urgent", gpus=2, priority_class=high)
        story.wait(lambda: story.node_of("urgent"), "it to be bound", SOON)

        (victim,) = leaving(story, "low")
        assert victim.spec.node_name == story.node_of("urgent")
        assert victim.metadata.finalizers == [KEPT]
    finally:  # else they outlive the namespace
        for pod in story.pods("low"):
            story.core.patch_namespaced_pod(pod.metadata.name, story.namespace, {"metadata": {"finalizers": None}})
