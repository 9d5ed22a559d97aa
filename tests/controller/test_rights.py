"""The operator asks for nothing that its role in manifests/ does not allow, and uses all that it allows."""

from __future__ import annotations

from contextlib import suppress

import aiohttp
import yaml

from tests.controller.objects import cluster_queue, gang, local_queue, obj, pod
from tests.controller.process import CRDS, operator, until
from tests.controller.recording import LOST, recorded
from tests.manifests.rbac import allows, asked, granted
from tutti.api.conventions.gang_objects import GANG_KINDS
from tutti.api.frameworks import KNOWN_KINDS
from tutti.api.kinds.provisioning import PROVISIONING_CONTROLLER
from tutti.api.owners import BUILT_IN
from tutti.controller.discovery import OUR_RESOURCES
from tutti.kube.errors import ApiError
from tutti.kube.resources import (
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIMS,
    STORAGE_CLASSES,
    APIResource,
)

BESIDE = {"resourceclaims/status": "resourceclaims/binding"}
"""What a server since Kubernetes 1.36 wants as well of who writes the devices and users of a claim, with the same verb."""

DEVICE_CLASSES = APIResource("resource.k8s.io", "v1", "deviceclasses")
RESOURCE_SLICES = APIResource("resource.k8s.io", "v1", "resourceslices")


class Authorizer:
    """Refuses what the role does not allow, and spoils the first try of writes that must be looked after."""

    def __init__(self):
        self.refused = []
        self._spoils = {
            ("", "pods/binding", "create"): LOST,
            ("", "persistentvolumeclaims", "patch"): 409,
            ("", "persistentvolumes", "patch"): 409,
            ("resource.k8s.io", "resourceclaims/status", "patch"): 409,
        }
        self._gives_devices = False

    def __call__(self, method, path, query):
        asks = list(all_asked(method, path, query))
        refused = [ask for ask in asks if not allows(*ask[:3], namespace=ask[3], name=ask[4])]
        self.refused += refused
        if refused:
            return 403
        if "sendInitialEvents" in query:
            return 422  # as a server does that has no streaming lists: then everything is listed in pages
        for _, resource, verb, _, name in asks:
            if name.startswith("by-name"):
                self._gives_devices |= (resource, verb) == ("resourceclaims", "delete")
                if resource == "resourceclaims/status" and not self._gives_devices:
                    return 422  # the claim that was made for the pod is of no use to it then, and is removed
        return self._spoils.pop(asks[0][:3], None) if asks else None


def all_asked(method, path, query):
    """Yield all that a request asks RBAC for: group, resource (with subresource), verb, namespace and name."""
    ask = asked(method, path, query)
    if ask is not None:
        yield ask
        if ask[1] in BESIDE:
            yield (ask[0], BESIDE[ask[1]], *ask[2:])


async def test_a_full_life_needs_every_right_of_the_role_and_no_other(bare, cluster, tmp_path):
    authorizer = Authorizer()
    async with recorded(bare.url, authorizer) as proxy:
        kubeconfig = tmp_path / "kubeconfig"
        document = yaml.safe_load(bare.kubeconfig())
        document["clusters"][0]["cluster"]["server"] = proxy.url
        kubeconfig.write_text(yaml.safe_dump(document))
        # The lease is where the role in manifests/ lets it be.
        await cluster.create(NAMESPACES, {"kind": "Namespace", "metadata": {"name": "tutti-system"}})
        await _serve_other_projects(cluster)
        election = {"leaseNamespace": "tutti-system"}
        metrics = {"bindAddress": "127.0.0.1:0", "secureBindAddress": "127.0.0.1:0"}
        async with operator(kubeconfig, tmp_path, leaderElection=election, metrics=metrics) as running:
            await running.says("deciding")
            await _live(cluster)
            await _read_metrics(running, bare.token)
            assert await running.stop() == 0

    used = {ask[:3] for request in proxy.requests for ask in all_asked(*request)}
    assert authorizer.refused == []
    assert sorted(granted() - used) == []


async def _read_metrics(running, token):
    """Have metrics given to somebody who may read them."""
    port = (await running.says("serving_metrics"))["port"]
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
        session.get(f"https://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}"}) as answer,
    ):
        assert answer.status == 200


