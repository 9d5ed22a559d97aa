"""A node is locked for one pod as HAMi's scheduler locks it, and nobody's lock is written over that still counts."""

from __future__ import annotations

import json

import msgspec
import pytest

from tutti.api.hami import ALLOCATED, LOCK, NODE, REGISTER
from tutti.engine.records.decisions import Bind, CardLock
from tutti.kube.binder import Binder, BindOutcome
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.fencing import unfenced
from tutti.kube.node_lock import unlock_node
from tutti.kube.resources import NODES, PODS
from tutti_sim.cluster import EmbeddedCluster

MINE = "2026-01-01T00:00:00Z,default,p"
LOCKED = CardLock(MINE)


@pytest.fixture
async def client():
    """A cluster in which nobody else looks after pods."""
    async with EmbeddedCluster(nodes=1, seed=1, controllers=False) as embedded:
        access = Access(embedded.url, headers={"Authorization": f"Bearer {embedded.token}"})
        async with Client(Credentials.fixed(access)) as client:
            yield client


async def node(client):
    return json.loads(await client.request("GET", NODES.path(None)))["items"][0]


async def lock(client):
    return (await node(client))["metadata"].get("annotations", {}).get(LOCK)


async def locked(client, text):
    path = NODES.path(None, (await node(client))["metadata"]["name"])
    body = msgspec.json.encode({"metadata": {"annotations": {LOCK: text}}})
    await client.request("PATCH", path, body=body, content_type=MERGE_PATCH)


async def pod(client, name):
    spec = {"schedulerName": "x", "containers": [{"name": "c", "image": "i"}]}
    body = msgspec.json.encode({"metadata": {"name": name}, "spec": spec})
    return json.loads(await client.request("POST", PODS.path("default"), body=body))


async def bound(client, *, uid="", card_lock=LOCKED):
    """Bind pod p with the lock of its node; returns what became of it."""
    found = await pod(client, "p")
    where = (await node(client))["metadata"]["name"]
    about = ("default", "p", uid or found["metadata"]["uid"], where)
    return await Binder(client, fence=unfenced).bind(Bind(*about, card_lock=card_lock))


async def test_a_pod_is_bound_with_its_node_locked_and_itself_labelled(client):
    assert (await bound(client)).outcome is BindOutcome.BOUND
    assert await lock(client) == MINE
    found = json.loads(await client.request("GET", PODS.path("default", "p")))
    assert found["metadata"]["labels"][NODE] == found["spec"]["nodeName"]


async def test_the_lock_of_a_pod_that_exists_stays_and_nothing_is_bound(client):
    await pod(client, "q")
    await locked(client, "2026-01-01T00:00:00Z,default,q")
    result = await bound(client)
    assert result.outcome is BindOutcome.FAILED
    assert "locked for pod default/q" in result.message
    assert await lock(client) == "2026-01-01T00:00:00Z,default,q"


@pytest.mark.parametrize(
    ("found", "replaces"),
    [
        ("2026-01-01T00:00:00Z,default,gone", ""),
        ("2026-01-01T00:00:00Z,default,q", "2026-01-01T00:00:00Z,default,q"),
        ("nonsense", "nonsense"),
    ],
)
async def test_a_lock_of_nobody_and_one_that_was_decided_on_give_way(client, found, replaces):
    await pod(client, "q")
    await locked(client, found)
    assert (await bound(client, card_lock=CardLock(MINE, replaces))).outcome is BindOutcome.BOUND
    assert await lock(client) == MINE


