"""kubectl, the official Python client and kopf work against the embedded cluster."""

import asyncio
import json
import threading

import kopf
import pytest
from kubernetes import client, config, watch
from kubernetes.informer import ADDED, DELETED, MODIFIED, SharedInformer
from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"size": {"type": "integer", "description": "how big it is"}},
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {
        "template": {
            "metadata": {"annotations": {"sim.tutti.dev/run-seconds": "0"}},
            "spec": {"restartPolicy": "Never", "nodeName": "node-0000", "containers": [{"name": "c", "image": "i:1"}]},
        }
    },
}


async def test_kubectl_applies_explains_and_lists_custom_resources(kubectl):
    assert "created" in await kubectl("apply", "-f", "-", manifest=json.dumps(CRD))
    await kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=60s")
    assert "created" in await kubectl("apply", "-f", "-", manifest=json.dumps(WIDGET))
    assert "unchanged" in await kubectl("apply", "-f", "-", manifest=json.dumps(WIDGET))

    assert "how big it is" in await kubectl("explain", "widgets.spec")
    assert (await kubectl("get", "wd")).split() == ["NAME", "SIZE", "w", "3"]
    assert "example.com/v1" in await kubectl("api-resources", "--api-group=example.com")
    assert "deleted" in await kubectl("delete", "crd", "widgets.example.com")


async def test_kubectl_applies_a_list_of_objects(kubectl):
    items = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}} for name in ("m", "n")
    ]

    said = await kubectl("apply", "-f", "-", manifest=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    assert said.split() == ["configmap/m", "created", "configmap/n", "created"]


async def test_kubectl_runs_and_follows_a_job(kubectl):
    await kubectl("apply", "-f", "-", manifest=json.dumps(JOB))
    await kubectl("wait", "--for=condition=Complete", "job/j", "--timeout=60s")

    assert "1/1" in await kubectl("get", "jobs")
    assert "Completed" in await kubectl("get", "pods")
    assert "1 Succeeded" in await kubectl("describe", "job", "j")
    assert "deleted" in await kubectl("delete", "job", "j")
    assert "No resources found" in await kubectl("get", "pods")


async def test_kubectl_creates_by_command(kubectl):
    assert "created" in await kubectl("create", "namespace", "ns")
    assert "created" in await kubectl("create", "configmap", "m", "--from-literal=a=b")
    assert "created" in await kubectl("create", "deployment", "d", "--image=i", "--replicas=2")
    assert "scaled" in await kubectl("scale", "deployment", "d", "--replicas=3")

    assert await kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.replicas}") == "3"
    assert await kubectl("get", "cm", "m", "-o", "jsonpath={.data}") == '{"a":"b"}'
    assert "yes" in await kubectl("auth", "can-i", "create", "pods")


async def test_kubectl_drains_a_node(kubectl):
    await kubectl("run", "p", "--image=i", "--overrides", '{"spec": {"nodeName": "node-0000"}}')

    drained = await kubectl("drain", "node-0000", "--force", "--timeout=60s")

    assert "pod/p evicted" in drained
    assert "SchedulingDisabled" in await kubectl("get", "nodes")


@pytest.fixture
def official(secure, tmp_path):
    path = tmp_path / "official"
    secure.write_kubeconfig(path)
    configuration = client.Configuration()
    config.load_kube_config(str(path), client_configuration=configuration)
    with client.ApiClient(configuration) as made:
        yield made


async def test_the_official_client_reads_writes_and_watches(official):
    def work():
        core = client.CoreV1Api(official)
        core.create_namespaced_pod(
            "default",
            client.V1Pod(
                metadata=client.V1ObjectMeta(name="p"),
                spec=client.V1PodSpec(node_name="node-0000", containers=[client.V1Container(name="c", image="i:1")]),
            ),
        )
        for event in watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=60):
            if event["object"].status.phase == "Running":
                break
        core.patch_namespaced_pod("p", "default", {"metadata": {"labels": {"a": "b"}}})
        found = core.list_pod_for_all_namespaces(label_selector="a=b").items
        core.delete_namespaced_pod("p", "default", grace_period_seconds=0)
        with pytest.raises(client.ApiException) as missing:
            core.read_namespaced_pod("p", "default")
        return [one.metadata.name for one in found], missing.value.status

    assert await asyncio.to_thread(work) == (["p"], 404)


async def test_the_official_clients_informer_follows_pods(official):
    def work():
        core = client.CoreV1Api(official)
        core.create_namespaced_config_map("default", {"metadata": {"name": "before"}})
        seen, happened = [], {kind: threading.Event() for kind in (ADDED, MODIFIED, DELETED)}
        informer = SharedInformer(core.list_namespaced_config_map, namespace="default")

        def tell(kind):
            def told(found):
                if found.metadata.name == "before":
                    seen.append(kind)
                    happened[kind].set()

            return told

        for kind in happened:
            informer.add_event_handler(kind, tell(kind))
        informer.start()
        try:
            assert happened[ADDED].wait(60)
            core.patch_namespaced_config_map("before", "default", {"data": {"a": "b"}})
            core.delete_namespaced_config_map("before", "default")
            assert happened[DELETED].wait(60)
            return seen, informer.cache.list_keys()
        finally:
            informer.stop()

    seen, left = await asyncio.to_thread(work)
    assert seen == [ADDED, MODIFIED, DELETED]
    assert "default/before" not in left


async def test_the_official_clients_leader_election_lets_one_lead_at_a_time(official, monkeypatch):
    monkeypatch.setattr(client.Configuration, "_default", official.configuration)

    def candidate(identity):
        lock = LeaseLock("lock", "default", identity)
        return LeaderElection(Config(lock, 3, 2, 1, onstarted_leading=list, onstopped_leading=list))

    def work():
        first, second = candidate("first"), candidate("second")
        turns = [one.try_acquire_or_renew() for one in (first, second, first, second)]
        lease = client.CoordinationV1Api(official).read_namespaced_lease("lock", "default")
        return turns, lease.spec.holder_identity

    assert await asyncio.to_thread(work) == ([True, False, True, False], "first")


async def test_kopf_handles_custom_resources(cluster, api):
    await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    registry, ready, stop = kopf.OperatorRegistry(), asyncio.Event(), asyncio.Event()

    @kopf.on.login(registry=registry)
    def login(**_):
        return kopf.ConnectionInfo(server=cluster.url, token=cluster.token)

    @kopf.on.startup(registry=registry)
    def configure(settings, **_):
        settings.posting.enabled = False

    @kopf.on.create("example.com", "v1", "widgets", registry=registry)
    def created(spec, patch, **_):
        patch.status["doubled"] = spec["size"] * 2

    @kopf.on.delete("example.com", "v1", "widgets", registry=registry)
    def deleted(**_):
        stop.set()

    running = asyncio.create_task(
        kopf.operator(registry=registry, ready_flag=ready, stop_flag=stop, clusterwide=True, standalone=True)
    )
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    await api.create(widgets, WIDGET)

    done = await api.until(f"{widgets}/w", lambda obj: "doubled" in obj.get("status", {}))
    assert done["status"]["doubled"] == 6
    assert done["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
    await api.call("DELETE", f"{widgets}/w")
    await api.gone(f"{widgets}/w")
    stop.set()
    await running
