"""The operator asks for nothing that its role in manifests/ does not allow, whatever it is led to do."""

from __future__ import annotations

import yaml

from tests.controller.objects import cluster_queue, gang, local_queue, obj, pod
from tests.controller.process import operator, until
from tests.controller.recording import recorded
from tests.manifests.rbac import allows, asked
from tutti.controller.crds import RESOURCES
from tutti.kube.resources import EVENTS, NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PODS, STORAGE_CLASSES


async def test_every_request_of_a_full_life_is_allowed_by_the_role(bare, cluster, tmp_path):
    async with recorded(bare.url) as proxy:
        kubeconfig = tmp_path / "kubeconfig"
        document = yaml.safe_load(bare.kubeconfig())
        document["clusters"][0]["cluster"]["server"] = proxy.url
        kubeconfig.write_text(yaml.safe_dump(document))
        # The lease is where the role in manifests/ lets it be.
        await cluster.create(NAMESPACES, {"kind": "Namespace", "metadata": {"name": "tutti-system"}})
        election = {"leaseNamespace": "tutti-system"}
        async with operator(kubeconfig, tmp_path, leaderElection=election) as running:
            await running.says("deciding")
            await _live(cluster)
            assert await running.stop() == 0

    asks = {ask for ask in (asked(*request) for request in proxy.requests) if ask is not None}
    refused = [ask for ask in asks if not allows(*ask[:3], namespace=ask[3], name=ask[4])]
    assert refused == []
    made = {ask[:3] for ask in asks}
    assert {("", "pods/binding", "create"), ("", "pods/status", "patch")} <= made
    assert ("", "persistentvolumeclaims", "patch") in made
    assert {("scheduling.tutti.dev", "podgroups", "create"), ("scheduling.tutti.dev", "clusterqueues", "patch")} <= made
    assert ("scheduling.tutti.dev", "workloads", "patch") in made  # set inactive
    assert {(EVENTS.group, "events", "create"), ("coordination.k8s.io", "leases", "update")} <= made


async def _volume(cluster):
    """A pod whose claim waits for its node."""
    late = {"kind": "StorageClass", "metadata": {"name": "late"}, "provisioner": "csi.example.com"}
    await cluster.create(STORAGE_CLASSES, {**late, "volumeBindingMode": "WaitForFirstConsumer"})
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {**asked, "storageClassName": "late"}
    await cluster.create(PERSISTENT_VOLUME_CLAIMS, obj("PersistentVolumeClaim", "data", spec, namespace="default"))
    member = pod("with-volume")
    member["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    await cluster.create(PODS, member)


async def _live(cluster):
    """Everything once: queues, gangs that fit and that do not, annotations, what may not run long, and a deletion that
    has to wait.
    """
    await cluster.create(RESOURCES["ResourceFlavor"], obj("ResourceFlavor", "f"))
    await cluster.create(RESOURCES["ClusterQueue"], cluster_queue(cpu="2"))
    await cluster.create(RESOURCES["LocalQueue"], local_queue())
    await cluster.create(RESOURCES["Cohort"], obj("Cohort", "c"))
    for name in ("first", "second"):
        group, *members = gang(name, 2)
        await cluster.create(RESOURCES["PodGroup"], group)
        for member in members:
            await cluster.create(PODS, member)
    await _volume(cluster)
    prefix = "gang-scheduling.preferred.jp/gang"
    for rank in range(2):
        await cluster.create(PODS, pod(f"pair-{rank}", annotations={f"{prefix}-name": "pair", f"{prefix}-size": "2"}))

    brief = obj(
        "Workload", "brief", {"podGroups": [{"count": 1}], "maximumExecutionTimeSeconds": 1}, namespace="default"
    )
    await cluster.create(RESOURCES["Workload"], brief)
    await cluster.create(PODS, pod("brief-0", labels={"scheduling.tutti.dev/workload": "brief"}))

    async def settled():
        pods = {p["metadata"]["name"]: p for p in await cluster.list(PODS)}
        placed = [pods[name]["spec"].get("nodeName") for name in ("first-0", "first-1", "pair-0", "with-volume")]
        waits = await cluster.condition(PODS, "second-0", "default", "PodScheduled")
        over = (await cluster.get(RESOURCES["Workload"], "brief", "default"))["spec"].get("active") is False
        return over and all(placed) and waits.get("status") == "False" and await cluster.list(EVENTS)

    await until(settled)
    await cluster.delete(RESOURCES["ClusterQueue"], "cq")
    for name in ("first-0", "first-1", "second-0", "second-1", "pair-0", "pair-1", "with-volume"):
        await cluster.delete(PODS, name, "default")

    async def gone():
        return await cluster.get(RESOURCES["ClusterQueue"], "cq") is None

    await until(gone)
