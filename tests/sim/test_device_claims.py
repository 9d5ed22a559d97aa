"""The controllers of claims of the embedded cluster: claims from templates, and what becomes of them and of their users."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tests.sim.waiting import until
from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.controllers.device_claims import _stem
from tutti_sim.rest.local import Local

FINALIZER = "resource.kubernetes.io/delete-protection"
GROUP = "resource.k8s.io"
NAMES = ["resource-claim", "garbage-collector", "device-taint-eviction"]


class Bench:
    """A cluster with nothing but nodes, and what one does to it."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.local = Local(cluster.backend, "test")

    def resource(self, plural):
        return self.cluster.backend.resource("" if plural == "pods" else GROUP, "v1", plural)

    async def create(self, plural, name, spec, **meta):
        namespace = "default" if self.resource(plural).namespaced else ""
        made = {"metadata": {"name": name, **meta}, "spec": spec}
        return (await self.local.create(self.resource(plural), namespace, made)).obj

    def all(self, plural):
        found = self.cluster.backend.collection(self.resource(plural)).scan("")
        return {version.key[1]: version for version in found}

    def one(self, plural, name):
        return self.all(plural)[name]

    def say(self, plural, name, **status):
        """Change a status."""
        current = self.one(plural, name)
        self.local.set_status(self.resource(plural), current, {**(current.obj.get("status") or {}), **status})

    async def template(self):
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        await self.create("resourceclaimtemplates", "t", {"spec": {"devices": {"requests": [request]}}})

    async def claim(self, name="own"):
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        await self.create("resourceclaims", name, {"devices": {"requests": [request]}}, finalizers=[FINALIZER])

    async def pod(self, name="p", entry=None, node=None):
        entry = entry or {"name": "gpus", "resourceClaimTemplateName": "t"}
        spec = {"containers": [{"name": "c", "image": "x"}], "resourceClaims": [entry]}
        return await self.create("pods", name, {**spec, **({"nodeName": node} if node else {})})

    async def made(self, pod="p"):
        """The claim of a pod, once its status says which."""

        def so():
            said = self.one("pods", pod).obj["status"].get("resourceClaimStatuses")
            return said and self.one("resourceclaims", said[0]["resourceClaimName"]).obj

        return await until(self.cluster, so)

    def allocate(self, claim, *users, tolerations=()):
        device = {"request": "r", "driver": "d.example.com", "pool": "node-0000", "device": "gpu-0"}
        device |= {"tolerations": list(tolerations)} if tolerations else {}
        named = [{"resource": "pods", "name": one["metadata"]["name"], "uid": one["metadata"]["uid"]} for one in users]
        self.say("resourceclaims", claim, allocation={"devices": {"results": [device]}}, reservedFor=named)

    async def gone(self, plural, name):
        await until(self.cluster, lambda: name not in self.all(plural))


@pytest.fixture
async def bench():
    async with EmbeddedCluster(nodes=1, seed=1, controllers=NAMES) as embedded:
        yield Bench(embedded)


async def test_a_pod_gets_a_claim_from_its_template(bench):
    await bench.template()
    user = await bench.pod()

    claim = await bench.made()

    owner = claim["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", user["metadata"]["uid"], True)
    assert claim["metadata"]["name"].startswith("p-gpus-")
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert len(bench.all("resourceclaims")) == 1


def test_names_of_pods_and_entries_are_shortened_alike_where_both_are_too_long():
    assert _stem("pod", "gpus") == "pod-gpus-"
    stem = _stem("p" * 60, "g" * 30)
    assert (len(stem), stem.count("p"), stem.count("g")) == (57, 37, 18)


async def test_a_template_that_comes_later_is_not_missed(bench):
    await bench.pod()
    assert bench.all("resourceclaims") == {}

    await bench.template()

    assert await bench.made()


async def test_a_claim_loses_its_devices_with_the_last_pod_that_uses_it(bench):
    await bench.claim()
    entry = {"name": "gpus", "resourceClaimName": "own"}
    users = [await bench.pod(name, entry) for name in ("p", "q")]
    bench.allocate("own", *users)

    bench.say("pods", "p", phase="Succeeded")
    await until(bench.cluster, lambda: len(bench.one("resourceclaims", "own").obj["status"]["reservedFor"]) == 1)
    assert bench.one("resourceclaims", "own").obj["status"]["allocation"]
    bench.say("pods", "q", phase="Failed")

    await until(bench.cluster, lambda: not bench.one("resourceclaims", "own").obj["status"])
    await until(bench.cluster, lambda: not bench.one("resourceclaims", "own").obj["metadata"].get("finalizers"))


