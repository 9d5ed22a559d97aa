"""What is learned of how fast a kind is with how many members."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.quota.learned_speeds import LEAST, MOST, learned_speed


def took(parallel: float, members: int, whole: int = 100_000) -> int:
    return round(whole * ((1 - parallel) + parallel / members))


@pytest.mark.parametrize("parallel", [0.5, 0.8, 0.95])
def test_runs_that_follow_the_law_give_its_part_back(parallel: float) -> None:
    found = learned_speed({members: [took(parallel, members)] * 3 for members in (1, 2, 4)})
    assert found is not None
    assert found.parallel == pytest.approx(parallel, abs=1e-4)
    assert found.error == pytest.approx(0, abs=1e-4)
    assert found[2:] == (9, 1, 4)


def test_the_error_is_how_far_runs_were_from_it() -> None:
    found = learned_speed({members: [round(took(0.9, members) * off) for off in (0.9, 1, 1.1)] for members in (1, 4)})
    assert found is not None
    assert found.parallel == pytest.approx(0.9, abs=1e-4)
    assert found.error == pytest.approx(0.1, abs=1e-3)


@pytest.mark.parametrize("runs", [{}, {1: [9, 9, 9]}, {1: [9, 9, 9], 4: [3, 3]}])
def test_of_too_few_nothing_is_concluded(runs: dict[int, list[int]]) -> None:
    assert learned_speed(runs) is None


@pytest.mark.parametrize(("alone", "four", "learned"), [(100, 100, LEAST), (100, 200, LEAST), (100, 10, MOST)])
def test_what_runs_say_that_cannot_be_stays_within_bounds(alone: int, four: int, learned: float) -> None:
    found = learned_speed({1: [alone] * 3, 4: [four] * 3})
    assert found is not None
    assert found.parallel == learned


@given(
    st.dictionaries(
        st.integers(1, 10**6), st.lists(st.integers(1, 2**31 - 1), min_size=3, max_size=8), min_size=2, max_size=8
    )
)
def test_whatever_was_seen_the_part_is_one_and_the_order_is_no_matter(runs: dict[int, list[int]]) -> None:
    found = learned_speed(runs)
    assert found is not None
    assert LEAST <= found.parallel <= MOST
    assert math.isfinite(found.error)
    assert found == learned_speed(dict(reversed(runs.items())))
