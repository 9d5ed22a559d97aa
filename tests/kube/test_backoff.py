"""Waits grow, are spread, and respect what the server asked for."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tutti.kube.backoff import Backoff


@given(st.integers(0, 200), st.integers())
def test_a_wait_lies_in_the_upper_half_of_its_ceiling(failures, seed):
    backoff = Backoff(first=0.5, longest=30.0, failures=failures, uniform=Random(seed).uniform)
    ceiling = min(30.0, 0.5 * 2**failures)
    assert ceiling / 2 <= backoff.next() <= ceiling
    assert backoff.failures == failures + 1


def test_the_server_is_not_asked_again_before_it_said():
    assert Backoff(first=0.1).next(at_least=10.0) == 10.0


def test_success_starts_over():
    backoff = Backoff(first=0.1, failures=9)
    backoff.reset()
    assert backoff.next() <= 0.1
