"""When the head of a queue starts, and what may go before it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import unhurried
from tutti.quota.backfill import departures, earliest, lasting, pause, withheld

UNKNOWN = np.inf


def easy(nodes: int, running: list[tuple[int, float]], head: int, job: tuple[int, float]) -> tuple[float, int, bool]:
    """EASY on equal nodes: jobs are (nodes, end); returns the shadow time, the extra nodes, and whether a job starts."""
    sizes, ends = (np.array(column, dtype=np.float64) for column in zip(*running, strict=True))
    order = departures(ends, np.zeros(len(ends), dtype=np.int64), sizes, 0.0)
    free = nodes - int(sizes.sum())

    def look(step: int) -> int | None:
        extra = free + int(sizes[order.step <= step].sum()) - head
        return extra if extra >= 0 else None

    found = earliest(0, order.steps, look)
    assert found is not None
    step, extra = found
    shadow = order.at(step)
    assert shadow is not None
    gone = sizes[order.step <= step].sum()
    kept = int(withheld(np.array([[head]]), np.array([[int(gone)]]))[0, 0])
    size, end = job
    return shadow, extra, size <= (free if end <= shadow else free - kept)


RUNNING = [(4, 10.0), (3, 20.0)]  # of 10 nodes 3 are free


@pytest.mark.parametrize(
    ("head", "job", "expected"),
    [
        # Mu'alem and Feitelson 2001, figure 1: 3 free, 7 at 10, 10 at 20
        (6, (3, 10.0), (10.0, 1, True)),  # ends by the shadow time
        (6, (3, 11.0), (10.0, 1, False)),  # does not, and takes more than the extra node
        (6, (1, 99.0), (10.0, 1, True)),  # takes the extra node, for as long as it likes
        (6, (4, 5.0), (10.0, 1, False)),  # would end in time, but is not free now
        (7, (1, 99.0), (10.0, 0, False)),  # nothing is extra
        (8, (2, 99.0), (20.0, 2, True)),
        (8, (3, 99.0), (20.0, 2, False)),
        (8, (3, 20.0), (20.0, 2, True)),
    ],
)
def test_a_job_goes_before_the_head_if_it_ends_in_time_or_fits_beside(head, job, expected):
    assert easy(10, RUNNING, head, job) == expected


def test_what_ends_at_the_same_time_goes_in_one_step_and_what_is_overdue_now():
    order = departures(np.array([30.0, 5.0, 30.0, 7.0]), np.zeros(4, dtype=np.int64), np.ones(4), 10.0)
    assert order.step.tolist() == [2, 1, 2, 1]
    assert order.times.tolist() == [10.0, 30.0]
    assert (order.steps, order.at(1), order.at(2), order.at(3)) == (2, 10.0, 30.0, None)


def test_unknown_ends_come_last_and_by_the_node_that_is_nearest_to_being_free():
    until = np.array([UNKNOWN, 5.0, UNKNOWN, UNKNOWN, UNKNOWN])
    order = departures(until, np.array([7, 7, 2, 2, 5]), np.array([0.5, 0.4, 0.3, 0.3, 0.5]), 0.0)
    assert order.step.tolist() == [3, 1, 4, 4, 2]  # of equal nodes the one with the lower row
    assert order.steps == 4
    assert order.at(2) is None


def test_a_head_for_which_there_is_never_room_has_no_step():
    assert earliest(0, 9, lambda _: None) is None


@unhurried
@given(st.integers(0, 300), st.integers(0, 300))
def test_the_first_step_is_found_in_a_few_looks(first, last):
    first, last = min(first, last), max(first, last)
    asked: list[int] = []

    def look(step: int) -> str | None:
        asked.append(step)
        return f"at {step}" if step >= first else None

    assert earliest(0, last, look) == (first, f"at {first}")
    assert len(asked) <= 2 + 2 * int(np.ceil(np.log2(last + 1)))
    assert max(asked[1:], default=0) <= 2 * first + 1


amounts = st.integers(0, 8)


@unhurried
@given(amounts, amounts, amounts, amounts)
def test_what_is_left_to_others_is_free_now_and_extra_then(total, used, gone, wanted):
    used = min(used, total)
    gone = min(gone, used)
    free, extra = total - used, total - used + gone - wanted
    if extra < 0:
        return  # the head does not fit there
    kept = int(withheld(np.array([[wanted]]), np.array([[gone]]))[0, 0])
    assert free - kept == min(free, extra)


@unhurried
@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_work_is_taken_to_run_as_long_as_it_may_or_a_little_longer(one, other):
    assert one <= lasting(one) <= max(1.0, 1.1 * one)
    assert lasting(min(one, other)) <= lasting(max(one, other))


def test_there_are_few_lengths():
    assert [lasting(seconds) for seconds in (0, 0.5, 1, 64, 3600)] == [0, 1, 1, 64, 2.0 ** (95 / 8)]
    assert len({lasting(seconds) for seconds in range(3600, 7200)}) == 9


def test_pauses_grow_up_to_a_limit():
    assert [pause(times, 60.0) for times in (1, 2, 3, 5, 6, 50)] == [60.0, 120.0, 240.0, 960.0, 960.0, 960.0]
