"""The controllers of claims of the embedded cluster: claims from templates, and what becomes of them and of their users."""

from __future__ import annotations

import asyncio

import pytest

from tests.sim.waiting import until
from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.controllers.device_claims import POD_CLAIM, _stem
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

    async def template(self, name="t", **metadata):
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        spec = {"metadata": metadata, "spec": {"devices": {"requests": [request]}}}
        await self.create("resourceclaimtemplates", name, spec)

    async def claim(self, name="own", **metadata):
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        meta = {"finalizers": [FINALIZER], **metadata}
        await self.create("resourceclaims", name, {"devices": {"requests": [request]}}, **meta)

    async def pod(self, name="p", entry=None, node=None, *more):
        entry = entry or {"name": "gpus", "resourceClaimTemplateName": "t"}
        spec = {"containers": [{"name": "c", "image": "x"}], "resourceClaims": [entry, *more]}
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
    await bench.template("other")
    await bench.pod("q", {"name": "gpus", "resourceClaimTemplateName": "other"})
    await bench.made("q")  # so the first has been looked at, too
    assert len(bench.all("resourceclaims")) == 1

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


async def test_a_claim_that_was_made_for_the_extended_resources_of_a_pod_goes_when_that_is_done(bench):
    """Such a claim is not made from a template: it goes by its owner (kubernetes pkg/controller/resourceclaim)."""
    user = await bench.pod(entry={"name": "gpus", "resourceClaimName": "another"})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": user["metadata"]["uid"], "controller": True}
    await bench.claim(ownerReferences=[owner])
    await bench.claim("beside", ownerReferences=[{**owner, "controller": False}])
    bench.allocate("own", user)
    bench.allocate("beside", user)

    bench.say("pods", "p", phase="Succeeded")

    await bench.gone("resourceclaims", "own")
    assert "beside" in bench.all("resourceclaims")


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


async def test_each_entry_of_a_pod_gets_a_claim_with_the_labels_and_annotations_of_its_template(bench):
    await bench.template(labels={"team": "vision"}, annotations={"example.com/why": "because"})
    more = {"name": "more", "resourceClaimTemplateName": "t"}
    await bench.pod("p", None, None, more, {"name": "own", "resourceClaimName": "own"})

    await until(bench.cluster, lambda: len(bench.one("pods", "p").obj["status"].get("resourceClaimStatuses", ())) == 2)

    said = {
        one["name"]: one["resourceClaimName"] for one in bench.one("pods", "p").obj["status"]["resourceClaimStatuses"]
    }
    assert said.keys() == {"gpus", "more"}
    assert set(said.values()) == bench.all("resourceclaims").keys()
    for entry, name in said.items():
        meta = bench.one("resourceclaims", name).obj["metadata"]
        assert meta["labels"] == {"team": "vision"}
        assert meta["annotations"] == {"example.com/why": "because", POD_CLAIM: entry}


async def test_a_claim_that_is_deleted_before_it_is_used_is_made_again(bench):
    await bench.template()
    await bench.pod()
    first = (await bench.made())["metadata"]

    bench.local.remove(bench.resource("resourceclaims"), bench.one("resourceclaims", first["name"]))

    await until(bench.cluster, lambda: bench.all("resourceclaims") and first["name"] not in bench.all("resourceclaims"))
    (name,) = bench.all("resourceclaims")

    def said():
        return bench.one("pods", "p").obj["status"]["resourceClaimStatuses"]

    await until(bench.cluster, lambda: said() == [{"name": "gpus", "resourceClaimName": name}])


async def test_who_was_bound_before_his_claim_has_devices_is_noted_then_and_once(bench):
    await bench.claim()
    users = [await bench.pod(name, {"name": "gpus", "resourceClaimName": "own"}, node="elsewhere") for name in "pq"]
    await bench.template()
    await bench.pod("r")
    await bench.made("r")  # so the two have been looked at, and nothing was to be done

    bench.allocate("own", users[1])

    def noted():
        found = bench.one("resourceclaims", "own").obj["status"]["reservedFor"]
        return found if len(found) > 1 else None

    found = await until(bench.cluster, noted)
    assert [one["name"] for one in found] == ["q", "p"]


async def test_a_pod_that_is_made_anew_under_its_name_does_not_use_what_the_other_used(bench):
    await bench.claim()
    bench.allocate("own", await bench.pod(entry={"name": "gpus", "resourceClaimName": "own"}))
    user = bench.one("resourceclaims", "own").obj["status"]["reservedFor"][0]

    bench.say("resourceclaims", "own", reservedFor=[{**user, "uid": "of-another"}])

    await until(bench.cluster, lambda: not bench.one("resourceclaims", "own").obj["status"])


async def test_users_that_are_no_pods_keep_what_they_have(bench):
    await bench.claim()
    pod = await bench.pod(entry={"name": "gpus", "resourceClaimName": "own"})
    bench.allocate("own", pod)
    users = bench.one("resourceclaims", "own").obj["status"]["reservedFor"]
    other = {"apiGroup": "example.com", "resource": "things", "name": "t", "uid": "of-a-thing"}
    bench.say("resourceclaims", "own", reservedFor=[*users, other])

    bench.say("pods", "p", phase="Succeeded")

    await until(bench.cluster, lambda: len(bench.one("resourceclaims", "own").obj["status"]["reservedFor"]) == 1)
    assert bench.one("resourceclaims", "own").obj["status"]["reservedFor"] == [other]
    assert bench.one("resourceclaims", "own").obj["status"]["allocation"]


async def test_a_pod_that_is_leaving_its_node_keeps_its_devices_until_it_has_ended(bench):
    await bench.claim()
    entry = {"name": "gpus", "resourceClaimName": "own"}
    spec = {"containers": [{"name": "c", "image": "x"}], "resourceClaims": [entry], "nodeName": "elsewhere"}
    pod = await bench.create("pods", "p", spec, finalizers=["example.com/mine"])
    bench.allocate("own", pod)
    bench.local.remove(bench.resource("pods"), bench.one("pods", "p"))
    await bench.template()
    await bench.pod("q")
    await bench.made("q")  # so all that was noted before has been looked at
    assert bench.one("resourceclaims", "own").obj["status"]["reservedFor"]

    bench.say("pods", "p", phase="Failed")

    await until(bench.cluster, lambda: not bench.one("resourceclaims", "own").obj["status"])


async def test_a_claim_with_devices_and_no_users_goes_when_it_is_deleted(bench):
    await bench.claim()
    bench.allocate("own")

    bench.local.remove(bench.resource("resourceclaims"), bench.one("resourceclaims", "own"))

    await bench.gone("resourceclaims", "own")


async def test_a_hollow_kubelet_starts_nothing_without_its_devices(bench):
    await bench.claim()
    user = await bench.pod(entry={"name": "gpus", "resourceClaimName": "own"}, node="node-0000")
    await asyncio.sleep(0)
    assert bench.one("pods", "p").obj["status"]["phase"] == "Pending"

    bench.allocate("own", user)

    await until(bench.cluster, lambda: bench.one("pods", "p").obj["status"]["phase"] == "Running")


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
