"""Queues count devices by class, and what single devices take, for what is asked and then for what was chosen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.devices import DRIVER, asks_for, decoded, device_class, resource_slice
from tests.engine.world import World
from tutti.api.configuration import load_configuration
from tutti.api.devices import ResourceClaim, ResourceSlice
from tutti.api.problems import ConfigurationError

MAPPED = [{"name": "gpus", "deviceClassNames": ["gpu", "other"]}]
MATCH = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}


def world_of(
    mappings: list[dict[str, Any]] = MAPPED, *, nodes: int = 2, quota: int | str = 8, name: str = "gpus"
) -> World:
    """Nodes with four devices each, and a queue with quota of them."""
    world = World(resources={"deviceClassMappings": mappings})
    world.devices.put(device_class(), device_class("other"))
    for i in range(nodes):
        world.node(f"n{i}", gpus=0)
        world.devices.put(resource_slice(f"n{i}", 4))
    world.flavor()
    world.queue("q", 0, more={name: quota})
    return world


def pod(world: World, name: str, spec: dict[str, Any], **more: Any) -> None:
    """A pod with a claim of its own, in the queue."""
    world.devices.make_claim(name, spec)
    world.pod(name, gpus=0, queue="queue", device_claims=(name,), **more)


def used(world: World, name: str = "gpus") -> int:
    return world.used("q", resource=name)


def test_devices_are_counted_and_given_back():
    world = world_of()
    pod(world, "a", asks_for(3))
    pod(world, "b", asks_for(4, name="other"))
    world.run()

    assert len(world.where()) == 2
    assert used(world) == 7
    pod(world, "c", asks_for(2))
    world.run()
    why = world.why("Pod", "c")
    assert why.gate == "Quota"
    assert "gpus" in why.message

    world.delete("a")
    world.devices.free("a")
    world.run()
    assert "c" in world.where()
    assert used(world) == 6
    assert not world.replay().differences


@pytest.mark.parametrize("backwards", [False, True])
def test_the_same_is_counted_after_a_restart(backwards):
    world = world_of()
    pod(world, "a", asks_for(3))
    pod(world, "b", first_available())
    world.run()
    before = used(world)

    world.restart(backwards=backwards)
    world.run()

    assert used(world) == before == 3 + 1


def first_available() -> dict[str, Any]:
    """Four devices of a model that there is not, or one."""
    none = [{"cel": {"expression": 'device.attributes["gpu.example.com"].model == "b300"'}}]
    ways = [
        {"name": "many", "deviceClassName": "gpu", "count": 4, "selectors": none},
        {"name": "one", "deviceClassName": "gpu", "count": 1},
    ]
    return {"devices": {"requests": [{"name": "r", "firstAvailable": ways}]}}


def test_the_chosen_one_of_several_ways_is_counted_and_the_largest_before():
    world = world_of(quota=4)
    world.devices.held = True
    pod(world, "a", first_available())
    world.run()
    assert used(world) == 1  # it is reserved, so that the way is chosen

    world.devices.held = False
    world.devices.write()
    world.run()
    assert set(world.where()) == {"a"}
    assert used(world) == 1
    pod(world, "b", first_available())
    world.run()
    assert world.why("Pod", "b").gate == "Quota"  # it may take four, as far as is known before


def test_all_devices_count_as_many_as_a_claim_may_have_until_they_are_chosen():
    world = world_of(quota=32)
    pod(
        world,
        "a",
        {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}]}},
    )
    world.run()

    assert set(world.where()) == {"a"}
    assert used(world) == 4


def test_who_looks_only_is_not_counted():
    world = world_of(quota=0)
    pod(world, "a", asks_for(2, adminAccess=True))
    world.run()

    assert set(world.where()) == {"a"}
    assert used(world) == 0


def test_what_is_looked_at_beside_what_is_had_is_not_counted_either():
    world = world_of(quota=1)
    world.devices.held = True
    asked = asks_for(1)
    looks = {"name": "looks", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}
    asked["devices"]["requests"].append(looks)
    pod(world, "a", asked)
    world.run()
    assert world.why("Pod", "a").reason == "WaitingForDevices"
    assert used(world) == 1

    world.devices.held = False
    world.devices.write()
    world.run()
    assert set(world.where()) == {"a"}
    assert used(world) == 1


def test_who_looks_only_may_do_so_with_others_by_one_claim():
    world = world_of(quota=0)
    world.devices.make_claim("ours", asks_for(2, adminAccess=True))
    for name in ("a", "b"):
        world.pod(name, gpus=0, queue="queue", device_claims=("ours",))
    world.run()

    assert set(world.where()) == {"a", "b"}


def test_a_claim_that_loses_its_devices_under_its_pod_counts_nothing_any_more():
    world = world_of()
    pod(world, "a", asks_for(3))
    world.run()
    world.devices.free("a")
    world.restart()
    world.run()

    assert set(world.where()) == {"a"}
    assert used(world) == 0


def given(world: World, name: str, count: int, *users: str, **more: Any) -> None:
    """A claim that somebody has given the first devices of node n0, for pods of these uids."""
    device = {"request": "r", "driver": DRIVER, "pool": "n0", **more}
    results = [{**device, "device": f"gpu-{at}"} for at in range(count)]
    used = [{"resource": "pods", "name": uid, "uid": uid} for uid in users]
    raw = {
        "metadata": {"name": name, "namespace": "default", "uid": f"claim-{name}"},
        "spec": asks_for(count),
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": used},
    }
    world.devices.put(decoded(raw, ResourceClaim))


def test_what_a_claim_has_before_its_pod_has_a_node_needs_quota():
    world = world_of(quota=2)
    for name, count in (("many", 3), ("few", 2)):
        given(world, name, count)
        world.pod(name, gpus=0, queue="queue", device_claims=(name,))
        world.run()

    assert set(world.where()) == {"few"}
    assert used(world) == 2
    assert world.why("Pod", "many").gate == "Quota"


def test_devices_that_several_use_count_for_the_first_of_them():
    world = world_of(quota=2)
    for name in ("first", "second"):
        world.pod(name, gpus=0, queue="queue", device_claims=(f"of-{name}",))
    given(world, "of-first", 2, world.pods["default", "first"].metadata.uid, "another's")
    given(world, "of-second", 2, "another's")
    world.run()

    assert set(world.where()) == {"first", "second"}
    assert used(world) == 2


def test_a_class_that_nothing_maps_needs_no_quota():
    world = world_of([{"name": "gpus", "deviceClassNames": ["other"]}], quota=0)
    pod(world, "a", asks_for(2))
    world.run()

    assert set(world.where()) == {"a"}


def test_a_queue_without_the_name_says_so():
    world = world_of(name="something-else")
    pod(world, "a", asks_for(2))
    world.run()

    why = world.why("Pod", "a")
    assert (why.gate, why.reason) == ("Quota", "ResourceNotCovered")
    assert "has no quota of gpus" in why.message


def test_extended_resources_are_counted_under_the_same_name_whoever_offers_them():
    world = world_of(nodes=1)
    world.devices.put(device_class(extendedResourceName="example.com/gpu"))
    world.node("plugin", gpus=0, extra={"example.com/gpu": "4"})
    for i in range(3):
        world.pod(f"p{i}", gpus=0, queue="queue", extended={"example.com/gpu": "4"})
    world.run()

    assert len(world.where()) == 2
    assert used(world) == 8
    world.restart()
    world.run()
    assert used(world) == 8
    assert world.why("Pod", "p2").gate == "Quota"


def test_a_gang_is_charged_as_a_whole_or_not_at_all():
    world = world_of(quota=3)
    world.pod_group("g", 2)
    for rank in range(2):
        pod(world, f"g-{rank}", asks_for(2), group="g")
    world.run()

    assert world.where() == {}
    assert used(world) == 0


def test_the_quota_of_devices_is_kept_for_the_successor_of_a_lost_member():
    world = world_of(quota=4)
    world.pod_group("g", 2, onMemberLoss={"action": "Restart", "windowSeconds": 300})
    for rank in range(2):
        pod(world, f"g-{rank}", asks_for(2), group="g")
    world.run()
    assert used(world) == 4

    world.delete("g-1")
    world.devices.drop("ResourceClaim", "g-1")
    pod(world, "other", asks_for(2))
    world.run()
    assert used(world) == 4
    assert "other" not in world.where()

    pod(world, "g-2", asks_for(2), group="g")
    world.run()
    assert set(world.where()) == {"g-0", "g-2"}
    assert used(world) == 4


def test_a_claim_that_several_share_is_refused_where_it_would_be_counted():
    world = world_of()
    world.devices.make_claim("ours", asks_for(1))
    for i in range(2):
        world.pod(f"p{i}", gpus=0, queue="queue", device_claims=("ours",))
    world.run()

    why = world.why("Pod", "p0")
    assert (why.gate, why.reason) == ("Quota", "DevicesNotCounted")
    assert "claim default/ours is used by several pods" in why.message


COUNTER = [
    {
        "name": "gpu-memory",
        "deviceClassNames": ["gpu"],
        "sources": [{"counter": {"name": "memory", "driver": DRIVER, "deviceSelector": MATCH}}],
    }
]


def partitions(node: str) -> list[ResourceSlice]:
    """A card of 80Gi in partitions of 10Gi, 20Gi and 80Gi."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    sets = [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]
    devices = [
        {
            "name": f"part-{size}-{i}",
            "attributes": {"size": {"int": size}},
            "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": f"{size}Gi"}}}],
        }
        for size in (10, 20, 80)
        for i in range(80 // size)
    ]
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node}
    raw = [{**spec, "sharedCounters": sets}, {**spec, "devices": devices}]
    return [decoded({"metadata": {"name": f"{node}-{i}"}, "spec": one}, ResourceSlice) for i, one in enumerate(raw)]