async def test_a_pod_that_is_deleted_before_it_has_a_node_uses_nothing(bench):
    await bench.claim()
    user = await bench.pod(entry={"name": "gpus", "resourceClaimName": "own"})
    bench.allocate("own", user)

    bench.local.remove(bench.resource("pods"), bench.one("pods", "p"))

    await until(bench.cluster, lambda: not bench.one("resourceclaims", "own").obj["status"])


async def test_a_claim_without_users_keeps_what_it_has(bench):
    await bench.claim()
    bench.allocate("own")
    await bench.template()
    await bench.pod()
    await bench.made()

    assert bench.one("resourceclaims", "own").obj["status"]["allocation"]
    assert bench.one("resourceclaims", "own").obj["metadata"]["finalizers"] == [FINALIZER]


async def test_a_claim_that_was_made_for_a_pod_goes_when_that_is_done(bench):
    await bench.template()
    user = await bench.pod()
    claim = await bench.made()
    bench.allocate(claim["metadata"]["name"], user)

    bench.say("pods", "p", phase="Succeeded")

    await bench.gone("resourceclaims", claim["metadata"]["name"])


async def test_who_is_bound_past_a_scheduler_is_noted_as_a_user(bench):
    await bench.claim()
    bench.allocate("own")

    user = await bench.pod(entry={"name": "gpus", "resourceClaimName": "own"}, node="elsewhere")

    found = await until(bench.cluster, lambda: bench.one("resourceclaims", "own").obj["status"].get("reservedFor"))
    assert [one["uid"] for one in found] == [user["metadata"]["uid"]]


async def test_a_claim_that_is_deleted_waits_for_its_users(bench):
    await bench.claim()
    user = await bench.pod(entry={"name": "gpus", "resourceClaimName": "own"})
    bench.allocate("own", user)

    bench.local.remove(bench.resource("resourceclaims"), bench.one("resourceclaims", "own"))
    assert bench.one("resourceclaims", "own").obj["metadata"]["deletionTimestamp"]
    bench.say("pods", "p", phase="Succeeded")

    await bench.gone("resourceclaims", "own")


async def test_a_hollow_kubelet_starts_nothing_without_its_devices(bench):
    await bench.claim()
    user = await bench.pod(entry={"name": "gpus", "resourceClaimName": "own"}, node="node-0000")
    await asyncio.sleep(0)
    assert bench.one("pods", "p").obj["status"]["phase"] == "Pending"

    bench.allocate("own", user)

    await until(bench.cluster, lambda: bench.one("pods", "p").obj["status"]["phase"] == "Running")


async def slices(bench, **taint):
    device = {"name": "gpu-0", "taints": [{"key": "broken", "effect": "NoExecute", **taint}]}
    pool = {"name": "node-0000", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "node-0000", "devices": [device]}
    await bench.create("resourceslices", "s", spec)


async def running(bench, tolerations=()):
    await bench.claim()
    user = await bench.pod(entry={"name": "gpus", "resourceClaimName": "own"}, node="node-0000")
    bench.allocate("own", user, tolerations=tolerations)
    await until(bench.cluster, lambda: bench.one("pods", "p").obj["status"]["phase"] == "Running")


