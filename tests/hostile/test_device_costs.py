"""What a tenant's claims on devices may cost a turn: what is alike is looked at once, however many nodes have it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.engine.devices import asks_for, device_class, resource_slice
from tests.engine.world import World
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


def world_of(nodes: int) -> World:
    world = World()
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