async def _serve_other_projects(cluster):
    """Have every kind served whose objects say how large gangs are, or that owns pods."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    for kind in (*GANG_KINDS, *(one for one in KNOWN_KINDS if one.group not in BUILT_IN)):
        names = {
            "plural": kind.plural,
            "singular": kind.kind.lower(),
            "kind": kind.kind,
            "listKind": f"{kind.kind}List",
        }
        version = {"served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
        spec = {"group": kind.group, "scope": "Namespaced", "names": names}
        meta = {
            "name": f"{kind.plural}.{kind.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        }
        versions = [{"name": kind.versions[-1], **version}]
        await cluster.create(
            CRDS, {"kind": "CustomResourceDefinition", "metadata": meta, "spec": {**spec, "versions": versions}}
        )


async def _volumes(cluster):
    """A pod whose claim waits for its node, and one for which there is a volume."""
    for name, provisioner in (("late", "csi.example.com"), ("local", "kubernetes.io/no-provisioner")):
        storage = {"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner}
        await cluster.create(STORAGE_CLASSES, {**storage, "volumeBindingMode": "WaitForFirstConsumer"})
        asks = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        spec = {**asks, "storageClassName": name}
        await cluster.create(PERSISTENT_VOLUME_CLAIMS, obj("PersistentVolumeClaim", name, spec, namespace="default"))
        member = pod(f"volume-{name}")
        member["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        if name == "local":
            offer = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": name}
            place = {"hostPath": {"path": "/data"}}
            await cluster.create(PERSISTENT_VOLUMES, obj("PersistentVolume", "disk", {**offer, **place}))
        await cluster.create(PODS, member)


async def _devices(cluster):
    """A pod that claims a device which every node can use, and one that asks for such by the name of a resource.

    The first claim that is made for the latter cannot be given devices, and so is removed and made anew.
    """
    await cluster.create(DEVICE_CLASSES, obj("DeviceClass", "any", {"extendedResourceName": "example.com/any"}))
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    offer = {"driver": "example.com", "pool": pool, "allNodes": True, "devices": [{"name": "one"}, {"name": "two"}]}
    await cluster.create(RESOURCE_SLICES, obj("ResourceSlice", "s", offer))
    request = {"name": "r", "exactly": {"deviceClassName": "any"}}
    claim = obj("ResourceClaim", "mine", {"devices": {"requests": [request]}}, namespace="default")
    await cluster.create(RESOURCE_CLAIMS, claim)
    member = pod("device")
    member["spec"]["resourceClaims"] = [{"name": "d", "resourceClaimName": "mine"}]
    await cluster.create(PODS, member)
    by_name = pod("by-name")
    for said in ("requests", "limits"):
        by_name["spec"]["containers"][0].setdefault("resources", {}).setdefault(said, {})["example.com/any"] = "1"
    await cluster.create(PODS, by_name)


async def _move(cluster):
    """A pod that wants all of a node, for which another is moved."""
    slot = "example.com/slot"
    offers = {"cpu": "8", "memory": "64Gi", "pods": "110", slot: "2"}
    status = {"allocatable": offers, "capacity": offers, "conditions": [{"type": "Ready", "status": "True"}]}
    quotas = [{"name": one, "nominalQuota": "64Gi" if one == "memory" else "8"} for one in ("cpu", "memory", slot)]
    group = {"coveredResources": ["cpu", "memory", slot], "flavors": [{"name": "f", "resources": quotas}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group], "consolidation": {"maxMoves": 1}}
    await cluster.create(OUR_RESOURCES["ClusterQueue"], obj("ClusterQueue", "moving", spec))
    await cluster.create(OUR_RESOURCES["LocalQueue"], local_queue("moving", "moving"))

    async def put(name, slots, selector=None, **metadata):
        made = pod(name, **metadata)
        resources = made["spec"]["containers"][0]["resources"]
        resources |= {"requests": {**resources["requests"], slot: slots}, "limits": {slot: slots}}
        made["spec"]["nodeSelector"] = selector or {}
        await cluster.create(PODS, made)

    async def bound(name):
        found = await cluster.get(PODS, name, "default")
        return found["spec"].get("nodeName")

    for name, moves in (("m0", True), ("m1", False)):
        here = {"kubernetes.io/hostname": name}
        await cluster.create(NODES, {"kind": "Node", "metadata": {"name": name, "labels": here}, "status": status})
        said = {"annotations": {"scheduling.tutti.dev/movable": "true"}} if moves else {}
        await put(f"on-{name}", "1", None if moves else here, **said)
        await until(lambda name=name: bound(f"on-{name}"))
    await put("wide", "2", labels={"scheduling.tutti.dev/queue-name": "moving"})
    await until(lambda: bound("wide"))
    await cluster.delete(OUR_RESOURCES["ClusterQueue"], "moving")


async def _native_gang(cluster):
    """A pod group of Kubernetes' own, which is told in its status what became of it."""
    kind = GANG_KINDS[0]
    resource = APIResource(kind.group, kind.versions[-1], kind.plural)
    policy = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    await cluster.create(resource, obj("PodGroup", "native", policy, namespace="default"))
    member = pod("native-0")
    member["spec"]["schedulingGroup"] = {"podGroupName": "native"}
    await cluster.create(PODS, member)

    async def told():
        found = await cluster.get(resource, "native", "default")
        return found.get("status", {}).get("conditions")

    await until(told)


