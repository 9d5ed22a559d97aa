"""Two replicas: who leads dies, hangs or loses its lease in the midst of a gang, and the other one completes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from kubernetes import client

from e2e.harness.devices import FROM_TEMPLATE, publish, published, taken, template
from e2e.harness.doorway import Doorway
from e2e.harness.replica import Replica, replica
from e2e.harness.story import Story
from e2e.test_rivals import used

ELECTION = {"leaseDurationSeconds": 8, "renewDeadlineSeconds": 6, "retryPeriodSeconds": 1}
SIZE = 150


@pytest.fixture
def pair(story: Story, doorway: Doorway) -> Iterator[tuple[Replica, Replica]]:
    """Two replicas that contend for a lease of this story's own; the first one leads."""
    election = {**ELECTION, "leaseName": story.namespace, "leaseNamespace": story.namespace}
    settings = {"leaderElection": election, "clientConnection": {"concurrency": 1}}
    with replica(story, "first", **settings) as first:
        story.wait(lambda: first.said("deciding"), "the first replica to lead")
        with replica(story, "second", **settings) as second:
            story.wait(lambda: second.said("waiting_for_lease"), "the second replica to stand by")
            yield first, second


def test_the_leader_is_killed_in_the_middle_of_a_gang_and_the_standby_completes_it(
    story: Story, doorway: Doorway, pair: tuple[Replica, Replica]
) -> None:
    """Meanwhile two of its members, one bound and one not, are made anew under their names, as by a StatefulSet."""
    first, second = pair
    story.gang("many", SIZE, gpus=0)
    story.wait(lambda: doorway.kept, "some to be bound")
    first.kill()
    doorway.open()
    assert not second.said("deciding")
    bound = story.where("many")
    assert 0 < len(bound) < SIZE
    late = {pod.metadata.name for pod in story.pods("many")} - bound.keys()
    for name in (min(bound), min(late)):
        story.core.delete_namespaced_pod(name, story.namespace, grace_period_seconds=0)
        story.pod(name, labels={"scheduling.tutti.dev/pod-group": "many"})
    del bound[min(bound)]
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


def is_bound_once(story: Story, uids: dict[str, str]) -> None:
    """Wait until the whole gang is bound, and its queue counts each member once; nobody was made anew."""
    story.wait(lambda: len(story.where("many")) == SIZE, "the whole gang to be bound", seconds=120)
    assert {pod.metadata.name: pod.metadata.uid for pod in story.pods("many")} == uids
    story.wait(lambda: story.condition("PodGroup", "many", "Scheduled").get("status") == "True", "it to say so")
    story.wait(lambda: used(story) == SIZE * 10, "its queue to count each member once")


def begin(story: Story, doorway: Doorway, at_once: Callable[[], None]) -> dict[str, str]:
    """Have the binding of a gang in a queue begin, and something happen; returns who its members are."""
    story.queue(story.namespace, 0)
    story.gang("many", SIZE, gpus=0, queue=story.namespace)
    story.wait(lambda: doorway.kept, "some to be bound")
    at_once()
    doorway.open()
    return {pod.metadata.name: pod.metadata.uid for pod in story.pods("many")}


def test_a_leader_that_hangs_in_the_middle_of_a_gang_binds_nobody_more_when_it_goes_on(
    story: Story, doorway: Doorway, pair: tuple[Replica, Replica]
) -> None:
    """It has the rest of its binds in line when it goes on, in the midst of those of its successor."""
    first, second = pair
    uids = begin(story, doorway, at_once=first.freeze)
    bound = story.where("many")
    assert 0 < len(bound) < SIZE
    story.wait(lambda: second.said("deciding"), "the standby to take over", seconds=60)

    first.thaw()

    is_bound_once(story, uids)
    assert first.wait(60) == 1
    after, decided = story.where("many"), second.decided()
    assert bound.items() <= after.items()  # nobody was moved
    assert not bound.keys() & decided.keys()  # what was bound is not bound again
    assert decided.items() <= after.items()  # and where the other had wanted them, nobody is


@pytest.mark.parametrize("by", ["deleting it", "a holder with a clock that is ahead"])
def test_a_gang_is_bound_whole_though_somebody_meddles_with_the_lease_meanwhile(
    story: Story, doorway: Doorway, pair: tuple[Replica, Replica], by: str
) -> None:
    """Who leads ends; who takes over waits for as long as a lease lasts by its own clock, whatever stands there."""
    first, second = pair
    leases = client.CoordinationV1Api(story.api)

    def meddle() -> None:
        if by == "deleting it":
            leases.delete_namespaced_lease(story.namespace, story.namespace)
            return
        ahead = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="microseconds").replace("+00:00", "Z")
        taken = {"holderIdentity": "somebody", "renewTime": ahead, "acquireTime": ahead}
        leases.patch_namespaced_lease(story.namespace, story.namespace, {"spec": taken})

    uids = begin(story, doorway, at_once=meddle)
    assert first.wait(60) == 1
    story.wait(lambda: second.said("deciding"), "the standby to take over", seconds=60)
    is_bound_once(story, uids)
    assert second.decided().items() <= story.where("many").items()
