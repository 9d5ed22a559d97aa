"""Who is next: priority, then age, then name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tutti.queueing.order import order_key

IDENTITIES = st.tuples(*[st.sampled_from(["a", "b"])] * 3)
WAITING = st.lists(st.tuples(st.integers(-2, 2), st.sampled_from([0.0, 1.0, 1.5]), IDENTITIES), unique=True)


def test_higher_priority_goes_first_then_the_older_then_the_name():
    keys = [
        order_key(10, 5.0, ("Pod", "a", "z")),
        order_key(0, 1.0, ("Pod", "a", "z")),
        order_key(0, 2.0, ("Pod", "a", "b")),
        order_key(0, 2.0, ("Pod", "b", "a")),
        order_key(0, 2.0, ("PodGroup", "a", "a")),
        order_key(-1, 0.0, ("Pod", "a", "a")),
    ]
    assert keys == sorted(keys)


@given(WAITING, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_arrival(waiting, random):
    keys = [order_key(*one) for one in waiting]
    shuffled = list(keys)
    random.shuffle(shuffled)
    assert sorted(keys) == sorted(shuffled)
    assert len(set(keys)) == len(keys)
