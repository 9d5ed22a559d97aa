"""Columns rank the heads of a cohort as its tournament does, whatever is used and given back."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import PAIRS, quotas, unhurried, usages
from tutti.quota.fair_sharing import QueueOrdering, Tournament, borrowed_share, dominant_share
from tutti.quota.share_columns import ShareColumns, is_before
from tutti.quota.snapshot import Snapshot
from tutti.quota.tree import Quota, QuotaTree, Usage

MEASURES = {QueueOrdering.BORROWED_SHARE: borrowed_share, QueueOrdering.DOMINANT_SHARE: dominant_share}


@dataclass(frozen=True)
class Head:
    priority: int
    queued_at: float = 0.0
    usage: Usage = field(default_factory=dict)


@st.composite
def cohorts(draw):
    """One cohort of two to five queues, with weights, and units that count differently."""
    names = [f"q{index}" for index in range(draw(st.integers(2, 5)))]
    weights = st.sampled_from((0, 500, 1000, 3000))
    worth = draw(st.dictionaries(st.sampled_from(PAIRS), st.sampled_from((500, 2000)), max_size=2))
    return QuotaTree(
        {name: ("c", {what: Quota(0) for what in PAIRS} | draw(quotas())) for name in names},
        {"c": ("", draw(quotas(limited=False)))},
        queue_weights={name: draw(weights) for name in names},
        worth=worth,
    )


@unhurried
@given(cohorts(), st.sampled_from(sorted(MEASURES)), st.data())
def test_columns_rank_heads_as_the_tournament_does(tree, ordering, data):
    root, names = tree.cohorts["c"], sorted(tree.queues)
    columns, used = ShareColumns(root, ordering), []
    numbers = [columns.queue(tree.queues[name]) for name in names]
    for _ in range(data.draw(st.integers(1, 5))):
        if used and data.draw(st.booleans()):
            queue, usage = used.pop()
            tree.remove(queue, usage)
        else:
            queue, usage = data.draw(st.sampled_from(names)), data.draw(usages)
            used.append((queue, usage))
            tree.add(queue, usage)
        columns.has_moved(tree.queues[queue])
        heads = {name: Head(data.draw(st.integers(0, 1)), usage=data.draw(usages)) for name in names}
        tournament = Tournament(Snapshot(tree, {}), root, measure=MEASURES[ordering])
        for name, head in heads.items():
            tournament.put(name, head)
        keys = {name: tournament.key(name) for name in heads}
        asks = [(at, what, amount) for at, name in enumerate(names) for what, amount in heads[name].usage.items()]
        ranks = columns.ranks(
            np.array(numbers),
            np.array([at for at, _, _ in asks]),
            np.array([columns.resource(what) for _, what, _ in asks]),
            np.array([amount for _, _, amount in asks]),
            np.array([float(root.worth_of(what, 1)) for _, what, _ in asks]),
            np.array([tree.queues[names[at]].own_left(what) for at, what, _ in asks]),
        )
        for at, name in enumerate(names):
            borrows, (infinite, share), *_ = keys[name]
            assert (ranks.borrows[at], ranks.is_infinite[at]) == (borrows, infinite)
            np.testing.assert_allclose(ranks.share[at], float(share), rtol=1e-13)
            mine = (ranks.is_infinite[at], ranks.share[at])
            rest = (keys[name][2], keys[name][3], columns.place(tree.queues[name]))
            for other in names:
                child = columns.place(tree.queues[other])
                is_first = (keys[name], rest[2]) < (keys[other], child)
                assert is_before(ranks.borrows[at], mine, rest, keys[other], child) == is_first
