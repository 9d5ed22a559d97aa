"""Pods of which no two are alike, and for each of which another is taken out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.engine.world import World
from tutti.cluster.columns import ResourceIndex
from tutti.cluster.transaction import Transaction
from tutti.engine.records.decisions import Bind


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often amounts have been made a vector, and room has been withheld from columns."""
    counted: Counter[str] = Counter()

    def counting(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def count(self: Any, *arguments: Any) -> Any:
            counted[name] += 1
            return real(self, *arguments)

        monkeypatch.setattr(owner, name, count)

    counting(ResourceIndex, "vector")
    counting(Transaction, "withhold")
    return counted


def read_beside(nominated: int, read: Counter[str]) -> Counter[str]:
    """What is read for one pod that finds no room beside so many that wait for their victims."""
    world = World()
    for number in range(nominated):
        world.node(f"n{number}")
        world.pod(f"low-{number}", gpus=8, node=f"n{number}")
    world.run()
    for number in range(nominated):
        world.pod(f"high-{number}", gpus=8, cpu=f"{number + 1}m", priority=100)
    world.engine.decide(world.now)  # and nobody has left yet
    assert len(world.engine.state.nominations.ours) == nominated
    world.pod("late", priority=50)
    read.clear()
    assert not [one for one in world.engine.decide(world.now) if isinstance(one, Bind)]
    return Counter(read)


def test_who_is_tried_beside_many_who_wait_costs_no_column_each(read: Counter[str]) -> None:
    """Each class that is nominated was withheld by itself: 1,000 pods behind 1,000 of these took 70 s in all."""
    assert read_beside(24, read) == read_beside(6, read)
