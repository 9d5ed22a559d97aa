"""Claims for extended resources are made once, told of, and removed for good, unless their pod is bound."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from tutti.api.devices import DELETE_PROTECTION, AllocatedDevice, Allocation, DeviceAllocation
from tutti.engine.records.decisions import WriteDeviceClaim, WriteExtendedClaim
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.device_claims import ClaimTurns, DeviceClaimWriter
from tutti.kube.errors import ApiError
from tutti.kube.extended_claims import ExtendedClaimWriter
from tutti.kube.fencing import LeadershipLost, unfenced
from tutti.kube.resources import PODS, RESOURCE_CLAIMS
from tutti_sim.cluster import EmbeddedCluster

NAME = "p-extended-resources-0123456789"
PATH = RESOURCE_CLAIMS.path("default", NAME)
REQUESTS = [("container-0-request-1", "gpu", 2)]
MAPPINGS = [(0, "example.com/gpu", "container-0-request-1")]


@pytest.fixture
async def client():
    """A cluster in which nobody else looks after claims."""
    async with EmbeddedCluster(nodes=1, seed=1, controllers=False) as embedded:
        access = Access(embedded.url, headers={"Authorization": f"Bearer {embedded.token}"})
        async with Client(Credentials.fixed(access)) as client:
            yield client


async def pod(client, **spec):
    resources = {"requests": {"example.com/gpu": "2"}, "limits": {"example.com/gpu": "2"}}
    body = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "x", "resources": resources}], **spec},
    }
    answer = json.loads(await client.request("POST", PODS.path("default"), body=msgspec.json.encode(body)))
    return answer["metadata"]["name"], answer["metadata"]["uid"]


async def read(client, path=PATH):
    return json.loads(await client.request("GET", path))


async def patch(client, path, body):
    return json.loads(await client.request("PATCH", path, body=msgspec.json.encode(body), content_type=MERGE_PATCH))


def make(of):
    return WriteExtendedClaim("default", NAME, "", "make", of, requests=REQUESTS)


async def test_a_claim_is_made_once_however_often_it_is_asked_for(client):
    of = await pod(client)
    writer = ExtendedClaimWriter(client, fence=unfenced, turns=ClaimTurns())

    assert (await writer.write(make(of))).done
    found = await read(client)
    assert (await writer.write(make(of))).done  # as after an answer that was lost
    assert await read(client) == found
    assert found["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert found["metadata"]["finalizers"] == [DELETE_PROTECTION]  # which another write would have to add
    assert [(one["name"], one["uid"], one["controller"]) for one in found["metadata"]["ownerReferences"]] == [
        (*of, True)
    ]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    assert found["spec"]["devices"]["requests"] == [{"name": REQUESTS[0][0], "exactly": exactly}]


async def test_a_claim_of_that_name_that_is_anothers_is_left_alone(client):
    of = await pod(client)
    writer = ExtendedClaimWriter(client, fence=unfenced, turns=ClaimTurns())
    await writer.write(make(("q", "uid-of-q")))

    result = await writer.write(make(of))

    assert (result.done, result.message) == (False, "another claim has its name")


@pytest.mark.parametrize(("known", "said"), [((), "c"), (("as-it-was-seen",), "as-it-was-seen")])
async def test_a_pod_is_told_which_claim_it_has(client, known, said):
    """It is read for the names of its containers only where these are not known."""
    of = await pod(client)
    told = WriteExtendedClaim("default", NAME, "uid-of-claim", "tell", of, mappings=MAPPINGS, containers=known)

    assert (await ExtendedClaimWriter(client, fence=unfenced, turns=ClaimTurns()).write(told)).done

    status = (await read(client, PODS.path("default", "p")))["status"]["extendedResourceClaimStatus"]
    mapping = {"containerName": said, "resourceName": "example.com/gpu", "requestName": "container-0-request-1"}
    assert status == {"resourceClaimName": NAME, "requestMappings": [mapping]}


async def test_another_pod_of_that_name_is_told_nothing(client):
    name, _ = await pod(client)
    told = WriteExtendedClaim("default", NAME, "uid-of-claim", "tell", (name, "another"), mappings=MAPPINGS)

    assert not (await ExtendedClaimWriter(client, fence=unfenced, turns=ClaimTurns()).write(told)).done
    assert "extendedResourceClaimStatus" not in (await read(client, PODS.path("default", "p")))["status"]


async def removable(client, of):
    """A claim that has devices, and the decision to remove it."""
    await ExtendedClaimWriter(client, fence=unfenced, turns=ClaimTurns()).write(make(of))
    found = await patch(client, PATH, {"metadata": {"finalizers": [DELETE_PROTECTION]}})
    results = [{"request": REQUESTS[0][0], "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}]
    users = [{"resource": "pods", "name": of[0], "uid": of[1]}]
    await patch(
        client, f"{PATH}/status", {"status": {"allocation": {"devices": {"results": results}}, "reservedFor": users}}
    )
    return WriteExtendedClaim("default", NAME, found["metadata"]["uid"], "remove", of)


async def test_a_claim_goes_with_its_devices(client):
    of = await pod(client)
    decision = await removable(client, of)
    writer = ExtendedClaimWriter(client, fence=unfenced, turns=ClaimTurns())

    assert (await writer.write(decision)).done
    with pytest.raises(ApiError, match="not found"):
        await read(client)
    assert (await writer.write(decision)).done  # as after an answer that was lost


async def test_a_claim_that_somebody_has_begun_to_delete_goes_at_last(client):
    of = await pod(client)
    decision = await removable(client, of)
    await client.request("DELETE", PATH, body=b"{}")
    assert (await read(client))["metadata"]["deletionTimestamp"]

    assert (await ExtendedClaimWriter(client, fence=unfenced, turns=ClaimTurns()).write(decision)).done
    with pytest.raises(ApiError, match="not found"):
        await read(client)


async def test_a_pod_that_is_bound_keeps_its_claim(client):
    of = await pod(client, nodeName="hollow-0")
    decision = await removable(client, of)

    result = await ExtendedClaimWriter(client, fence=unfenced, turns=ClaimTurns()).write(decision)

    assert (result.done, result.message) == (False, "pod p is bound, and uses it")
    assert await read(client)


async def test_another_claim_of_that_name_is_not_removed(client):
    of = await pod(client)
    decision = await removable(client, of)
    other = msgspec.structs.replace(decision, uid="another")

    assert (await ExtendedClaimWriter(client, fence=unfenced, turns=ClaimTurns()).write(other)).done
    assert await read(client)


async def test_nothing_is_written_by_who_may_not_any_more(client):
    of = await pod(client)

    def lost():
        raise LeadershipLost("another leads")

    with pytest.raises(LeadershipLost):
        await ExtendedClaimWriter(client, fence=lost, turns=ClaimTurns()).write(make(of))
    with pytest.raises(ApiError, match="not found"):
        await read(client)


async def test_a_claim_is_removed_after_what_was_begun_before_on_it(client, monkeypatch):
    of = await pod(client)
    turns, asked = ClaimTurns(), []
    await ExtendedClaimWriter(client, fence=unfenced, turns=turns).write(make(of))
    meta = (await read(client))["metadata"]
    given = Allocation(DeviceAllocation([AllocatedDevice(REQUESTS[0][0], "gpu.example.com", "n", "gpu-0")]))
    allocate = WriteDeviceClaim("default", NAME, meta["uid"], "allocate", meta["resourceVersion"], given, [of])
    request, write = Client.request, Client.write

    async def sent(self, method, path, **more):
        asked.append((method, path))
        return await request(self, method, path, **more)

    async def written(self, level, method, path, **more):
        asked.append((method, path))
        return await write(self, level, method, path, **more)

    monkeypatch.setattr(Client, "request", sent)
    monkeypatch.setattr(Client, "write", written)
    results = await asyncio.gather(
        DeviceClaimWriter(client, fence=unfenced, turns=turns).write(allocate),
        ExtendedClaimWriter(client, fence=unfenced, turns=turns).write(
            WriteExtendedClaim("default", NAME, meta["uid"], "remove", of)
        ),
    )

    assert [one.done for one in results] == [True, True]
    assert asked.index(("PATCH", f"{PATH}/status")) < asked.index(("GET", PODS.path("default", "p")))
    with pytest.raises(ApiError, match="not found"):
        await read(client)
