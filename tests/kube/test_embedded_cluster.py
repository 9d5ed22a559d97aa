"""Every part of the wire against the embedded cluster, over TLS and with its kubeconfig."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import yaml

from tutti.api.core import Node, Pod
from tutti.engine.records.decisions import Bind, EmitEvent, Evict
from tutti.kube.binder import Binder, BindOutcome
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti.kube.errors import ApiError
from tutti.kube.events import EventRecorder
from tutti.kube.evictor import Evictor, EvictOutcome
from tutti.kube.fencing import LeadershipLost, unfenced
from tutti.kube.informer import Informer
from tutti.kube.lease import Elector
from tutti.kube.resources import EVENTS, LEASES, NAMESPACES, NODES, PODS, APIResource
from tutti.kube.statuses import PodConditionUpdate, StatusTarget, StatusWriter
from tutti.kube.store import Deletion, ObjectKey
from tutti_sim.cluster import EmbeddedCluster

CRDS = APIResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
LOCAL_QUEUE_CRD = yaml.safe_load(
    (Path(__file__).parents[2] / "crds" / "scheduling.tutti.dev_localqueues.yaml").read_text(encoding="utf-8")
)
QUEUES = APIResource("scheduling.tutti.dev", "v1alpha1", "localqueues")


@pytest.fixture
async def cluster(tmp_path):
    async with EmbeddedCluster(nodes=3, tls=True, seed=1) as embedded:
        embedded.write_kubeconfig(tmp_path / "kubeconfig")
        async with Client(await Credentials.load(tmp_path / "kubeconfig")) as client:
            yield Cluster(client)


class Cluster:
    def __init__(self, client):
        self.client = client

    async def make_pod(self, name, *, annotations=None, **spec):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"schedulerName": "tutti", "containers": [{"name": "c", "image": "i"}], **spec},
        }
        body = await self.client.request("POST", PODS.path("default"), body=msgspec.json.encode(pod))
        return msgspec.json.decode(body, type=Pod)

    async def get(self, resource, *where):
        return json.loads(await self.client.request("GET", resource.path(*where)))

    async def node(self):
        return (await self.get(NODES))["items"][0]["metadata"]["name"]


class Watched:
    def __init__(self):
        self.objects = {}
        self._changed = asyncio.Event()

    def deliver(self, changes):
        for change in changes:
            if isinstance(change, Deletion):
                self.objects.pop(change.key, None)
            else:
                self.objects[change.key] = change.obj
        self._changed.set()

    async def until(self, holds):
        while not holds(self.objects):
            await self._changed.wait()
            self._changed.clear()


@asynccontextmanager
async def background(coroutine):
    task = asyncio.create_task(coroutine)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_pods_and_nodes_are_listed_and_followed(cluster):
    await cluster.make_pod("first")
    pods, nodes = Watched(), Watched()
    follow_pods = Informer(cluster.client, PODS, view=Pod, deliver=pods.deliver, page_size=1)
    follow_nodes = Informer(cluster.client, NODES, view=Node, deliver=nodes.deliver, page_size=2)
    async with background(follow_pods.run()), background(follow_nodes.run()):
        await follow_pods.synced.wait()
        await follow_nodes.synced.wait()
        assert len(nodes.objects) == 3
        assert all(node.status.allocatable["cpu"] for node in nodes.objects.values())
        second = await cluster.make_pod("second")
        await pods.until(lambda held: ObjectKey("default", "second") in held)
        assert pods.objects["default", "second"].metadata.uid == second.metadata.uid
        await cluster.client.request("DELETE", PODS.path("default", "second"))
        await pods.until(lambda held: ObjectKey("default", "second") not in held)
        assert ObjectKey("default", "first") in pods.objects


async def test_pods_of_a_scheduler_are_selected_on_the_server(cluster):
    await cluster.make_pod("ours")
    await cluster.make_pod("theirs", schedulerName="default-scheduler")
    pods = Watched()
    informer = Informer(
        cluster.client,
        PODS,
        view=Pod,
        deliver=pods.deliver,
        field_selector="spec.schedulerName=tutti",
    )
    async with background(informer.run()):
        await informer.synced.wait()
    assert list(pods.objects) == [("default", "ours")]


async def test_bindings_of_every_kind(cluster):
    node = await cluster.node()
    free, gated = await cluster.make_pod("free"), await cluster.make_pod("gated", schedulingGates=[{"name": "hold"}])
    binder = Binder(cluster.client, fence=unfenced)

    async def outcome(name, uid, to=node):
        return (await binder.bind(Bind("default", name, uid, to))).outcome

    assert await outcome("free", "not-its-uid") is BindOutcome.GONE
    assert await outcome("free", free.metadata.uid) is BindOutcome.BOUND
    assert await outcome("free", free.metadata.uid) is BindOutcome.ALREADY_HERE
    assert await outcome("free", free.metadata.uid, "other-node") is BindOutcome.ELSEWHERE
    assert await outcome("gated", gated.metadata.uid) is BindOutcome.GATED
    assert await outcome("missing", "uid") is BindOutcome.GONE


async def test_a_victim_leaves_and_its_namesake_stays(cluster):
    pod = await cluster.make_pod("p", annotations={"sim.tutti.dev/hang-probability": "1"})  # it leaves in its own time
    node = await cluster.node()
    await Binder(cluster.client, fence=unfenced).bind(Bind("default", "p", pod.metadata.uid, node))
    evictor = Evictor(cluster.client, fence=unfenced)
    result = await evictor.evict(Evict("default", "p", "not-its-uid", "PreemptionByScheduler", "for a gang"))
    assert result.outcome is EvictOutcome.GONE
    assert "deletionTimestamp" not in (await cluster.get(PODS, "default", "p"))["metadata"]
    result = await evictor.evict(Evict("default", "p", pod.metadata.uid, "PreemptionByScheduler", "for a gang"))
    assert result.outcome is EvictOutcome.LEAVING
    leaving = await cluster.get(PODS, "default", "p")
    assert "deletionTimestamp" in leaving["metadata"]
    (target,) = [c for c in leaving["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert (target["reason"], target["message"]) == ("PreemptionByScheduler", "for a gang")


async def test_a_pods_condition_is_merged_by_type(cluster):
    pod = await cluster.make_pod("p")
    writer = StatusWriter(cluster.client, fence=unfenced, spacing_seconds=0.0)
    async with background(writer.run()):
        for kind in ("PodScheduled", "Other"):
            verdict = PodConditionUpdate(kind, "False", "Unschedulable", f"about {kind}")
            writer.put_pod_condition("default", "p", pod.metadata.uid, verdict=verdict)
        writer.put_pod_condition(
            "default", "gone", "uid", verdict=PodConditionUpdate("PodScheduled", "False", "Unschedulable", "")
        )
        writer.put_pod_condition(
            "default", "p", "not-its-uid", verdict=PodConditionUpdate("PodScheduled", "True", "Wrong", "")
        )
        assert await writer.flush(within_seconds=60) == 0
    conditions = (await cluster.get(PODS, "default", "p"))["status"]["conditions"]
    assert {c["type"]: c["message"] for c in conditions} == {
        "PodScheduled": "about PodScheduled",
        "Other": "about Other",
    }


async def test_a_kind_is_awaited_until_its_crd_is_there_and_its_status_is_written(cluster):
    queues = Watched()
    informer = Informer(cluster.client, QUEUES, view=dict, deliver=queues.deliver)
    async with background(informer.run()):
        while informer.problem is None:  # noqa: ASYNC110 - a plain attribute, as readiness probes read it
            await asyncio.sleep(0.01)
        assert informer.problem.startswith("404")
        await cluster.client.request("POST", CRDS.path(), body=msgspec.json.encode(LOCAL_QUEUE_CRD))
        await informer.synced.wait()
        queue = {
            "apiVersion": QUEUES.api_version,
            "kind": "LocalQueue",
            "metadata": {"name": "q"},
            "spec": {"clusterQueue": "cq"},
        }
        await cluster.client.request("POST", QUEUES.path("default"), body=msgspec.json.encode(queue))
        await queues.until(lambda held: ObjectKey("default", "q") in held)
        writer = StatusWriter(cluster.client, fence=unfenced)
        condition = {
            "type": "Active",
            "status": "True",
            "reason": "Ready",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        async with background(writer.run()):
            uid = queues.objects["default", "q"]["metadata"]["uid"]
            writer.put(StatusTarget(QUEUES, "default", "q", uid), {"conditions": [condition]})
            assert await writer.flush(within_seconds=60) == 0
        await queues.until(lambda held: "status" in held["default", "q"])
        assert queues.objects["default", "q"]["status"]["conditions"][0]["type"] == "Active"


async def test_an_event_and_its_series(cluster):
    pod = await cluster.make_pod("p")
    recorder = EventRecorder(cluster.client, fence=unfenced, controller="scheduling.tutti.dev/tutti", instance="i")
    waits = EmitEvent(
        "v1", "Pod", "default", "p", pod.metadata.uid, "Warning", "FailedScheduling", "Scheduling", "0/3 nodes"
    )
    async with background(recorder.run()):
        for _ in range(3):
            recorder.record(waits)
            assert await recorder.flush(within_seconds=60) == 0
    (event,) = [e for e in (await cluster.get(EVENTS, "default"))["items"] if e["reason"] == "FailedScheduling"]
    assert event["series"]["count"] == 3
    assert (event["note"], event["type"]) == ("0/3 nodes", "Warning")
    assert cluster.client.metrics.events_dropped.labels("error")._value.get() == 0


async def test_the_lease_changes_hands(cluster):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tutti-system"}}
    await cluster.client.request("POST", NAMESPACES.path(), body=msgspec.json.encode(namespace))
    one, two = (
        Elector(cluster.client, namespace="tutti-system", name="tutti", identity=name) for name in ("one", "two")
    )
    await one.acquire()
    await one.renew()
    one.check()
    assert not await two.try_acquire()
    await one.end(under_way=False)
    assert await two.try_acquire()
    with pytest.raises(LeadershipLost):
        one.check()
    spec = (await cluster.get(LEASES, "tutti-system", "tutti"))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("two", 1)


async def test_a_wrong_token_is_refused(cluster, tmp_path):
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    config["users"][0]["user"]["token"] = "wrong"
    (tmp_path / "wrong").write_text(yaml.safe_dump(config))
    async with Client(await Credentials.load(tmp_path / "wrong")) as client:
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await client.request("GET", PODS.path())
