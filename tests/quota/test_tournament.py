"""What must hold of every tournament of fair sharing."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import full_trees, unhurried
from tutti.quota.fair_sharing import Tournament
from tutti.quota.snapshot import Snapshot
from tutti.quota.tree import Usage

WHAT = ("f0", "cpu")


@dataclass(frozen=True)
class Head:
    priority: int
    queued_at: float = 0.0
    usage: Usage = field(default_factory=dict)


@unhurried
@given(full_trees(), st.lists(st.tuples(st.integers(1, 6), st.integers(0, 2)), min_size=4, max_size=4))
def test_a_tournament_lets_every_head_have_its_turn_once(tree, wishes):
    snapshot = Snapshot(tree, {})
    heads = {
        name: Head(priority, usage={WHAT: cpu})
        for name, (cpu, priority) in zip(sorted(tree.queues), wishes, strict=False)
    }
    left, order = dict(heads), []
    while left:
        root = snapshot.queue(next(iter(left))).root()
        winner = Tournament(snapshot, root).winner(left)
        snapshot.charge(winner, left.pop(winner).usage)
        order.append(winner)
    assert sorted(order) == sorted(heads)
