"""Gangs and pods that share GPUs by HAMi: tight, whole or not at all, and no card promised twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.hami_world import HamiWorld
from tests.engine.world import GPU
from tutti.api.hami import MEMORY
from tutti.engine.records.explanation import Gate


def test_pods_fill_the_tightest_hole_of_the_cluster_and_leave_cards_whole():
    world = HamiWorld()
    world.machine("a")
    world.machine("b")
    world.card_pod("large", 10000)
    world.run()
    world.card_pod("medium", 4000)
    world.run()
    world.card_pod("small", 2000)
    world.run()

    assert len(set(world.where().values())) == 1
    node = world.where()["large"]
    assert world.taken(node) in ([(16000, 0, 3), (0, 0, 0)], [(0, 0, 0), (16000, 0, 3)])
    assert not world.replay().differences


def test_a_gang_is_placed_whole_by_cards_or_not_at_all():
    world = HamiWorld()
    world.machine("a", 1)
    world.machine("b", 1)
    world.sharing_gang("late", 5, 7000)
    world.run()
    assert not world.where()
    why = world.why("PodGroup", "late")
    assert why is not None
    assert why.gate is Gate.PLACEMENT

    world.machine("c", 1)
    world.run()
    assert len(world.where("late")) == 5
    for node in ("a", "b", "c"):
        assert all(memory <= 16000 for memory, _, _ in world.taken(node))
    assert not world.replay().differences


def test_what_a_pod_has_is_the_same_after_a_restart():
    world = HamiWorld()
    world.machine("a", 1)
    world.card_pod("first", 9000, cores=50)
    world.run()
    for backwards in (False, True):
        world.restart(backwards=backwards)
        world.card_pod(f"wide-{backwards}", 8000)
        world.run()
        assert "wide" not in "".join(world.where())
    world.card_pod("narrow", 7000, cores=50)
    world.run()
    assert set(world.where()) == {"first", "narrow"}


def test_a_more_important_pod_takes_the_memory_of_a_card():
    world = HamiWorld()
    world.machine("a", 1)
    world.card_pod("low", 12000)
    world.run()
    world.card_pod("high", 8000, priority=100)
    world.until(5)
    assert world.where() == {"high": "a"}


DEMANDS = st.tuples(
    st.sampled_from([0, 1000, 4000, 5333, 8000, 16000]), st.sampled_from([0, 10, 25, 50, 100]), st.integers(1, 3)
)


@examples(40)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.tuples(DEMANDS, st.integers(1, 5), st.booleans()), min_size=1, max_size=8),
)
def test_no_card_is_ever_promised_twice(machines, steps):
    world = HamiWorld()
    for at, cards in enumerate(machines):
        world.machine(f"n{at}", cards)
    for at, ((memory, cores, count), size, restarts) in enumerate(steps):
        world.sharing_gang(f"g{at}", size, memory, cores=cores, count=count)
        world.run()
        placed = world.where(f"g{at}")
        assert len(placed) in (0, size)
        if restarts:
            world.restart()
        if at % 3 == 2 and placed:
            world.delete(*placed)
            world.run()
        for node in world.nodes:
            assert all(used <= 16000 and busy <= 100 and slots <= 10 for used, busy, slots in world.taken(node)), (
                world.taken(node)
            )
        for name in world.where():
            for mine in world.parts(name):
                assert len({one for one, _, _ in mine}) == len(mine)


def test_room_for_members_yet_to_be_made_is_kept_on_cards_and_handed_over():
    world = HamiWorld()
    world.machine("a", 1)
    asked = {"cpu": "1", "memory": "1Gi", GPU: "1", MEMORY: "8000"}
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": asked}}]}}
    world.workload("job", {"name": "w", "count": 2, "template": template})
    labels = {"scheduling.tutti.dev/workload": "job", "scheduling.tutti.dev/pod-group": "w"}
    world.card_pod("w-0", 8000, labels=labels)
    world.run()
    world.card_pod("other", 8000)
    world.run()
    assert "other" not in world.where()
    world.card_pod("w-1", 8000, labels=labels)
    world.run()
    assert set(world.where()) == {"w-0", "w-1"}
    assert world.taken("a") == [(16000, 0, 2)]


def test_a_gang_whose_pods_share_cards_by_several_containers_fills_a_node():
    world = HamiWorld()
    world.machine("a", 2)
    world.pod_group("g", 8)
    for rank in range(8):
        begun = {GPU: "1", MEMORY: "4000"}
        world.card_pod(f"g-{rank}", 3000, group="g", begun=begun)
    world.run()
    assert len(world.where("g")) == 8
    world.card_pod("ninth", 1000)
    world.run()
    assert "ninth" not in world.where()


@pytest.mark.parametrize("restarts", [False, True])
def test_what_victims_leave_of_a_card_is_kept_for_whom_they_leave(restarts: bool):
    world = HamiWorld()
    world.machine("a", 1)
    world.hold_evictions = True
    for name in ("low-0", "low-1"):
        world.card_pod(name, 8000)
    world.run()
    world.card_pod("high", 12000, priority=100)
    world.run()
    assert world.reason("Pod", "high") == "WaitingForVictims"

    world.delete("low-0")
    if restarts:
        world.restart()
    world.card_pod("next", 8000)
    world.run()
    assert set(world.where()) == {"low-1"}, "half a card is free, and another's"

    world.delete("low-1")
    world.run()
    assert set(world.where()) == {"high"}
    world.card_pod("small", 4000)
    world.run()
    assert set(world.where()) == {"high", "small"}
    assert world.taken("a") == [(16000, 0, 2)]
