"""A loss in the midst of everything: hundreds of binds, claims that get devices, and victims on their way out."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.harness.devices import FROM_TEMPLATE, claims, publish, published, taken, template
from e2e.harness.doorway import Doorway
from e2e.harness.servers import Server
from e2e.harness.story import Story
from tutti.api.quantity import parse_quantity

GANGS, MEMBERS = 20, 10
MANY = GANGS * MEMBERS
TRAIN, DEVICES = 8, 2
"""Who has claims, each on so many devices: together on all that the nodes have."""
LONG = 15
"""Seconds: longer than the lease of an operator of a story lasts, and than its requests may take."""


@dataclass(frozen=True)
class Burst:
    """An operator that stands still, with a burst of writes half done: who is bound by then, and who they all are."""

    story: Story
    bound: dict[str, str]
    uids: dict[str, str]

    def go_on(self) -> None:
        """Have the operator run again."""
        assert self.story.operator is not None
        self.story.operator.send_signal(signal.SIGCONT)


def uids(story: Story) -> dict[str, str]:
    """Who all the pods but those of low priority are."""
    return {pod.metadata.name: pod.metadata.uid for pod in story.pods("") if not pod.metadata.name.startswith("low")}


@pytest.fixture
def burst(story: Story, doorway: Doorway) -> Iterator[Burst]:
    if not story.cluster.kubelets:
        pytest.skip("without a control plane nobody makes claims from templates")
    with published(story) as create:
        template(story, DEVICES, publish(story, create, TRAIN * DEVICES // len(story.cluster.nodes)))
        yield begun(story, doorway)


def begun(story: Story, doorway: Doorway) -> Burst:
    """Have an operator find everything at its start, and stand still when the first of many are bound."""
    high = story.priority_class("high", 1000)
    story.queue(story.namespace, 0)
    story.start_operator()
    for number in range(8):
        story.pod(f"low-{number}", gpus=1, grace=20)
    story.wait(lambda: len(story.where("low")) == 8, "every GPU to be in use")
    story.stop_operator()
    story.gang("urgent", 2, gpus=2, priority_class=high)
    story.gang("train", TRAIN, gpus=0, device_claims=[FROM_TEMPLATE])
    for number in range(GANGS):
        story.gang(f"many-{number}", MEMBERS, gpus=0, queue=story.namespace)
    story.wait(lambda: len(claims(story)) == TRAIN, "claims to be made")

    story.start_operator(clientConnection={"concurrency": 2})
    operator = story.operator
    assert operator is not None
    story.wait(lambda: doorway.kept, "some to be bound")
    operator.send_signal(signal.SIGSTOP)
    doorway.open()
    bound = story.where("many") | story.where("train")
    assert 0 < len(bound) < MANY + TRAIN
    assert not story.where("urgent")
    return Burst(story, bound, uids(story))


def test_a_burst_comes_to_its_end_though_the_operator_is_killed(burst: Burst) -> None:
    burst.story.kill_operator()
    burst.story.start_operator()
    comes_to_its_end(burst)


def test_a_burst_comes_to_its_end_though_the_api_server_is_killed(server: Server, burst: Burst) -> None:
    burst.go_on()
    server.restart(server.api, 3)
    comes_to_its_end(burst)


def test_a_burst_comes_to_its_end_though_etcd_stands_still(server: Server, burst: Burst) -> None:
    """Whether what was on its way is done is not known before etcd goes on."""
    server.etcd.freeze()
    burst.go_on()
    time.sleep(LONG)
    server.etcd.thaw()
    server.wait_ready()
    comes_to_its_end(burst)


def comes_to_its_end(burst: Burst) -> None:
    """Wait until everybody runs, once, where there is room, and the queue counts nobody twice."""
    story = burst.story
    story.wait(lambda: len(story.where("many")) == MANY, "all gangs to be bound", seconds=120)
    story.wait(lambda: len(story.where("train")) == TRAIN, "the gang with claims to be bound")
    story.let_leave("low")
    story.wait(lambda: len(story.where("urgent")) == 2, "the urgent gang to be bound")
    where = story.where("")
    assert burst.bound.items() <= where.items()  # nobody was moved
    assert uids(story) == burst.uids  # nobody was made anew
    assert not [pod.metadata.name for pod in story.pods("") if pod.status.phase == "Failed"]
    assert len(story.living("low")) == 4  # as few as the urgent gang needs
    assert not_two_at_once(story)
    counted = {"admittedWorkloads": GANGS, "reservingWorkloads": GANGS, "pendingWorkloads": 0}
    story.wait(lambda: counted.items() <= told(story).items(), "the queue to count each gang once")
    used = {one["name"]: one["total"] for one in told(story)["flavorsReservation"][0]["resources"]}
    assert parse_quantity(used["cpu"]) == MANY * 10


def told(story: Story) -> dict[str, Any]:
    """What the story's queue says."""
    return dict(story.get("ClusterQueue", story.namespace)["status"])


def not_two_at_once(story: Story) -> bool:
    """Whether each device and each GPU is one pod's, where that pod is."""
    devices = taken(story)
    assert len(devices) == len(set(devices)) == TRAIN * DEVICES
    for claim in claims(story):
        (user,) = claim["status"]["reservedFor"]
        chosen = claim["status"]["allocation"]["devices"]["results"]
        assert {one["pool"] for one in chosen} == {story.node_of(user["name"])}
    gpus = Counter(story.living("low").values()) + Counter([*story.where("urgent").values()] * 2)
    return max(gpus.values()) <= 2
