"""What the annotations of a pod wish of its cards, by HAMi's words: which cards of a node, and which node."""

from __future__ import annotations

import json

import pytest

from tests.engine.hami_world import HamiWorld, card
from tutti.api.hami import REGISTER

NUMA_BIND = "nvidia.com/numa-bind"
CARDS = "hami.io/gpu-scheduler-policy"
NODES = "hami.io/node-scheduler-policy"
MODE = "nvidia.com/vgpu-mode"


def two_zones(used: int) -> HamiWorld:
    """A node with two cards in each of two zones; of the first of each zone so many MiB are used."""
    world = HamiWorld()
    world.machine("a", 4, annotations={REGISTER: json.dumps([card(at, "a", numa=at // 2) for at in range(4)])})
    for at in (0, 2):
        world.card_pod(f"before-{at}", used, annotations={"nvidia.com/use-gpuuuid": f"GPU-a-{at}"})
    world.run()
    assert [memory for memory, _, _ in world.taken("a")] == [used, 0, used, 0]
    return world


@pytest.mark.parametrize(
    ("annotations", "given"),
    [
        ({}, [0, 2]),
        ({CARDS: "binpack"}, [0, 2]),
        ({CARDS: "spread"}, [1, 3]),
        ({CARDS: "mutex"}, [1, 3]),
        ({CARDS: "numa"}, [0, 1]),
        ({CARDS: "numa,mutex"}, [1, 3]),
        ({CARDS: "of my own"}, [0, 2]),
        ({NUMA_BIND: "true"}, [0, 1]),
        ({NUMA_BIND: "false"}, [0, 2]),
        ({NUMA_BIND: "true", CARDS: "spread"}, [0, 1]),
    ],
)
def test_cards_of_a_node_are_chosen_as_the_pod_wishes(annotations: dict[str, str], given: list[int]):
    world = two_zones(8000)
    world.card_pod("pod", 4000, count=2, annotations=annotations)
    world.run()
    assert sorted(one for one, _, _ in world.parts("pod")[0]) == [f"GPU-a-{at}" for at in given]


@pytest.mark.parametrize(("bound", "size", "starts"), [("true", 1, False), ("false", 1, True), ("false", 2, False)])
def test_a_pod_that_wants_one_zone_waits_where_its_cards_would_be_of_two(bound: str, size: int, starts: bool):
    world = two_zones(16000)
    world.sharing_gang("gang", size, 16000, count=2, annotations={NUMA_BIND: bound})
    world.run()
    assert ("gang-0" in world.where()) is starts
    if starts:
        assert sorted(one for one, _, _ in world.parts("gang-0")[0]) == ["GPU-a-1", "GPU-a-3"]


@pytest.mark.parametrize(("annotations", "goes"), [({}, "a"), ({NODES: "binpack"}, "a"), ({NODES: "spread"}, "b")])
def test_a_node_is_filled_or_spared_as_the_pod_wishes(annotations: dict[str, str], goes: str):
    world = HamiWorld()
    world.machine("a")
    world.card_pod("before", 4000)
    world.run()
    world.machine("b")
    world.card_pod("pod", 4000, annotations=annotations)
    world.run()
    assert world.where()["pod"] == goes


@pytest.mark.parametrize(("mode", "goes"), [("mps", "b"), ("hami-core", "a"), ("mig", None)])
def test_only_cards_of_the_mode_that_a_pod_wishes_will_do(mode: str, goes: str | None):
    world = HamiWorld()
    world.machine("a")
    world.machine("b", mode="mps")
    world.card_pod("pod", 4000, annotations={MODE: mode})
    world.run()
    assert world.where().get("pod") == goes


def test_who_asks_for_all_compute_of_a_card_shares_it_with_nobody():
    """HAMi: 100 % of the cores are to be had of an unused card alone, even where nobody uses its compute."""
    world = HamiWorld()
    world.machine("a", 1)
    world.card_pod("before", 4000)
    world.run()
    world.card_pod("all", 4000, cores=100)
    world.card_pod("most", 4000, cores=99)
    world.run()
    assert world.where() == {"before": "a", "most": "a"}


def test_percents_of_the_memory_of_cards_are_whole_mib_of_each():
    """HAMi: memory of the card * percentage / 100, in whole MiB (device.go, Fit)."""
    world = HamiWorld()
    world.machine("a", 1, devmem=15999)
    for name, percent in (("one", 60), ("two", 41), ("three", 40)):
        world.card_pod(name, percent=percent)
        world.run()
    assert {name: world.parts(name)[0][0][1] for name in world.where()} == {"one": 9599, "three": 6399}


def test_who_asks_for_no_compute_needs_a_card_whose_compute_is_not_all_taken():
    """HAMi: a card all of whose cores are given away takes nobody more, not even for memory alone (device.go, Fit)."""
    world = HamiWorld()
    world.machine("a", 1)
    world.card_pod("half", 4000, cores=50)
    world.card_pod("memory-only", 4000)
    world.run()
    world.card_pod("rest", 4000, cores=50)
    world.run()
    world.card_pod("late", 1000)
    world.run()
    assert set(world.where()) == {"half", "memory-only", "rest"}


def on(world: HamiWorld, card_id: str, memory: int) -> None:
    """Somebody has so many MiB of a card."""
    world.card_pod(f"on-{card_id.lower()}", memory, annotations={"nvidia.com/use-gpuuuid": card_id})
    world.run()


def test_the_tightest_hole_of_the_cluster_is_filled_though_another_node_is_fuller():
    world = HamiWorld()
    world.machine("a", 1)
    world.machine("b", 2)
    on(world, "GPU-a-0", 6000)
    on(world, "GPU-b-0", 12000)
    world.card_pod("pod", 4000)
    world.run()
    assert world.parts("pod") == [[("GPU-b-0", 4000, 0)]]


def test_of_cards_that_are_as_good_one_is_taken_on_the_fuller_node_and_nodes_stay_whole():
    world = HamiWorld()
    world.machine("a", 2)
    world.machine("b", 2)
    on(world, "GPU-b-0", 16000)
    world.card_pod("pod", 16000)
    world.run()
    assert world.parts("pod") == [[("GPU-b-1", 16000, 0)]]


def test_nodes_whose_annotations_cannot_be_read_are_told_apart_from_those_that_are_full_and_those_without():
    world = HamiWorld()
    world.machine("unread", 1)
    world.say("unread", {REGISTER: "nonsense"})
    world.machine("full", 1)
    on(world, "GPU-full-0", 16000)
    world.node("without", gpus=2)
    world.card_pod("pod", 4000)
    world.run()
    told = world.why("Pod", "pod").message
    assert "1 node(s) whose HAMi annotations cannot be read" in told
    assert "1 node(s) without cards of HAMi" in told
    assert "1 node(s) with too little free on each card" in told
