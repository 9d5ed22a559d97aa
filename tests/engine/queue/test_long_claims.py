"""What claims on devices may take to be tried: bounded for all nodes together, whatever a tenant writes into them."""

from __future__ import annotations

from typing import Any

from tests.engine.devices import asks_for, device_class, resource_slice
from tests.engine.world import World
from tutti.cluster.devices.offers import TOO_MANY_WAYS, Verdict
from tutti.cluster.devices.search_time import FREE_STEPS, MOST_STEPS
from tutti.engine.records.never_admitted import TOO_MANY_TERMS

UNLIKE = "device.attributes['gpu.example.com'].uuid != "


def with_devices(nodes: int, count: int = 16) -> World:
    world = World()
    world.devices.put(device_class())
    for number in range(nodes):
        world.node(f"n{number}", gpus=0)
        world.devices.put(resource_slice(f"n{number}", count))
    return world


def request(name: str, *ways: list[str]) -> dict[str, Any]:
    """A request with several ways, each with some selectors."""
    said = [
        {"name": f"w{at}", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": one}} for one in expressions]}
        for at, expressions in enumerate(ways)
    ]
    return {"name": name, "firstAvailable": said}


def verdicts(world: World, pod: str) -> list[Verdict]:
    """What the search has found in each situation that it has met."""
    nodes = world.engine.state.cluster.nodes
    needs = world.engine.state.members["default", pod].pod.pod_class.devices
    programs = nodes.devices.columns(needs, nodes.device_view(needs)).programs
    return [one for program, _ in programs for one in program.verdicts]


def test_a_search_that_is_long_on_every_node_has_a_bound_for_all_of_them():
    """Twelve devices of as many PCIe roots, where there are eight: each node, unlike all others, is a search of its own."""
    world = with_devices(nodes=20)
    asked = asks_for(12, selectors=[{"cel": {"expression": f"{UNLIKE}'x'"}}])
    asked["devices"]["requests"] = [{**asked["devices"]["requests"][0], "name": f"r{at}"} for at in range(12)]
    for one in asked["devices"]["requests"]:
        one["exactly"]["count"] = 1
    asked["devices"]["constraints"] = [{"distinctAttribute": "resource.kubernetes.io/pcieRoot"}]
    world.devices.make_claim("long", asked)
    world.devices.make_claim("plain", asks_for(16))
    world.pod("bomb", gpus=0, device_claims=("long",))
    world.pod("honest", gpus=0, device_claims=("plain",))
    world.run()

    found = [one for one in verdicts(world, "bomb") if one.steps]
    assert len(found) == 20
    assert sum(one.steps for one in found) <= MOST_STEPS + FREE_STEPS * len(found)
    assert TOO_MANY_WAYS in world.why("Pod", "bomb").message
    assert list(world.where()) == ["honest"]
    assert world.replay().differences == []


def test_selectors_that_are_costly_for_each_device_end_the_search_and_nobody_elses():
    """What tells devices apart is looked at for each of them: sixty loops for each of a thousand devices."""
    world = with_devices(nodes=30, count=40)
    loop = "[1,2,3,4,5,6,7,8,9].all(x, [1,2,3,4,5,6,7,8,9].all(y, x + y != 0 && " + UNLIKE + "string({0})))"
    ways = [[loop.format(8 * at + number) for number in range(7)] + ["false"] for at in range(8)]
    world.devices.make_claim("long", {"devices": {"requests": [request("r", *ways)]}})
    world.devices.make_claim("plain", asks_for(32))
    world.pod("bomb", gpus=0, device_claims=("long",))
    world.pod("honest", gpus=0, device_claims=("plain",))
    world.run()

    reasons = {one.reason for one in verdicts(world, "bomb")}
    assert TOO_MANY_WAYS in reasons
    assert list(world.where()) == ["honest"]


def test_the_terms_of_claims_count_as_those_of_pods_do():
    world = with_devices(nodes=1)
    for name, ways in (("fits", 7), ("bomb", 16)):
        every = [[f"{UNLIKE}'{at}-{number}'" for number in range(31)] for at in range(8)]
        requests = [request("a", *every)] + ([request("b", *every)] if ways > 8 else [])
        world.devices.make_claim(name, {"devices": {"requests": requests}})
        world.pod(name, gpus=0, device_claims=(name,))
    world.run()
    assert set(world.where()) == {"fits"}
    assert world.why("Pod", "bomb").reason == TOO_MANY_TERMS
    assert "resource claims" in world.why("Pod", "bomb").message
