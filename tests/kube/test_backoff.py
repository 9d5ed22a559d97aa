"""Waits grow, are spread, and respect what the server asked for."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.kube.errors import ApiError, retry_after
from tutti.kube.retry import Backoff


@given(st.integers(0, 200), st.integers())
def test_a_wait_lies_in_the_upper_half_of_its_ceiling(failures, seed):
    backoff = Backoff(first=0.5, longest=30.0, failures=failures, uniform=Random(seed).uniform)
    ceiling = min(30.0, 0.5 * 2**failures)
    assert ceiling / 2 <= backoff.next() <= ceiling
    assert backoff.failures == failures + 1


def test_the_server_is_not_asked_again_before_it_said():
    assert Backoff(first=0.1).next(at_least=10.0) == 10.0


def test_a_wait_can_be_bounded_from_above_too_but_not_below_what_the_server_asked_for():
    backoff = Backoff(first=0.1, failures=20)
    assert 1.0 <= backoff.next(at_most=2.0) <= 2.0
    assert backoff.next(at_least=10.0, at_most=2.0) == 10.0
    assert backoff.failures == 22


def test_success_starts_over():
    backoff = Backoff(first=0.1, failures=9)
    backoff.reset()
    assert backoff.next() <= 0.1


@pytest.mark.parametrize(
    ("header", "seconds"), [("0", 0.0), ("7", 7.0), ("60", 60.0), ("86400", 60.0), ("9" * 400, 60.0)]
)
def test_a_server_that_asks_for_a_day_is_asked_again_after_a_minute(header, seconds):
    error = ApiError.parse(503, b"in maintenance", retry_after=header)
    assert retry_after(error) == seconds
    assert Backoff(first=0.0).next(retry_after(error)) == seconds


def test_what_a_status_asks_for_has_the_same_limit():
    body = b'{"kind":"Status","code":429,"message":"m","details":{"retryAfterSeconds":86400}}'
    assert retry_after(ApiError.parse(429, body)) == 60.0