@pytest.mark.parametrize("found", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z,default,", "2026-01-01T00:00:00Z,,q"])
async def test_a_lock_that_names_no_pod_stays_until_it_is_decided_that_it_is_too_old(client, found):
    """HAMi before 2.4 locks a node for no pod: it cannot be asked whether that is gone (pkg/util/nodelock)."""
    await locked(client, found)
    result = await bound(client)
    assert result.outcome is BindOutcome.FAILED
    assert await lock(client) == found


async def test_a_lock_that_the_pod_has_from_an_earlier_attempt_is_not_in_its_way(client):
    before = "2025-12-31T23:59:00Z,default,p"
    await locked(client, before)
    assert (await bound(client)).outcome is BindOutcome.BOUND
    assert await lock(client) == before


async def test_nobody_takes_off_the_lock_of_another(client):
    await pod(client, "q")
    theirs = "2026-01-01T00:00:00Z,default,q"
    await locked(client, theirs)
    where = (await node(client))["metadata"]["name"]
    await unlock_node(client, Bind("default", "p", "uid", where, card_lock=LOCKED), fence=unfenced)
    assert await lock(client) == theirs


async def test_a_pod_that_is_not_bound_gives_the_lock_back(client):
    result = await bound(client, uid="another")
    assert result.outcome not in (BindOutcome.BOUND, BindOutcome.ALREADY_HERE)
    assert await lock(client) is None


CARD = {"id": "GPU-0", "count": 4, "devmem": 16000, "devcore": 100, "health": True, "mode": "hami-core"}


async def given_to(client, name, parts, *, memory="3000"):
    """HAMi's own scheduler binds a pod with parts of cards."""
    where = (await node(client))["metadata"]["name"]
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": memory}
    said = {NODE: where, ALLOCATED: parts}
    spec = {
        "schedulerName": "hami-scheduler",
        "nodeName": where,
        "containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}],
    }
    body = msgspec.json.encode({"metadata": {"name": name, "annotations": said}, "spec": spec})
    return json.loads(await client.request("POST", PODS.path("default"), body=body))["metadata"]["uid"]


async def with_cards(client, *cards):
    path = NODES.path(None, (await node(client))["metadata"]["name"])
    body = msgspec.json.encode({"metadata": {"annotations": {REGISTER: json.dumps(cards)}}})
    await client.request("PATCH", path, body=body, content_type=MERGE_PATCH)


FITS, TOO_MUCH = (3000, 100, 1), (2999, 100, 1)


@pytest.mark.parametrize(
    ("left", "seen", "parts", "outcome"),
    [
        (FITS, False, "GPU-0,NVIDIA,3000,0:;", BindOutcome.BOUND),
        (TOO_MUCH, False, "GPU-0,NVIDIA,3000,0:;", BindOutcome.FAILED),
        ((9000, 100, 0), False, "GPU-0,NVIDIA,3000,0:;", BindOutcome.FAILED),
        (TOO_MUCH, True, "GPU-0,NVIDIA,3000,0:;", BindOutcome.BOUND),
        (TOO_MUCH, False, "GPU-1,NVIDIA,3000,0:;", BindOutcome.BOUND),
        (FITS, False, "GPU-0,NVIDIA,16000,0:;", BindOutcome.BOUND),
    ],
    ids=["what is left is enough", "memory", "slots", "counted before", "another card", "no more than it asks for"],
)
async def test_what_others_were_given_unseen_is_not_promised(client, left, seen, parts, outcome):
    await with_cards(client, CARD)
    other = await given_to(client, "rival", parts)
    lock_of_p = CardLock(MINE, left={"GPU-0": left}, counted=(other,) if seen else ())
    result = await bound(client, card_lock=lock_of_p)
    assert result.outcome is outcome, result.message
    if outcome is BindOutcome.FAILED:
        assert "of card GPU-0 were given to others meanwhile" in result.message
        assert await lock(client) is None


@pytest.mark.parametrize(
    ("phase", "says", "outcome"),
    [
        ("Running", None, BindOutcome.FAILED),
        ("Succeeded", None, BindOutcome.BOUND),
        ("Failed", None, BindOutcome.BOUND),
        ("Running", "another-node", BindOutcome.BOUND),
    ],
)
async def test_cards_count_of_pods_that_have_not_ended_and_say_that_they_have_them_there(client, phase, says, outcome):
    """HAMi: use is the sum over pods that have not terminated, by the node that `hami.io/vgpu-node` says."""
    await with_cards(client, CARD)
    await given_to(client, "rival", "GPU-0,NVIDIA,3000,0:;")
    if says:
        body = msgspec.json.encode({"metadata": {"annotations": {NODE: says}}})
        await client.request("PATCH", PODS.path("default", "rival"), body=body, content_type=MERGE_PATCH)
    body = msgspec.json.encode({"status": {"phase": phase}})
    await client.request("PATCH", PODS.path("default", "rival") + "/status", body=body, content_type=MERGE_PATCH)
    result = await bound(client, card_lock=CardLock(MINE, left={"GPU-0": TOO_MUCH}))
    assert result.outcome is outcome, result.message


async def test_a_card_that_its_node_does_not_tell_of_any_more_is_not_promised(client):
    await with_cards(client, {**CARD, "id": "GPU-7"})
    result = await bound(client, card_lock=CardLock(MINE, left={"GPU-0": FITS}))
    assert result.outcome is BindOutcome.FAILED
    assert "does not tell of card GPU-0 any more" in result.message
    assert await lock(client) is None
