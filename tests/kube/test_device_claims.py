"""What claims get is written on them, and nobody else's choice is written over."""

from __future__ import annotations

import asyncio
import json

import msgspec
import pytest

from tutti.api.devices import DELETE_PROTECTION, AllocatedDevice, Allocation, DeviceAllocation
from tutti.engine.records.decisions import WriteDeviceClaim
from tutti.kube import device_claims
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.credentials import Access, Credentials
from tutti.kube.device_claims import ClaimTurns, DeviceClaimWriter
from tutti.kube.fencing import LeadershipLost, unfenced
from tutti.kube.resources import RESOURCE_CLAIMS
from tutti_sim.cluster import EmbeddedCluster

PATH = RESOURCE_CLAIMS.path("default", "c")
POD = ("p", "uid-of-p")
OTHER = ("q", "uid-of-q")
PROTECTED = pytest.mark.parametrize("finalizers", [[], [DELETE_PROTECTION]], ids=["", "with its finalizer"])


@pytest.fixture
async def client():
    """A cluster in which nobody else looks after claims."""
    async with EmbeddedCluster(nodes=1, seed=1, controllers=False) as embedded:
        access = Access(embedded.url, headers={"Authorization": f"Bearer {embedded.token}"})
        async with Client(Credentials.fixed(access)) as client:
            yield client


