"""Who is told that more quota is used than there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import trees, unhurried, usages
from tutti.quota.tree import Quota, QuotaTree
from tutti.quota.usage import Overuse, overused

GPU = ("f", "gpu")


def tree_of(queues: dict, used: dict, *, shared: int = 0) -> QuotaTree:
    """Queues a, b, ... of one cohort that has so much of its own besides; each uses so much."""
    tree = QuotaTree({name: ("c", quotas) for name, quotas in queues.items()}, {"c": ("", {GPU: Quota(shared)})})
    for name, amount in used.items():
        tree.add(name, {GPU: amount})
    return tree


def test_a_queue_without_a_cohort_is_held_to_its_own():
    tree = QuotaTree({"a": ("", {GPU: Quota(4, borrowing_limit=9)})}, {})
    tree.add("a", {GPU: 4})
    assert overused(tree.queues["a"]) == {}
    tree.add("a", {GPU: 1})
    assert overused(tree.queues["a"]) == {GPU: Overuse(5, 4, None)}  # nobody lends to it


def test_what_is_not_listed_any_more_is_all_too_much():
    tree = QuotaTree({"a": ("", {})}, {})
    tree.add("a", {GPU: 2})
    assert overused(tree.queues["a"]) == {GPU: Overuse(2, 0, None)}


@pytest.mark.parametrize(
    ("a", "b", "used", "told"),
    [
        (Quota(4), Quota(4), {"a": 6, "b": 2}, {}),  # borrowed, and there
        (Quota(4), Quota(2), {"a": 6, "b": 2}, {"a": Overuse(6, 4, None), "c": Overuse(8, 6, None)}),
        (Quota(2), Quota(4), {"a": 2, "b": 6}, {"b": Overuse(6, 4, None), "c": Overuse(8, 6, None)}),
        (Quota(4, borrowing_limit=1), Quota(4), {"a": 6, "b": 1}, {"a": Overuse(6, 4, 1)}),  # its own limit
        (Quota(4), Quota(4, lending_limit=1), {"a": 6, "b": 0}, {"a": Overuse(6, 4, None), "c": Overuse(6, 5, None)}),
    ],
)
def test_who_borrows_what_is_not_there_is_told_and_so_is_the_cohort(a, b, used, told):
    tree = tree_of({"a": {GPU: a}, "b": {GPU: b}}, used)
    found = {name: overused(node) for name, node in (tree.queues | tree.cohorts).items()}
    assert {name: one[GPU] for name, one in found.items() if one} == told


@unhurried
@given(trees(), st.data())
def test_nobody_is_told_of_what_was_given_by_the_rules(tree, data):
    for name in tree.queues:
        usage = data.draw(usages)
        if tree.fits(name, usage):
            tree.add(name, usage)
    assert not any(overused(node) for node in (*tree.queues.values(), *tree.cohorts.values()))


@unhurried
@given(trees(), st.data())
def test_where_a_queue_has_less_than_nothing_left_somebody_on_its_way_up_is_told(tree, data):
    for name in tree.queues:
        tree.add(name, data.draw(usages))
    for node in tree.queues.values():
        told = {what for one in (node, *node.ancestors()) for what in overused(one)}
        assert {what for what in node.usage if node.available(what) < 0} <= told
