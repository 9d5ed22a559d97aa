"""Whoever's devices take as long to look for as they may rests after it, and is gone on with where it was cut short."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.devices import asks_for, device_class, resource_slice
from tests.engine.world import World
from tutti.cluster.devices import programs, search_time
from tutti.cluster.devices.offers import Verdict
from tutti.cluster.devices.search import search

MINUTES = 5


def hard(count: int = 9, *, attribute: str = "index", others: tuple[Any, ...] = (20, 30, 40, 50)) -> dict[str, Any]:
    """So many unlike devices, each in four ways: nodes have eight, and all that can be tried is tried to see it."""
    of = f"device.attributes['gpu.example.com'].{attribute}"
    ways = [
        {"name": f"w{at}", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": f"{of} != {said}"}}]}
        for at, said in enumerate(others)
    ]
    requests = [{"name": f"r{at}", "firstAvailable": ways} for at in range(count)]
    return {"devices": {"requests": requests, "constraints": [{"distinctAttribute": "gpu.example.com/index"}]}}


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many devices each search has tried."""
    taken: list[int] = []

    def counted(claims: Any, offer: Any, selects: Any, most: int, **how: Any) -> Verdict:
        found = search(claims, offer, selects, most, **how)
        taken.append(found.steps)
        return found

    monkeypatch.setattr(programs, "search", counted)
    return taken


def world_of(*nodes: str) -> World:
    world = World()
    world.devices.put(device_class())
    for name in nodes:
        world.devices.put(resource_slice(name))
        world.node(name, gpus=0)
    return world


@pytest.mark.parametrize("strict", [False, True], ids=["", "at the head of a strict queue"])
def test_who_takes_long_is_not_looked_at_anew_for_each_device_that_comes_and_goes(steps, strict):
    world = world_of("n0")
    world.flavor()
    world.queue("cq", 8, queueingStrategy="StrictFIFO" if strict else "BestEffortFIFO")
    for name in ("theirs", "theirs-too"):
        world.devices.make_claim(name, hard())
        world.pod(name, gpus=0, device_claims=(name,), queue="queue")
    for minute in range(MINUTES):
        for second in range(0, 60, 2):
            name = f"honest-{minute}-{second}"
            world.devices.make_claim(name, asks_for(1 + second % 3))
            world.pod(name, gpus=0, device_claims=(name,))
            world.until(1)
            assert name in world.where()
            world.finish(name)
            world.devices.free(name)
            world.until(1)
    long = [one for one in steps if one > search_time.FREE_STEPS]
    assert 1 <= len(long) <= 2 * (60 * MINUTES).bit_length()
    assert world.why("Pod", "theirs").message


def test_where_others_left_too_little_is_looked_at_again_though_nothing_has_changed(steps):
    """The last request takes one certain device only, which on n1 those before it are given first and have to leave.

    On n0, where they are eight in all, every way is tried, as far as there is time.
    """
    world = world_of("n0")
    world.devices.put(resource_slice("n1", 9))
    world.node("n1", gpus=0)
    asked = hard()
    (way, *_) = asked["devices"]["requests"][-1].pop("firstAvailable")
    selector = {"cel": {"expression": "device.attributes['gpu.example.com'].index == 5"}}
    asked["devices"]["requests"][-1]["exactly"] = {"deviceClassName": way["deviceClassName"], "selectors": [selector]}
    world.devices.make_claim("hard", asked)
    world.pod("hard", gpus=0, device_claims=("hard",))
    world.decide()
    assert (steps, world.where()) == ([search_time.MOST_STEPS + search_time.FREE_STEPS, search_time.FREE_STEPS], {})
    world.until(5)
    assert world.where() == {"hard": "n1"}
    assert world.replay().differences == []


def test_what_each_node_has_beside_is_bounded_for_all_of_them_and_the_last_is_looked_at_in_the_end(steps, monkeypatch):
    """Who looks at what tells every device from others meets a situation of its own on each node."""
    monkeypatch.setattr(search_time, "MOST_FREE_STEPS", 3 * search_time.FREE_STEPS)
    world = world_of(*(f"n{number}" for number in range(6)))
    world.devices.make_claim("hard", hard(attribute="uuid", others=("'a'", "'b'", "'c'", "'d'")))
    world.pod("hard", gpus=0, device_claims=("hard",))
    world.decide()
    assert sum(steps) <= search_time.MOST_STEPS + 3 * search_time.FREE_STEPS + len(steps)
    world.until(600)
    whole = [one for one in steps if one >= search_time.MOST_STEPS]
    assert len(whole) == 6
    world.until(3600)
    assert len([one for one in steps if one >= search_time.MOST_STEPS]) == 6
