"""What is the matter with what drivers publish is told once, on the object concerned, and everything else goes on."""

from __future__ import annotations

import pytest

from tests.engine.devices import DRIVER, asks_for, decoded, device_class, resource_slice
from tests.engine.world import World
from tutti.api.devices import ResourceSlice
from tutti.cli.views.nodes import draw_top, top
from tutti.cluster.devices.catalog import DeviceCatalog
from tutti.cluster.devices.troubles import pool_trouble
from tutti.engine.lifecycle.device_pools import GRACE_SECONDS


def part(name: str, *devices: str, generation: int = 1, count: int = 1, node: str = "n0", **more) -> ResourceSlice:
    """A slice of the pool of a node."""
    pool = {"name": "p", "generation": generation, "resourceSliceCount": count}
    listed = [one if isinstance(one, dict) else {"name": one} for one in devices]
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": listed, **more}
    return decoded({"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec}, ResourceSlice)


CONSUMES = {"name": "x", "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": "1Gi"}}}]}
SETS = [{"name": "card", "counters": {"memory": {"value": "1Gi"}}}]


@pytest.mark.parametrize(
    ("slices", "held", "said"),
    [
        ([part("s", "a")], [], ""),
        ([part("s", "a"), part("old", "b", generation=0)], ["a"], ""),
        (
            [part("s", "a"), part("old", "b", generation=0, count=2, node="n1")],
            [],
            "slice old is still of generation 0, and generation 1 is for other nodes",
        ),
        ([part("s", "a"), part("old", "b", generation=0, node="n1")], [], ""),
        ([], [], ""),
        ([part("s", "a", count=2), part("t", "a", count=2, node="n1")], [], ""),
        ([part("s", "a", count=2), part("t", CONSUMES, count=2)], [], "consumes counter card/memory, which no slice"),
        ([part("s", "a", count=3), part("t", "b", count=3)], [], "only 2 of 3 slices of generation 1 are published"),
        (
            [part("s", "a"), part("t", "b")],
            [],
            "2 slices of generation 1 are published, which say that there should be 1",
        ),
        ([part("s", "a", count=2), part("t", "b", count=3)], [], "disagree on how many there are: 2 and 3"),
        ([part("s", "a", "a")], [], "device a is in it twice"),
        ([part("s", sharedCounters=[*SETS, *SETS])], [], "counter set card is in it twice"),
        ([part("s", "a", count=0)], [], "slice s cannot be believed"),
        ([part("s", "a")], ["a", "b"], "device b is allocated, and not published any more"),
        ([], ["b", "a", "d", "c"], "publishes nothing of it any more, and devices a, b, c and 1 more are allocated"),
    ],
)
def test_what_is_the_matter_with_a_pool(slices, held, said):
    catalog = DeviceCatalog()
    for one in slices:
        catalog.put(one)

    found = pool_trouble(catalog.slices_of((DRIVER, "p")), held)

    assert (said in found) if said else not found


def told(world: World) -> list[tuple[str, str, str]]:
    return [(one.kind, one.name, one.note) for one in world.events("ResourcePoolInTrouble")]


def test_a_pool_that_stays_incomplete_is_told_of_once_and_all_else_goes_on():
    world = World()
    world.devices.put(device_class())
    for i in range(2):
        world.node(f"n{i}", gpus=0)
    world.devices.put(part("broken", "a", "b", count=2), resource_slice("n1", 1))
    for name in ("one", "two"):
        world.devices.make_claim(name, asks_for(1))
        world.pod(name, gpus=0, device_claims=(name,))
    world.until(GRACE_SECONDS - 5)
    assert told(world) == []
    assert world.where("one") == {"one": "n1"}

    world.until(10 * GRACE_SECONDS)
    [(kind, name, note)] = told(world)
    assert (kind, name) == ("ResourceSlice", "broken")
    assert note == f"resource pool {DRIVER}/p: only 1 of 2 slices of generation 1 is published"
    assert not world.replay().differences

    world.devices.put(part("rest", "c", count=2))
    world.run()
    assert set(world.where()) == {"one", "two"}


def test_a_pool_that_is_put_right_in_time_is_not_told_of():
    world = World()
    world.node("n0", gpus=0)
    world.devices.put(part("s", "a", count=2))
    world.until(GRACE_SECONDS / 2)
    world.devices.put(part("t", "b", count=2))
    world.until(10 * GRACE_SECONDS)

    assert told(world) == []


def test_a_driver_that_vanishes_is_told_of_on_the_claims_that_have_its_devices():
    world = World()
    world.devices.put(device_class(), resource_slice("n0", 2))
    world.node("n0", gpus=0)
    world.devices.make_claim("mine", asks_for(1))
    world.pod("p", gpus=0, device_claims=("mine",))
    world.run()
    world.devices.drop("ResourceSlice", f"n0-{DRIVER}")
    world.until(2 * GRACE_SECONDS)

    [(kind, name, note)] = told(world)
    assert (kind, name) == ("ResourceClaim", "mine")
    assert "publishes nothing of it any more, and device gpu-0 is allocated" in note
    assert world.devices.results("mine") == ["n0/gpu-0"]


def test_pools_in_trouble_stand_below_the_nodes():
    world = World()
    world.node("n0", gpus=0)
    world.devices.put(part("s", "a", "a"))

    found = top(world.engine.state, ["cpu"])

    assert [(one.driver, one.pool, one.problem) for one in found.pools] == [(DRIVER, "p", "device a is in it twice")]
    assert draw_top(found) is not None


def test_a_class_whose_selector_cannot_be_read_says_so_once():
    world = World()
    for _ in range(2):
        world.devices.put(device_class("wrong", "device.driver =="))
    world.run()

    [event] = world.events("InvalidSelector")
    assert (event.kind, event.name) == ("DeviceClass", "wrong")
    assert event.note.startswith("spec.selectors[0]: ")
