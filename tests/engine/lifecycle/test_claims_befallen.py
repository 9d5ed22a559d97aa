"""What befalls claims between the choice and the bind: lost writes, meddlers, drivers that are late, and deadlines."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from tests.engine.devices import asks_for, decoded, resource_slice
from tests.engine.gangs_with_devices import gang, replays, with_devices
from tests.engine.world import World
from tutti.api.devices import (
    AllocatedDeviceStatus,
    ClaimConsumer,
    DeviceCondition,
    ResourceClaim,
)
from tutti.cluster.devices.claims import BINDING_SECONDS


def test_what_cannot_be_written_is_given_back_and_tried_again():
    world = with_devices()
    world.devices.conflicts = {"g-1"}
    gang(world)
    world.run()

    assert world.where() == {}
    why = world.why("PodGroup", "g")
    assert (why.gate, why.reason) == ("Permit", "DeviceAllocationFailed")
    assert "claim default/g-1 could not be written: somebody else was first" in why.message
    assert world.devices.taken() == []

    world.devices.conflicts = set()
    world.until(60)
    assert len(world.where()) == 3
    assert len(world.devices.taken()) == len(set(world.devices.taken())) == 24
    assert replays(world)


def test_a_device_that_another_scheduler_takes_meanwhile_is_left_to_it():
    world = with_devices(nodes=1, count=2)
    world.devices.held = True
    world.devices.make_claim("ours", asks_for(1))
    world.pod("ours", gpus=0, device_claims=("ours",))
    world.run()
    theirs = {"results": [{"request": "r", "driver": "gpu.example.com", "pool": "n0", "device": "gpu-0"}]}
    allocated(world, "theirs", theirs)
    world.devices.held = False
    world.devices.write()
    world.until(60)

    assert world.where() == {"ours": "n0"}
    assert world.devices.results("theirs") == ["n0/gpu-0"]
    assert world.devices.results("ours") == ["n0/gpu-1"]


def test_a_pod_is_bound_where_its_claim_has_devices_though_somebody_gave_it_others_meanwhile():
    """Before the answer to what was decided comes: the claim says already that the pod uses it, with another node."""
    world = with_devices(nodes=2, count=2)
    world.devices.held = True
    world.devices.make_claim("ours", asks_for(1))
    pod = world.pod("ours", gpus=0, device_claims=("ours",))
    world.run()
    (decided,) = world.devices._waiting
    ours = decided.allocation.devices.results[0].pool
    theirs = {"request": "r", "driver": "gpu.example.com", "pool": "n1" if ours == "n0" else "n0", "device": "gpu-0"}
    user = {"resource": "pods", "name": "ours", "uid": pod.metadata.uid}
    raw = {
        "metadata": {"name": "ours", "namespace": "default", "uid": "claim-ours"},
        "spec": asks_for(1),
        "status": {"allocation": {"devices": {"results": [theirs]}}, "reservedFor": [user]},
    }
    world.devices.put(decoded(raw, ResourceClaim))
    world.run()
    assert world.where() == {}
    assert "got allocated elsewhere in the meantime" in world.why("Pod", "ours").message

    world.devices.held = False
    world.devices.write()
    world.until(60)
    assert world.devices.results("ours")[0].split("/")[0] == world.where()["ours"]


def allocated(world: World, name: str, devices: dict, **status) -> None:
    """A claim that somebody else has given devices."""
    raw = {
        "metadata": {"name": name, "namespace": "default", "uid": f"claim-{name}"},
        "spec": asks_for(1),
        "status": {"allocation": {"devices": devices, **status}},
    }
    world.devices.put(decoded(raw, ResourceClaim))


@pytest.mark.parametrize("backwards", [False, True])
def test_an_operator_that_died_between_claim_and_bind_goes_on(backwards):
    world = with_devices()
    world.hold_binds = True
    gang(world)
    world.run()
    before = {rank: world.devices.results(f"g-{rank}") for rank in range(3)}
    assert all(before.values())

    world.hold_binds = False
    world.restart(backwards=backwards)
    world.run()

    assert len(world.where()) == 3
    assert {rank: world.devices.results(f"g-{rank}") for rank in range(3)} == before
    assert all(world.where()[f"g-{rank}"] == before[rank][0].split("/")[0] for rank in before)


def test_an_operator_that_died_amid_writes_gives_no_device_twice():
    world = with_devices()
    world.devices.held = True
    gang(world)
    world.run()
    half = world.devices._waiting.pop()
    world.devices.write()
    assert len(set(world.devices.taken())) == 16

    world.devices.held = False
    world.restart()
    world.until(60)

    assert len(world.where()) == 3
    assert len(world.devices.taken()) == len(set(world.devices.taken())) == 24
    assert half.change == "allocate"


def claimed_on_a_node_that_is_gone(world: World) -> None:
    """A claim `mine` whose devices are where no pod can go."""
    where = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]}
    result = {"request": "r", "driver": "gpu.example.com", "pool": "gone", "device": "gpu-0"}
    allocated(world, "mine", {"results": [result]}, nodeSelector=where)


def test_devices_that_keep_a_pod_off_every_node_are_taken_away_from_its_claim():
    world = with_devices(nodes=2)
    claimed_on_a_node_that_is_gone(world)
    world.pod("p", gpus=0, device_claims=("mine",))
    world.until(60)

    assert len(world.where()) == 1
    assert world.devices.results("mine")[0].startswith(world.where()["p"])


def test_devices_that_could_not_be_taken_away_are_taken_away_later():
    """A write that failed is over: the claim is not taken for one that is losing its devices for ever."""
    world = with_devices(nodes=2)
    claimed_on_a_node_that_is_gone(world)
    world.devices.conflicts = {"mine"}
    world.pod("p", gpus=0, device_claims=("mine",))
    world.until(60)
    assert world.devices.results("mine") == ["gone/gpu-0"]

    world.devices.conflicts = set()
    world.node("more", gpus=0)
    world.until(600)

    assert len(world.where()) == 1
    assert world.devices.results("mine")[0].startswith(world.where()["p"])


def test_devices_that_keep_a_pod_off_every_node_stay_while_another_uses_them():
    """kube-scheduler 1.36, PostFilter: only of claims that nobody uses, or this pod alone."""
    world = with_devices(nodes=2)
    claimed_on_a_node_that_is_gone(world)
    claim = world.devices.claim("mine")
    users = [ClaimConsumer(resource="pods", name="runs", uid="another")]
    world.devices.put(msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, reserved_for=users)))
    world.pod("p", gpus=0, device_claims=("mine",))
    world.until(60)

    assert world.where() == {}
    assert world.devices.results("mine") == ["gone/gpu-0"]


def test_a_member_is_bound_when_its_driver_says_that_its_device_is_ready():
    world = with_devices(nodes=0)
    world.node("n0", gpus=0)
    world.devices.put(resource_slice("n0", 1, bindingConditions=["ready"], bindingFailureConditions=["failed"]))
    world.devices.make_claim("mine", asks_for(1))
    world.pod("p", gpus=0, device_claims=("mine",))
    world.run()
    assert world.where() == {}
    assert world.why("Pod", "p").reason == "WaitingForDevices"
    say(world, "mine", ready="False", failed="False")
    world.run()
    assert world.where() == {}

    say(world, "mine", ready="True")
    world.run()
    assert world.where() == {"p": "n0"}

    world.until(BINDING_SECONDS + 5)
    world.pod("late", gpus=0, device_claims=("mine",))
    world.run()
    assert world.where() == {"p": "n0", "late": "n0"}


def test_a_device_that_fails_to_get_ready_is_given_up_for_another():
    world = with_devices(nodes=0)
    for i in range(2):
        world.node(f"n{i}", gpus=0)
        world.devices.put(resource_slice(f"n{i}", 1, bindingConditions=["ready"], bindingFailureConditions=["failed"]))
    world.devices.make_claim("mine", asks_for(1))
    world.pod("p", gpus=0, device_claims=("mine",))
    world.run()
    first = world.devices.results("mine")
    say(world, "mine", failed="True")
    world.run()
    assert world.why("Pod", "p").reason == "DeviceAllocationFailed"
    assert world.devices.results("mine") == []
    assert first

    world.until(60)
    assert world.devices.results("mine")
    say(world, "mine", ready="True")
    world.run()
    assert len(world.where()) == 1


def waiting_for_its_device() -> World:
    """A pod whose claim has a device of which its driver does not say that it is ready."""
    world = with_devices(nodes=0)
    world.node("n0", gpus=0)
    world.devices.put(resource_slice("n0", 1, bindingConditions=["ready"]))
    world.devices.make_claim("mine", asks_for(1))
    world.pod("p", gpus=0, device_claims=("mine",))
    world.run()
    return world


def test_devices_that_do_not_get_ready_in_time_are_given_back():
    world = waiting_for_its_device()
    world.now += BINDING_SECONDS + 5
    world.run()

    assert world.where() == {}
    assert world.devices.results("mine") == []


def test_devices_that_another_process_has_waited_for_are_not_waited_for_as_long_again():
    """KEP-5007: the time counts from the allocation, which the claim tells also after a restart."""
    world = waiting_for_its_device()
    world.now += BINDING_SECONDS - 100
    world.restart()
    world.run()
    assert world.why("Pod", "p").reason == "WaitingForDevices"

    world.until(102)
    assert f"its devices were not ready within {BINDING_SECONDS} s" in world.why("Pod", "p").message
    world.until(60)
    assert [one.change for one in world.devices.written] == ["allocate", "free", "allocate"]


def say(world: World, name: str, **conditions: str) -> None:
    """Have a driver say something of the devices of a claim."""
    claim = world.devices.claim(name)
    assert claim.status.allocation is not None
    said = [DeviceCondition(kind, status) for kind, status in conditions.items()]
    of = [
        AllocatedDeviceStatus(one.driver, one.pool, one.device, conditions=said)
        for one in claim.status.allocation.devices.results
    ]
    world.devices.put(msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, devices=of)))


def test_who_waits_for_what_another_has_asked_for_does_not_wait_for_ever():
    world = with_devices(nodes=1)
    world.devices.held = True
    world.devices.make_claim("ours", asks_for(1))
    for number in range(3):
        world.pod(f"p{number}", gpus=0, device_claims=("ours",))
    world.run()
    assert all(one.deadline is not None for one in world.engine.state.workloads.values())


def test_a_write_that_failed_once_does_not_keep_later_users_off_a_claim():
    world = with_devices(nodes=1)
    world.devices.make_claim("ours", asks_for(1))
    world.pod("first", gpus=0, device_claims=("ours",))
    world.run()
    world.devices.conflicts.add("ours")
    world.pod("second", gpus=0, device_claims=("ours",))
    world.until(30)
    assert list(world.where()) == ["first"]
    world.devices.conflicts.clear()
    world.until(600)
    assert set(world.where()) == {"first", "second"}


def test_a_claim_that_is_made_anew_under_its_name_gets_what_it_asks_for_itself():
    world = with_devices(nodes=1)
    world.devices.held = True
    world.devices.make_claim("c", asks_for(4))
    world.pod("p", gpus=0, device_claims=("c",))
    world.run()
    world.devices.drop("ResourceClaim", "c")
    made = decoded(
        {"metadata": {"name": "c", "namespace": "default", "uid": "another"}, "spec": asks_for(1)}, ResourceClaim
    )
    world.devices.put(made)
    world.run()
    world.devices.held = False
    world.devices.write()
    world.until(600)
    assert list(world.where()) == ["p"]
    assert len(world.devices.results("c")) == 1


def test_a_claim_with_as_many_users_as_can_be_written_takes_no_more_and_says_so():
    world = with_devices(nodes=1)
    world.devices.make_claim("ours", asks_for(1))
    world.pod("first", gpus=0, device_claims=("ours",))
    world.run()
    claim = world.devices.claim("ours")
    users = [ClaimConsumer("", "pods", f"other-{number}", f"uid-other-{number}") for number in range(255)]
    status = msgspec.structs.replace(claim.status, reserved_for=[*claim.status.reserved_for, *users])
    world.devices.put(msgspec.structs.replace(claim, status=status))
    world.pod("more", gpus=0, device_claims=("ours",))
    world.run()
    assert list(world.where()) == ["first"]
    assert "claim default/ours has 256 users" in world.why("Pod", "more").message


def test_nobody_is_taken_out_for_a_pod_whose_claim_takes_no_more_users_and_it_starts_when_one_has_gone():
    world = with_devices(nodes=1, gpus=8)
    world.devices.make_claim("ours", asks_for(1))
    world.pod("first", gpus=0, device_claims=("ours",))
    world.pod("low", gpus=8)
    world.run()
    claim = world.devices.claim("ours")
    users = [ClaimConsumer("", "pods", f"other-{number}", f"uid-other-{number}") for number in range(255)]
    status = msgspec.structs.replace(claim.status, reserved_for=[*claim.status.reserved_for, *users])
    world.devices.put(msgspec.structs.replace(claim, status=status))
    world.pod("high", gpus=8, priority=1000, device_claims=("ours",))
    world.until(600)
    assert world.where() == {"first": "n0", "low": "n0"}
    assert world.why("Pod", "high").gate == "Placement"

    fewer = msgspec.structs.replace(claim.status, reserved_for=[*claim.status.reserved_for, *users[1:]])
    world.devices.put(msgspec.structs.replace(claim, status=fewer))
    world.until(60)
    assert world.where() == {"first": "n0", "high": "n0"}
    assert replays(world)


def leaving(world: World, name: str) -> None:
    claim = world.devices.claim(name)
    meta = msgspec.structs.replace(claim.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    world.devices.put(msgspec.structs.replace(claim, metadata=meta))


def emptied(world: World, name: str) -> None:
    world.devices.free(name)


def elsewhere(world: World, name: str, before: bytes = b'"device":"gpu-0"', now: bytes = b'"device":"gpu-7"') -> None:
    claim = world.devices.claim(name)
    assert before in msgspec.json.encode(claim.status)
    status = msgspec.json.decode(msgspec.json.encode(claim.status).replace(before, now), type=type(claim.status))
    world.devices.put(msgspec.structs.replace(claim, status=status))


def on_another_node(world: World, name: str) -> None:
    elsewhere(world, name, b'"n0"', b'"n2"')


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (lambda world, name: world.devices.drop("ResourceClaim", name), "could not find ResourceClaim"),
        (leaving, "is being deleted"),
        (emptied, ""),
        (elsewhere, ""),
        (on_another_node, ""),
    ],
    ids=["gone", "leaving", "emptied", "given others", "given others of another node"],
)
def test_a_claim_that_changes_between_write_and_bind_costs_its_own_gang_at_most(happens, said):
    """What was decided is looked at again before the bind; whoever else waits goes on."""
    world = with_devices(nodes=3)
    world.devices.held = True
    gang(world, 2, count=1)
    world.run()
    world.devices.held = False
    first, *rest = world.devices._waiting
    world.devices._waiting = [first]
    world.devices.write()
    world.devices._waiting = rest
    happens(world, "g-0")
    world.devices.write()
    world.devices.make_claim("other", asks_for(1))
    world.pod("other", gpus=0, device_claims=("other",))
    world.until(200)

    assert "other" in world.where()
    assert len(world.where("g-")) == (0 if said else 2)
    assert said in world.why("PodGroup", "g").message if said else True
    for pod, node in world.where("g-").items():
        assert [one.split("/")[0] for one in world.devices.results(pod)] == [node]
    taken = world.devices.taken()
    assert len(taken) == len(set(taken))
