"""How often pods fit on cards: what is counted for all nodes at once is what can be given out, one by one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tutti.api.cards import CardDemand, CardNeeds, CardWishes
from tutti.api.hami import LINKS, REGISTER
from tutti.cluster.cards import fitting
from tutti.cluster.cards.columns import CardColumns
from tutti.cluster.cards.fitting import card_room, choose_parts
from tutti.cluster.cards.room import most_groups


def greedy_groups(times: list[int], size: int) -> int:
    """How many groups can be made, by giving out the cards that can be used most often: that is never worse."""
    left, count = sorted(times, reverse=True), 0
    while size <= len(left) and left[size - 1] > 0:
        left = sorted([*(one - 1 for one in left[:size]), *left[size:]], reverse=True)
        count += 1
    return count


@examples(200)
@given(st.lists(st.lists(st.integers(0, 6), min_size=4, max_size=4), min_size=1, max_size=5), st.integers(1, 4))
def test_groups_are_as_many_as_can_be_made(times: list[list[int]], size: int):
    assert most_groups(np.array(times), size).tolist() == [greedy_groups(one, size) for one in times]


def columns(cards: list[tuple[int, int]], links: list[dict[str, object]] | None = None) -> CardColumns:
    """One node; of each card MiB and slots."""
    names = ["n"]
    found = CardColumns({"n": 0}, names)
    told = [
        {"id": f"g{at}", "index": at, "count": slots, "devmem": memory, "devcore": 100, "health": True, "numa": at // 2}
        for at, (memory, slots) in enumerate(cards)
    ]
    found.read("n", {REGISTER: json.dumps(told)} | ({LINKS: json.dumps(links)} if links else {}))
    return found


DEMANDS = st.builds(
    CardDemand, st.integers(1, 3), st.sampled_from([1000, 3000, 5000]), st.just(0), st.sampled_from([0, 20, 50, 100])
)


@examples(150)
@given(
    st.lists(st.tuples(st.sampled_from([4000, 6000, 16000]), st.integers(1, 4)), min_size=1, max_size=4),
    st.lists(st.one_of(st.none(), DEMANDS), min_size=1, max_size=3),
    st.integers(0, 1),
    st.booleans(),
    st.lists(st.integers(1, 3), max_size=4),
)
def test_as_many_pods_get_cards_as_were_counted_in_whatever_portions(cards, containers, first, bound, portions):
    needs = CardNeeds(tuple(containers), min(first, len(containers) - 1), CardWishes(one_numa_node=bound))
    if not needs.asked:
        return
    found = columns(cards)
    room = int(card_room(found, needs)[0])
    given_out = 0
    for portion in [*portions, 100]:
        for grant in choose_parts(found, needs, 0, "n", portion):
            found.take(given_out, grant)
            given_out += 1
    assert (found.used_memory <= found.memory).all()
    assert (found.used_cores <= 100).all()
    assert (found.used_slots <= found.slots).all()
    if not bound:
        assert given_out == room
    for who in range(given_out):
        found.free(who, "n")
    assert not found.used_memory.any()


def test_a_container_gets_the_cards_that_are_linked_best():
    links = [{"uuid": "g0", "score": {"g1": 10, "g3": 100}}, {"uuid": "g2", "score": {"g1": 20}}]
    found = columns([(16000, 4)] * 4, links)
    (grant,) = choose_parts(found, CardNeeds((CardDemand(2, 1000),)), 0, "n", 1)
    assert set(grant.use) == {"g0", "g3"}


def test_where_pods_are_to_be_spread_the_emptiest_card_is_best():
    found = columns([(16000, 4), (8000, 4)])
    for policies, card in ((("spread",), "g0"), ((), "g1")):
        needs = CardNeeds((CardDemand(1, 1000),), wishes=CardWishes(policies=policies))
        (grant,) = choose_parts(found, needs, 0, "n", 1)
        assert set(grant.use) == {card}


def test_nodes_are_counted_anew_only_where_their_cards_changed(monkeypatch):
    names = [f"n{at}" for at in range(20)]
    found = CardColumns({name: at for at, name in enumerate(names)}, names)
    told = [{"id": "g0", "count": 10, "devmem": 16000, "devcore": 100, "health": True}]
    for name in names:
        found.read(name, {REGISTER: json.dumps(told)})
    needs = CardNeeds((CardDemand(1, 3000), CardDemand(1, 1000)))
    counted: list[int] = []  # on how many nodes, each time
    count = fitting.count_in_turn
    monkeypatch.setattr(
        fitting, "count_in_turn", lambda room, *asked: counted.append(len(room.memory)) or count(room, *asked)
    )
    assert card_room(found, needs).tolist() == [4] * 20
    assert counted == [1]  # they are alike

    (grant,) = choose_parts(found, needs, 0, "n3", 1)
    found.take("pod", grant)
    assert card_room(found, needs).tolist() == [4] * 3 + [3] + [4] * 16
    assert counted == [1, 1]
    found.free("pod", "n3")
    assert card_room(found, needs).tolist() == [4] * 20
    assert counted == [1, 1]


def test_init_containers_that_ask_for_the_same_count_as_one():
    found = columns([(16000, 10)] * 4)
    same, running = CardDemand(2, 5000, cores=20), CardDemand(1, 3000)
    one, many = (CardNeeds((*[same] * number, running), number) for number in (1, 200))
    assert card_room(found, many).tolist() == card_room(found, one).tolist()
    assert len(choose_parts(found, many, 0, "n", 100)) == int(card_room(found, one)[0])


def test_no_more_is_counted_than_is_wanted():
    found = columns([(16000, 10)] * 2)
    needs = CardNeeds((CardDemand(1, 3000), CardDemand(1, 1000)))
    for most, room in ((1, 1), (3, 3), (2, 2), (1024, 8), (5, 5), (8, 8), (9, 8)):
        assert card_room(found, needs, most).tolist() == [room]


@pytest.mark.parametrize(("bound", "room"), [(False, 1), (True, 0)])
def test_cards_of_two_zones_are_no_room_for_who_wants_one(bound: bool, room: int):
    found = columns([(16000, 1), (1000, 1), (16000, 1)])
    needs = CardNeeds((CardDemand(2, 5000),), wishes=CardWishes(one_numa_node=bound))
    assert card_room(found, needs).tolist() == [room]