def of_size(size: str) -> dict[str, Any]:
    return asks_for(1, selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].size {size}'}}])


def partitioned(quota: str) -> World:
    world = World(resources={"deviceClassMappings": COUNTER})
    world.devices.put(device_class())
    world.node("n0", gpus=0)
    world.devices.put(*partitions("n0"))
    world.flavor()
    world.queue("q", 0, more={"gpu-memory": quota})
    return world


def test_partitions_count_by_what_they_take_of_their_card():
    world = partitioned("80Gi")
    pod(world, "small", of_size("== 10"))
    pod(world, "some", of_size("< 80"))
    world.run()

    assert len(world.where()) == 2
    assert used(world, "gpu-memory") == 20 * 2**30  # the second asked for 20Gi at most, and was given 10Gi
    world.restart()
    world.run()
    assert used(world, "gpu-memory") == 20 * 2**30
    assert not world.replay().differences


def test_what_partitions_take_at_most_needs_quota():
    world = partitioned("15Gi")
    pod(world, "some", of_size("< 80"))
    pod(world, "small", of_size("== 10"))
    world.run()

    assert set(world.where()) == {"small"}
    assert world.why("Pod", "some").gate == "Quota"


def test_devices_that_come_later_tell_what_is_asked_for():
    world = partitioned("15Gi")
    for i in range(2):
        world.devices.drop("ResourceSlice", f"n0-{i}")
    pod(world, "some", of_size("< 80"))
    world.run()
    assert world.why("Pod", "some").gate == "Placement"

    world.devices.put(*partitions("n0"))
    world.run()
    assert world.why("Pod", "some").gate == "Quota"


