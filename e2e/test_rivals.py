"""Another that binds pods takes room while a gang is being bound: kubelets refuse members, and the gang misses them."""

from __future__ import annotations

import itertools
import signal

import pytest

from e2e.harness.doorway import Doorway
from e2e.harness.replica import OperatorProcess
from e2e.harness.story import PAUSE, Story
from tutti.api.quantity import parse_quantity

SIZE = 150


def take_rest(story: Story, node: str, left: int) -> None:
    """Have a pod of somebody else's on a node, who asks nobody, that leaves so many thousandths of a CPU."""
    found = story.core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={node}").items
    asked = [c.resources.requests["cpu"] for pod in found for c in pod.spec.containers]
    has = parse_quantity(story.core.read_node(node).status.allocatable["cpu"])
    requests = {"cpu": f"{has - sum(map(parse_quantity, asked)) - left}m"}
    spec = {
        "nodeName": node,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": PAUSE, "resources": {"requests": requests}}],
    }
    story.core.create_namespaced_pod(story.namespace, {"metadata": {"name": f"rival-{node}"}, "spec": spec})


def slow_operator(story: Story) -> OperatorProcess:
    """Start an operator that binds one pod after another, with a queue for what the story makes."""
    story.queue(story.namespace, 0)
    story.start_operator(clientConnection={"concurrency": 1})
    assert story.operator is not None
    return story.operator


def degraded(story: Story) -> tuple[str, str]:
    """Whether the gang says that it lacks members, and how."""
    found = story.condition("PodGroup", "train", "Degraded")
    return found.get("status", ""), found.get("message", "")


def test_members_that_kubelets_refuse_for_a_rivals_pods_are_missed_and_made_anew(
    story: Story, doorway: Doorway
) -> None:
    if not story.cluster.kubelets:
        pytest.skip("without kubelets nobody refuses a pod, and nobody makes it anew")
    operator = slow_operator(story)
    story.crew("train", SIZE, gpus=0, queue=story.namespace)
    story.wait(lambda: doorway.kept, "some to be bound")
    operator.send_signal(signal.SIGSTOP)
    doorway.open()
    begun = story.living("train")
    assert 0 < len(begun) < SIZE
    for node in story.cluster.nodes:
        take_rest(story, node, left=5)
    story.wait(lambda: len(story.living("rival")) == len(story.cluster.nodes), "the rival to have all room")

    operator.send_signal(signal.SIGCONT)

    story.wait(lambda: degraded(story)[0] == "True", "the gang to lack members")
    refused = [pod.status.reason for pod in story.pods("train") if pod.status.phase == "Failed"]
    assert set(refused) == {"OutOfcpu"}
    assert f" of {SIZE} required members " in degraded(story)[1]
    assert len(story.living("train")) < SIZE

    for node in story.cluster.nodes:
        story.core.delete_namespaced_pod(f"rival-{node}", story.namespace)

    story.wait(lambda: len(story.living("train")) == SIZE, "the gang to be whole again", 120)
    story.wait(lambda: degraded(story)[0] == "False", "it to say so")
    assert begun.items() <= story.living("train").items()  # nobody was moved


def test_members_that_a_rival_binds_first_are_members_where_it_has_put_them(story: Story, doorway: Doorway) -> None:
    operator = slow_operator(story)
    story.gang("train", SIZE, gpus=0, queue=story.namespace)
    story.wait(lambda: doorway.kept, "some to be bound")
    operator.send_signal(signal.SIGSTOP)
    begun = story.where("train")
    late = sorted({pod.metadata.name for pod in story.pods("train")} - begun.keys())
    assert 0 < len(late) < SIZE
    for name, node in zip(late, itertools.cycle(story.cluster.nodes), strict=False):
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        story.core.create_namespaced_pod_binding(name, story.namespace, body, _preload_content=False)
    put = story.where("train")
    assert len(put) == SIZE

    doorway.open()  # one is on its way, and comes too late
    operator.send_signal(signal.SIGCONT)

    story.wait(lambda: story.condition("PodGroup", "train", "Scheduled").get("status") == "True", "it to say so")
    assert story.where("train") == put
    story.wait(lambda: used(story) == SIZE * 10, "its queue to count each member once")


def used(story: Story) -> int:
    """Thousandths of a CPU that the story's queue says are used."""
    flavors = story.get("ClusterQueue", story.namespace).get("status", {}).get("flavorsUsage", [])
    told = [one["total"] for flavor in flavors for one in flavor["resources"] if one["name"] == "cpu"]
    return sum(map(parse_quantity, told))
