"""The formulas of orders, each with its source, and what holds of every mix of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.quota.queue_order import Factor, QueueOrder, Standpoint

AT = Standpoint(wait=3600.0, seconds=1800.0, size=0.25, share=0.5, demand=0.75, progress=0.4)


@pytest.mark.parametrize(
    ("factor", "value", "source"),
    [
        (Factor.AGE, 3600 / 604_800, "Slurm: min(1, wait / PriorityMaxAge), 7 days"),
        (Factor.LARGEST, 0.25, "Slurm: the part of the machine that is asked for"),
        (Factor.SMALLEST, 0.75, "Slurm, PriorityFavorSmall: one minus that"),
        (Factor.SHARE, 0.5, "DRF: the least dominant share first"),
        (Factor.SHORTEST, 3600 / 5400, "falls with the expected run time; an hour counts half"),
        (Factor.LONGEST, 1800 / 5400, "one minus that"),
        (Factor.RESPONSE_RATIO, 3600 / 5400, "HRRN: (w + e) / e = 3, and 1 - 1 / 3"),
        (Factor.DEMAND, 0.75, "demand-aware: what the user has waiting"),
        (Factor.DEMAND_AND_SHARE, (1 + 0.75 - 0.5) / 2, "demand-DRF-aware: demand less share"),
        (Factor.PROGRESS, 0.4, "SpeCon: who still progresses first"),
    ],
    ids=lambda one: one.value if isinstance(one, Factor) else "",
)
def test_each_factor_comes_to_what_its_source_says(factor, value, source):
    assert QueueOrder({factor: 7}).score(AT) == pytest.approx(value), source


def test_a_mix_is_the_mean_by_weight():
    order = QueueOrder({Factor.SHORTEST: 3, Factor.SHARE: 1})
    assert order.score(AT) == pytest.approx((3 * 2 / 3 + 1 * 0.5) / 4)


def test_demand_counts_no_more_than_all_of_the_queue_so_that_splitting_work_gains_nothing_beyond():
    order = QueueOrder({Factor.DEMAND: 1})
    assert order.score(AT._replace(demand=1.0)) == order.score(AT._replace(demand=40.0)) == 1


_seconds = st.floats(0, 1e9)
_part = st.floats(0, 1)
_standpoints = st.builds(Standpoint, _seconds, st.floats(1, 1e9), _part, _part, st.floats(0, 1e6), _part)
_weights = st.dictionaries(st.sampled_from(list(Factor)), st.integers(1, 1_000_000), min_size=1)
_orders = st.builds(QueueOrder, _weights, st.booleans(), st.integers(2, 2**31).map(float))


@given(_orders, _standpoints)
def test_a_score_is_between_0_and_1_whatever_the_weights(order, of):
    assert 0 <= order.score(of) <= 1 + 1e-12


@given(_orders, _standpoints, _seconds)
def test_nobody_falls_behind_by_waiting(order, of, more):
    assert order.score(of._replace(wait=of.wait + more)) >= order.score(of)


@given(_weights, _standpoints)
def test_it_does_not_matter_in_which_order_factors_are_written(weights, of):
    found = {QueueOrder(dict(some)).score(of) for some in itertools.islice(itertools.permutations(weights.items()), 24)}
    assert len(found) == 1


@given(_orders, st.lists(st.tuples(st.integers(-5, 5), st.floats(1, 1e6), _standpoints), min_size=1, max_size=20))
def test_columns_say_of_many_what_is_said_of_each(order, found):
    now = 1e6
    priority, since, of = (list(part) for part in zip(*found, strict=True))
    of = [one._replace(wait=now - at) for one, at in zip(of, since, strict=True)]
    each = [order.terms(less, at, now, one) for less, at, one in zip(priority, since, of, strict=True)]
    columns = Standpoint(*(np.array(part) for part in zip(*of, strict=True)))
    together = order.columns(np.array(priority, dtype=float), np.array(since), now, columns)
    assert list(zip(*(one.tolist() for one in together), strict=True)) == each


@given(_orders, st.integers(-5, 5), _standpoints, _standpoints)
def test_who_has_waited_for_long_enough_goes_before_all_who_have_not(order, priority, of, other):
    now = 2.0**32
    late, early = now - order.max_wait, now - order.max_wait / 2
    overdue = order.terms(priority, late, now, of._replace(wait=now - late))
    assert overdue < order.terms(priority, early, now, other._replace(wait=now - early))
    assert overdue > order.terms(priority, late - 1, now, other)
