"""Every recorded decision of kube-throttler is met: whole ones by an engine, their parts by its rules."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.differential.throttles import asked, compare

RECORDED = Path(__file__).parent / "throttles.jsonl.gz"
DRAWN = Path(__file__).parent / "throttles-random.jsonl"


def test_every_recorded_decision_is_met():
    assert [(case, difference) for case, difference in compare(RECORDED) if difference is not None] == []


def test_what_was_drawn_at_random_is_decided_as_kube_throttler_does():
    found = dict(compare(DRAWN))
    assert len(found) == 110
    assert {case: difference for case, difference in found.items() if difference is not None} == {}


def test_most_are_asked_of_a_whole_engine():
    parts, cases = asked(RECORDED), [case for case, _ in compare(RECORDED)]
    assert Counter(case in parts for case in cases) == {False: 205, True: 85}
