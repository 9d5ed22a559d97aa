"""What the columns of cards say is taken, while nodes come, go and change what they tell."""

from __future__ import annotations

import json
from typing import Any

from tutti.api.cards import CardPart
from tutti.api.hami import REGISTER
from tutti.cluster.cards.columns import NO_NUMA, CardColumns, Grant


def told(cards: int = 1, memory: int = 16000) -> dict[str, str]:
    """What a node says of its cards."""
    found: list[dict[str, Any]] = [
        {"id": f"g{at}", "index": at, "count": 10, "devmem": memory, "devcore": 100, "health": True}
        for at in range(cards)
    ]
    return {REGISTER: json.dumps(found)}


def grant(node: str, memory: int) -> Grant:
    return Grant(node, ((CardPart("g0", memory, 0),),))


def test_what_is_lifted_is_counted_once_though_its_node_is_worked_out_meanwhile():
    columns = CardColumns({"n": 0}, ["n"])
    columns.read("n", told())
    columns.take("pod", grant("n", 4000))
    columns.take("other", grant("n", 1000))
    columns.lift("pod", "n", back=False)  # before anybody has asked for anything
    columns.sync()
    assert columns.used_memory.tolist() == [[1000]]
    columns.read("n", told(memory=24000))
    columns.sync()
    assert columns.used_memory.tolist() == [[1000]]
    columns.lift("pod", "n", back=True)
    columns.sync()
    assert columns.used_memory.tolist() == [[5000]]


def test_who_leaves_while_he_is_lifted_is_taken_off_once():
    columns = CardColumns({"n": 0}, ["n"])
    columns.read("n", told())
    columns.take("pod", grant("n", 4000))
    columns.lift("pod", "n", back=False)
    columns.free("pod", "n")
    columns.lift("pod", "n", back=True)
    assert columns.used_memory.tolist() == [[0]]
    assert columns.used_slots.tolist() == [[0]]


def test_a_row_that_is_used_again_shows_no_cards_of_the_node_before():
    rows, names = {"old": 0}, ["old"]
    columns = CardColumns(rows, names)
    columns.read("old", told())
    columns.sync()
    version = columns.version
    columns.read("old", {})  # its annotation is taken off, and it is gone before anybody asks
    del rows["old"]
    columns.empty(0, "old")
    rows["new"], names[0] = 0, "new"
    columns.read("new", {})
    columns.sync()
    assert columns.memory.tolist() == [[0]]
    assert columns.cards == [()]
    assert not columns.open.any()
    assert columns.version > version


def test_a_new_node_has_nothing_worked_out_anew_but_itself(monkeypatch):
    rows, names = dict[str, int](), list[str]()
    columns = CardColumns(rows, names)
    filled: list[int] = []
    fill = columns._fill
    monkeypatch.setattr(columns, "_fill", lambda row, cards: filled.append(row) or fill(row, cards))
    for at in range(40):
        name = f"n{at}"
        rows[name] = at
        names.append(name)
        columns.read(name, told(1 + at % 3))
        columns.take("pod", grant(name, 100 + at))
        columns.sync()
        assert columns.memory.shape == columns.open.shape == columns.numa.shape == (at + 1, min(at + 1, 3))
    assert filled == list(range(40))
    assert columns.used_memory[:, 0].tolist() == [100 + at for at in range(40)]
    assert (columns.memory > 0).sum(axis=1).tolist() == [1 + at % 3 for at in range(40)]
    assert (columns.numa != NO_NUMA).sum(axis=1).tolist() == [1 + at % 3 for at in range(40)]