async def claim(client, *finalizers):
    """A claim that has nothing yet."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    body = {"metadata": {"name": "c", "finalizers": finalizers}, "spec": {"devices": {"requests": [request]}}}
    answer = await client.request("POST", RESOURCE_CLAIMS.path("default"), body=msgspec.json.encode(body))
    return json.loads(answer)


async def read(client):
    return json.loads(await client.request("GET", PATH))


async def patch(client, path, body):
    return json.loads(await client.request("PATCH", path, body=msgspec.json.encode(body), content_type=MERGE_PATCH))


def devices(name="gpu-0"):
    return Allocation(DeviceAllocation([AllocatedDevice("r", "gpu.example.com", "n", name)]))


def decision(found, change, *pods, allocation=None):
    meta = found["metadata"]
    about = ("default", "c", meta["uid"], change, meta["resourceVersion"], allocation, list(pods))
    return WriteDeviceClaim(*about, protected=DELETE_PROTECTION in meta.get("finalizers", []))


def user(name):
    return {"resource": "pods", "name": name, "uid": f"uid-of-{name}"}


def has(found):
    status = found.get("status", {})
    results = status.get("allocation", {}).get("devices", {}).get("results", [])
    return [one["device"] for one in results], [one["name"] for one in status.get("reservedFor", [])]


@PROTECTED
async def test_a_claim_gets_its_finalizer_its_devices_and_its_users(client, finalizers):
    made = await claim(client, *finalizers)
    writer = DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns())

    result = await writer.write(decision(made, "allocate", POD, allocation=devices()))

    found = await read(client)
    assert result.done
    assert result.version == found["metadata"]["resourceVersion"]
    assert found["metadata"]["finalizers"] == [DELETE_PROTECTION]
    assert has(found) == (["gpu-0"], ["p"])
    again = await writer.write(decision(made, "allocate", POD, allocation=devices()))
    assert again.done  # as after an answer that was lost


@PROTECTED
async def test_of_two_decisions_about_a_claim_the_later_one_stands(client, finalizers):
    """Taking away is one write and giving is two, so it would be done before there is anything to take away."""
    made = await claim(client, *finalizers)
    writer = DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns())
    decisions = [decision(made, "allocate", POD, allocation=devices()), decision(made, "free", POD)]

    results = await asyncio.gather(*(writer.write(one) for one in decisions))

    assert [one.done for one in results] == [True, True]
    assert has(await read(client)) == ([], [])


@PROTECTED
async def test_a_claim_that_has_changed_otherwise_is_written_nevertheless(client, finalizers):
    made = await claim(client, *finalizers)
    await patch(client, PATH, {"metadata": {"labels": {"by": "somebody"}}})

    result = await DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns()).write(
        decision(made, "allocate", POD, allocation=devices())
    )

    assert result.done
    assert (await read(client))["metadata"]["labels"] == {"by": "somebody"}


@PROTECTED
async def test_devices_that_somebody_else_gave_it_stay(client, finalizers):
    made = await claim(client, *finalizers)
    writer = DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns())
    await writer.write(decision(made, "allocate", OTHER, allocation=devices("gpu-7")))

    result = await writer.write(decision(made, "allocate", POD, allocation=devices()))

    assert (result.done, result.message) == (False, "it got allocated elsewhere in the meantime")
    assert has(await read(client)) == (["gpu-7"], ["q"])
    freed = await writer.write(decision(made, "free", POD))
    assert (freed.done, freed.message) == (False, "somebody else uses it")


async def test_more_pods_may_use_what_a_claim_has(client):
    made = await claim(client)
    writer = DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns())
    lacking = await writer.write(decision(made, "reserve", POD))
    assert (lacking.done, lacking.message) == (False, "it has lost its devices")
    await writer.write(decision(made, "allocate", OTHER, allocation=devices()))

    result = await writer.write(decision(made, "reserve", POD))

    assert result.done
    assert has(await read(client)) == (["gpu-0"], ["q", "p"])


@pytest.mark.parametrize("meddled", [False, True])
async def test_more_pods_are_added_in_one_request_where_the_claim_is_as_it_was_decided_by(client, monkeypatch, meddled):
    made = await claim(client)
    writer = DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns())
    await writer.write(decision(made, "allocate", OTHER, allocation=devices()))
    given = await read(client)
    if meddled:
        await patch(client, f"{PATH}/status", {"status": {"reservedFor": [user("r"), user("q")]}})
    asked = []
    request = Client.request

    async def sent(self, method, path, **more):
        asked.append((method, path.removeprefix(PATH)))
        return await request(self, method, path, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Client, "request", sent)
        result = await writer.write(decision(given, "reserve", POD, ("s", "uid-of-s")))

    found = await read(client)
    assert result.done
    assert result.version == found["metadata"]["resourceVersion"]
    given_to, users = has(found)
    assert (given_to, sorted(users)) == (["gpu-0"], ["p", "q", "r", "s"] if meddled else ["p", "q", "s"])
    assert asked == ([("GET", "")] if meddled else [])  # it is read only where somebody came between


async def test_nobody_is_added_to_a_claim_that_has_other_devices_by_now(client):
    made = await claim(client)
    writer = DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns())
    await writer.write(decision(made, "allocate", OTHER, allocation=devices()))
    given = await read(client)
    await patch(client, f"{PATH}/status", {"status": {"allocation": None, "reservedFor": None}})

    result = await writer.write(decision(given, "reserve", POD))

    assert (result.done, result.message) == (False, "it has lost its devices")
    assert has(await read(client)) == ([], [])


async def test_what_was_given_is_taken_away_again(client):
    made = await claim(client)
    writer = DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns())
    await writer.write(decision(made, "allocate", POD, allocation=devices()))

    result = await writer.write(decision(made, "free", POD))

    assert result.done
    assert has(await read(client)) == ([], [])
    await writer.write(decision(made, "allocate", OTHER, allocation=devices("gpu-7")))
    await patch(client, f"{PATH}/status", {"status": {"reservedFor": None}})
    kept = await writer.write(decision(made, "free", POD))
    assert (kept.done, kept.message) == (False, "somebody else has given it devices")


async def test_another_claim_of_the_name_is_left_alone(client):
    made = await claim(client)
    gone = {**made, "metadata": {**made["metadata"], "uid": "another"}}

    result = await DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns()).write(
        decision(gone, "allocate", POD, allocation=devices())
    )

    assert (result.done, result.message) == (False, "it was deleted")
    assert has(await read(client)) == ([], [])


async def test_nothing_is_written_without_the_lease(client):
    made = await claim(client)

    def lost():
        raise LeadershipLost("another leads")

    with pytest.raises(LeadershipLost):
        await DeviceClaimWriter(client, fence=lost, turns=ClaimTurns()).write(
            decision(made, "allocate", POD, allocation=devices())
        )
    assert has(await read(client)) == ([], [])


@pytest.mark.parametrize(
    ("finalizers", "writes"),
    [
        (["example.com/mine"], [("PATCH", ""), ("PATCH", "/status")]),
        (["example.com/mine", DELETE_PROTECTION], [("PATCH", "/status")]),
    ],
)
async def test_a_claim_is_given_devices_without_reading_it(client, monkeypatch, finalizers, writes):
    asked = []

    async def sent(self, method, path, **more):
        asked.append((method, path.removeprefix(PATH)))
        return await request(self, method, path, **more)

    async def written(self, level, method, path, **more):
        asked.append((method, path.removeprefix(PATH)))
        return await write(self, level, method, path, **more)

    made = await claim(client, *finalizers)
    request, write = Client.request, Client.write
    monkeypatch.setattr(Client, "request", sent)
    monkeypatch.setattr(Client, "write", written)
    writer = DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns())

    assert (await writer.write(decision(made, "allocate", POD, allocation=devices()))).done

    assert asked == writes
    found = await read(client)
    assert sorted(found["metadata"]["finalizers"]) == ["example.com/mine", DELETE_PROTECTION]
    assert has(found) == (["gpu-0"], ["p"])


@pytest.mark.parametrize(("times", "done", "message"), [(3, True, ""), (100, False, "it changes too often")])
async def test_a_write_that_somebody_gets_in_the_way_of_is_tried_again_a_few_times(
    client, monkeypatch, times, done, message
):
    """Whatever comes between the read and the write has the API server refuse the latter (409)."""
    made = await claim(client)
    write, left = Client.write, [times]

    async def overtaken(self, level, method, path, **more):
        if path.endswith("/status") and left[0]:
            left[0] -= 1
            await patch(client, PATH, {"metadata": {"labels": {"by": f"somebody-{left[0]}"}}})
        return await write(self, level, method, path, **more)

    monkeypatch.setattr(Client, "write", overtaken)
    result = await DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns()).write(
        decision(made, "allocate", POD, allocation=devices())
    )

    assert (result.done, result.message) == (done, message)
    assert has(await read(client)) == ((["gpu-0"], ["p"]) if done else ([], []))


async def test_a_scheduler_that_gives_the_claim_devices_between_read_and_write_keeps_them(client, monkeypatch):
    made = await claim(client)
    write = Client.write

    async def overtaken(self, level, method, path, **more):
        if path.endswith("/status"):
            monkeypatch.undo()
            rival = DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns())
            assert (await rival.write(decision(made, "allocate", OTHER, allocation=devices("gpu-7")))).done
        return await write(self, level, method, path, **more)

    monkeypatch.setattr(Client, "write", overtaken)
    result = await DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns()).write(
        decision(made, "allocate", POD, allocation=devices())
    )

    assert (result.done, result.message) == (False, "it got allocated elsewhere in the meantime")
    assert has(await read(client)) == (["gpu-7"], ["q"])


@pytest.mark.parametrize(
    ("device", "pod"), [("gpu-0", OTHER), ("gpu-7", POD)], ids=["the same device for another", "another device for it"]
)
async def test_only_what_was_decided_counts_as_written(client, device, pod):
    made = await claim(client)
    writer = DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns())
    await writer.write(decision(made, "allocate", pod, allocation=devices(device)))

    result = await writer.write(decision(made, "allocate", POD, allocation=devices()))

    assert (result.done, result.message) == (False, "it got allocated elsewhere in the meantime")
    assert has(await read(client)) == ([device], [pod[0]])


async def test_who_is_missing_of_several_pods_is_added_though_others_are_there(client):
    """As after an answer that was lost, where more pods have come to share the claim meanwhile."""
    made = await claim(client)
    writer = DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns())
    await writer.write(decision(made, "allocate", OTHER, allocation=devices()))

    result = await writer.write(decision(made, "allocate", OTHER, POD, allocation=devices()))

    assert result.done
    assert has(await read(client)) == (["gpu-0"], ["q", "p"])


async def test_a_claim_that_is_being_deleted_gets_no_devices(client):
    made = await claim(client, "example.com/mine")
    await client.request("DELETE", PATH)

    result = await DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns()).write(
        decision(made, "allocate", POD, allocation=devices())
    )

    assert (result.done, result.message) == (False, "it was deleted")
    assert has(await read(client)) == ([], [])


async def test_what_the_server_refuses_for_another_reason_is_not_tried_again(client):
    made = await claim(client)
    asked = decision(made, "allocate", POD, allocation=devices("not a name"))

    result = await DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns()).write(asked)

    assert not result.done
    assert "422" in result.message or "invalid" in result.message
    assert has(await read(client)) == ([], [])


async def test_devices_that_nobody_uses_are_taken_away_where_the_claim_is_as_it_was_seen(client):
    made = await claim(client)
    writer = DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns())
    await writer.write(decision(made, "allocate", OTHER, allocation=devices()))
    seen = await patch(client, f"{PATH}/status", {"status": {"reservedFor": None}})

    result = await writer.write(decision(seen, "free"))

    assert result.done
    assert has(await read(client)) == ([], [])
    assert (await writer.write(decision(seen, "free"))).done  # as after an answer that was lost


async def test_a_finalizer_that_somebody_takes_off_meanwhile_is_put_on_again(client, monkeypatch):
    made = await claim(client)
    write = Client.write

    async def overtaken(self, level, method, path, **more):
        if path.endswith("/status"):
            monkeypatch.undo()
            await patch(client, PATH, {"metadata": {"finalizers": None}})
        return await write(self, level, method, path, **more)

    monkeypatch.setattr(Client, "write", overtaken)
    result = await DeviceClaimWriter(client, fence=unfenced, turns=ClaimTurns()).write(
        decision(made, "allocate", POD, allocation=devices())
    )

    found = await read(client)
    assert result.done
    assert found["metadata"]["finalizers"] == [DELETE_PROTECTION]
    assert has(found) == (["gpu-0"], ["p"])


def test_what_is_nested_deeply_in_a_claim_keeps_nobody_from_it():
    """Parameters of a driver, which whoever makes the claim writes as he likes."""
    parameters = {"a": "deep"}
    claim = {
        "metadata": {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "7"},
        "spec": {"devices": {"config": [{"opaque": {"driver": "example.com", "parameters": parameters}}]}},
    }
    raw = json.dumps(claim).replace('"deep"', "[" * 4000 + "]" * 4000).encode()
    for read in (device_claims._CLAIM, device_claims._WRITTEN):
        assert read(raw).metadata.resource_version == "7"
