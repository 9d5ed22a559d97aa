"""What must hold of every quota tree, whatever is used of it."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import PAIRS, trees, unhurried, usages
from tutti.quota.fair_sharing import share
from tutti.quota.tree import UNLIMITED, Quota, QuotaTree, level

charges = st.lists(st.tuples(st.integers(0, 4), usages), max_size=12)


def in_queues(tree, steps):
    names = sorted(tree.queues)
    return [(names[index % len(names)], usage) for index, usage in steps]


def nodes(tree):
    return [*tree.queues.values(), *tree.cohorts.values()]


def used(tree):
    return [{what: n for what, n in node.usage.items() if n} for node in nodes(tree)]


@unhurried
@given(trees(), charges)
def test_no_limit_is_exceeded_by_charges_that_were_checked(tree, steps):
    for queue, usage in in_queues(tree, steps):
        if tree.fits(queue, usage):
            tree.add(queue, usage)
    for node in nodes(tree):
        for what in PAIRS:
            mine = node.usage.get(what, 0)
            quota = node.quotas.get(what, Quota(0))
            assert mine <= node.potential(what)
            if node.parent is None:
                assert mine <= node.subtree.get(what, 0)
            elif quota.borrowing_limit is not None:
                assert mine <= node.subtree.get(what, 0) + quota.borrowing_limit


@unhurried
@given(trees(), charges, st.randoms(use_true_random=False))
def test_the_order_of_charges_and_refunds_does_not_matter(tree, steps, random):
    steps = in_queues(tree, steps)
    for queue, usage in steps:
        tree.add(queue, usage)
    together = used(tree)
    random.shuffle(steps)
    for queue, usage in steps:
        tree.remove(queue, usage)
    assert used(tree) == [{} for _ in nodes(tree)]
    for queue, usage in steps:
        tree.add(queue, usage)
    assert used(tree) == together


@unhurried
@given(trees(), charges)
def test_a_cohort_uses_what_its_children_do_not_keep_to_themselves(tree, steps):
    for queue, usage in in_queues(tree, steps):
        tree.add(queue, usage)
    for cohort in tree.cohorts.values():
        for what in PAIRS:
            passed_on = sum(max(0, child.usage.get(what, 0) - child.local(what)) for child in cohort.children)
            assert cohort.usage.get(what, 0) == passed_on


@unhurried
@given(trees())
def test_without_usage_all_that_could_ever_be_had_is_free(tree):
    for node in nodes(tree):
        for what in PAIRS:
            assert node.available(what) == node.potential(what)


@unhurried
@given(trees(), charges, usages)
def test_using_more_never_makes_a_share_smaller(tree, steps, usage):
    for queue, one in in_queues(tree, steps):
        tree.add(queue, one)
    for name, node in tree.queues.items():
        before = [share(at).key for at in (node, *node.ancestors())]
        tree.add(name, usage)
        assert [share(at).key for at in (node, *node.ancestors())] >= before
        tree.remove(name, usage)
        assert [share(at).key for at in (node, *node.ancestors())] == before


@unhurried
@given(trees(), charges, usages)
def test_what_needs_no_borrowing_is_at_level_zero(tree, steps, usage):
    for queue, one in in_queues(tree, steps):
        tree.add(queue, one)
    for node in tree.queues.values():
        for what, amount in usage.items():
            mine = level(node, what, amount)
            assert (mine.height == 0) == (node.parent is None or not node.borrows(what, amount))
            assert mine.height <= node.root().height()


def test_quota_without_end_stays_without_end():
    what = ("f0", "cpu")
    tree = QuotaTree({"q": ("co", {what: Quota(5)})}, {"co": ("", {what: Quota(UNLIMITED)})})
    assert tree.cohorts["co"].subtree[what] == UNLIMITED
    tree.add("q", {what: 10**15})
    assert tree.queues["q"].available(what) == UNLIMITED


def test_what_is_lent_out_without_end_leaves_nothing_private():
    what = ("f0", "cpu")
    tree = QuotaTree(
        {"q": ("co", {what: Quota(UNLIMITED, lending_limit=UNLIMITED)}), "r": ("co", {what: Quota(0)})}, {}
    )
    assert tree.queues["q"].local(what) == 0
    assert tree.queues["r"].potential(what) == UNLIMITED


def test_equal_shares_of_different_sizes_are_equal():
    what = ("f0", "cpu")
    queues = {"one": ("co", {what: Quota(0)}), "three": ("co", {what: Quota(0)})}
    tree = QuotaTree(queues, {"co": ("", {what: Quota(7)})}, queue_weights={"one": 1000, "three": 3000})
    tree.add("one", {what: 1})
    tree.add("three", {what: 3})
    assert share(tree.queues["one"]).key == share(tree.queues["three"]).key == (False, Fraction(1, 7))
    assert share(tree.queues["one"]).rounded() == 143
