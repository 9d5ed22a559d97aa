"""A simulated week, shortened: whatever must always hold does, and the journal replays."""

from __future__ import annotations

import io

import pytest

from bench.simulation.mixes import BASELINE, LARGE_SCALE, PREEMPTION, TAS, WEEK_OF_GANGS
from bench.simulation.running import Rules, simulate
from tutti.engine.journal import replay


@pytest.mark.parametrize(
    ("mix", "rules"),
    [
        pytest.param(WEEK_OF_GANGS.part(0.1), Rules(recount=10, queue=PREEMPTION), id="week"),
        pytest.param(WEEK_OF_GANGS.part(0.06), Rules(recount=10, queue=PREEMPTION, grace=600.0), id="slow-victims"),
        pytest.param(WEEK_OF_GANGS.part(0.05), Rules(recount=10), id="no-preemption"),
        pytest.param(WEEK_OF_GANGS.part(0.05), Rules(recount=10, strict=True), id="strict"),
        pytest.param(WEEK_OF_GANGS.part(0.05), Rules(recount=10, known=True, grace=30.0), id="known-times"),
        pytest.param(BASELINE.part(0.02), Rules(recount=20, queue=PREEMPTION), id="baseline"),
        pytest.param(TAS.part(0.02), Rules(recount=20, queue=PREEMPTION), id="racks"),
    ],
)
def test_all_workloads_run_to_their_end_and_nothing_happens_that_must_not(mix, rules):
    found = simulate(mix, rules)
    assert found.violations == []
    assert sum(len(one.waits) for one in found.kinds.values()) == mix.total


def test_a_week_replays_byte_for_byte():
    journal = io.BytesIO()
    simulate(WEEK_OF_GANGS.part(0.05), Rules(queue=PREEMPTION, grace=30.0), journal)
    again = replay(journal.getvalue().splitlines())
    assert again.differences == []
    assert again.decisions > 1000


def test_the_mixes_are_the_published_ones():
    """kubernetes-sigs/kueue, test/performance/scheduler/configs."""
    assert [mix.total for mix in (BASELINE, TAS, LARGE_SCALE, WEEK_OF_GANGS)] == [15_000, 15_000, 50_000, 15_000]
    for mix in (BASELINE, TAS, LARGE_SCALE, WEEK_OF_GANGS):
        assert [(kind.size, kind.priority) for kind in mix.kinds] == [(1000, 50), (5000, 100), (20_000, 200)]
    assert max(after for after, *_ in WEEK_OF_GANGS.arrivals()) == 7 * 24 * 3600
