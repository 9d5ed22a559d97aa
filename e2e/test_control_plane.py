"""At three in the morning: the API server is killed, etcd is, a replica hangs; work goes on by itself, and soon."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from e2e.harness.doorway import Doorway
from e2e.harness.replica import Replica, replica
from e2e.harness.rights import by_rbac
from e2e.harness.servers import Server
from e2e.harness.story import Story

SOON = 30
"""Seconds in which a pod must be bound after everything is back: far more than it takes, less than a lease twice."""


GANGS, MEMBERS = 20, 8


@dataclass
class Night:
    """Two replicas with the times that they have by default, and the servers that they depend on."""

    story: Story
    server: Server
    replicas: tuple[Replica, Replica]
    figures: Callable[[str, object], None]

    def binds_again(self, name: str) -> None:
        """Wait until a pod that is made now is bound, and note how long that took."""
        began = time.monotonic()
        self.story.pod(name)
        self.story.wait(lambda: self.story.node_of(name), f"{name} to be bound", seconds=SOON)
        self.figures(f"{name}_seconds", round(time.monotonic() - began, 1))


@pytest.fixture
def night(story: Story, server: Server, record_property: Callable[[str, object], None]) -> Iterator[Night]:
    election = {"leaseName": story.namespace, "leaseNamespace": story.namespace}
    with ExitStack() as stack:
        first = stack.enter_context(replica(story, "first", leaderElection=election))
        story.wait(lambda: first.said("deciding"), "the first replica to lead")
        second = stack.enter_context(replica(story, "second", leaderElection=election))
        story.wait(lambda: second.said("waiting_for_lease"), "the second replica to stand by")
        story.gang("before", 2)
        story.wait(lambda: len(story.where("before")) == 2, "a gang to run")
        yield Night(story, server, (first, second), record_property)


def test_work_goes_on_when_the_api_server_is_back(night: Night) -> None:
    night.server.restart(night.server.api, 16)  # longer than a lease lasts
    night.binds_again("after-api")
    assert all(one.running for one in night.replicas)


def test_work_goes_on_when_etcd_is_back(night: Night) -> None:
    night.server.restart(night.server.etcd, 15)
    night.binds_again("after-etcd")


def test_a_leader_that_hung_finds_another_in_its_place_and_says_so_in_one_line(night: Night) -> None:
    first, second = night.replicas
    first.freeze()
    night.story.wait(lambda: second.said("deciding"), "the other replica to take over")
    night.binds_again("meanwhile")
    first.thaw()
    assert first.wait(30) == 1
    grave = [line for line in first.lines() if line.get("level") in ("error", "critical")]
    assert (grave, [line["event"] for line in first.lines()].count("leadership_lost")) == ([], 1)
    night.binds_again("afterwards")


def test_what_a_server_refuses_that_has_just_started_is_written_and_told_all_the_same(
    story: Story, server: Server
) -> None:
    """It has not read the rights yet, and answers 403 to whoever may do it."""
    story.queue(story.namespace, 0)
    with by_rbac(story):
        story.start_operator()
        for number in range(GANGS):
            story.gang(f"many-{number}", MEMBERS, gpus=0, queue=story.namespace)
        story.wait(lambda: story.where("many"), "the first to be bound")
        uids = {pod.metadata.uid for pod in story.pods("many")}
        server.restart(server.api, 1)
        story.wait(lambda: len(story.where("many")) == GANGS * MEMBERS, "all to be bound", seconds=120)
        story.wait(lambda: not untold(story), "all to be told so", seconds=120)
        assert {pod.metadata.uid for pod in story.pods("many")} == uids


WINDOW = 20


def test_a_gang_that_is_being_bound_when_the_server_goes_away_for_longer_than_its_window_is_bound_when_that_is_back(
    story: Story, server: Server, doorway: Doorway
) -> None:
    """Half of it is on its nodes: nobody could bind the rest meanwhile."""
    story.start_operator(bindWindowSeconds=WINDOW)
    story.gang("g", MEMBERS * MEMBERS, gpus=0)
    uids = {pod.metadata.uid for pod in story.pods("g")}
    story.wait(lambda: doorway.kept, "some to be bound")
    assert 0 < len(story.where("g")) < len(uids)
    server.api.off()
    doorway.open()
    time.sleep(WINDOW + 5)
    server.api.on()
    server.wait_ready()
    story.wait(lambda: len(story.where("g")) == len(uids), "all to be bound", seconds=SOON)
    story.wait(lambda: story.condition("PodGroup", "g", "Scheduled").get("status") == "True", "it to say so", SOON)
    assert {pod.metadata.uid for pod in story.pods("g")} == uids
    assert not [pod for pod in story.pods("g") if pod.metadata.deletion_timestamp]


def untold(story: Story) -> list[str]:
    """Which gangs do not say that they are scheduled."""
    names = [f"many-{number}" for number in range(GANGS)]
    return [name for name in names if story.condition("PodGroup", name, "Scheduled").get("status") != "True"]
