"""Two replicas: the one that leads is killed in the middle of a gang, and the other one completes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.harness.devices import FROM_TEMPLATE, publish, published, taken, template
from e2e.harness.replica import Replica, replica
from e2e.harness.story import Story

ELECTION = {"leaseDurationSeconds": 8, "renewDeadlineSeconds": 6, "retryPeriodSeconds": 1}
SIZE = 150


@pytest.fixture
def pair(story: Story) -> Iterator[tuple[Replica, Replica]]:
    """Two replicas that contend for a lease of this story's own; the first one leads."""
    election = {**ELECTION, "leaseName": story.namespace, "leaseNamespace": story.namespace}
    settings = {"leaderElection": election, "clientConnection": {"concurrency": 1}}
    with replica(story, "first", **settings) as first:
        story.wait(lambda: first.said("deciding"), "the first replica to lead")
        with replica(story, "second", **settings) as second:
            story.wait(lambda: second.said("waiting_for_lease"), "the second replica to stand by")
            yield first, second


def test_the_leader_is_killed_in_the_middle_of_a_gang_and_the_standby_completes_it(
    story: Story, pair: tuple[Replica, Replica]
) -> None:
    first, second = pair
    story.gang("many", SIZE, gpus=0)
    story.wait(lambda: story.node_of("many-0"), "binding to begin")
    first.kill()
    assert not second.said("deciding")
    bound = story.where("many")
    assert 0 < len(bound) < SIZE, "it was killed too early or too late to show anything"
    uids = {pod.metadata.name: pod.metadata.uid for pod in story.pods("many")}

    story.wait(lambda: second.said("deciding"), "the standby to take over")
    story.wait(lambda: len(story.where("many")) == SIZE, "the whole gang to be bound")

    after = story.where("many")
    assert {name: after[name] for name in bound} == bound  # nobody was moved
    assert {pod.metadata.name: pod.metadata.uid for pod in story.pods("many")} == uids  # nobody was evicted
    uids_of = {uid for name, uid in uids.items() if name in bound}
    assert not uids_of & second.bound()  # what was bound is not bound again


def test_the_leader_is_killed_while_claims_get_devices_and_none_is_given_twice(
    story: Story, pair: tuple[Replica, Replica]
) -> None:
    if not story.cluster.kubelets:
        pytest.skip("without a control plane nobody makes claims from templates")
    first, second = pair
    with published(story) as create:
        template(story, 2, publish(story, create))
        story.object("PodGroup", "train", {"schedulingPolicy": {"gang": {"minCount": 4}}})
        for rank in range(4):
            labels = {"scheduling.tutti.dev/pod-group": "train"}
            story.pod(f"train-{rank}", labels=labels, device_claims=[FROM_TEMPLATE])
        story.wait(lambda: bool(taken(story)), "a claim to get its devices")
        first.kill()

        story.wait(lambda: second.said("deciding"), "the standby to take over")
        story.wait(lambda: len(story.where("train")) == 4, "the whole gang to be bound")
        devices = taken(story)
        assert len(devices) == len(set(devices)) == 8


def test_a_leader_that_is_told_to_end_hands_over_at_once(story: Story, pair: tuple[Replica, Replica]) -> None:
    first, second = pair

    assert first.stop() == 0

    story.wait(lambda: second.said("deciding"), "the standby to take over")
    story.gang("pair", 2)
    story.wait(lambda: len(story.where("pair")) == 2, "the gang to be bound by the standby")