async def _repeat(cluster):
    """Something that is said twice: why a gang waits, another reason for it, and the first again."""
    group, member = gang("waiting", 1, queue="later")
    await cluster.create(OUR_RESOURCES["PodGroup"], group)
    await cluster.create(PODS, member)

    async def says(text):
        async def so():
            found = await cluster.get(OUR_RESOURCES["PodGroup"], "waiting", "default")
            return text in str(found.get("status", {}).get("pendingReason"))

        await until(so)

    await says("does not exist")
    await cluster.create(OUR_RESOURCES["LocalQueue"], local_queue("later", "never"))
    await says("never")
    await cluster.delete(OUR_RESOURCES["LocalQueue"], "later", "default")
    await says("later does not exist")


async def _live(cluster):
    """Everything once: queues, gangs that fit and that do not, annotations, what may not run long, and deletions that
    have to wait.
    """
    await cluster.create(OUR_RESOURCES["Topology"], obj("Topology", "t", {"levels": [{"nodeLabel": "rack"}]}))
    await cluster.create(OUR_RESOURCES["ResourceFlavor"], obj("ResourceFlavor", "f"))
    asks = {"controllerName": PROVISIONING_CONTROLLER, "provisioning": {"provisioningClassName": "any"}}
    await cluster.create(OUR_RESOURCES["AdmissionCheck"], obj("AdmissionCheck", "nodes", asks))
    await cluster.create(OUR_RESOURCES["Cohort"], obj("Cohort", "c"))
    await cluster.create(OUR_RESOURCES["ClusterQueue"], cluster_queue(cpu="2"))
    await cluster.create(OUR_RESOURCES["LocalQueue"], local_queue())
    for name in ("first", "second"):
        group, *members = gang(name, 2)
        await cluster.create(OUR_RESOURCES["PodGroup"], group)
        for member in members:
            await cluster.create(PODS, member)
    await _volumes(cluster)
    await _devices(cluster)
    await _native_gang(cluster)
    await _repeat(cluster)
    prefix = "gang-scheduling.preferred.jp/gang"
    for rank in range(2):
        await cluster.create(PODS, pod(f"pair-{rank}", annotations={f"{prefix}-name": "pair", f"{prefix}-size": "2"}))

    brief = obj(
        "Workload", "brief", {"podGroups": [{"count": 1}], "maximumExecutionTimeSeconds": 1}, namespace="default"
    )
    await cluster.create(OUR_RESOURCES["Workload"], brief)
    await cluster.create(PODS, pod("brief-0", labels={"scheduling.tutti.dev/workload": "brief"}))

    async def settled():
        pods = {p["metadata"]["name"]: p for p in await cluster.list(PODS)}
        names = ("first-0", "first-1", "pair-0", "volume-late", "volume-local", "device", "by-name")
        placed = [pods[name]["spec"].get("nodeName") for name in names]
        waits = await cluster.condition(PODS, "second-0", "default", "PodScheduled")
        over = (await cluster.get(OUR_RESOURCES["Workload"], "brief", "default"))["spec"].get("active") is False
        return over and all(placed) and waits.get("status") == "False" and await cluster.list(EVENTS)

    await until(settled)
    await _move(cluster)
    for kind, name in (("ClusterQueue", "cq"), ("ResourceFlavor", "f"), ("Topology", "t")):
        await cluster.delete(OUR_RESOURCES[kind], name)
    for one in await cluster.list(PODS):
        with suppress(ApiError):  # one that is told to end by the operator may be gone by now
            await cluster.delete(PODS, one["metadata"]["name"], "default")

    async def gone():
        kept = [await cluster.get(OUR_RESOURCES["ClusterQueue"], "cq"), await cluster.list(OUR_RESOURCES["Topology"])]
        pair = [one for one in await cluster.list(OUR_RESOURCES["PodGroup"]) if one["metadata"]["name"] == "pair"]
        return not any(kept) and not pair

    await until(gone)