async def test_a_taint_takes_out_who_uses_the_device(bench):
    await running(bench)
    seen = []
    bench.cluster.backend.after.append(
        lambda resource, _, new: seen.append(new.obj) if resource.plural == "pods" and new else None
    )

    await slices(bench)

    await bench.gone("pods", "p")
    marks = [one for pod in seen for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert {one["reason"] for one in marks} == {"DeletionByDeviceTaintManager"}


@pytest.mark.parametrize(
    ("toleration", "stays"),
    [
        ({"operator": "Exists", "effect": "NoExecute"}, True),
        ({"operator": "Exists", "effect": "NoExecute", "key": "broken", "tolerationSeconds": 3600}, True),
        ({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}, False),  # the taint is older
        ({"operator": "Exists", "effect": "NoExecute", "key": "other"}, False),
        ({"operator": "Exists"}, False),  # only those whose effect is exactly NoExecute keep a pod where it is
        ({"operator": "Equal", "effect": "NoExecute", "key": "broken", "value": "fan"}, False),
    ],
)
async def test_tolerations_in_the_allocation_say_who_stays_and_for_how_long(bench, toleration, stays):
    await running(bench, [toleration])

    added = (datetime.now(UTC) - timedelta(seconds=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
    await slices(bench, timeAdded=added)

    if stays:
        await bench.create("pods", "later", {"containers": [{"name": "c", "image": "x"}], "nodeName": "node-0000"})
        await until(bench.cluster, lambda: bench.one("pods", "later").obj["status"]["phase"] == "Running")
        assert not bench.one("pods", "p").obj["metadata"].get("deletionTimestamp")
    else:
        await bench.gone("pods", "p")


class Groups(Bench):
    """The same where PodGroups of Kubernetes are served."""

    def resource(self, plural):
        if plural == "podgroups":
            return self.cluster.backend.resource("scheduling.k8s.io", "v1beta1", plural)
        return super().resource(plural)

    async def group(self, name="g", **entry):
        listed = [{"name": "gpus", **(entry or {"resourceClaimTemplateName": "t"})}]
        spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": listed}
        made = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
        return (await self.local.create(self.resource("podgroups"), "default", made)).obj

    async def member(self, name, group="g", template="t"):
        entry = {"name": "gpus", "resourceClaimTemplateName": template}
        spec = {"containers": [{"name": "c", "image": "x"}], "resourceClaims": [entry]}
        return await self.create("pods", name, {**spec, "schedulingGroup": {"podGroupName": group}})


@pytest.fixture
async def groups():
    async with EmbeddedCluster(nodes=1, seed=1, controllers=NAMES, pod_groups=True) as embedded:
        yield Groups(embedded)


async def test_all_pods_of_a_group_have_the_one_claim_that_is_made_from_its_template(groups):
    """KEP-5729; kube-controller-manager 1.36, pkg/controller/resourceclaim (syncPodGroup), whichever comes first."""
    early = await groups.member("early")
    await groups.template()
    group = await groups.group()
    await groups.member("late")

    claims = [await groups.made(pod) for pod in ("early", "late")]

    assert len(groups.all("resourceclaims")) == 1
    assert claims[0]["metadata"]["uid"] == claims[1]["metadata"]["uid"]
    (owner,) = claims[0]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("PodGroup", "g", group["metadata"]["uid"])
    assert owner["apiVersion"].startswith("scheduling.k8s.io/")
    assert claims[0]["metadata"]["name"].startswith("g-gpus-")
    said = groups.one("podgroups", "g").obj["status"]["resourceClaimStatuses"]
    assert said == [{"name": "gpus", "resourceClaimName": claims[0]["metadata"]["name"]}]
    assert early["spec"]["schedulingGroup"] == {"podGroupName": "g"}


async def test_a_pod_has_a_claim_of_its_own_where_its_group_lists_another(groups):
    await groups.template()
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    await groups.create("resourceclaimtemplates", "other", {"spec": {"devices": {"requests": [request]}}})
    await groups.group()
    await groups.member("p", template="other")

    claim = await groups.made("p")

    assert claim["metadata"]["ownerReferences"][0]["kind"] == "Pod"
    assert len(groups.all("resourceclaims")) == 2


async def test_the_claim_of_a_group_stays_without_its_pods_comes_back_where_it_was_deleted_and_goes_with_the_group(
    groups,
):
    await groups.template()
    group = await groups.group()
    await groups.member("p")
    first = await groups.made("p")
    users = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": group["metadata"]["uid"]}]
    device = {"request": "r", "driver": "d.example.com", "pool": "node-0000", "device": "gpu-0"}
    name = first["metadata"]["name"]
    groups.say("resourceclaims", name, allocation={"devices": {"results": [device]}}, reservedFor=users)
    groups.local.remove(groups.resource("pods"), groups.one("pods", "p"))
    await groups.gone("pods", "p")
    await groups.member("q")
    assert (await groups.made("q"))["metadata"]["uid"] == first["metadata"]["uid"]
    assert groups.one("resourceclaims", name).obj["status"]["reservedFor"] == users

    groups.local.remove(groups.resource("resourceclaims"), groups.one("resourceclaims", name))
    await groups.gone("resourceclaims", name)
    await until(groups.cluster, lambda: len(groups.all("resourceclaims")) == 1)
    groups.local.remove(groups.resource("podgroups"), groups.one("podgroups", "g"))

    await until(groups.cluster, lambda: not groups.all("resourceclaims"))