def test_what_a_driver_takes_back_counts_nothing_as_far_as_that_is_not_known_any_more():
    world = partitioned("80Gi")
    pod(world, "small", of_size("== 10"))
    world.run()
    for i in range(2):
        world.devices.drop("ResourceSlice", f"n0-{i}")
    world.restart()
    world.run()

    assert set(world.where()) == {"small"}
    assert used(world, "gpu-memory") == 0


def test_extended_resources_that_do_not_tell_what_single_devices_take_are_refused():
    world = partitioned("80Gi")
    world.devices.put(device_class(extendedResourceName="example.com/gpu"))
    world.pod("p", gpus=0, queue="queue", extended={"example.com/gpu": "1"})
    world.run()

    why = world.why("Pod", "p")
    assert (why.gate, why.reason) == ("Quota", "DevicesNotCounted")
    assert "which extended resource example.com/gpu does not tell" in why.message


def with_memory(quota: str, **device: Any) -> World:
    """A node with one device of 80Gi, and a queue with quota of its memory."""
    source = {"capacity": {"name": f"{DRIVER}/memory", "driver": DRIVER, "deviceSelector": MATCH}}
    world = World(
        resources={"deviceClassMappings": [{"name": "gpu-memory", "deviceClassNames": ["gpu"], "sources": [source]}]}
    )
    world.devices.put(device_class())
    world.node("n0", gpus=0)
    world.devices.put(resource_slice("n0", 1, **device))
    world.flavor()
    world.queue("q", 0, more={"gpu-memory": quota})
    return world


