"""What nodes offer, what is free, and how large the holes are."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.cli.views import scene
from tests.engine.hami_world import HamiWorld
from tests.engine.world import GPU
from tutti.cli.views.nodes import CardSum, ModelUse, devices, draw_top, top


def of(*made: scene.Json, label: str | None = None) -> dict[str, ModelUse]:
    state = scene.told(list(made)).stock().state
    return {one.model: one for one in top(state, devices(state), label).models}


def busy(on: str, gpus: int) -> scene.Json:
    return scene.pod("default", f"busy-{on}", gpus, on=on, scheduler="default-scheduler")


@pytest.mark.parametrize(
    ("used", "holes", "fits"),
    [
        ((0, 0), {8: 2}, {1: 16, 2: 8, 4: 4, 8: 2}),
        ((4, 4), {4: 2}, {1: 8, 2: 4, 4: 2, 8: 0}),
        ((8, 0), {8: 1}, {1: 8, 2: 4, 4: 2, 8: 1}),
        ((5, 7), {1: 1, 3: 1}, {1: 4, 2: 1, 4: 0, 8: 0}),
        ((8, 8), {}, {1: 0, 2: 0, 4: 0, 8: 0}),
    ],
)
def test_equal_sums_differ_by_their_holes(used: tuple[int, int], holes: dict, fits: dict):
    nodes = [scene.node(name, "m", "r") for name in ("a", "b")]
    found = of(*nodes, *(busy(name, gpus) for name, gpus in zip(("a", "b"), used, strict=True) if gpus))["m"]

    assert (found.used, found.free) == (sum(used), 16 - sum(used))
    assert found.holes == holes
    assert found.fits == fits
    assert found.largest == max(holes, default=0)


def test_what_is_free_on_a_node_that_takes_no_pods_is_no_hole():
    not_ready = [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]
    found = of(
        scene.node("a", "m", "r"),
        scene.node("b", "m", "r", unschedulable=True),
        scene.node("c", "m", "r", taints=not_ready),
    )["m"]

    assert (found.nodes, found.open, found.allocatable, found.free) == (3, 1, 24, 8)
    assert found.holes == {8: 1}


def test_a_node_of_odd_size_has_a_size_of_its_own():
    node = scene.node("a", "m", "r")
    node["status"]["allocatable"][scene.GPU] = "6"

    assert of(node)["m"].fits == {1: 6, 2: 3, 4: 1, 6: 1}


def test_a_label_of_ones_own_tells_models_apart():
    assert set(of(scene.node("a", "m", "r1"), scene.node("b", "m", "r2"), label=scene.RACK)) == {"r1", "r2"}


def test_without_devices_cpu_and_memory_are_told():
    node = scene.node("a", "m", "r")
    del node["status"]["allocatable"][scene.GPU]
    state = scene.told([node]).stock().state

    assert devices(state) == ["cpu", "memory"]
    assert [one.resource for one in top(state, devices(state)).nodes] == ["cpu", "memory"]


def test_a_resource_that_nobody_knows_is_offered_nowhere():
    assert top(scene.told([scene.node("a", "m", "r")]).stock().state, ["example.com/tpu"]).nodes == ()


def test_a_node_tells_what_keeps_pods_off():
    taints = [{"key": f"t{index}", "value": "x", "effect": "NoSchedule"} for index in range(4)]
    down = [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]
    made = [
        scene.node("a", "m", "r", taints=taints),
        scene.node("b", "m", "r", taints=down, unschedulable=True),
    ]
    found = top(scene.told(made).stock().state, [scene.GPU]).nodes

    assert [(one.node, one.open, one.notes) for one in found] == [
        ("a", True, ("t0=x:NoSchedule", "t1=x:NoSchedule", "t2=x:NoSchedule", "and 1 more")),
        ("b", False, ("cordoned", "unreachable")),
    ]


def test_a_node_whose_offer_cannot_be_read_is_told_with_what_is_wrong():
    node = scene.node("odd", "m", "r")
    node["status"]["allocatable"][scene.GPU] = "many"
    state = scene.told([node, scene.node("a", "m", "r")]).stock().state
    found = top(state, devices(state))
    drawn = io.StringIO()
    Console(file=drawn, width=120, color_system=None).print(draw_top(found))

    assert [(one.node, "'many' is not a quantity" in one.problem) for one in found.unreadable] == [("odd", True)]
    assert "'many' is not a quantity" in drawn.getvalue()


def test_cards_that_pods_share_are_told_with_their_holes():
    world = HamiWorld()
    world.machine("a", 2)
    world.machine("b", 1, health=False)
    world.card_pod("first", 10000, cores=60)
    world.run()

    found = top(world.engine.state, [GPU])

    assert [(one.node, one.index, one.used_memory, one.hole, one.note) for one in found.cards] == [
        ("a", 0, 10000, 6000, ""),
        ("a", 1, 0, 16000, ""),
        ("b", 0, 0, 0, "unhealthy"),
    ]
    assert found.all_cards == CardSum(3, 1, 48000, 10000, 22000, 16000, 27)
    page = Console(width=160, file=io.StringIO())
    page.print(draw_top(found))
    drawn = page.file.getvalue()
    assert "the largest hole is 16000 MiB, and 27 % of what is free is on cards that somebody uses" in drawn
    assert "60/100" in drawn


def test_a_card_that_takes_nobody_more_is_no_hole_though_it_has_memory_left():
    world = HamiWorld()
    world.machine("a", 3, count=1)
    world.card_pod("first", 10000)
    world.run()

    found = top(world.engine.state, [GPU])

    assert [(one.used_slots, one.slots, one.hole) for one in found.cards] == [(1, 1, 0), (0, 1, 16000), (0, 1, 16000)]
    assert found.all_cards == CardSum(3, 2, 48000, 10000, 32000, 16000, 0)


def test_where_no_card_has_anything_free_nothing_is_in_pieces():
    world = HamiWorld()
    world.machine("a", 1)
    world.card_pod("first", 16000)
    world.run()

    assert top(world.engine.state, [GPU]).all_cards == CardSum(1, 0, 16000, 16000, 0, 0, 0)


def test_shared_gpus_and_partitions_are_told_by_their_own_names_where_nodes_offer_them():
    """What a device plugin makes of time-slicing, MPS and MIG; what somebody asks for and no node offers is not."""
    node = scene.node("a", "m", "r")
    offers = node["status"]["allocatable"]
    del offers[scene.GPU]
    offers |= {"nvidia.com/mig-1g.5gb": "7", "nvidia.com/gpu.shared": "4"}
    user = scene.pod("default", "user", 0, on="a", scheduler="default-scheduler")
    user["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/mig-1g.5gb": "2", "nvidia.com/gpu": "1"}}
    state = scene.told([node, user]).stock().state

    assert devices(state) == ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"]
    found = {one.resource: one for one in top(state, devices(state)).models}
    assert [(one.free, one.largest, one.holes) for one in found.values()] == [(4, 4, {4: 1}), (5, 5, {5: 1})]
