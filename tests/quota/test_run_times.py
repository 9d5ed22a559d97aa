"""For how long workloads are expected to run, by how long others of their kind have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.quota.run_times import (
    KEPT,
    MOST_KINDS,
    RunHistory,
    expected_of,
    history_of,
    kind_of,
    seconds_expected,
    stem_of,
)


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("train-resnet-2026-11-24", "train-resnet"),
        ("nightly-28374650", "nightly"),
        ("nightly-28374650-x7k2p", "nightly"),
        ("job-17", "job"),
        ("p17", "p"),
        ("bert.large_v2", "bert-large"),
        ("42", "42"),
        ("", ""),
        ("a" * 200, "a" * 63),
    ],
)
def test_names_of_one_kind_of_work_begin_alike(name, stem):
    assert stem_of(name) == stem


@pytest.mark.parametrize(("pods", "size"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (1000, 1024)])
def test_sizes_are_told_apart_by_powers_of_two(pods, size):
    assert kind_of("", "train-1", pods) == f"train up to {size}"
    assert kind_of("anna", "train-1", pods) == f"train up to {size} of anna"


def test_what_is_expected_is_the_median_and_is_told_with_its_error():
    found = expected_of([100, 110, 90, 400, 100])
    assert found is not None
    assert (found.seconds, found.error, found.least, found.runs) == (100, 10, 100, 5)
    assert expected_of([100, 100]) is None


KNOWN = expected_of([80, 100, 100, 120])


@pytest.mark.parametrize(
    ("known", "said", "limit", "seconds"),
    [
        (None, 0, 0, 3600),  # nothing is known
        (None, 0, 900, 900),  # it may run for no longer
        (None, 50, 900, 50),  # it says so, and nobody knows better
        (KNOWN, 0, 0, 100),
        (KNOWN, 500, 0, 500),  # whoever says that he is slow is believed
        (KNOWN, 1, 0, 80),  # whoever says that he is fast is as fast as the fastest quarter
        (KNOWN, 500, 200, 200),
        (KNOWN, 0, 60, 60),
    ],
)
def test_what_a_workload_says_is_believed_as_far_as_others_of_its_kind_bear_it_out(known, said, limit, seconds):
    assert seconds_expected(known, said=said, limit=limit, otherwise=3600) == seconds


def test_kinds_are_forgotten_that_have_not_ended_for_long():
    history = RunHistory("uid")
    for number in range(3 * MOST_KINDS):
        history.ended(f"kind-{number}", 10)
    assert len(history.runs) == MOST_KINDS
    assert f"kind-{3 * MOST_KINDS - 1}" in history.runs
    assert "kind-0" not in history.runs
    assert history.expected("never heard of").seconds == 10  # as all others in that queue


@given(st.dictionaries(st.text(), st.lists(st.integers(-(2**70), 2**70)), max_size=80))
def test_a_status_that_nobody_here_wrote_is_read_as_far_as_it_makes_sense(said):
    found = history_of("uid", said)
    assert len(found.runs) <= MOST_KINDS
    assert all(0 < len(runs) <= KEPT and min(runs) >= 1 for runs in found.runs.values())
    assert history_of("uid", found.runs) == found
