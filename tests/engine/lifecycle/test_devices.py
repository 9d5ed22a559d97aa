"""A gang is bound when the claims of all its members have their devices, and no device is anybody's twice."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from tests.engine.devices import asks_for, decoded, device_class, resource_slice
from tests.engine.world import World
from tutti.api.device_taints import DeviceTaintRule
from tutti.api.devices import (
    DELETE_PROTECTION,
    AllocatedDeviceStatus,
    ClaimConsumer,
    DeviceCondition,
    ResourceClaim,
)
from tutti.cluster.devices.claims import BINDING_SECONDS


def with_devices(*, nodes: int = 3, count: int = 8, **world) -> World:
    """Nodes with some devices each."""
    out = World(**world)
    out.devices.put(device_class())
    for i in range(nodes):
        out.node(f"n{i}", gpus=0)
        out.devices.put(resource_slice(f"n{i}", count))
    return out


def gang(world: World, size: int = 3, *, count: int = 8, name: str = "g", shared: str = "", **asked) -> None:
    """A gang whose members have a claim each, or share one."""
    world.pod_group(name, size)
    for rank in range(size):
        used = shared or f"{name}-{rank}"
        if ("ResourceClaim", used) not in world.devices.objects:
            world.devices.make_claim(used, asks_for(count, **asked))
        world.pod(f"{name}-{rank}", group=name, gpus=0, device_claims=(used,))


def replays(world: World) -> bool:
    return not world.replay().differences


def test_a_gang_gets_its_devices_where_its_members_will_be():
    world = with_devices()
    gang(world)
    world.run()

    where = world.where()
    assert sorted(where.values()) == ["n0", "n1", "n2"]
    for rank in range(3):
        results = world.devices.results(f"g-{rank}")
        assert results == [f"{where[f'g-{rank}']}/gpu-{i}" for i in range(8)]
        claim = world.devices.claim(f"g-{rank}")
        assert claim.metadata.finalizers == [DELETE_PROTECTION]
        assert [one.name for one in claim.status.reserved_for] == [f"g-{rank}"]
    assert replays(world)


def test_no_member_is_bound_before_the_claims_of_all_have_their_devices():
    world = with_devices()
    world.devices.held = True
    gang(world)
    world.run()

    assert world.where() == {}
    why = world.why("PodGroup", "g")
    assert (why.gate, why.reason) == ("Permit", "WaitingForDevices")
    assert "3 claims of its members are being given devices: default/g-0, default/g-1, default/g-2" in why.message

    world.devices.held = False
    world.devices.write()
    world.run()
    assert len(world.where()) == 3
    assert replays(world)


def test_a_gang_that_lacks_devices_waits_and_leaves_no_trace():
    world = with_devices(nodes=2)
    gang(world)
    world.run()

    assert world.where() == {}
    assert world.devices.written == []
    assert "2 node(s) with room for only 2 of 3 pods of the gang" in world.why("PodGroup", "g").message

    world.devices.make_claim("alone", asks_for(8))
    world.pod("alone", gpus=0, device_claims=("alone",))
    world.run()
    assert "alone" in world.where()


def test_it_starts_when_a_driver_publishes_more():
    world = with_devices(nodes=2)
    gang(world)
    world.run()
    world.node("n2", gpus=0)
    world.run()
    assert world.where() == {}

    world.devices.put(resource_slice("n2"))
    world.run()

    assert len(world.where()) == 3


def test_it_starts_when_a_claim_is_given_back():
    world = with_devices(nodes=1)
    gang(world, 1, name="first")
    world.run()
    gang(world, 1, name="second")
    world.run()
    assert set(world.where()) == {"first-0"}

    world.delete("first-0")
    world.run()
    assert set(world.where()) == set()  # its claim has the devices still

    world.devices.free("first-0")
    world.run()
    assert set(world.where()) == {"second-0"}


def test_several_pods_of_a_node_get_different_devices():
    world = with_devices(nodes=1)
    gang(world, 4, count=2, match="resource.kubernetes.io/pcieRoot")
    world.run()

    assert len(world.where()) == 4
    assert sorted(world.devices.taken()) == [f"n0/gpu-{i}" for i in range(8)]


def test_devices_that_match_are_looked_for_behind_those_that_do_not():
    world = with_devices(nodes=1)
    world.devices.make_claim("one", asks_for(1))
    world.pod("one", gpus=0, device_claims=("one",))
    world.run()
    gang(world, 3, count=2, match="resource.kubernetes.io/pcieRoot")
    world.run()

    assert len(world.where()) == 4
    assert "n0/gpu-1" not in world.devices.taken()


@pytest.mark.parametrize("packing", [{}, {"devicePacking": {}}])
def test_devices_are_packed_where_the_profile_says_so(packing):
    world = with_devices(nodes=1, profiles=[{"schedulerName": "tutti", **packing}])
    for name, count in (("first", 1), ("pair", 2)):
        world.devices.make_claim(name, asks_for(count, match="resource.kubernetes.io/pcieRoot" if count > 1 else ""))
        world.pod(name, gpus=0, device_claims=(name,))
        world.run()
    assert world.devices.results("pair") == ["n0/gpu-2", "n0/gpu-3"]
    world.delete("pair")
    world.devices.free("pair")
    world.devices.make_claim("two", asks_for(1))
    world.pod("two", gpus=0, device_claims=("two",))
    world.run()
    assert world.devices.results("two") == ["n0/gpu-1"]
    world.delete("first")
    world.devices.free("first")
    world.devices.make_claim("three", asks_for(2))
    world.pod("three", gpus=0, device_claims=("three",))
    world.run()
    expected = ["n0/gpu-2", "n0/gpu-3"] if packing else ["n0/gpu-0", "n0/gpu-2"]
    assert world.devices.results("three") == expected
    assert not world.replay().differences


def test_a_claim_that_several_share_is_given_its_devices_once_and_all_go_there():
    world = with_devices()
    gang(world, 4, count=2, shared="ours")
    world.run()

    assert len(set(world.where().values())) == 1
    assert len(world.where()) == 4
    assert len(world.devices.results("ours")) == 2
    assert len(world.devices.claim("ours").status.reserved_for) == 4
    assert replays(world)


def test_pods_that_come_one_after_the_other_share_a_claim():
    world = with_devices()
    world.devices.make_claim("ours", asks_for(2))
    for name in ("first", "second", "third", "fourth"):
        world.pod(name, gpus=0, device_claims=("ours",))
        world.run()
        assert name in world.where()

    assert len(set(world.where().values())) == 1
    assert [one.name for one in world.devices.claim("ours").status.reserved_for] == [
        "first",
        "second",
        "third",
        "fourth",
    ]
    assert replays(world)


@pytest.mark.parametrize("gone", ["", "first", "second"])
def test_who_comes_to_share_a_claim_that_is_being_given_its_devices_goes_where_these_are(gone):
    world = with_devices(nodes=4)
    world.devices.held = True
    world.devices.make_claim("ours", asks_for(2))
    world.pod("first", gpus=0, device_claims=("ours",))
    world.run()
    world.pod("second", gpus=0, cpu="2", device_claims=("ours",))
    world.run()
    if gone:
        world.delete(gone)
        world.run()

    world.devices.held = False
    world.devices.write()
    world.run()

    nodes = {one.partition("/")[0] for one in world.devices.results("ours")}
    assert set(world.where()) == {"first", "second"} - {gone}
    assert set(world.where().values()) == nodes
    assert len(world.devices.taken()) == 2
    world.devices.make_claim("rest", asks_for(6))
    world.pod("rest", gpus=0, device_claims=("rest",), selector={"kubernetes.io/hostname": next(iter(nodes))})
    world.run()
    assert "rest" in world.where()  # nothing else is held there
    assert replays(world)


def test_who_comes_to_share_a_claim_and_may_not_go_where_its_devices_are_is_given_no_others():
    world = with_devices(nodes=2)
    world.devices.held = True
    world.devices.make_claim("ours", asks_for(8))
    world.pod("first", gpus=0, device_claims=("ours",))
    world.run()
    world.pod("second", gpus=0, device_claims=("ours",), selector={"kubernetes.io/hostname": "n1"})
    world.run()
    world.devices.held = False
    world.devices.write()
    world.run()

    assert world.where() == {"first": "n0"}
    world.pod("third", gpus=0, device_claims=("ours",))
    world.run()
    assert world.where() == {"first": "n0", "third": "n0"}


def test_devices_stay_promised_to_a_pod_that_is_seen_on_its_node_before_its_claim_is_seen_to_have_them():
    """Both are told of in no order; here somebody else has bound the pod meanwhile."""
    world = with_devices(nodes=1, count=1)
    world.devices.held = True
    gang(world, 1, count=1, name="first")
    world.run()
    world.bound_by_another("first-0", "n0")
    world.run()
    gang(world, 1, count=1, name="second")
    world.run()
    assert [(one.change, one.name) for one in world.devices._waiting] == [("allocate", "first-0")]
    promises = world.engine.state.cluster.nodes.devices.promises
    assert promises.is_promised(("default", "first-0"))

    world.devices.held = False
    world.devices.write()
    world.run()
    assert world.where() == {"first-0": "n0"}
    assert world.devices.taken() == ["n0/gpu-0"]
    assert not promises
    world.delete("first-0")
    world.devices.free("first-0")
    world.run()
    assert world.where() == {"second-0": "n0"}
    assert replays(world)


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


def test_devices_that_keep_a_pod_off_every_node_are_taken_away_from_its_claim():
    world = with_devices(nodes=2)
    where = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]}
    result = {"request": "r", "driver": "gpu.example.com", "pool": "gone", "device": "gpu-0"}
    allocated(world, "mine", {"results": [result]}, nodeSelector=where)
    world.pod("p", gpus=0, device_claims=("mine",))
    world.until(60)

    assert len(world.where()) == 1
    assert world.devices.results("mine")[0].startswith(world.where()["p"])


def test_devices_that_could_not_be_taken_away_are_taken_away_later():
    """A write that failed is over: the claim is not taken for one that is losing its devices for ever."""
    world = with_devices(nodes=2)
    where = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]}
    result = {"request": "r", "driver": "gpu.example.com", "pool": "gone", "device": "gpu-0"}
    allocated(world, "mine", {"results": [result]}, nodeSelector=where)
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
    where = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]}
    result = {"request": "r", "driver": "gpu.example.com", "pool": "gone", "device": "gpu-0"}
    allocated(world, "mine", {"results": [result]}, nodeSelector=where)
    claim = world.devices.claim("mine")
    users = [ClaimConsumer(resource="pods", name="runs", uid="another")]
    world.devices.put(msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, reserved_for=users)))
    world.pod("p", gpus=0, device_claims=("mine",))
    world.until(60)

    assert world.where() == {}
    assert world.devices.results("mine") == ["gone/gpu-0"]


def test_who_only_looks_at_devices_takes_them_from_nobody():
    world = with_devices(nodes=1)
    gang(world, 1)
    world.run()
    gang(world, 2, name="watch", adminAccess=True)
    world.run()
    assert set(world.where()) == {"g-0", "watch-0", "watch-1"}
    assert world.devices.results("watch-0") == world.devices.results("watch-1") == world.devices.results("g-0")

    world.delete("g-0")
    world.devices.free("g-0")
    looks = {"name": "looks", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}
    world.pod_group("both", 8)
    for rank in range(8):  # each takes one device, and looks at one that another of them takes
        asked = asks_for(1)
        asked["devices"]["requests"].append(looks)
        world.devices.make_claim(f"both-{rank}", asked)
        world.pod(f"both-{rank}", group="both", gpus=0, device_claims=(f"both-{rank}",))
    world.run()
    assert len(world.where("both")) == 8
    assert replays(world)


def test_a_pod_waits_until_its_claim_is_made():
    world = with_devices(nodes=1)
    pod = world.pod("p", gpus=0, device_claims=("mine",))
    world.run()
    why = world.why("Pod", "p")
    assert (why.gate, why.reason) == ("Placement", "DevicesNotReady")
    assert 'could not find ResourceClaim "default/mine"' in why.message

    world.devices.make_claim("mine", asks_for(1), owner=pod)
    world.run()
    assert world.where() == {"p": "n0"}


def test_a_class_that_comes_to_exist_lets_pods_go():
    world = with_devices(nodes=1)
    world.devices.make_claim("mine", asks_for(1, name="later"))
    world.pod("p", gpus=0, device_claims=("mine",))
    world.run()
    assert "request r: device class later does not exist" in world.why("Pod", "p").message

    world.devices.put(device_class("later"))
    world.run()
    assert world.where() == {"p": "n0"}


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


def test_a_selector_that_cannot_be_evaluated_keeps_only_its_own_pod_waiting():
    world = with_devices(nodes=1)
    wrong = [{"cel": {"expression": 'device.attributes["gpu.example.com"].nothing == 1'}}]
    world.devices.make_claim("wrong", asks_for(1, selectors=wrong))
    world.devices.make_claim("right", asks_for(1))
    world.pod("wrong", gpus=0, device_claims=("wrong",))
    world.pod("right", gpus=0, device_claims=("right",))
    world.run()

    assert world.where() == {"right": "n0"}
    assert "claim d0: selector #0: CEL runtime error: no such key: nothing" in world.why("Pod", "wrong").message


def test_pods_that_share_a_claim_and_nothing_else_all_start():
    """Each is let use it by a write of its own, after that of the one before."""
    world = with_devices(nodes=1)
    world.devices.make_claim("ours", asks_for(1))
    for number in range(6):
        world.pod(f"p{number}", gpus=0, device_claims=("ours",))
    world.run()
    assert len(world.where()) == 6
    assert len(world.devices.claim("ours").status.reserved_for) == 6
    assert replays(world)


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


def taint_rule(name: str, effect: str = "NoSchedule", **selector: str) -> DeviceTaintRule:
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "effect": effect}}
    found: DeviceTaintRule = decoded({"metadata": {"name": name}, "spec": spec}, DeviceTaintRule)
    return found


@pytest.mark.parametrize(
    ("selector", "left"),
    [
        ({}, []),
        ({"driver": "gpu.example.com"}, []),
        ({"driver": "nic.example.com"}, ["n0", "n1", "n2"]),
        ({"pool": "n1"}, ["n0", "n2"]),
        ({"pool": "n1", "device": "gpu-0"}, ["n0", "n2"]),
        ({"device": "gpu-9"}, ["n0", "n1", "n2"]),
    ],
)
def test_devices_that_an_administrator_taints_are_given_to_nobody_new(selector, left):
    """Kubernetes 1.36, v1beta2 DeviceTaintSelector: what is not said selects all."""
    world = with_devices()
    world.devices.put(taint_rule("rule", **selector))
    for rank in range(3):
        world.devices.make_claim(f"p-{rank}", asks_for(8))
        world.pod(f"p-{rank}", gpus=0, device_claims=(f"p-{rank}",))
    world.run()
    assert sorted(set(world.where().values())) == left

    world.devices.drop("DeviceTaintRule", "rule")
    world.run()
    assert len(world.where()) == 3
    assert replays(world)


def test_taints_of_administrators_are_tolerated_like_those_of_drivers_and_may_be_none():
    world = with_devices(nodes=1)
    tolerant = [{"key": "broken", "operator": "Exists"}]
    world.devices.make_claim("p", asks_for(2, tolerations=tolerant))
    world.devices.make_claim("q", asks_for(2))
    for name in ("p", "q"):
        world.pod(name, gpus=0, device_claims=(name,))
    world.devices.put(taint_rule("rule", "NoExecute"))
    world.run()
    assert world.where() == {"p": "n0"}

    world.devices.put(taint_rule("rule", "None"))
    world.run()
    assert world.where() == {"p": "n0", "q": "n0"}


def test_a_rule_without_a_selector_taints_nothing():
    """Upstream's dra/devicetaints performance file has such a one: "Without a selector, no devices are matched"."""
    world = with_devices(nodes=1)
    raw = {"metadata": {"name": "none"}, "spec": {"taint": {"key": "broken", "effect": "NoSchedule"}}}
    world.devices.put(decoded(raw, DeviceTaintRule))
    gang(world, 1)
    world.run()
    assert len(world.where()) == 1


