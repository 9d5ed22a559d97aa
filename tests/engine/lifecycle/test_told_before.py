"""What is read of a status after a restart is bounded, and what cannot be read is as if it were not told."""

from __future__ import annotations

import re

import pytest

from tutti.engine.lifecycle.told_before import ToldBefore, told_time

COUNT = re.compile(r"waits for (\d+) workloads? to leave")


@pytest.mark.parametrize(("said", "number"), [("12", 12), ("1", 1), ("9" * 5000, None), ("no", None)])
def test_a_number_that_nobody_counts_to_is_not_read(said, number):
    assert ToldBefore(message=f"it waits for {said} workloads to leave").number_in(COUNT) == number


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1970-01-01T00:01:00Z", 60.0), ("", None), ("soon", None), ("9" * 5000, None), ("10000-01-01T00:00:00Z", None)],
)
def test_a_time_that_cannot_be_read_is_none(text, seconds):
    assert told_time(text) == seconds
