"""The resource claim controller of the embedded cluster: claims from templates, and what becomes of them."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.resources import PODS, RESOURCE_CLAIMS, APIResource
from tutti_sim.cluster import EmbeddedCluster

TEMPLATES = APIResource("resource.k8s.io", "v1", "resourceclaimtemplates")
FINALIZER = "resource.kubernetes.io/delete-protection"


@pytest.fixture
async def client():
    async with EmbeddedCluster(nodes=1, seed=1, controllers=["resource-claim", "garbage-collector"]) as embedded:
        access = Access(embedded.url, headers={"Authorization": f"Bearer {embedded.token}"})
        async with Client(Credentials.fixed(access)) as client:
            yield client


async def create(client, resource, name, **body):
    given = {"metadata": {"name": name}, **body}
    return json.loads(await client.request("POST", resource.path("default"), body=msgspec.json.encode(given)))


async def patch(client, path, body):
    return json.loads(await client.request("PATCH", path, body=msgspec.json.encode(body), content_type=MERGE_PATCH))


async def claims(client):
    found = json.loads(await client.request("GET", RESOURCE_CLAIMS.path("default")))
    return {one["metadata"]["name"]: one for one in found["items"]}


async def until(so):
    async with asyncio.timeout(20):
        while not (found := await so()):  # noqa: ASYNC110 - what is asked is behind HTTP
            await asyncio.sleep(0.02)
    return found


async def template(client):
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    await create(client, TEMPLATES, "t", spec={"spec": {"devices": {"requests": [request]}}})


async def pod(client, name="p"):
    entry = {"name": "gpus", "resourceClaimTemplateName": "t"}
    containers = [{"name": "c", "image": "x"}]
    return await create(client, PODS, name, spec={"containers": containers, "resourceClaims": [entry]})


async def made(client, name="p"):
    """The claim of a pod, once its status says which."""

    async def so():
        found = json.loads(await client.request("GET", PODS.path("default", name)))
        said = found["status"].get("resourceClaimStatuses")
        return said and (await claims(client))[said[0]["resourceClaimName"]]

    return await until(so)


async def allocate(client, claim, user):
    path = RESOURCE_CLAIMS.path("default", claim["metadata"]["name"])
    await patch(client, path, {"metadata": {"finalizers": [FINALIZER]}})
    device = {"request": "r", "driver": "d", "pool": "p", "device": "0"}
    users = [{"resource": "pods", "name": user["metadata"]["name"], "uid": user["metadata"]["uid"]}]
    status = {"allocation": {"devices": {"results": [device]}}, "reservedFor": users}
    await patch(client, f"{path}/status", {"status": status})


async def test_a_pod_gets_a_claim_from_its_template(client):
    await template(client)
    user = await pod(client)

    claim = await made(client)

    owner = claim["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", user["metadata"]["uid"], True)
    assert claim["metadata"]["name"].startswith("p-gpus-")
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    assert len(await claims(client)) == 1


async def test_a_template_that_comes_later_is_not_missed(client):
    await pod(client)
    assert await claims(client) == {}

    await template(client)

    assert await made(client)


async def test_a_claim_loses_its_devices_with_the_last_pod_that_uses_it(client):
    user = await pod(client)
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    claim = await create(client, RESOURCE_CLAIMS, "own", spec={"devices": {"requests": [request]}})
    await allocate(client, claim, user)
    assert (await claims(client))["own"]["status"]["allocation"]

    await patch(client, f"{PODS.path('default', 'p')}/status", {"status": {"phase": "Succeeded"}})
    await patch(client, RESOURCE_CLAIMS.path("default", "own"), {"metadata": {"labels": {"look": "again"}}})

    async def freed():
        found = (await claims(client))["own"]
        return not found["status"].get("allocation") and not found["metadata"].get("finalizers")

    await until(freed)


async def test_a_claim_without_users_keeps_what_it_has(client):
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    await create(client, RESOURCE_CLAIMS, "own", spec={"devices": {"requests": [request]}})
    path = RESOURCE_CLAIMS.path("default", "own")
    await patch(client, path, {"metadata": {"finalizers": [FINALIZER]}})
    await template(client)
    await pod(client)
    await made(client)

    assert (await claims(client))["own"]["metadata"]["finalizers"] == [FINALIZER]


async def test_a_claim_that_was_made_for_a_pod_goes_when_that_is_done(client):
    await template(client)
    user = await pod(client)
    await allocate(client, await made(client), user)

    await patch(client, f"{PODS.path('default', 'p')}/status", {"status": {"phase": "Succeeded"}})

    async def gone():
        return not await claims(client)

    await until(gone)
