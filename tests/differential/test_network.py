"""Every recorded decision of NetworkOverhead and TopologicalSort is met, nearly all by a whole engine."""

from __future__ import annotations

from pathlib import Path

from tests.differential.network import asked, compare

RECORDED = Path(__file__).parent / "network.jsonl.gz"
DRAWN = Path(__file__).parent / "network-random.jsonl"


def test_every_recorded_decision_is_met():
    assert [(case, difference) for case, difference in compare(RECORDED) if difference is not None] == []


def test_what_was_drawn_at_random_is_decided_as_network_overhead_does():
    found = dict(compare(DRAWN))
    assert len(found) == 112
    assert {case: difference for case, difference in found.items() if difference is not None} == {}


def test_all_but_orders_that_are_worked_out_are_asked_of_a_whole_engine():
    assert (len(asked(RECORDED)), len(list(compare(RECORDED)))) == (4, 145)
