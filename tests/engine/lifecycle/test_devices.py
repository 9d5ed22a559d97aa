"""A gang is bound when the claims of all its members have their devices, and no device is anybody's twice."""

from __future__ import annotations

import pytest

from tests.engine.devices import asks_for, decoded, device_class, resource_slice
from tests.engine.gangs_with_devices import gang, replays, with_devices
from tutti.api.device_taints import DeviceTaintRule
from tutti.api.devices import (
    DELETE_PROTECTION,
)


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


@pytest.mark.parametrize(("patience", "after"), [(5, 58.0), (600, 599.0)])
def test_a_bind_window_stands_still_while_a_member_waits_for_its_claim(patience, after):
    """What was waited for in vain is taken off: the gang is not bound in part for longer than both take at most."""
    world = with_devices()
    world.hold_binds = True
    gang(world)
    world.object("PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 3}}, "scheduleTimeoutSeconds": patience})
    world.run()
    for bind in list(world.pending_binds):
        world.answer(bind, "Failed" if bind.name == "g-2" else "Bound")
    world.run()
    world.devices.held = True
    world.until(after)
    assert not world.events("RolledBack")
    world.until(5.0)
    assert [event.reason for event in world.events("RolledBack")] == ["RolledBack"]
    assert replays(world)
