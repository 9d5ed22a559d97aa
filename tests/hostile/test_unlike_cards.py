"""Pods of several containers with shared cards, on nodes of which no two have the same cards."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tutti.api.cards import CardDemand, CardNeeds, CardWishes
from tutti.api.hami import REGISTER
from tutti.cluster.cards.columns import Amount, CardColumns
from tutti.cluster.cards.fitting import card_room
from tutti.cluster.cards.room import CardRoom


@pytest.mark.parametrize("nodes", [4, 40])
def test_containers_are_put_on_the_cards_of_all_nodes_at_once(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pod was put on the cards of each node: 100 unlike pods of four containers beside 500 nodes took 11 s."""
    names = [f"n{at}" for at in range(nodes)]
    found = CardColumns({name: at for at, name in enumerate(names)}, names)
    for at, name in enumerate(names):
        told = [
            {"id": f"g{card}", "count": 10, "devmem": 16000 + at, "devcore": 100, "health": True} for card in "abcd"
        ]
        found.read(name, {REGISTER: json.dumps(told)})
    asked, times = Counter[str](), CardRoom.times

    def counted(self: CardRoom, demand: CardDemand, wishes: CardWishes) -> Amount:
        asked["times"] += 1
        return times(self, demand, wishes)

    monkeypatch.setattr(CardRoom, "times", counted)
    needs = CardNeeds(tuple(CardDemand(2, 1000 + at) for at in range(4)))
    assert card_room(found, needs, 1).tolist() == [1] * nodes
    assert asked["times"] <= 2 * len(needs.containers)
