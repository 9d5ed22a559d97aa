"""Devices that may have been written on a claim are nobody else's until it is known that they are off it."""

from __future__ import annotations

import pytest

from tests.engine.devices import asks_for, device_class, resource_slice
from tests.engine.gangs_with_devices import gang, with_devices
from tests.engine.world import World
from tutti.engine.records.decisions import WriteDeviceClaim

RESOURCE = "example.com/gpu"


def under_way(world: World) -> list[tuple[str, str]]:
    """What has been decided of claims and is not written yet: how it changes which."""
    return [(one.change, one.name) for one in world.devices._waiting]


def being_given_back() -> World:
    """A gang of one, gone again, whose claim is being given the only device; another wants it."""
    out = with_devices(nodes=1, count=1)
    out.devices.held = True
    gang(out, 1, count=1, name="first")
    out.run()
    out.delete("first-0")
    out.run()
    gang(out, 1, count=1, name="second")
    out.run()
    assert under_way(out) == [("allocate", "first-0"), ("free", "first-0")]
    return out


def test_who_comes_meanwhile_waits_until_it_is_known_that_nobody_has_them():
    world = being_given_back()
    world.devices.held = False
    world.devices.write()
    world.run()

    assert set(world.where()) == {"second-0"}
    assert world.devices.taken() == ["n0/gpu-0"]
    assert not world.replay().differences


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
def test_a_write_that_fails_lets_them_go(written: bool):
    world = being_given_back()
    if written:
        rest = world.devices._waiting[1:]
        del world.devices._waiting[1:]
        world.devices.write()
        world.devices._waiting = rest
    world.devices.conflicts.add("first-0")
    world.devices.held = False
    world.devices.write()
    world.run()

    # where it was written, the claim has the device until the claim controller takes it away
    assert set(world.where()) == (set() if written else {"second-0"})
    if written:
        world.devices.free("first-0")
        world.run()
        assert set(world.where()) == {"second-0"}


@pytest.mark.parametrize("seen", [False, True], ids=["unseen", "seen"])
def test_a_claim_that_is_gone_lets_them_go(seen: bool):
    world = being_given_back()
    if seen:
        del world.devices._waiting[1:]
        world.devices.write()
        world.run()
        assert set(world.where()) == set()
    world.devices.drop("ResourceClaim", "first-0")
    world.devices.held = False
    world.devices.write()
    world.run()

    assert set(world.where()) == {"second-0"}


def test_nobody_else_has_to_leave_for_them():
    world = with_devices(nodes=2, count=1)
    gang(world, 1, count=1, name="runs")
    world.run()
    world.start("runs-0")
    world.devices.held = True
    gang(world, 1, count=1, name="first")
    world.run()
    world.devices.make_claim("urgent", asks_for(1))
    world.pod("urgent", gpus=0, device_claims=("urgent",), priority=1000)
    world.run()
    assert under_way(world) == [("allocate", "first-0"), ("free", "first-0")]

    world.devices.held = False
    world.devices.write()
    world.run()
    assert set(world.where()) == {"runs-0", "urgent"}
    assert not world.replay().differences


def test_a_claim_that_loses_its_node_gets_another_device_that_nobody_else_gets():
    world = with_devices(nodes=2, count=1)
    world.devices.held = True
    gang(world, 1, count=1, name="first")
    world.run()
    (given,) = world.devices._waiting
    assert isinstance(given, WriteDeviceClaim)
    assert given.allocation is not None
    world.remove_node(given.allocation.devices.results[0].pool)
    world.run()
    assert under_way(world) == [("allocate", "first-0"), ("free", "first-0")]

    world.devices._waiting, rest = world.devices._waiting[:1], world.devices._waiting[1:]
    world.devices.write()  # it is seen to have what is being taken away
    world.devices._waiting = rest
    world.run()
    gang(world, 1, count=1, name="second")
    world.run()
    assert under_way(world) == [("free", "first-0")]

    world.devices.held = False
    world.devices.write()
    world.run()
    assert set(world.where()) == {"first-0"}
    assert not world.replay().differences


def being_allocated() -> World:
    """A pod whose claim for an extended resource is made, and is being given the only device."""
    out = World()
    out.devices.put(device_class(extendedResourceName=RESOURCE))
    out.node("n0", gpus=0)
    out.devices.put(resource_slice("n0", 1))
    out.devices.held = True
    out.pod("first", gpus=0, extended={RESOURCE: "1"})
    out.run()
    out.devices.write()  # it is made
    out.run()
    return out


def test_devices_of_a_claim_for_extended_resources_return_with_it():
    world = being_allocated()
    world.pod("urgent", gpus=0, extended={RESOURCE: "1"}, priority=1000)
    world.run()
    assert [change for change, _ in under_way(world)] == ["allocate", "remove"]

    world.devices.held = False
    world.devices.write()
    world.run()
    assert set(world.where()) == {"urgent"}
    assert world.devices.taken() == ["n0/gpu-0"]
    assert not world.replay().differences


@pytest.mark.parametrize("fails", [False, True])
def test_devices_of_a_claim_for_extended_resources_return_though_its_pod_has_ended(fails: bool):
    world = being_allocated()
    world.finish("first", phase="Failed")
    world.pod("second", gpus=0, extended={RESOURCE: "1"})
    world.run()
    ((_, claim),) = under_way(world)

    world.devices.held = False
    if fails:
        world.devices.conflicts.add(claim)
    world.devices.write()
    world.run()
    if not fails:
        assert set(world.where()) == set()
        world.devices.free(claim)
        world.run()
    assert set(world.where()) == {"second"}


def test_nobody_else_has_to_leave_for_devices_that_a_claim_is_seen_to_have_and_is_losing():
    """Those of a pod that waits again: that it is still there does not keep them."""
    world = with_devices(nodes=1, count=1)
    gang(world, 1, count=1, name="runs")
    world.run()
    world.start("runs-0")
    world.node("n1", gpus=0)
    world.devices.put(resource_slice("n1", 1, bindingConditions=["ready"]))
    gang(world, 1, count=1, name="first")
    world.run()
    assert world.devices.results("first-0") == ["n1/gpu-0"]
    world.devices.held = True
    world.devices.make_claim("urgent", asks_for(1))
    world.pod("urgent", gpus=0, device_claims=("urgent",), priority=1000)
    world.until(30)
    assert under_way(world) == [("free", "first-0")]
    assert set(world.where()) == {"runs-0"}

    world.devices.held = False
    world.devices.write()
    world.run()
    assert world.devices.results("urgent") == ["n1/gpu-0"]
    assert set(world.where()) == {"runs-0"}
    assert not world.replay().differences
