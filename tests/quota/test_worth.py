"""What one unit of a flavor counts where queues are compared by shares."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import PAIRS, trees, unhurried, usages
from tutti.quota.fair_sharing import borrowed_share, dominant_share, share
from tutti.quota.tree import UNLIMITED, Quota, QuotaTree

T4, A100 = ("t4", "gpu"), ("a100", "gpu")
CPU = ("t4", "cpu")


def tree_of(worth: dict, usage: dict, *, lent: int = 50) -> QuotaTree:
    """A cohort that owns so many of each, and queues a and b that own nothing."""
    nothing = {what: Quota(0) for what in (T4, A100, CPU)}
    queues = dict.fromkeys(usage, ("c", nothing))
    tree = QuotaTree(queues, {"c": ("", {what: Quota(lent) for what in (T4, A100, CPU)})}, worth=worth)
    for name, used in usage.items():
        tree.add(name, used)
    return tree


@pytest.mark.parametrize(
    ("worth", "expected"),
    [  # Kueue, KEP-8902: borrowed and lendable are sums over flavors of what is borrowed, or lendable, times its weight
        ({}, {"a": Fraction(20, 100), "b": Fraction(20, 100)}),
        ({A100: 8000}, {"a": Fraction(20, 50 + 8 * 50), "b": Fraction(8 * 20, 50 + 8 * 50)}),
        ({A100: 1500, T4: 500}, {"a": Fraction(1, 10), "b": Fraction(3, 10)}),
    ],
)
@pytest.mark.parametrize("measure", [borrowed_share, dominant_share])
def test_units_count_what_their_flavor_says(measure, worth, expected):
    tree = tree_of(worth, {"a": {T4: 20}, "b": {A100: 20}})
    assert {name: measure(tree.queues[name])[1] for name in "ab"} == expected


def test_the_weight_of_one_resource_leaves_the_others_alone():
    tree = tree_of({CPU: 9000}, {"a": {T4: 20, CPU: 9}})
    found = share(tree.queues["a"])
    assert (found.resource, found.ratio) == ("gpu", Fraction(20, 100))


def test_what_has_no_end_is_worth_more_than_anything():
    tree = tree_of({A100: 8000}, {"a": {A100: 20}}, lent=UNLIMITED)
    assert 0 < share(tree.queues["a"]).ratio < Fraction(1, 10**9)


@unhurried
@given(tree=trees(), used=st.lists(usages, min_size=1, max_size=5), factor=st.integers(1, 9000))
def test_where_everything_is_worth_the_same_nothing_changes(tree, used, factor):
    even = dict.fromkeys(PAIRS, factor)
    for queue, usage in zip(tree.queues, used, strict=False):
        tree.add(queue, usage)
    before = [measure(node) for node in tree.queues.values() for measure in (borrowed_share, dominant_share)]
    for node in (*tree.queues.values(), *tree.cohorts.values()):
        node.worth = even
        node._lendable_worth.clear()
    after = [measure(node) for node in tree.queues.values() for measure in (borrowed_share, dominant_share)]
    assert after == before
