"""Requests and templates are made once, also after somebody was killed between any two writes, and removed together."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml

from tests.manifests.rbac import BASE
from tutti.api.core import Container, PodSpec, ResourceRequirements
from tutti.api.provisioning import WORKLOAD_LABEL, ProvisionedPods, read_request, template_spec
from tutti.api.selectors import Toleration
from tutti.engine.records.decisions import CreateProvisioning, DeleteProvisioning
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.errors import ApiError
from tutti.kube.fencing import LeadershipLost, unfenced
from tutti.kube.provisioning_writer import POD_TEMPLATES, PROVISIONING_REQUESTS, ProvisioningWriter
from tutti_sim.cluster import EmbeddedCluster

DEFINITION = BASE.parents[1] / "examples" / "provisioning" / "provisioningrequests.yaml"
GPUS = ResourceRequirements({"cpu": "1", "nvidia.com/gpu": "2"})


def pods(count: int, cpu: str = "1") -> ProvisionedPods:
    resources = ResourceRequirements({"cpu": cpu, "nvidia.com/gpu": "2"})
    spec = PodSpec(containers=[Container(resources=resources)], tolerations=[Toleration("a", "Exists")])
    spot = Toleration(key="spot", operator="Exists", effect="NoSchedule")
    return ProvisionedPods(count, template_spec(spec, [("pool", "spot")], [spot], "tutti"), {"app": "train"})


WANTED = CreateProvisioning(
    "default", "train-0123456789-1", ("PodGroup", "train", "u-1"), "check-capacity.autoscaling.x-k8s.io",
    [pods(2), pods(1, "4")], {"ValidUntilSeconds": "60"},
)  # fmt: skip


@pytest.fixture
async def client():
    """A cluster that serves ProvisioningRequests, in which nobody collects what has no owner."""
    async with EmbeddedCluster(nodes=1, seed=1, controllers=False) as embedded:
        access = Access(embedded.url, headers={"Authorization": f"Bearer {embedded.token}"})
        async with Client(Credentials.fixed(access)) as client:
            body = msgspec.json.encode(yaml.safe_load(DEFINITION.read_text(encoding="utf-8")))
            await client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=body)
            while True:
                try:
                    await client.request("GET", PROVISIONING_REQUESTS.path())
                except ApiError:
                    continue
                break
            yield client


async def named(*_: str) -> bool:
    return True


def writer(client, fence=unfenced, is_named=named):
    return ProvisioningWriter(client, is_named=is_named, fence=fence)


async def read(client, resource, name) -> dict[str, Any] | None:
    try:
        return json.loads(await client.request("GET", resource.path("default", name)))
    except ApiError as error:
        if error.status != 404:
            raise
        return None


async def post(client, resource, body):
    await client.request("POST", resource.path("default"), body=msgspec.json.encode(body))


async def test_templates_and_request_are_made_and_belong_to_the_workload(client):
    answer = await writer(client).write(WANTED)
    assert (answer.problem, answer.final, answer.owner) == ("", False, ("PodGroup", "train"))
    request = await read(client, PROVISIONING_REQUESTS, WANTED.name)
    names = [one["podTemplateRef"]["name"] for one in request["spec"]["podSets"]]
    assert names == [f"{WANTED.name}-0", f"{WANTED.name}-1"]
    assert [one["count"] for one in request["spec"]["podSets"]] == [2, 1]
    template = await read(client, POD_TEMPLATES, names[0])
    spec = template["template"]["spec"]
    assert spec["nodeSelector"] == {"pool": "spot"}
    assert {one["key"] for one in spec["tolerations"]} == {"a", "spot"}
    assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert template["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert read_request(request).owner == ("PodGroup", "train", "u-1")


@pytest.mark.parametrize("left", [0, 1, 2, 3])
async def test_whoever_was_killed_between_two_writes_is_carried_on(client, left):
    await writer(client).write(WANTED)
    before = {}
    made = [(POD_TEMPLATES, f"{WANTED.name}-0"), (POD_TEMPLATES, f"{WANTED.name}-1")]
    made.append((PROVISIONING_REQUESTS, WANTED.name))
    for resource, name in made[left:]:
        await client.request("DELETE", resource.path("default", name))
    for resource, name in made[:left]:
        before[name] = (await read(client, resource, name))["metadata"]["uid"]
    answer = await writer(client).write(WANTED)
    assert answer.problem == ""
    for resource, name in made:
        found = await read(client, resource, name)
        assert before.get(name, found["metadata"]["uid"]) == found["metadata"]["uid"]


@pytest.mark.parametrize(
    "template",
    [
        {"spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1000"}}}]}},
        {"metadata": {"labels": {"app": "other"}}, "spec": msgspec.to_builtins(pods(2).spec)},
        {"spec": msgspec.to_builtins(pods(2).spec) | {"nodeSelector": {"pool": "dear"}}},
    ],
)
async def test_a_template_that_asks_for_other_nodes_is_told_and_nothing_is_asked_for(client, template):
    meta = {"name": f"{WANTED.name}-0", "labels": {WORKLOAD_LABEL: "u-1"}}
    await post(client, POD_TEMPLATES, {"metadata": meta, "template": template})
    answer = await writer(client).write(WANTED)
    assert answer.final
    assert "asks for other nodes" in answer.problem
    assert await read(client, PROVISIONING_REQUESTS, WANTED.name) is None
    assert await read(client, POD_TEMPLATES, f"{WANTED.name}-0") is not None


async def test_a_request_of_somebody_else_is_left_to_him(client):
    sets = [{"count": 1, "podTemplateRef": {"name": "x"}}]
    spec = {"provisioningClassName": "a", "podSets": sets}
    body = {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": {"name": WANTED.name}}
    await post(client, PROVISIONING_REQUESTS, {**body, "spec": spec})
    answer = await writer(client).write(WANTED)
    assert answer.final
    assert "somebody else has made it" in answer.problem
    assert await read(client, PROVISIONING_REQUESTS, WANTED.name) is not None
    for index in range(2):  # nothing asks for them
        assert await read(client, POD_TEMPLATES, f"{WANTED.name}-{index}") is None


async def test_all_of_it_is_removed_and_a_successor_of_the_name_is_not(client):
    await writer(client).write(WANTED)
    request = await read(client, PROVISIONING_REQUESTS, WANTED.name)
    late = await writer(client).write(DeleteProvisioning("default", WANTED.name, "another"))
    assert late.problem == ""
    assert await read(client, PROVISIONING_REQUESTS, WANTED.name) is not None
    assert await read(client, POD_TEMPLATES, f"{WANTED.name}-0") is not None
    uid = request["metadata"]["uid"]
    for _ in range(2):  # what is gone already is as good as done
        answer = await writer(client).write(DeleteProvisioning("default", WANTED.name, uid))
        assert (answer.problem, answer.uid) == ("", uid)
    assert await read(client, PROVISIONING_REQUESTS, WANTED.name) is None
    assert await read(client, POD_TEMPLATES, f"{WANTED.name}-0") is None
    assert await read(client, POD_TEMPLATES, f"{WANTED.name}-1") is None


@pytest.mark.parametrize("gone", [1, 2])
async def test_templates_are_removed_whose_request_has_gone_already(client, gone):
    await writer(client).write(WANTED)
    uid = (await read(client, PROVISIONING_REQUESTS, WANTED.name))["metadata"]["uid"]
    for resource, name in [(PROVISIONING_REQUESTS, WANTED.name), (POD_TEMPLATES, f"{WANTED.name}-1")][:gone]:
        await client.request("DELETE", resource.path("default", name))
    foreign = {"metadata": {"name": f"{WANTED.name}-2"}, "template": {"spec": msgspec.to_builtins(pods(1).spec)}}
    await post(client, POD_TEMPLATES, foreign)
    answer = await writer(client).write(DeleteProvisioning("default", WANTED.name, uid))
    assert answer.problem == ""
    assert await read(client, POD_TEMPLATES, f"{WANTED.name}-0") is None
    assert await read(client, POD_TEMPLATES, f"{WANTED.name}-1") is None
    assert await read(client, POD_TEMPLATES, f"{WANTED.name}-2") is not None, "nobody here has made it"


async def test_nothing_is_made_before_the_status_of_the_workload_names_it(client):
    asked = []

    async def unnamed(*about: str) -> bool:
        asked.append(about)
        return False

    answer = await writer(client, is_named=unnamed).write(WANTED)
    assert "which has to name it first" in answer.problem
    assert not answer.final
    assert asked == [("PodGroup", "default", "train", "u-1")]
    assert await read(client, POD_TEMPLATES, f"{WANTED.name}-0") is None


async def test_templates_without_a_request_are_removed_for_their_workload_alone(client):
    await writer(client).write(WANTED)
    await client.request("DELETE", PROVISIONING_REQUESTS.path("default", WANTED.name))
    for workload, left in (("another", True), ("u-1", False), ("u-1", False)):
        answer = await writer(client).write(DeleteProvisioning("default", WANTED.name, "", workload))
        assert (answer.problem, answer.owner, answer.uid) == ("", None, "")
        for index in range(2):
            assert (await read(client, POD_TEMPLATES, f"{WANTED.name}-{index}") is not None) is left


async def test_who_does_not_lead_writes_nothing(client):
    def lost() -> float:
        raise LeadershipLost("somebody else leads")

    with pytest.raises(LeadershipLost):
        await writer(client, lost).write(WANTED)
    assert await read(client, POD_TEMPLATES, f"{WANTED.name}-0") is None


async def test_a_right_that_is_missing_is_named(serve, kube):
    async def refuse(request):
        return kube.status(403, "Forbidden", "no")

    server = await serve(refuse)
    answer = await writer(server.client).write(WANTED)
    assert "component provisioning-requests" in answer.problem
    assert not answer.final
