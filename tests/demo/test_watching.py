"""What the observer reads of objects, and that it follows a cluster."""

from __future__ import annotations

import asyncio

import msgspec

from tests.demo import observed
from tutti.api.core import Node, Pod
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti_demo.performance import create_object, set_stage
from tutti_demo.picture import NodeView, State, Why, pair_of
from tutti_demo.scenario import compose, pod, pod_group
from tutti_demo.watching import Group, Observer, Queue, group_why, node_view, pod_view, queue_view
from tutti_sim.cluster import EmbeddedCluster

TANGO = observed.job()


def pod_document(**spec):
    document = pod(TANGO, "tango-0")
    document["spec"] |= spec
    return document


def test_a_pod_is_read_with_its_job_its_gpus_and_its_node():
    view = pod_view(msgspec.convert(pod_document(nodeName="node-1"), Pod))

    assert (view.namespace, view.name, view.job, view.gpus, view.node) == ("vision", "tango-0", "tango", 4, "node-1")
    assert view.occupies


def test_a_pod_condition_says_at_which_gate_it_waits():
    document = pod_document()
    document["status"] = {
        "phase": "Pending",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/20 nodes"},
        ],
    }

    assert pod_view(msgspec.convert(document, Pod)).why == Why("Placement", "Unschedulable", "0/20 nodes")


def test_a_node_without_a_rack_stands_in_one_without_a_name():
    document = {"metadata": {"name": "n"}, "status": {"allocatable": {"nvidia.com/gpu": "8", "cpu": "64"}}}

    assert node_view(msgspec.convert(document, Node)) == NodeView("n", "", "n", 8)


def test_the_first_reason_of_a_pod_group_is_why_it_waits():
    reason = {
        "gate": "Placement",
        "reason": "Unschedulable",
        "message": "0/20 nodes",
        "details": {"fits": "10", "required": "12"},
    }
    group = msgspec.convert({"status": {"pendingReason": {"reasons": [reason]}}}, Group)

    assert group_why(group) == Why("Placement", "Unschedulable", "0/20 nodes", "10 of 12")
    assert group_why(msgspec.convert({"status": {"pendingReason": None}}, Group)) is None


def test_a_queue_is_read_with_its_usage_of_gpus_only():
    status = {
        "conditions": [{"type": "Active", "status": "True"}],
        "pendingWorkloads": 2,
        "admittedWorkloads": 3,
        "flavorsUsage": [
            {
                "name": "a100-sxm",
                "resources": [
                    {"name": "cpu", "total": "9"},
                    {"name": "nvidia.com/gpu", "total": "80", "borrowed": "16"},
                ],
            },
            {"name": "other", "resources": [{"name": "nvidia.com/gpu", "total": "5"}]},
        ],
    }
    view = queue_view(msgspec.convert({"metadata": {"name": "vision"}, "status": status}, Queue))

    assert (view.name, view.active, view.pending, view.admitted) == ("vision", True, 2, 3)
    assert (view.used, view.borrowed) == (80, 16)


async def test_the_observer_follows_pods_from_their_creation_to_their_end():
    scenario = compose()
    picture = observed.picture(observed.act(TANGO), nodes=0)
    async with EmbeddedCluster(nodes=3, gpus=8) as cluster:
        credentials = Credentials.fixed(Access(cluster.url, {"Authorization": f"Bearer {cluster.token}"}))
        async with Client(credentials) as client, asyncio.TaskGroup() as group:
            await set_stage(client, scenario)
            observer = Observer(client, picture, clock=asyncio.get_running_loop().time)
            watching = group.create_task(observer.run())
            await observer.synced()
            assert pair_of(picture) == ("node-0000", "node-0001")

            await create_object(client, pod_group(TANGO))
            for name in TANGO.pods:
                await create_object(client, pod(TANGO, name))
            track = picture.tracks["vision", "tango"]
            await observer.until(lambda: len(track.pods) == TANGO.members)
            assert track.state is State.WAITING

            for index, name in enumerate(TANGO.pods):
                await bind(client, name, f"node-000{index}")
            await observer.until(lambda: track.state is State.FINISHED)
            watching.cancel()
    assert {pod.node for pod in track.pods.values()} == {"node-0000", "node-0001", "node-0002"}
    assert picture.overfull == []


async def bind(client: Client, name: str, node: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    document = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await client.request("POST", f"/api/v1/namespaces/vision/pods/{name}/binding", body=msgspec.json.encode(document))


async def test_creating_what_is_there_already_is_as_good():
    async with EmbeddedCluster(nodes=1, gpus=8) as cluster:
        credentials = Credentials.fixed(Access(cluster.url, {"Authorization": f"Bearer {cluster.token}"}))
        async with Client(credentials) as client:
            for _ in range(2):
                await set_stage(client, compose())
