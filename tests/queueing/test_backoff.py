"""How long to wait before the next try: min(base * 2^(n-1), max), as Kueue's requeuing strategy has it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.queueing.backoff import SPREAD, delay


@pytest.mark.parametrize(("attempt", "least"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (1000, 10)])
def test_the_delay_doubles_up_to_the_longest_and_is_spread_by_a_quarter(attempt, least):
    waits = [delay(attempt, Random(seed), base=1, most=10) for seed in range(50)]
    assert all(least <= wait <= least * (1 + SPREAD) for wait in waits)
    assert len(set(waits)) == 50


@given(st.integers(0, 200), st.integers(0, 2**32))
def test_equal_seeds_give_equal_delays(attempt, seed):
    assert delay(attempt, Random(seed), base=2, most=60) == delay(attempt, Random(seed), base=2, most=60)
