"""Two API servers behind one address: one hangs or dies, one has seen less than the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec
import pytest

from e2e.harness.servers import Server
from e2e.harness.story import Story
from e2e.harness.two_servers import TwoServers, two_servers

GANGS, MEMBERS = 30, 8
BEHIND = 0.2
"""Seconds by which a server sees later what happens."""
SILENT = 90
"""Seconds within which a watch that tells nothing is opened anew."""


@pytest.fixture
def pair(story: Story, server: Server) -> Iterator[TwoServers]:
    """The operator comes by the address, and the story to the first of the two."""
    with two_servers(server, story.folder) as found:
        story.kubeconfig = found.kubeconfig
        yield found
        found.second.api.thaw()
        story.stop_operator()
        story.kubeconfig = story.cluster.kubeconfig


def said(story: Story, event: str) -> int:
    """How often the operator's log has a line about this."""
    lines = [line for line in story.log.read_bytes().splitlines() if line.startswith(b"{") and line.endswith(b"}")]
    return sum(msgspec.json.decode(line).get("event") == event for line in lines)


def all_at_once(story: Story, name: str) -> set[str]:
    """Have gangs come, and then all of them start; returns the uids of their pods when the first is bound."""
    story.queue(story.namespace, 0, stopPolicy="Hold")
    for number in range(GANGS):
        story.gang(f"{name}-{number}", MEMBERS, gpus=0, queue=story.namespace)
    uids = {pod.metadata.uid for pod in story.pods(name)}
    story.change("ClusterQueue", story.namespace, {"stopPolicy": "None"})
    story.wait(lambda: story.where(name), "the first to be bound")
    return uids


def is_whole(story: Story, name: str) -> bool:
    return len(story.where(name)) == GANGS * MEMBERS


def ran_before(story: Story) -> None:
    """The operator has seen what there is, and works."""
    story.start_operator()
    story.gang("before", 2, gpus=0)
    story.wait(lambda: len(story.where("before")) == 2, "a gang to run")


@pytest.mark.parametrize("how", ["hangs", "dies"])
def test_gangs_that_are_bound_through_a_server_that_ends_are_bound_through_the_other(
    story: Story, pair: TwoServers, record_property: Callable[[str, object], None], how: str
) -> None:
    """What was sent to it may have been done; nobody is bound twice, taken out or made anew for that."""
    pair.lead_to(pair.second)
    ran_before(story)
    uids = all_at_once(story, "many")
    began = time.monotonic()
    if how == "hangs":
        pair.second.api.freeze()
        pair.lead_to(pair.first)
    else:
        pair.second.api.off()
        pair.lead_to(pair.first)
    bound = len(story.where("many"))
    story.wait(lambda: is_whole(story, "many"), "all to be bound", seconds=SILENT)
    record_property("bound_before", bound)
    record_property("whole_seconds", round(time.monotonic() - began, 1))
    story.gang("after", 2, gpus=0)
    story.wait(lambda: len(story.where("after")) == 2, "another gang to run", seconds=SILENT)
    record_property("after_seconds", round(time.monotonic() - began, 1))
    assert {pod.metadata.uid for pod in story.pods("many")} == uids
    assert said(story, "pod_evicted") == 0


def test_watches_that_move_to_a_server_that_has_seen_less_miss_nothing(
    story: Story, pair: TwoServers, record_property: Callable[[str, object], None]
) -> None:
    """They begin where they were, which that one has not come to yet."""
    ran_before(story)
    pair.storage.seconds = BEHIND
    uids = all_at_once(story, "many")
    began = time.monotonic()
    pair.move_to(pair.second)
    story.wait(lambda: is_whole(story, "many"), "all to be bound", seconds=SILENT)
    story.gang("after", 2, gpus=0)
    story.wait(lambda: len(story.where("after")) == 2, "another gang to run", seconds=SILENT)
    record_property("after_seconds", round(time.monotonic() - began, 1))
    pair.move_to(pair.first)
    story.gang("back", 2, gpus=0)
    story.wait(lambda: len(story.where("back")) == 2, "a gang to run at the other again", seconds=SILENT)
    record_property("back_seconds", round(time.monotonic() - began, 1))
    assert {pod.metadata.uid for pod in story.pods("many")} == uids
    assert (said(story, "pod_evicted"), said(story, "informer_rewound")) == (0, 0)
