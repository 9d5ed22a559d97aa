"""A gang is whole for its whole life, whoever takes a member away: priority, quota, a user, or a node that dies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from e2e.harness.power import SOON, Power
from e2e.harness.story import GROUP, Story

HOST = "kubernetes.io/hostname"
RACK = "e2e.example.com/rack"
HOME = "e2e.example.com/home"


@pytest.fixture
def home(story: Story) -> Iterator[tuple[str, str]]:
    """Two nodes that are labelled as a home: who asks for it has nowhere else to go."""
    first, second = story.cluster.nodes[:2]
    story.label_nodes((first, second), {HOME: story.namespace})
    yield first, second
    story.label_nodes((first, second), {HOME: None})


@pytest.fixture
def racks(story: Story) -> Iterator[tuple[set[str], set[str]]]:
    """Two racks of two nodes, with four GPUs each."""
    left, right = story.cluster.nodes[:2], story.cluster.nodes[2:4]
    story.label_nodes(left, {RACK: "left"})
    story.label_nodes(right, {RACK: "right"})
    yield set(left), set(right)
    story.label_nodes((*left, *right), {RACK: None})


def stuck(story: Story, prefix: str, node: str) -> list[Any]:
    """Pods on a node that have been told to end, and have not."""
    return [pod for pod in story.pods(prefix) if pod.spec.node_name == node and pod.metadata.deletion_timestamp]


def says(story: Story, gang: str, type_: str) -> tuple[str, str]:
    """Status and reason of a condition of a gang."""
    found = story.condition("PodGroup", gang, type_)
    return found.get("status", ""), found.get("reason", "")


def since(story: Story, gang: str, type_: str) -> datetime:
    """Since when a condition of a gang has been as it is."""
    return datetime.fromisoformat(story.condition("PodGroup", gang, type_)["lastTransitionTime"])


def bound_at(story: Story, pod: str) -> datetime:
    """When a pod got its node."""
    conditions = story.core.read_namespaced_pod(pod, story.namespace).status.conditions
    (found,) = [one.last_transition_time for one in conditions if one.type == "PodScheduled" and one.status == "True"]
    return found  # type: ignore[no-any-return]


def restart(story: Story, *, killed: bool) -> None:
    """Kill the operator, and start the next one, if that is part of the story."""
    if killed:
        story.kill_operator()
        story.start_operator()


def two_and_two(story: Story, queue: str, patience: int = 1) -> tuple[str, str]:
    """A gang of four, two of them on each of two nodes, while the other nodes are free; returns the two nodes.

    Its members stay for `patience` seconds on a node that is silent.
    """
    kept, lost, *others = story.cluster.nodes
    for node in others:
        story.pod(f"filler-{node}", gpus=2, selector={HOST: node})
    story.wait(lambda: len(story.living("filler")) == len(others), "the other nodes to be full")
    story.crew("train", 4, queue=queue, patience=patience)
    story.wait(lambda: len(story.living("train")) == 4, "the gang to be bound")
    assert sorted(story.living("train").values()) == sorted([kept, kept, lost, lost])
    story.wait(lambda: says(story, "train", "Scheduled")[0] == "True", "it to say so")
    for node in others:
        story.core.delete_namespaced_pod(f"filler-{node}", story.namespace, grace_period_seconds=0)
    return kept, lost


# ---- whom an urgent gang takes out


@pytest.mark.parametrize("by", ["priority", "quota"])
def test_an_urgent_gang_takes_one_gang_whole_and_not_a_member_of_each(
    story: Story, home: tuple[str, str], by: str
) -> None:
    """One member of each would do on one node, and would break both."""
    urgent, queue = story.priority_class("urgent", 1000), ""
    if by == "quota":
        queue = story.namespace
        story.queue(queue, 4, preemption={"withinClusterQueue": "LowerPriority"})
    story.start_operator()
    for name in ("red", "blue"):
        group: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        story.object("PodGroup", name, group | ({"queueName": queue} if queue else {}))
        for rank, node in enumerate(home):
            labels = {f"{GROUP}/pod-group": name}
            story.pod(f"{name}-{rank}", gpus=1, labels=labels, selector={HOST: node}, grace=2)
        story.wait(lambda name=name: len(story.living(name)) == 2, f"{name} to be bound")

    story.gang("urgent", 2, queue=queue, selector={HOME: story.namespace}, priority_class=urgent)
    story.wait(lambda: len(story.living("red")) + len(story.living("blue")) < 4, "somebody to leave", SOON)
    for name in ("red", "blue"):
        story.let_leave(name)
    story.wait(lambda: len(story.living("urgent")) == 2, "the urgent gang to be bound", SOON)

    assert sorted([len(story.living("red")), len(story.living("blue"))]) == [0, 2]


# ---- a node that dies


@pytest.mark.parametrize("killed", [False, True], ids=["", "operator killed"])
def test_successors_of_members_on_a_dead_node_start_though_nobody_confirms_that_those_have_ended(
    story: Story, power: Power, *, killed: bool
) -> None:
    """The queue is of the gang's size: members that only seem to be there must not use quota."""
    story.queue(story.namespace, 4)
    story.start_operator()
    _, lost = two_and_two(story, story.namespace)
    stayed = set(story.living("train")) - {name for name, node in story.living("train").items() if node == lost}

    power.off(lost)
    story.wait(lambda: len(stuck(story, "train", lost)) == 2, "two members to be told to end", SOON)
    restart(story, killed=killed)

    story.wait(lambda: len(story.living("train")) == 4, "the gang to be whole again", SOON)
    assert lost not in story.living("train").values()
    assert stayed <= set(story.living("train"))  # nobody else had to go
    assert len(stuck(story, "train", lost)) == 2  # and still nobody has confirmed anything
    assert story.core.read_node(lost)
    story.wait(lambda: story.get("PodGroup", "train")["status"]["bound"] == 4, "it to count four members")
    story.wait(lambda: says(story, "train", "Degraded")[0] != "True", "it to be degraded no more")


