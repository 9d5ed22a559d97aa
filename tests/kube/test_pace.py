"""How the limit of writes follows what the server's answers say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.kube.flow_control import ConcurrencyLimiter

QUICK = 0.005


def rounds(pace, count, latency, *, pressed=True):
    """Have so many rounds answered, each write in the seconds that `latency` gives for the limit; return the limits."""
    seen = []
    for _ in range(count):
        asked = pace.limit
        for _ in range(asked):
            pace.answered(latency(asked), pressed=pressed)
        seen.append(pace.limit)
    return seen


def answers_at_once(width):
    """The latency of a server that works on so many at a time, when `limit` are always under way."""
    return lambda limit: QUICK * max(1.0, limit / width)


def test_what_is_answered_as_quickly_as_ever_grows_by_a_quarter_a_round():
    assert rounds(ConcurrencyLimiter(64, first=16), 7, answers_at_once(1000)) == [20, 25, 31, 38, 47, 58, 64]


@pytest.mark.parametrize(
    ("width", "least", "most"),
    [
        (1000, 256, 256),  # room to spare: as many as allowed
        (64, 96, 112),  # 64 at a time, and from 32 to 48 that wait
        (20, 52, 68),
        (4, 36, 52),
    ],
)
def test_a_server_is_kept_busy_and_its_queue_short(width, least, most):
    pace = ConcurrencyLimiter(256, first=4)
    limits = rounds(pace, 60, answers_at_once(width))
    assert all(least <= limit <= most for limit in limits[-20:]), limits


def test_a_server_that_becomes_slower_is_asked_for_less():
    pace = ConcurrencyLimiter(64, first=16)
    rounds(pace, 20, answers_at_once(1000))
    assert rounds(pace, 20, answers_at_once(8))[-1] <= 56


def test_a_quiet_hour_shows_anew_how_quick_a_server_is_that_has_moved_away():
    pace = ConcurrencyLimiter(64, first=16)
    rounds(pace, 20, answers_at_once(1000))
    assert rounds(pace, 20, lambda limit: 10 * QUICK)[-1] < 64
    rounds(pace, 1, lambda limit: 10 * QUICK, pressed=False)
    assert rounds(pace, 20, lambda limit: 10 * QUICK)[-1] == 64


def test_a_limit_that_nobody_waits_for_stays():
    assert rounds(ConcurrencyLimiter(64, first=16), 10, answers_at_once(1000), pressed=False)[-1] == 16


def test_refusals_halve_the_limit_once_for_all_that_were_sent_together():
    pace = ConcurrencyLimiter(64, first=16)
    rounds(pace, 10, answers_at_once(1000))
    for _ in range(5):
        pace.refused()
    assert pace.limit == 32
    rounds(pace, 1, answers_at_once(1000))
    assert pace.limit == 32  # the round after a refusal only shows whether there are more
    pace.refused()
    assert pace.limit == 16


@pytest.mark.parametrize(("most", "least"), [(64, 4), (4, 4), (1, 1)])
def test_a_limit_that_is_refused_again_and_again_keeps_its_floor(most, least):
    pace = ConcurrencyLimiter(most)
    for _ in range(10):
        pace.refused()
        rounds(pace, 1, answers_at_once(1000), pressed=False)
    assert pace.limit == least


@given(
    st.integers(1, 200),
    st.lists(st.one_of(st.none(), st.tuples(st.floats(0, 60), st.booleans())), max_size=300),
)
def test_whatever_is_answered_the_limit_stays_within_its_bounds(most, happenings):
    pace = ConcurrencyLimiter(most)
    for happening in happenings:
        if happening is None:
            pace.refused()
        else:
            pace.answered(happening[0], pressed=happening[1])
        assert min(4, most) <= pace.limit <= most
