"""What was chosen for a claim is written, and nobody else's choice is written over."""

from __future__ import annotations

import json

import msgspec
import pytest

from tutti.kube.claims import ClaimWriter
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.fencing import LeadershipLost, unfenced
from tutti.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from tutti_sim.cluster import EmbeddedCluster

SELECTED = "volume.kubernetes.io/selected-node"


@pytest.fixture
async def client():
    """A cluster in which nobody binds claims or makes volumes."""
    async with EmbeddedCluster(nodes=1, seed=1, controllers=False) as embedded:
        access = Access(embedded.url, headers={"Authorization": f"Bearer {embedded.token}"})
        async with Client(Credentials.fixed(access)) as client:
            yield client


async def create(client, resource, body, namespace=None):
    answer = await client.request("POST", resource.path(namespace), body=msgspec.json.encode(body))
    return json.loads(answer)


async def claim(client, name="d"):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "c"}
    return await create(client, PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": spec}, "default")


async def volume(client, name="v", **spec):
    body = {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/"},
            **spec,
        },
    }
    return await create(client, PERSISTENT_VOLUMES, body)


async def patch(client, path, body):
    return json.loads(await client.request("PATCH", path, body=msgspec.json.encode(body), content_type=MERGE_PATCH))


async def read(client, path):
    return json.loads(await client.request("GET", path))


PATH = PERSISTENT_VOLUME_CLAIMS.path("default", "d")


async def test_the_chosen_node_is_written_on_the_claim(client):
    await create(client, STORAGE_CLASSES, {"metadata": {"name": "c"}, "provisioner": "csi.example.com"})
    meta = (await claim(client))["metadata"]

    result = await ClaimWriter(client, fence=unfenced).select_node(
        "default", "d", meta["uid"], "n1", version=meta["resourceVersion"]
    )

    now = (await read(client, PATH))["metadata"]
    assert now["annotations"][SELECTED] == "n1"
    assert (result.done, result.version) == (True, now["resourceVersion"])


async def test_a_claim_that_has_changed_otherwise_is_written_all_the_same(client):
    meta = (await claim(client))["metadata"]
    await patch(client, PATH, {"metadata": {"labels": {"changed": "yes"}}})

    result = await ClaimWriter(client, fence=unfenced).select_node(
        "default", "d", meta["uid"], "n1", version=meta["resourceVersion"]
    )

    now = (await read(client, PATH))["metadata"]
    assert (result.done, result.version) == (True, now["resourceVersion"])
    assert now["labels"] == {"changed": "yes"}
    assert now["annotations"][SELECTED] == "n1"


@pytest.mark.parametrize(
    ("change", "done", "message"),
    [
        ({"metadata": {"annotations": {SELECTED: "n1"}}}, True, ""),
        ({"metadata": {"annotations": {SELECTED: "n2"}}}, False, "node 'n2' was chosen for it"),
        ({"spec": {"volumeName": "v"}}, False, "it was bound to 'v'"),
    ],
)
async def test_what_others_have_decided_about_a_claim_stays(client, change, done, message):
    meta = (await claim(client))["metadata"]
    before = await patch(client, PATH, change)

    result = await ClaimWriter(client, fence=unfenced).select_node(
        "default", "d", meta["uid"], "n1", version=meta["resourceVersion"]
    )

    assert (result.done, result.message) == (done, message)
    assert await read(client, PATH) == before


async def test_the_successor_of_a_claim_is_left_alone(client):
    await claim(client)

    result = await ClaimWriter(client, fence=unfenced).select_node("default", "d", "another-uid", "n1", version="1")

    assert not result.done
    assert SELECTED not in (await read(client, PATH))["metadata"].get("annotations", {})


async def test_a_claim_that_is_gone_is_said_to_be(client):
    result = await ClaimWriter(client, fence=unfenced).select_node("default", "no", "uid", "n1", version="1")

    assert not result.done
    assert "404" in result.message


async def test_a_volume_is_given_to_a_claim(client):
    owner = (await claim(client))["metadata"]
    free = await volume(client)

    result = await ClaimWriter(client, fence=unfenced).reserve_volume(
        "default", "d", owner["uid"], "v", version=free["metadata"]["resourceVersion"]
    )

    now = await read(client, PERSISTENT_VOLUMES.path(None, "v"))
    reference = now["spec"]["claimRef"]
    assert (reference["kind"], reference["namespace"], reference["name"]) == ("PersistentVolumeClaim", "default", "d")
    assert reference["uid"] == owner["uid"]
    assert now["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert (result.done, result.version) == (True, now["metadata"]["resourceVersion"])


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"namespace": "default", "name": "other", "uid": "u"}, "volume 'v' is for claim default/other"),
        ({"namespace": "default", "name": "d", "uid": "u"}, "volume 'v' is for a claim of that name that is no more"),
    ],
)
async def test_a_volume_that_another_claim_has_is_left_to_it(client, reference, message):
    owner = (await claim(client))["metadata"]
    await volume(client, claimRef=reference)

    result = await ClaimWriter(client, fence=unfenced).reserve_volume("default", "d", owner["uid"], "v", version="1")

    assert (result.done, result.message) == (False, message)


async def test_a_volume_that_is_reserved_by_name_gets_the_uid(client):
    owner = (await claim(client))["metadata"]
    await volume(client, claimRef={"namespace": "default", "name": "d"})

    result = await ClaimWriter(client, fence=unfenced).reserve_volume("default", "d", owner["uid"], "v", version="1")

    assert result.done
    now = await read(client, PERSISTENT_VOLUMES.path(None, "v"))
    assert now["spec"]["claimRef"]["uid"] == owner["uid"]


async def test_a_deposed_leader_writes_nothing(client):
    def fence():
        raise LeadershipLost("another leads")

    meta = (await claim(client))["metadata"]
    with pytest.raises(LeadershipLost):
        await ClaimWriter(client, fence=fence).select_node(
            "default", "d", meta["uid"], "n1", version=meta["resourceVersion"]
        )
    assert SELECTED not in (await read(client, PATH))["metadata"].get("annotations", {})