@pytest.mark.parametrize("killed", [False, True], ids=["", "operator killed"])
def test_a_rival_takes_nothing_of_a_lost_members_quota_until_the_gang_is_restarted_whole(
    story: Story, power: Power, home: tuple[str, str], *, killed: bool
) -> None:
    kept, lost = home
    queue, here = story.namespace, {HOME: story.namespace}
    story.queue(queue, 4)
    story.start_operator()
    story.crew("train", 4, queue=queue, selector=here, onMemberLoss={"action": "Restart", "windowSeconds": 30})
    story.wait(lambda: len(story.living("train")) == 4, "the gang to be bound")
    story.gang("rival", 1, gpus=2, queue=queue)
    story.wait(lambda: story.why("rival").get("gate") == "Quota", "the rival to wait for quota")
    power.off(lost)
    story.wait(lambda: len(stuck(story, "train", lost)) == 2, "two members to be told to end", SOON)

    for pod in stuck(story, "train", lost):  # as an administrator does who knows that the machine is gone
        story.core.delete_namespaced_pod(pod.metadata.name, story.namespace, grace_period_seconds=0)
    story.wait(
        lambda: "2 of 4" in story.condition("PodGroup", "train", "Degraded").get("message", ""), "it to say so", SOON
    )
    assert says(story, "train", "Degraded")[0] == "True"
    short_since = since(story, "train", "Degraded")
    restart(story, killed=killed)
    assert not story.living("rival")

    story.wait(lambda: says(story, "train", "Evicted") == ("True", "MemberLost"), "the gang to be restarted", SOON)
    restarted = since(story, "train", "Evicted")
    assert (restarted - short_since).total_seconds() >= 29  # the window
    story.wait(lambda: not story.living("train"), "the rest of it to leave", SOON)
    story.wait(lambda: story.living("rival"), "the rival to have its turn", SOON)
    assert bound_at(story, "rival-0") >= restarted

    power.on(lost)
    story.finish("rival")
    story.wait(lambda: len(story.living("train")) == 4, "the gang to start whole", SOON)
    assert set(story.living("train").values()) == {kept, lost}


def test_a_gang_whose_rack_has_lost_a_node_is_restarted_whole_in_another(
    story: Story, power: Power, racks: tuple[set[str], set[str]]
) -> None:
    story.start_operator()
    near = {"topology": [{"key": RACK, "mode": "Required"}]}
    story.crew("ring", 4, schedulingConstraints=near, onMemberLoss={"action": "Restart", "windowSeconds": 10})
    story.wait(lambda: len(story.living("ring")) == 4, "the gang to be bound")
    first = set(story.living("ring").values())
    lost = max(first)

    power.off(lost)

    story.wait(
        lambda: len(story.living("ring")) == 4 and not set(story.living("ring").values()) & first,
        "the whole gang to be in the other rack",
        SOON,
    )
    assert set(story.living("ring").values()) in racks
    story.wait(lambda: "EvictedDueToMemberLost" in dict(story.events("ring")), "an event that says so")


def test_a_rival_takes_nothing_of_the_room_of_a_member_that_somebody_deletes(
    story: Story, home: tuple[str, str]
) -> None:
    if not story.cluster.kubelets:
        pytest.skip("nobody makes the pods of a controller anew")
    here = {HOME: story.namespace}
    story.start_operator()
    story.crew("train", 2, gpus=2, selector=here)
    story.wait(lambda: len(story.living("train")) == 2, "the gang to be bound")
    story.pod("rival", gpus=2, selector=here)
    story.wait(lambda: story.pod_condition("rival")[0] == "Unschedulable", "the rival to wait for room")
    before = set(story.living("train"))

    lost = min(before)
    story.core.delete_namespaced_pod(lost, story.namespace)

    story.wait(lambda: len(set(story.living("train")) - before) == 1, "the member's successor to be bound", SOON)
    assert not story.living("rival")


# ---- a node that comes and goes


def test_a_node_that_is_silent_for_less_than_its_pods_bear_changes_nothing(story: Story, power: Power) -> None:
    story.queue(story.namespace, 4)
    story.start_operator()
    story.crew("train", 4, queue=story.namespace, patience=600, onMemberLoss={"windowSeconds": 5})
    story.wait(lambda: len(story.living("train")) == 4, "the gang to be bound")
    before = story.living("train")
    node = max(before.values())

    for _ in range(2):
        power.off(node)
        power.on(node)

    assert story.living("train") == before
    assert says(story, "train", "Evicted")[0] != "True"
    story.gang("next", 1, queue=story.namespace)
    story.wait(lambda: story.why("next").get("gate") == "Quota", "another gang to wait for quota")


def test_a_node_that_comes_back_after_its_members_were_replaced_gives_none_of_them_back(
    story: Story, power: Power
) -> None:
    story.queue(story.namespace, 4)
    story.start_operator()
    _, lost = two_and_two(story, story.namespace)
    power.off(lost)
    story.wait(lambda: len(stuck(story, "train", lost)) == 2, "two members to be told to end", SOON)
    story.wait(lambda: len(story.living("train")) == 4, "the gang to be whole again", SOON)
    whole = story.living("train")

    power.on(lost)

    story.wait(lambda: not stuck(story, "train", lost), "the old members to be gone", SOON)
    assert story.living("train") == whole
    story.gang("next", 1, queue=story.namespace)
    story.wait(lambda: story.why("next").get("gate") == "Quota", "another gang to wait for quota")
    assert "0 free now (0 of its own 4" in story.why("next")["message"]
