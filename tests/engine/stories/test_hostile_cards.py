"""Registers and annotations of cards that cannot be right cost nobody but their own node and pod."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.hami_world import HamiWorld, card
from tests.engine.world import GPU
from tutti.api.hami import ALLOCATED, BIND_PHASE, MEMORY, NODE, PERCENTAGE, REGISTER

HOSTILE = [
    "", "[", "null", "{}", "[[[[", "[1]", '[{"id":"x"}', '[{"id":1}]', '[{"id":"a,b","health":true}]',
    json.dumps([card(0, "a", devmem=2**40)]), json.dumps([card(0, "a", count=-1)]), json.dumps([card(0, "a", count=10**6)]),
    json.dumps([card(0, "a")] * 2), json.dumps([card(at, "a") for at in range(65)]), "x" * 300_000, "[" * 100_000,
    json.dumps([card(0, "a", devcore=-1)]), json.dumps([card(0, "a", devmem=-1)]), json.dumps([{**card(0, "a"), "id": ""}]),
    json.dumps([{**card(0, "a"), "id": "x" * 129}]), json.dumps([{**card(0, "a"), "id": "a\tb"}]),
    json.dumps([{**card(0, "a"), "id": "a;b"}]), json.dumps([card(0, "a")]) + " " * 300_000,
    "a,1,2,3:", "\x00",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_register_that_cannot_be_right_costs_its_node_only(text: str):
    world = HamiWorld()
    world.machine("a", 1)
    world.say("a", {REGISTER: text})
    world.card_pod("pod", 4000)
    world.run()
    assert not world.where()
    world.machine("b", 1)
    world.run()
    assert world.where() == {"pod": "b"}


@examples(25)
@given(
    st.dictionaries(
        st.sampled_from([
            "nvidia.com/use-gputype", "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid", "nvidia.com/vgpu-mode",
            "nvidia.com/numa-bind", "hami.io/gpu-scheduler-policy", "hami.io/node-scheduler-policy", NODE, ALLOCATED,
            BIND_PHASE, "hami.io/bind-time", "gpu-memory",
        ]),
        st.one_of(st.text(max_size=20), st.sampled_from(["x," * 5000, "a", "1" * 400, "GPU-a-0,NVIDIA,99999999999,1:;"])),
    ),
    st.dictionaries(
        st.sampled_from([GPU, MEMORY, "nvidia.com/gpucores", PERCENTAGE]),
        st.sampled_from(["0", "1", "2", "64", "65", "-1", "9223372036854775807", "1e30", "x", "500m"]),
    ),
)  # fmt: skip
def test_whatever_a_pod_says_everybody_else_goes_on(annotations: dict[str, str], limits: dict[str, str]):
    world = HamiWorld()
    world.machine("a", 1)
    world.card_pod("hostile", limits=limits, annotations=annotations)
    world.card_pod("there", limits=limits, annotations=annotations, node="a", scheduler="other")
    world.machine("b", 1)
    world.card_pod("pod", 4000)
    world.run()
    assert "pod" in world.where()


def test_who_asks_for_no_cards_has_none_whatever_he_says_and_others_no_more_than_they_ask_for():
    world = HamiWorld()
    world.machine("a", 2)
    said = {NODE: "a", ALLOCATED: "GPU-a-0,NVIDIA,16000,100:GPU-a-1,NVIDIA,16000,100:;"}
    world.card_pod("liar", limits={}, annotations=said, node="a", scheduler="other")
    world.card_pod("greedy", 4000, annotations=said, node="a", scheduler="hami-scheduler")
    world.sharing_gang("g", 2, 12000)
    world.run()
    assert {"g-0", "g-1"} <= set(world.where())
    assert world.engine.state.cluster.nodes.cards.used_memory.tolist() == [[16000, 12000]]


def test_a_pod_seen_before_the_cards_of_its_node_has_no_more_of_them_than_it_asks_for():
    world = HamiWorld()
    said = {NODE: "a", ALLOCATED: "GPU-a-0,NVIDIA,2147483647,100:;"}
    world.card_pod("tenth", percent=10, annotations=said, node="a", scheduler="hami-scheduler")
    world.machine("a", 1)
    world.run()
    cards = world.engine.state.cluster.nodes.cards
    cards.sync()
    assert cards.used_memory.tolist() == [[1600]]
    assert cards.used_slots.tolist() == [[1]]
    world.delete("tenth")
    world.run()
    assert cards.used_memory.tolist() == [[0]]