@pytest.mark.parametrize(("quota", "counted"), [("50Gi", 0), ("80Gi", 80 * 2**30)])
@pytest.mark.parametrize("asked", [{}, {"capacity": {"requests": {"memory": "20Gi"}}}])
def test_a_device_that_is_had_whole_counts_by_all_of_its_capacity(quota, counted, asked):
    world = with_memory(quota)
    pod(world, "p", asks_for(1, **asked))
    world.run()

    assert set(world.where()) == ({"p"} if counted else set())
    assert used(world, "gpu-memory") == counted


def test_what_a_claim_says_of_the_consumption_of_a_whole_device_does_not_count():
    """Nobody else can have any of it, as `ledger.py` has it."""
    world = with_memory("80Gi")
    given(world, "mine", 1, consumedCapacity={"memory": "1Gi"})
    world.pod("p", gpus=0, queue="queue", device_claims=("mine",))
    world.run()

    assert used(world, "gpu-memory") == 80 * 2**30


def test_shares_count_by_the_capacity_that_they_take():
    world = with_memory("50Gi", allowMultipleAllocations=True)
    world.devices.held = True
    for i in range(3):
        pod(world, f"p{i}", asks_for(1, capacity={"requests": {"memory": "20Gi"}}))
    world.run()
    assert used(world, "gpu-memory") == 40 * 2**30  # as soon as it is chosen

    world.devices.held = False
    world.devices.write()
    world.run()
    assert len(world.where()) == 2
    assert used(world, "gpu-memory") == 40 * 2**30
    world.restart()
    world.run()
    assert used(world, "gpu-memory") == 40 * 2**30


@pytest.mark.parametrize(
    ("mappings", "wrong"),
    [
        ("[{name: a, deviceClassNames: [gpu]}, {name: b, deviceClassNames: [gpu]}]", "class gpu is counted as a and b"),
        ("[{name: a, deviceClassNames: [x]}, {name: a, deviceClassNames: [y]}]", "a is there twice"),
        ("[{name: a, deviceClassNames: []}]", "at least 1 item"),
        ("[{name: a, deviceClassNames: [x], sources: [{}]}]", "exactly one of counter and capacity"),
    ],
)
def test_mappings_that_contradict_are_refused(mappings, wrong):
    with pytest.raises(ConfigurationError, match=wrong):
        load_configuration(
            f"apiVersion: scheduling.tutti.dev/v1alpha1\nkind: TuttiConfiguration\nresources: {{deviceClassMappings: {mappings}}}"
        )
