"""Columns say of every spot of a tree what the tree says of it, whatever is used and given back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import PAIRS, trees, unhurried, usages
from tutti.quota.tree import UNLIMITED, Quota, QuotaTree, borrowing_level
from tutti.quota.tree_columns import MOST, TreeColumns, clipped


@unhurried
@given(trees(), st.data())
def test_columns_say_what_the_tree_says(tree, data):
    columns = {root: TreeColumns() for root in (node.root() for node in tree.queues.values())}
    spots = {
        (name, what): columns[node.root()].spot(node, what) for name, node in tree.queues.items() for what in PAIRS
    }
    used = []
    for _ in range(data.draw(st.integers(0, 8))):
        if used and data.draw(st.booleans()):
            queue, usage = used.pop(data.draw(st.integers(0, len(used) - 1)))
            tree.remove(queue, usage)
        else:
            queue, usage = data.draw(st.sampled_from(sorted(tree.queues))), data.draw(usages)
            used.append((queue, usage))
            tree.add(queue, usage)
        node = tree.queues[queue]
        columns[node.root()].has_moved(node.path)
        for (name, what), spot in spots.items():
            leaf = tree.queues[name]
            mine = columns[leaf.root()]
            amount = data.draw(st.integers(0, 12))
            assert mine.available()[spot] == leaf.available(what)
            levels = mine.levels(np.array([spot]), np.array([amount]))
            assert levels.tolist() == [borrowing_level(leaf, what, amount).height]


def test_what_has_no_end_is_more_than_anybody_asks_for():
    what = PAIRS[0]
    tree = QuotaTree({"q": ("c", {what: Quota(UNLIMITED)})}, {"c": ("", {what: Quota(UNLIMITED)})})
    columns = TreeColumns()
    spot = columns.spot(tree.queues["q"], what)
    tree.add("q", {what: UNLIMITED - 1})
    columns.has_moved(tree.queues["q"].path)
    assert columns.available()[spot] == MOST == clipped(tree.queues["q"].available(what))
