"""What is said of claims that find no devices: in numbers, and what would have to be left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.engine.devices import DRIVER, asks_for, decoded, device_class, resource_slice
from tests.engine.preemption.test_device_holders import gang, single, with_devices
from tests.engine.world import World
from tutti.api.devices import ResourceSlice
from tutti.placement.plugins.device_shortage import device_shortage

H200 = 'device.attributes["gpu.example.com"].model == "H200"'
ROOT = "resource.kubernetes.io/pcieRoot"


def asking(world: World, name: str, *, expression: str = "", **asked: Any) -> str:
    """A pod that waits; returns why."""
    selectors = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    world.devices.make_claim(name, asks_for(**asked, **selectors))
    world.pod(name, gpus=0, device_claims=(name,))
    world.run()
    return world.why("Pod", name).message


def test_it_says_how_many_there_are_match_are_taken_and_free():
    world = with_devices(nodes=3)
    for i in range(3):
        single(world, f"low-{i}", count=2)
    world.run()
    assert asking(world, "p", count=4).endswith(
        "3 cannot allocate all claims. 12 of 12 devices of class gpu match; 6 are taken; on 3 nodes 2 are free of 4 needed."
    )


def test_it_says_which_selector_would_have_to_be_left_out():
    world = with_devices(nodes=2)
    text = asking(world, "p", count=4, expression=H200)
    assert (
        "0 of 8 devices of class gpu match; 0 are taken; on 2 nodes 0 are free of 4 needed; with `device.attr" in text
    )
    assert text.endswith('model == "H200"` left out it would fit.')


def test_it_says_which_constraint_would_have_to_be_left_out():
    world = with_devices(nodes=1)
    text = asking(world, "p", count=4, match=ROOT)
    assert text.endswith(
        f"4 of 4 devices of class gpu match; 0 are taken; on 1 node 4 are free of 4 needed; "
        f"with matchAttribute {ROOT} left out it would fit."
    )


def test_of_a_gang_it_says_what_all_of_it_lacks():
    world = with_devices(nodes=2)
    gang(world, "g", 3, count=4)
    world.run()
    text = world.why("PodGroup", "g").message
    assert "2 node(s) with room for only 2 of 3 pods of the gang" in text
    assert "8 of 8 devices of class gpu match; 0 are taken" in text


def test_nothing_is_said_of_devices_where_they_suffice():
    world = with_devices(nodes=1)
    world.devices.make_claim("p", asks_for(1))
    world.pod("p", gpus=64, device_claims=("p",))
    world.run()
    assert "of class" not in world.why("Pod", "p").message


def test_nothing_is_said_of_what_is_taken_from_nobody():
    world = with_devices(nodes=1)
    world.node("without", labels={"kind": "without"})
    world.devices.make_claim("looks", asks_for(1, adminAccess=True))
    world.pod("looks", gpus=0, device_claims=("looks",), selector={"kind": "without"})
    world.run()
    assert world.why("Pod", "looks").message.endswith("1 node(s) didn't match Pod's node affinity/selector.")


def test_what_tenants_write_is_cut_short_and_shown_plainly():
    world = with_devices(nodes=1)
    expression = f'device.driver == "\\u202e`{"x" * 200}"'
    text = asking(world, "p", count=1, expression=expression)
    assert "x" * 100 not in text
    assert "\u202e" not in text
    assert text.count("`") == 2


def sliced(name: str, count: int = 1, **spec: Any) -> ResourceSlice:
    """A slice of the pool of node n0."""
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": count}
    raw = {"metadata": {"name": name, "uid": name}, "spec": {"driver": DRIVER, "pool": pool, "nodeName": "n0", **spec}}
    out: ResourceSlice = decoded(raw, ResourceSlice)
    return out


def test_of_shared_devices_it_counts_those_with_enough_capacity_left():
    world = World()
    world.node("n0", gpus=0)
    card = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "40Gi"}}}
    world.devices.put(device_class(), sliced("s", devices=[{"name": f"g{i}", **card} for i in range(2)]))
    for name in ("a", "b"):
        asking_memory(world, name, "30Gi")
    assert len(world.where()) == 2
    assert asking_memory(world, "c", "20Gi").endswith(
        "2 of 2 devices of class gpu match; 0 are taken; 2 have too little left of capacity or counters; "
        "on 1 node 0 are free of 1 needed."
    )
    assert asking_memory(world, "d", "10Gi") == ""


def test_it_says_which_devices_are_in_pools_between_two_generations():
    world = with_devices(nodes=1)
    raw = [{"name": f"gpu-{at}"} for at in range(3)]
    for node in ("n1", "n2"):
        world.node(node, gpus=0)
        pool = {"name": node, "generation": 2, "resourceSliceCount": 2}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": raw}
        world.devices.put(decoded({"metadata": {"name": node, "uid": node}, "spec": spec}, ResourceSlice))
    assert asking(world, "p", count=5).endswith(
        f"10 of 10 devices of class gpu match; 0 are taken; 6 are in 2 pools, such as {DRIVER}/n1, that cannot be used "
        "as published (only 1 of 2 slices of generation 2 is published); on 1 node 4 are free of 5 needed."
    )


def networked(world: World, name: str, generation: int, count: int, rack: str) -> None:
    """A slice of three devices, of a pool that hangs on a network, for the nodes of a rack."""
    terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}]
    pool = {"name": "fabric", "generation": generation, "resourceSliceCount": count}
    devices = [{"name": f"{name}-{at}"} for at in range(3)]
    spec = {"driver": DRIVER, "pool": pool, "nodeSelector": {"nodeSelectorTerms": terms}, "devices": devices}
    world.devices.put(decoded({"metadata": {"name": name, "uid": name}, "spec": spec}, ResourceSlice))


@pytest.mark.parametrize(
    ("newer", "why"),
    [
        (2, "only 1 of 2 slices of generation 2 is published"),
        (1, "slice old is still of generation 1, and generation 2 is for other nodes"),
    ],
)
def test_it_says_which_devices_of_a_network_are_of_an_older_generation_for_some_nodes(newer: int, why: str):
    """Their nodes pass the pool by: kube-scheduler does so as well, and says that there are no devices."""
    world = World()
    world.devices.put(device_class())
    world.node("n0", gpus=0, labels={"rack": "a"})
    networked(world, "old", 1, 2, "a")
    networked(world, "new", 2, newer, "b")
    assert asking(world, "p", count=1).endswith(
        f"3 of 3 devices of class gpu match; 0 are taken; 3 are in pool {DRIVER}/fabric that cannot be used as published "
        f"({why}); on 1 node 0 are free of 1 needed."
    )


def test_slices_that_are_out_of_date_are_not_told_of_where_nodes_see_newer_ones():
    world = World()
    world.devices.put(device_class())
    world.node("n0", gpus=0, labels={"rack": "a"})
    networked(world, "old", 1, 2, "a")
    networked(world, "new", 2, 1, "a")
    assert asking(world, "p", count=4).endswith(
        "3 of 3 devices of class gpu match; 0 are taken; on 1 node 3 are free of 4 needed."
    )


def test_slices_that_are_out_of_date_are_not_told_of_where_they_are_another_nodes():
    world = World()
    world.devices.put(device_class())
    world.node("n0", gpus=0, labels={"rack": "a"})
    pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "other", "devices": [{"name": "d"}]}
    world.devices.put(decoded({"metadata": {"name": "old", "uid": "old"}, "spec": spec}, ResourceSlice))
    networked(world, "new", 2, 1, "b")
    assert asking(world, "p", count=1).endswith("No devices of class gpu are published for these nodes.")


def test_it_says_that_nobody_publishes_such_devices():
    world = with_devices(nodes=2)
    for name in ("n0", "n1"):
        world.devices.drop("ResourceSlice", f"{name}-{DRIVER}")
    assert asking(world, "p", count=1).endswith("No devices of class gpu are published for these nodes.")


@pytest.mark.parametrize("members", [3, 5])
def test_of_pods_that_share_a_claim_it_says_how_many_find_room_where_its_devices_are(members: int):
    """Nodes that have devices for another claim of the kind do not add up: there is one claim."""
    world = with_devices(nodes=3, count=2)
    world.devices.make_claim("ours", asks_for(2))
    world.pod_group("g", members)
    for rank in range(members):
        world.pod(f"g-{rank}", group="g", gpus=0, cpu="30", device_claims=("ours",))
    world.run()
    text = world.why("PodGroup", "g").message
    assert f"1 node(s) with room for only 2 of {members} pods of the gang" in text
    assert text.endswith(
        f"All {members} pods use claim default/ours, and have to go where the same devices can be used: of 3 nodes with "
        "such devices none has room for more than 2 of them."
    )


def asking_memory(world: World, name: str, memory: str) -> str:
    """A pod that wants so much of a card; returns why it waits."""
    world.devices.make_claim(name, asks_for(capacity={"requests": {"memory": memory}}))
    world.pod(name, gpus=0, device_claims=(name,))
    world.run()
    why = world.why("Pod", name)
    return "" if why is None or name in world.where() else why.message


def test_of_partitions_it_counts_those_that_their_card_has_enough_left_for():
    world = World()
    world.node("n0", gpus=0)
    counters = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    used = [{"counterSet": "card", "counters": {"memory": {"value": "20Gi"}}}]
    parts = [{"name": f"p{i}", "consumesCounters": used} for i in range(4)]
    world.devices.put(device_class(), sliced("c", 2, sharedCounters=counters), sliced("s", 2, devices=parts))
    for name in ("a", "b"):
        world.devices.make_claim(name, asks_for(1))
        world.pod(name, gpus=0, device_claims=(name,))
    world.run()
    assert len(world.where()) == 2
    assert asking(world, "c", count=1).endswith(
        "4 of 4 devices of class gpu match; 2 are taken; 2 have too little left of capacity or counters; "
        "on 1 node 0 are free of 1 needed."
    )


def test_of_the_claim_of_a_group_it_says_what_all_of_it_lacks():
    world = with_devices(nodes=2)
    world.devices.make_claim("shared", asks_for(8))
    world.pod_group("g", 2)
    for rank in range(2):
        world.pod(f"g-{rank}", group="g", gpus=0, device_claims=("shared",))
    world.run()

    assert world.where() == {}
    assert "8 of 8 devices of class gpu match; 0 are taken; on 2 nodes 4 are free of 8 needed" in (
        world.why("PodGroup", "g").message
    )


def said(world: World, required: int, room: list[int], *claims: dict[str, Any], names: tuple[str, ...] = ()) -> str:
    """What is said of so many pods with these claims where each node has room for so many but for devices."""
    for at, spec in enumerate(claims):
        world.devices.make_claim(f"c{at}", spec)
    world.pod("p", gpus=10_000, device_claims=names or tuple(f"c{at}" for at in range(len(claims))))
    world.run()
    cluster = world.engine.state.cluster
    return device_shortage(cluster.nodes, cluster.pods["default", "p"].pod_class, required, np.array(room))


def with_counts(*counts: int) -> World:
    """Nodes with so many devices each, two of them to a PCIe root."""
    world = World()
    world.devices.put(device_class())
    for at, count in enumerate(counts):
        world.node(f"n{at}", gpus=8)
        if count:
            world.devices.put(resource_slice(f"n{at}", count))
    return world


@pytest.mark.parametrize(
    ("counts", "room", "free"),
    [
        ((1, 2, 2, 0), [1, 1, 1, 1], "on 2 nodes 2 are free of 4 needed"),
        ((1, 2, 2, 3), [1, 1, 1, 0], "on 2 nodes 2 are free of 4 needed"),  # nothing would help where there is no room
        ((1, 2, 2, 3), [1, 0, 1, 0], "on 1 node 2 are free of 4 needed"),
    ],
    ids=["those that have most", "with room", "of which one has room"],
)
def test_of_the_nodes_that_lack_some_it_counts_those_that_have_most(
    counts: tuple[int, ...], room: list[int], free: str
):
    assert said(with_counts(*counts), 1, room, asks_for(4)).endswith(f"; {free}.")


def test_nodes_that_have_enough_and_lack_something_else_are_told_of_where_no_other_has_any():
    """On both are more free than needed, of which no four have a PCIe root in common: it is told of where most are."""
    text = said(with_counts(5, 6), 1, [1, 1], asks_for(4, match=ROOT))
    assert "0 are taken; on 1 node 6 are free of 4 needed; with matchAttribute" in text
    text = said(with_counts(6, 2), 1, [1, 1], asks_for(4, match=ROOT))
    assert "0 are taken; on 1 node 2 are free of 4 needed" in text


def test_it_says_that_all_are_needed_where_all_are_asked_for():
    world = with_counts(2)
    single(world, "other", count=1)
    world.run()
    every = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}]}}
    assert said(world, 1, [1], every).endswith("1 is taken; on 1 node 1 is free of all needed.")


def test_of_several_requests_it_tells_those_that_lack_most():
    """The request for three lacks one device, that for five three, that for nine seven; two of these are told of."""
    text = said(with_counts(2), 1, [1], asks_for(3), asks_for(9), asks_for(5))
    first, second, rest = text.split("; and ")[0].split(" needed; ") + text.split("; and ")[1:]
    assert (first[-4:], second[-11:], rest[:14]) == ("of 9", "of 5 needed", "1 request more")
    text = said(with_counts(2), 1, [1], asks_for(3), asks_for(9))
    assert "more" not in text


def test_it_counts_devices_with_taints_that_are_not_tolerated():
    world = with_counts(0)
    taint = {"taints": [{"key": "broken", "effect": "NoSchedule"}]}
    world.devices.put(sliced("s", devices=[{"name": "a"}, {"name": "b", **taint}, {"name": "c", **taint}]))
    assert said(world, 1, [1], asks_for(2)).endswith(
        "3 of 3 devices of class gpu match; 0 are taken; 2 have taints that are not tolerated; "
        "on 1 node 1 is free of 2 needed."
    )


def test_it_says_of_how_many_it_cannot_be_told_whether_they_match_and_why():
    """What an expression asks that a device does not say is an error of the expression, not of the device."""
    world = with_counts(2)
    lacks = asks_for(1, selectors=[{"cel": {"expression": 'device.attributes["gpu.example.com"].absent == 1'}}])
    text = said(world, 1, [1], lacks)
    assert "0 of 2 devices of class gpu match; of 2 it cannot be told (" in text
    assert "no such key: absent" in text
    assert "{claim}" not in text


def test_devices_of_a_network_that_nodes_see_differently_are_counted_once():
    """Node n0 can use both slices of the pool, n1 the second only: six devices, of which three are for both."""
    world = World()
    world.devices.put(device_class())
    for at, racks in enumerate((["a"], ["a", "b"])):
        terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": racks}]}]
        devices = [{"name": f"{at}-{number}"} for number in range(3)]
        pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 2}
        spec = {"driver": DRIVER, "pool": pool, "nodeSelector": {"nodeSelectorTerms": terms}, "devices": devices}
        world.devices.put(decoded({"metadata": {"name": f"s{at}", "uid": f"s{at}"}, "spec": spec}, ResourceSlice))
    world.node("n0", gpus=0, labels={"rack": "a"})
    world.node("n1", gpus=0, labels={"rack": "b"})
    assert said(world, 1, [1, 1], asks_for(7)).endswith(
        "6 of 6 devices of class gpu match; 0 are taken; on 1 node 6 are free of 7 needed."
    )


def test_devices_of_a_network_whose_pool_cannot_be_used_are_counted_once():
    world = World()
    world.devices.put(device_class())
    for at, rack in enumerate("ab"):
        world.node(f"n{at}", gpus=0, labels={"rack": rack})
    for at, racks in enumerate((["a"], ["a", "b"])):
        terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": racks}]}]
        pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 3}
        spec = {"driver": DRIVER, "pool": pool, "nodeSelector": {"nodeSelectorTerms": terms}}
        spec["devices"] = [{"name": f"{at}-{number}"} for number in range(3)]
        world.devices.put(decoded({"metadata": {"name": f"s{at}", "uid": f"s{at}"}, "spec": spec}, ResourceSlice))
    assert f"; 6 are in pool {DRIVER}/fabric that cannot be used as published" in said(world, 1, [1, 1], asks_for(1))


def test_nothing_is_said_where_devices_suffice_for_all_though_some_nodes_have_none():
    """They wait for something else, such as one rack for all of them."""
    assert said(with_counts(4, 4, 0), 2, [1, 1, 1], asks_for(4)) == ""
    assert said(with_counts(4, 4, 0), 3, [1, 1, 1], asks_for(4)) != ""


@pytest.mark.parametrize(
    ("room", "text"),
    [
        ([2, 0, 0], ""),
        ([1, 1, 3], "of 2 nodes with such devices none has room for more than 1 of them."),
    ],
    ids=["one node has room for all", "the node with most room has no devices"],
)
def test_of_pods_that_share_a_claim_only_nodes_with_devices_count(room: list[int], text: str):
    world = with_counts(2, 2, 0)
    world.devices.make_claim("ours", asks_for(2))
    world.pod("q", gpus=10_000, device_claims=("ours",))
    found = said(world, 2, room, names=("ours",))
    assert found.endswith(text) if text else found == ""


def test_who_has_a_claim_of_his_own_beside_one_that_is_shared_is_told_in_numbers():
    world = with_counts(2)
    world.devices.make_claim("ours", asks_for(1))
    world.pod("q", gpus=10_000, device_claims=("ours",))
    world.devices.make_claim("own", asks_for(2))
    found = said(world, 2, [2], names=("ours", "own"))
    assert "All 2 pods use" not in found
    assert "2 of 2 devices of class gpu match" in found


def test_who_shares_one_of_two_claims_is_not_sent_where_all_have_room():
    world = with_counts(2, 2)
    world.devices.make_claim("ours", asks_for(1))
    world.pod("q", gpus=10_000, device_claims=("ours",))
    world.devices.make_claim("own", asks_for(1))
    assert "All 3 pods use" not in said(world, 3, [1, 1], names=("ours", "own"))


def test_nothing_is_told_of_requests_that_only_look_at_devices():
    """By admin access, which takes none away from anybody."""
    text = said(with_counts(2), 1, [1], asks_for(3, adminAccess=True), asks_for(9))
    assert text.count("needed") == 1
    assert "of 9 needed" in text


def test_it_says_which_selector_of_an_alternative_would_have_to_be_left_out():
    ways = [
        {"name": name, "deviceClassName": "gpu", "count": count, "selectors": [{"cel": {"expression": H200}}]}
        for name, count in (("large", 4), ("small", 2))
    ]
    asked = {"devices": {"requests": [{"name": "r", "firstAvailable": ways}]}}
    assert said(with_counts(2), 1, [1], asked).endswith('model == "H200"` left out it would fit.')


def test_it_says_which_distinct_attribute_would_have_to_be_left_out():
    """Where several things would help the first is told of: selectors before constraints."""
    asked = asks_for(2)
    asked["devices"]["constraints"] = [{"distinctAttribute": "gpu.example.com/model"}]
    assert said(with_counts(2), 1, [1], asked).endswith(
        "with distinctAttribute gpu.example.com/model left out it would fit."
    )


def test_of_several_selectors_the_one_is_told_without_which_it_would_fit():
    other = 'device.attributes["gpu.example.com"].model == "h100"'
    asked = asks_for(1, selectors=[{"cel": {"expression": one}} for one in (other, H200)])
    assert said(with_counts(2), 1, [1], asked).endswith(
        """with `device.attributes["gpu.example.com"].model == "H200"` left out it would fit."""
    )


def test_nothing_is_left_out_that_would_not_help_all_pods():
    assert "left out" not in said(with_counts(2), 2, [2], asks_for(2, selectors=[{"cel": {"expression": H200}}]))
    assert "left out" in said(with_counts(2), 1, [2], asks_for(2, selectors=[{"cel": {"expression": H200}}]))
