"""What a tenant's claims on devices may cost a turn: what is alike is looked at once, however many nodes have it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.engine.devices import asks_for, decoded, device_class, resource_slice
from tests.engine.world import World
from tutti.api.devices import ResourceClaim, ResourceSlice
from tutti.cluster.devices import programs, search_time, way_selections
from tutti.cluster.devices.projections import DeviceProjection
from tutti.cluster.devices.way_selections import WaySelections
from tutti.placement.plugins import device_shortage, devices

OF = "device.attributes['gpu.example.com']"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each function that is `watched` has been called."""
    return Counter()


def watched(monkeypatch: pytest.MonkeyPatch, calls: Counter[str], module: Any, name: str) -> None:
    """Have calls of a function counted."""
    original = getattr(module, name)

    def counted(*given: Any, **more: Any) -> Any:
        calls[name] += 1
        return original(*given, **more)

    monkeypatch.setattr(module, name, counted)


def selecting(expression: str, **asked: Any) -> dict[str, Any]:
    return asks_for(selectors=[{"cel": {"expression": expression}}], **asked)


def world_of(nodes: int, *namespaces: str) -> World:
    world = World(namespaces=namespaces or ("default",))
    world.devices.put(device_class())
    for number in range(nodes):
        world.devices.put(resource_slice(f"n{number}"))
        world.node(f"n{number}", gpus=0)
    return world


def test_what_a_claim_lacks_is_counted_once_for_nodes_that_are_alike(monkeypatch, calls):
    """A claim of 32 requests had 32 times all devices of all nodes counted."""
    watched(monkeypatch, calls, device_shortage, "_spent")
    told = set()
    for nodes in (2, 40):
        world = world_of(nodes)
        asked = [{"name": f"r{at}", "exactly": {"deviceClassName": "gpu", "count": 1 + at % 2}} for at in range(12)]
        world.devices.make_claim("theirs", {"devices": {"requests": asked}})
        world.pod("theirs", gpus=0, device_claims=("theirs",))
        world.run()
        assert f"{8 * nodes} of {8 * nodes} devices of class gpu match" in world.why("Pod", "theirs").message
        told.add(calls.total())
        calls.clear()
    assert told == {12}


@pytest.mark.parametrize("expression", [f"{OF}.uuid == 'none'", f"{OF}.none == {OF}.uuid"])
def test_nodes_that_are_ruled_out_for_one_reason_are_ruled_out_together(monkeypatch, calls, expression):
    """To whoever asks for what tells every device from others each node is another, and each made a column of nodes."""
    watched(monkeypatch, calls, devices, "Rejection")
    world = world_of(40)
    world.devices.make_claim("theirs", selecting(expression))
    world.pod("theirs", gpus=0, device_claims=("theirs",))
    world.decide()
    assert "40" in world.why("Pod", "theirs").message or "no such key" in world.why("Pod", "theirs").message
    assert calls.total() < 10


def network_of(pools: int, nodes: int = 3, each: int = 40) -> World:
    """Nodes that share pools of devices, of which no two are alike to whoever looks at their index."""
    world = World()
    world.devices.put(device_class())
    for pool in range(pools):
        spec = {"driver": "gpu.example.com", "pool": {"name": f"p{pool}", "resourceSliceCount": 1}, "allNodes": True}
        listed = [{"name": f"d{at}", "attributes": {"index": {"int": pool * each + at}}} for at in range(each)]
        world.devices.put(
            decoded({"metadata": {"name": f"p{pool}"}, "spec": {**spec, "devices": listed}}, ResourceSlice)
        )
    for number in range(nodes):
        world.node(f"n{number}", gpus=0)
    return world


def test_devices_of_a_network_are_looked_at_once_for_all_claims_and_asked_about_once_for_each(monkeypatch, calls):
    """Each claim had them all looked at, and asked about time and again, for pods after it and for what is said of it."""
    watched(monkeypatch, calls, DeviceProjection, "_kind")
    watched(monkeypatch, calls, WaySelections, "selects")
    devices, claims = 3 * 40, 10
    world = network_of(3)
    for at in range(claims):
        world.devices.make_claim(f"c{at}", selecting(f"{OF}.index >= {devices + at}"))
        world.pod(f"p{at}", gpus=0, device_claims=(f"c{at}",))
    world.decide()
    assert "0 of 120 devices of class gpu match" in world.why("Pod", "p0").message
    without_selector = claims  # what is told of a claim is also what it finds without its selector, there at once
    assert calls["selects"] <= claims * devices + 2 * without_selector
    assert calls["_kind"] <= 6 * devices


def unlike(world: World, count: int, how: str = "==") -> None:
    """So many pods, each with a claim of its own that is another than all others, not told in columns.

    All devices are what they ask for, or with `!=` none.
    """
    for at in range(count):
        world.devices.make_claim(f"c{at}", selecting(f"!({OF}.uuid {how} 'none-{at}')"))
        world.pod(f"p{at}", gpus=0, device_claims=(f"c{at}",))


def honest(world: World) -> None:
    """A pod of another namespace that asks for one certain device."""
    meta = {"name": "honest", "namespace": "honest", "uid": "honest"}
    world.devices.put(decoded({"metadata": meta, "spec": selecting(f"!({OF}.uuid != 'n7-3')")}, ResourceClaim))
    world.pod("honest", namespace="honest", gpus=0, device_claims=("honest",))


@pytest.mark.parametrize(
    ("bound", "most", "counted"),
    [
        ("MOST_FREE_STEPS", 100, "search"),
        ("MOST_FREE_WORK", 20_000, "told"),
        ("MOST_TEXT", 300, "told"),
        ("MOST_LOOKS", 20, "bits"),
    ],
)
def test_many_unlike_claims_of_a_namespace_cost_a_turn_no_more_than_few(monkeypatch, calls, bound, most, counted):
    """Each had as much time as a turn has for one of them; now it is theirs together, and the others' is untouched."""
    monkeypatch.setattr(search_time, bound, most)
    monkeypatch.setattr(search_time, "MOST_STEPS", 100)
    watched(monkeypatch, calls, programs if counted == "search" else way_selections, counted)
    done = set()
    for count in (20, 40):
        world = world_of(20, "default", "honest")
        unlike(world, count, "!=" if bound == "MOST_LOOKS" else "==")
        honest(world)
        calls.clear()
        world.run()
        done.add(calls[counted])
        assert world.where(namespace="honest") == {"honest": "n7"}
    assert len(done) == 1


def test_claims_that_are_cut_short_get_their_devices_in_the_end(monkeypatch):
    monkeypatch.setattr(search_time, "MOST_FREE_STEPS", 50)
    monkeypatch.setattr(search_time, "MOST_STEPS", 20)
    monkeypatch.setattr(search_time, "MOST_TEXT", 400)
    world = world_of(20)
    unlike(world, 20)
    world.run()
    assert 0 < len(world.where()) < 20
    world.until(1200)
    assert len(world.where()) == 20
    assert world.replay().differences == []