def test_a_slice_that_comes_after_a_rule_is_tainted_by_it():
    world = with_devices(nodes=1)
    world.devices.put(taint_rule("rule", pool="n1"))
    world.node("n1", gpus=0)
    world.devices.put(resource_slice("n1"))
    gang(world, 2)
    world.run()
    assert world.where() == {}
    world.devices.put(taint_rule("rule", pool="n2"))
    world.run()
    assert len(world.where()) == 2


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


@pytest.mark.parametrize(
    "spec",
    [
        {"taint": {}},
        {"deviceSelector": {"driver": "x" * 10_000}, "taint": {"key": "k", "effect": "Sometimes"}},
        {"deviceSelector": {"driver": None, "pool": None, "device": None}, "taint": {"key": "k", "effect": "None"}},
        {"deviceSelector": None, "taint": {"key": "k", "effect": "NoExecute"}},
    ],
)
def test_a_taint_rule_that_says_nothing_of_use_harms_nobody(spec):
    world = with_devices(nodes=1)
    without = {key: value for key, value in spec.items() if value is not None}
    if "deviceSelector" in without:
        without["deviceSelector"] = {k: v for k, v in without["deviceSelector"].items() if v is not None}
    world.devices.put(decoded({"metadata": {"name": "odd"}, "spec": without}, DeviceTaintRule))
    gang(world, 1)
    world.run()
    assert len(world.where()) == 1
