"""What the children of a cohort deserve by Volcano's proportion."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import contests, unhurried
from tutti.quota.proportion import Claim, First, Pending, Proportion, fill
from tutti.quota.tree import Quota, QuotaTree

WHAT = ("f0", "gpu")


def proportion_of(quotas, weights, pending, used=(), cohorts=None, first=First.KEPT):
    """Queues q0, q1, ... of (cohort, quota), with weights, GPUs waited for, and GPUs used."""
    names = [f"q{number}" for number in range(len(quotas))]
    queues = {name: (cohort, {WHAT: quota}) for name, (cohort, quota) in zip(names, quotas, strict=True)}
    milli = {name: 1000 * weight for name, weight in zip(names, weights, strict=True)}
    tree = QuotaTree(queues, cohorts or {"root": ("", {WHAT: Quota(100)})}, queue_weights=milli)
    waiting = Pending()
    for name, amount in zip(names, pending, strict=True):
        waiting.come(name, {"gpu": amount})
    for name, amount in zip(names, used, strict=False):
        tree.add(name, {WHAT: amount})
    return tree, Proportion(next(iter(tree.queues.values())).root(), waiting, first)


def deserved(tree, proportion):
    return [proportion.deserved(node).get("gpu", 0) for node in tree.queues.values()]


NONE, AT_MOST_30, KEEPS_40 = Quota(0), Quota(0, borrowing_limit=30), Quota(40, lending_limit=0)


@pytest.mark.parametrize(
    ("quotas", "weights", "pending", "used", "expected"),
    [
        # Volcano's loop worked through with a total of 100.
        pytest.param([NONE] * 3, (1, 1, 2), (100, 100, 10), (), [45, 45, 10], id="what one leaves the others have"),
        pytest.param(
            [AT_MOST_30, NONE, NONE], (1, 1, 2), (100, 100, 10), (), [30, 60, 10], id="nobody deserves above its limit"
        ),
        # By hand, from the rule.
        pytest.param([NONE] * 3, (1, 1, 2), (60, 100, 0), (40, 0, 10), [45, 45, 10], id="what is used is asked for"),
        pytest.param([NONE] * 2, (1, 3), (100, 100), (), [25, 75], id="by weight"),
        pytest.param([NONE] * 2, (1, 3), (100, 0), (), [100, 0], id="all where the other one is idle"),
        pytest.param([NONE] * 3, (1, 1, 1), (100,) * 3, (), [Fraction(100, 3)] * 3, id="exactly, not in whole units"),
        pytest.param([NONE] * 2, (0, 1), (100, 20), (), [0, 20], id="nothing without weight"),
    ],
)
def test_what_is_deserved(quotas, weights, pending, used, expected):
    tree, proportion = proportion_of([("root", quota) for quota in quotas], weights, pending, used)
    assert deserved(tree, proportion) == expected


OWNS_20 = Quota(20)


@pytest.mark.parametrize(
    ("quotas", "pending", "own", "beside", "reach"),
    [
        # By hand: 100 GPUs and what queues own besides, weights 1 and 3; what is asked for of one's own goes first.
        pytest.param([NONE] * 2, (200, 200), [25, 75], [25, 75], [100, 100], id="nobody owns anything"),
        pytest.param([OWNS_20, NONE], (200, 200), [30, 90], [45, 75], [120, 100], id="more than it owns"),
        pytest.param(
            [Quota(60), NONE], (200, 200), [60, 100], [85, 75], [160, 100], id="its own is more than its part"
        ),
        pytest.param([Quota(60), NONE], (10, 200), [10, 150], [10, 150], [160, 150], id="only what it asks for"),
        pytest.param(
            [KEEPS_40, NONE], (200, 200), [40, 100], [65, 75], [140, 100], id="what it never lends is its own"
        ),
        pytest.param([OWNS_20, OWNS_20], (0, 200), [0, 140], [0, 140], [120, 140], id="nobody asks"),
    ],
)
def test_what_is_deserved_where_owners_go_first(quotas, pending, own, beside, reach):
    for first, expected in ((First.OWN, own), (First.BESIDE, beside)):
        tree, proportion = proportion_of([("root", quota) for quota in quotas], (1, 3), pending, first=first)
        assert deserved(tree, proportion) == expected
        assert [proportion.reach(node)["gpu"] for node in tree.queues.values()] == reach


def test_the_reach_of_a_queue_goes_by_what_others_own_at_every_level():
    """Cohort a owns 30 of 130, and its queues want 200: b, beside it, reaches 100, and q0 what q1 leaves of all."""
    quotas, cohorts = [("a", NONE), ("a", Quota(10)), ("b", NONE)], {"root": ("", {WHAT: Quota(100)})}
    cohorts |= {"a": ("root", {WHAT: OWNS_20}), "b": ("root", {})}
    tree, proportion = proportion_of(quotas, (1, 1, 1), (100, 100, 100), cohorts=cohorts, first=First.BESIDE)
    assert [proportion.reach(tree.queues[name])["gpu"] for name in ("q0", "q1", "q2")] == [120, 130, 100]


@pytest.mark.parametrize(
    ("pending", "expected"),
    [
        ((100, 0), [60, 0]),  # Volcano: 60 and 40; here nobody deserves what it does not ask for
        ((100, 40), [60, 40]),
        ((100, 100), [60, 40]),  # by weight it would be 75 and 25
    ],
)
def test_what_is_never_lent_is_deserved_and_not_divided(pending, expected):
    quotas = [("root", NONE), ("root", KEEPS_40)]
    tree, proportion = proportion_of(quotas, (3, 1), pending, cohorts={"root": ("", {WHAT: Quota(60)})})
    assert deserved(tree, proportion) == expected


def test_children_divide_what_their_cohort_deserves():
    """`left` deserves half of 100 with its two queues, and q2 the other half alone."""
    cohorts = {"root": ("", {WHAT: Quota(100)}), "left": ("root", {})}
    quotas = [("left", NONE), ("left", NONE), ("root", NONE)]
    tree, proportion = proportion_of(quotas, (1, 4, 1), (100, 100, 100), cohorts=cohorts)
    assert deserved(tree, proportion) == [10, 40, 50]


def test_a_share_is_what_is_used_of_what_is_deserved():
    quotas = [("root", NONE)] * 3
    tree, proportion = proportion_of(quotas, (1, 3, 0), (100, 100, 100), (20, 30, 5))
    shares = [proportion.share(node) for node in tree.queues.values()]
    assert shares == [(False, Fraction(20, 25)), (False, Fraction(30, 75)), (True, Fraction(5, 100))]


def test_who_leaves_the_line_is_counted_no_more():
    pending = Pending()
    pending.come("q", {"gpu": 2, "cpu": 1})
    pending.come("q", {"gpu": 3})
    pending.go("q", {"gpu": 2, "cpu": 1})
    assert pending.of("q") == {"gpu": 3}
    pending.go("q", {"gpu": 3})
    assert not pending.of("q")


def test_those_who_ask_for_nothing_may_come_and_go():
    pending = Pending()
    asks = [{"gpu": 2}, {"gpu": 0}, {"gpu": 0}, {}, {}]
    for one in asks:
        pending.come("q", one)
    for one in asks:
        pending.go("q", one)
    assert not pending.of("q")


@unhurried
@given(contests(), st.lists(st.dictionaries(st.sampled_from(("cpu", "gpu")), st.integers(0, 12)), max_size=4))
def test_nobody_deserves_more_than_it_asks_for_and_all_together_no_more_than_there_is(contest, waiting):
    tree, pending = contest[0].tree, Pending()
    for name, asks in zip(tree.queues, waiting, strict=False):
        pending.come(name, asks)
    root = next(iter(tree.queues.values())).root()
    proportion = Proportion(root, pending)
    nodes = [*tree.queues.values(), *(node for node in tree.cohorts.values() if node.parent is not None)]
    for resource, lent in root.lendable().items():
        for node in tree.queues.values():
            used = sum(amount for what, amount in node.usage.items() if what[1] == resource)
            due = proportion.deserved(node).get(resource, 0)
            assert 0 <= due <= min(used + pending.of(node.name).get(resource, 0), node.lendable()[resource])
        private = sum(node.local(what) for node in nodes for what in node.subtree if what[1] == resource)
        assert sum(proportion.deserved(node).get(resource, 0) for node in tree.queues.values()) <= lent + private


@unhurried
@given(
    st.integers(0, 40),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 20), st.integers(1, 4)), min_size=1, max_size=6),
)
def test_water_rises_alike_in_all_that_are_not_full(more, them):
    claims = [Claim(str(number), *one[:2], weight=one[2]) for number, one in enumerate(them)]
    least = {one.name: min(one.deserved, one.most) for one in claims}
    total = sum(least.values()) + more
    filled = fill(total, claims)
    assert sum(filled.values()) == min(total, sum(one.most for one in claims))
    heights = {one.name: Fraction(filled[one.name]) / one.weight for one in claims}
    for one in claims:
        assert least[one.name] <= filled[one.name] <= one.most
        if filled[one.name] < one.most:
            above = [other.name for other in claims if heights[other.name] > heights[one.name]]
            assert all(filled[name] == least[name] for name in above)
