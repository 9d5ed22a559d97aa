"""What an operator remembers does not grow with what it has seen; `make soak` plays two weeks."""

from __future__ import annotations

from tests.simulation.soak import SLACK, soaked

EVERY_SECONDS = 300.0
SHORT, LONG = 0.05, 0.35
"""Days; in the longer run seven times as much has come and gone."""


def test_a_process_holds_as_much_after_a_long_life_as_after_a_short_one_and_as_one_that_starts_anew():
    short, _, first = soaked(SHORT, EVERY_SECONDS)
    long, new, second = soaked(LONG, EVERY_SECONDS)
    assert first == second == []
    grown = {kind: (short[kind], count) for kind, count in long.items() if count > short[kind] + 10}
    assert not {kind: counts for kind, counts in grown.items() if kind.startswith("tutti.")}
    assert long.total() < 1.1 * short.total()
    more = {kind: (new[kind], count) for kind, count in long.items()}
    assert not {kind: (a, b) for kind, (a, b) in more.items() if b > a + SLACK[kind.startswith("tutti.")]}
