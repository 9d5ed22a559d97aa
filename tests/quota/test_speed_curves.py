"""How fast a gang is with how many members: the formulas by number, and what holds for all curves."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.quota.speed_curves import NOTHING, WORTH, SpeedCurve, amdahl, curve_of, step_of


@pytest.mark.parametrize(
    ("members", "speed", "gain"),
    [
        (0, 0.0, 1.0),
        (1, 1.0, 0.9),
        (2, 1.9, 0.75),  # 4 are 3.4 together: half of 1.5 each
        (3, 2.65, 0.75),
        (4, 3.4, 0.0),  # nothing is said of more
        (9, 3.4, 0.0),
    ],
)
def test_between_points_speed_rises_in_a_straight_line_and_beyond_them_it_stays(members, speed, gain):
    curve = curve_of([(1, 1.0), (2, 1.9), (4, 3.4)])
    assert curve.speed(members) == pytest.approx(speed)
    assert curve.gain(members) == pytest.approx(gain)
    assert curve.useful == 4


@pytest.mark.parametrize(("parallel", "members", "speed"), [(0.95, 8, 5.925926), (0.5, 2, 1.333333), (1.0, 7, 7.0)])
def test_amdahls_law_by_its_own_formula(parallel, members, speed):
    """Amdahl, AFIPS 1967: 1 / ((1 - p) + p / n); the first number is in every textbook."""
    assert amdahl(parallel).speed(members) == pytest.approx(speed)


@pytest.mark.parametrize(
    ("curve", "useful"),
    [
        (amdahl(0.0), 1),
        (amdahl(0.9), 86),  # the first n with 0.9 / ((0.1 n + 0.9) (0.1 (n + 1) + 0.9)) below a hundredth
        (amdahl(1.0), 1_000_000),
        (curve_of([(2, 10.0), (8, 40.0), (16, 40.0)]), 8),
        (curve_of([(8, 1.0)]), 8),
    ],
)
def test_where_one_more_gains_less_than_a_hundredth_of_the_first_it_gains_nothing(curve, useful):
    assert curve.useful == useful


def test_units_do_not_count_and_the_first_point_is_ideal():
    assert curve_of([(4, 500.0), (8, 900.0)]).points == ((4, 4.0), (8, pytest.approx(7.2)))


def test_a_grid_that_doubles_gains_by_each_of_the_members_that_double_it():
    curve = curve_of([(1, 1.0), (2, 1.0), (4, 3.0)])
    assert [curve.gain(members) for members in (1, 2, 3)] == pytest.approx([2 / 3] * 3)
    assert curve.speed(2) == 1.0


@pytest.mark.parametrize(
    ("gain", "share", "step"), [(1.0, 1.0, 0), (1.1001, 1.0, 1), (0.5, 0.5, 0), (1.0, 0.0, 289), (0.009, 0.1, NOTHING)]
)
def test_gains_are_compared_for_what_they_take(gain, share, step):
    assert step_of(gain, share) == step


speeds = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=12)


def drawn(parts: list[float]) -> SpeedCurve:
    """A curve of which each next point is some part of what it could be at most."""
    points = [(1, 1.0)]
    for part in parts:
        members, speed = points[-1]
        points.append((members * 2, speed * (1 + part)))
    return curve_of(points)


@given(st.one_of(speeds.map(drawn), st.floats(0, 1).map(amdahl)))
def test_gains_never_rise_and_speed_never_falls_nor_exceeds_the_ideal(curve):
    for members in (1, 2, 3, 7, 20, 100):
        assert curve.gain(members) <= curve.gain(members - 1) * (1 + 1e-9) + 1e-12
        assert curve.speed(members) <= members + 1e-9
        assert curve.speed(members) >= curve.speed(members - 1)
    assert curve.gain(curve.useful) < WORTH or curve.useful == 1_000_000
    assert math.isfinite(curve.speed(10**6))


@given(st.lists(st.one_of(speeds.map(drawn), st.floats(0, 1).map(amdahl)), min_size=1, max_size=4), st.integers(0, 20))
def test_the_next_member_to_whoever_gains_most_is_best_for_the_sum(curves, members):
    """Fox, Management Science 13, 1966; here against all ways to share members out."""
    if any(curve.upper != curve.points for curve in curves):
        return  # of curves that are not concave the sum is that of what their members gain on the way
    given_out = [1] * len(curves)
    for _ in range(members):
        best = max(range(len(curves)), key=lambda one: curves[one].gain(given_out[one]))
        given_out[best] += 1
    best_of = [0.0] + [-math.inf] * members
    for curve in curves:
        best_of = [
            max(best_of[used] + curve.speed(1 + total - used) for used in range(total + 1))
            for total in range(members + 1)
        ]
    assert sum(curve.speed(has) for curve, has in zip(curves, given_out, strict=True)) == pytest.approx(best_of[-1])
