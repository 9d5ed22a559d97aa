"""What is slow, or hangs and goes on: nobody knows at first whether it is dead, and work goes on around it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import yaml
from kubernetes import client

from e2e.harness.frameworks import TEMPLATE
from e2e.harness.kubelets import Kubelets, is_ready
from e2e.harness.power import SOON
from e2e.harness.processes import Switched
from e2e.harness.servers import Server
from e2e.harness.story import GROUP, Story

HOST = "kubernetes.io/hostname"
RACK = "e2e.example.com/rack"
TURNS, STALL = 15, 3
"""How often etcd stands still, and for how many seconds: less than a lease of an operator of a story lasts."""
MEMBERS = 10


@pytest.fixture
def kubelets(story: Story) -> Iterator[Kubelets]:
    """The kubelets, where they are processes that can be stopped."""
    machines = story.cluster.machines
    if not isinstance(machines, Kubelets):
        pytest.skip("no kubelet here can be stopped and go on with what it runs")
    yield machines
    for node in story.cluster.nodes:
        machines.thaw(node)
        story.wait(lambda node=node: is_ready(story.core, node), f"{node} to be ready again", SOON)  # type: ignore[misc]


@pytest.fixture
def racks(story: Story) -> Iterator[None]:
    """Two racks of two nodes, with four GPUs each."""
    left, right = story.cluster.nodes[:2], story.cluster.nodes[2:4]
    story.label_nodes(left, {RACK: "left"})
    story.label_nodes(right, {RACK: "right"})
    yield
    story.label_nodes((*left, *right), {RACK: None})


@pytest.fixture
def manager(story: Story) -> Switched:
    """The kube-controller-manager, where a story may kill it."""
    if story.cluster.manager is None:
        pytest.skip("there is no kube-controller-manager here that a story may kill")
    return story.cluster.manager


def counted(story: Story, what: str = "reservingWorkloads") -> int:
    """How many workloads the story's queue counts."""
    return int(story.get("ClusterQueue", story.namespace).get("status", {}).get(what, 0))


def test_gangs_are_bound_whole_while_etcd_is_slow_for_a_minute(story: Story, server: Server) -> None:
    story.queue(story.namespace, 0)
    story.start_operator(clientConnection={"concurrency": 1})
    for turn in range(TURNS):
        story.gang(f"slow-{turn}", MEMBERS, gpus=0, queue=story.namespace)
        server.etcd.freeze()
        time.sleep(STALL)
        server.etcd.thaw()
        server.wait_ready()
    uids = {pod.metadata.name: pod.metadata.uid for pod in story.pods("slow")}

    story.wait(lambda: len(story.where("slow")) == TURNS * MEMBERS, "all gangs to be bound", SOON)
    assert {pod.metadata.name: pod.metadata.uid for pod in story.pods("slow")} == uids  # nobody was made anew
    story.wait(lambda: counted(story) == TURNS, "the queue to count each gang once")
    assert counted(story, "pendingWorkloads") == 0
    # Who could renew its lease in time has led all the while.
    assert story.log.read_text().count('"deciding"') == 1


def test_a_kubelet_that_hangs_ends_what_it_ran_when_it_goes_on_though_the_gang_has_started_elsewhere(
    story: Story, kubelets: Kubelets, racks: None
) -> None:
    """Who waits for room there gets it when those have ended, and not when the node is ready: it would be refused."""
    story.queue(story.namespace, 4)
    story.object("Topology", story.namespace, {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]})
    story.change("ResourceFlavor", story.namespace, {"topologyName": story.namespace})
    story.start_operator()
    near = {"topology": [{"key": RACK, "mode": "Required"}]}
    again = {"action": "Restart", "windowSeconds": 5}
    story.crew("ring", 4, queue=story.namespace, schedulingConstraints=near, onMemberLoss=again)
    story.wait(lambda: len(story.living("ring")) == 4, "the gang to be bound")
    first = story.living("ring")
    hangs = max(first.values())

    kubelets.freeze(hangs)
    story.wait(
        lambda: len(story.living("ring")) == 4 and not set(story.living("ring").values()) & set(first.values()),
        "the whole gang to be in the other rack",
        SOON,
    )
    whole = story.living("ring")
    assert not whole.keys() & first.keys()
    stuck = [pod.metadata.name for pod in story.pods("ring") if pod.spec.node_name == hangs]
    assert len(stuck) == 2  # nobody has confirmed that they have ended
    story.pod("late", gpus=2, selector={HOST: hangs})
    story.wait(lambda: story.pod_condition("late")[0] == "Unschedulable", "another to wait for the node")

    kubelets.thaw(hangs)

    story.wait(lambda: story.node_of("late") == hangs, "the other one to be bound there", SOON)
    assert not story.where("ring").keys() & set(stuck)  # their kubelet has said of both that they have ended
    story.wait(
        lambda: story.core.read_namespaced_pod("late", story.namespace).status.phase == "Running",
        "it to run, and not to be refused",
    )
    assert story.living("ring") == whole
    assert story.get("PodGroup", "ring")["status"]["bound"] == 4
    story.gang("next", 1, queue=story.namespace)
    story.wait(lambda: story.why("next").get("gate") == "Quota", "another gang to wait for quota")
    assert "0 free now (0 of its own 4" in story.why("next")["message"]


def test_quota_goes_from_gang_to_gang_while_the_controller_manager_is_away(story: Story, manager: Switched) -> None:
    """Who has ended is told by pods; of a Job that is deleted meanwhile they run on until they are collected."""
    story.queue(story.namespace, 2)
    story.start_operator()
    batch = client.BatchV1Api(story.api)
    for name in ("first", "second"):
        job(story, name)
        story.wait(lambda name=name: len(story.pods(name)) == 2, f"the pods of {name} to be made")  # type: ignore[misc]
        if name == "first":
            story.wait(lambda: len(story.where("first")) == 2, "the first to be bound")
    story.gang("third", 2, queue=story.namespace)
    story.wait(lambda: counted(story, "pendingWorkloads") == 2, "the others to wait")

    manager.off()
    try:
        story.finish("first")
        story.wait(lambda: len(story.where("second")) == 2, "the second to follow")
        assert not batch.read_namespaced_job("first", story.namespace).status.succeeded  # nobody has counted
        batch.delete_namespaced_job("second", story.namespace, propagation_policy="Background")
        story.wait(lambda: story.why("third").get("gate") == "Quota", "the third to wait for quota")
        assert "0 free now (0 of its own 2" in story.why("third")["message"]
        assert len(story.where("second")) == 2
    finally:
        manager.on()

    story.wait(lambda: len(story.where("third")) == 2, "the third to follow when the second is collected", SOON)
    story.wait(lambda: batch.read_namespaced_job("first", story.namespace).status.succeeded == 2, "all to be counted")
    assert counted(story) == 1


def job(story: Story, name: str) -> None:
    """An Indexed Job of two pods with a GPU each, in the story's queue: a gang."""
    meta = {"name": name, "labels": {f"{GROUP}/queue-name": story.namespace}}
    spec = {"completionMode": "Indexed", "parallelism": 2, "completions": 2, "template": yaml.safe_load(TEMPLATE)}
    client.BatchV1Api(story.api).create_namespaced_job(story.namespace, {"metadata": meta, "spec": spec})
