"""Who is next, since when, and who steps aside."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import unhurried
from tutti.quota.ordering import SPREAD, Requeuing, delay, head_key, order_key, queued_at
from tutti.quota.usage import decay, local_usage, penalty

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


@pytest.mark.parametrize(("attempt", "least"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (1000, 10)])
def test_the_delay_doubles_up_to_the_longest_and_is_spread_by_a_quarter(attempt, least):
    waits = [delay(attempt, Random(seed), base=1, most=10) for seed in range(50)]
    assert all(least <= wait <= least * (1 + SPREAD) for wait in waits)
    assert len(set(waits)) == 50


@given(st.integers(0, 200), st.integers(0, 2**32))
def test_equal_seeds_give_equal_delays(attempt, seed):
    assert delay(attempt, Random(seed), base=2, most=60) == delay(attempt, Random(seed), base=2, most=60)


finite = st.floats(0, 1e6)


@pytest.mark.parametrize(
    ("requeuing", "conditions", "expected"),
    [
        (Requeuing.EVICTION, {}, 1),
        (Requeuing.EVICTION, {"not_ready_at": 5}, 5),
        (Requeuing.CREATION, {"not_ready_at": 5}, 1),
        (Requeuing.CREATION, {"check_failed_at": 7}, 7),
    ],
)
def test_an_eviction_sends_a_workload_to_the_back_where_that_is_wanted(requeuing, conditions, expected):
    assert queued_at(1, requeuing, **conditions) == expected


def test_recent_usage_goes_before_everything_else():
    light, heavy = head_key(0, 9, "b", local_usage=1), head_key(5, 0, "a", local_usage=2)
    assert light < heavy


@pytest.mark.parametrize(("half_lives", "expected"), [(1, 1.0), (2, 1.5), (3, 1.75)])
def test_usage_approaches_what_is_in_use_by_halves(half_lives, expected):
    # Kueue, TestCalculateDecayedConsumedConvergesToUsage: 2 cpu in use, half-life 168 h, samples of 5 minutes
    consumed: dict[str, float] = {}
    for _ in range(half_lives * 168 * 12):
        consumed = decay(consumed, {"cpu": 2.0}, elapsed=300, half_life=168 * 3600)
    assert consumed["cpu"] == pytest.approx(expected, abs=1e-6)


@unhurried
@given(finite, finite, finite, st.floats(0.1, 1e6))
def test_decay_stays_between_the_past_and_the_present(before, now, elapsed, half_life):
    found = decay({"cpu": before}, {"cpu": now}, elapsed=elapsed, half_life=half_life)["cpu"]
    assert min(before, now) * (1 - 1e-9) <= found <= max(before, now) * (1 + 1e-9)


def test_without_a_half_life_nothing_is_remembered():
    assert decay({"cpu": 4.0}, {"cpu": 2.0}, elapsed=1, half_life=0) == {}
    assert penalty({"cpu": 4.0}, sampling=1, half_life=0) == {}


def test_an_admission_counts_at_once_as_much_as_its_first_sample_would():
    assert penalty({"cpu": 4.0}, sampling=10, half_life=10) == {"cpu": 2.0}


def test_a_queue_without_weight_goes_last():
    assert local_usage({}, {}, weight=0) == math.inf
    assert local_usage({"cpu": 4.0}, {"cpu": 2.0}, weight=2, resource_weights={"cpu": 0.5}) == 1.5
