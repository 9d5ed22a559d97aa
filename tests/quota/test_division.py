"""What must hold of every division of an amount."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import unhurried
from tutti.quota.assigner import largest_counts
from tutti.quota.proportion import Claim, divide

some = st.integers(0, 20)
claims = st.lists(
    st.builds(
        Claim,
        st.uuids().map(str),
        st.none() | some,
        st.fractions(0, 20, max_denominator=4),
        st.none() | some,
        st.integers(0, 4),
        st.integers(0, 2),
        st.fractions(0, 1, max_denominator=8),
        st.integers(0, 3),
    ),
    max_size=6,
    unique_by=lambda claim: claim.name,
)


@unhurried
@given(some, claims, st.sampled_from((0, 1, Fraction(1, 2))))
def test_nothing_is_lost_and_nobody_gets_more_than_a_unit_above_its_use(total, them, k):
    shares, left = divide(total, them, k=k)
    deserved = sum(min(total if one.deserved is None else one.deserved, one.most) for one in them)
    assert left >= 0
    assert sum(shares.values()) + left == max(total, deserved)
    for one in them:
        assert 0 <= shares[one.name] < one.most + 1


@unhurried
@given(some, claims)
def test_the_order_of_the_queues_does_not_matter(total, them):
    assert divide(total, them) == divide(total, them[::-1])


def test_the_older_queue_gets_the_unit_that_cannot_be_divided():
    younger, older = (Claim(name, 2, 6, weight=2, created=at) for name, at in (("a", 1), ("b", 0)))
    assert divide(11, [younger, older]).shares == {"a": 5, "b": 6}


@unhurried
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=4), st.integers(0, 20))
def test_the_largest_counts_that_fit_are_found(sizes, limit):
    counts, least = [max(pair) for pair in sizes], [min(pair) for pair in sizes]
    found = largest_counts(counts, least, lambda them: sum(them) <= limit)
    if found is None:
        assert counts == least or sum(least) > limit
        return
    assert sum(found) <= limit
    assert all(low <= n <= high for low, n, high in zip(least, found, counts, strict=True))
    tried: list[int] = []
    largest_counts(counts, least, lambda them: tried.append(sum(them)) or sum(them) <= limit)
    assert not [n for n in tried if sum(found) < n <= limit]


def test_every_step_leaves_no_more_than_the_one_before():
    steps: dict[tuple[int, ...], bool] = {}
    for limit in range(40):
        found = largest_counts([20, 15], [5, 0], lambda them, limit=limit: sum(them) <= limit)
        if found is not None:
            steps[found] = True
    assert all(sum(one) <= sum(other) for one, other in pairwise(steps))
