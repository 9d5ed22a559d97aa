"""A simulated week, shortened: whatever must always hold does, and the journal replays."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from bench.simulation.mixes import BASELINE, LARGE_SCALE, PREEMPTION, TAS, WEEK_OF_GANGS
from bench.simulation.running import Rules, simulate

SPARING = {"preemption": {**PREEMPTION["preemption"], "minimumRuntimeSeconds": 5040}}
"""Whoever runs is spared for as long as a medium workload takes."""


@pytest.mark.parametrize(
    ("mix", "rules"),
    [
        pytest.param(WEEK_OF_GANGS.part(0.045), Rules(recount=10, queue=PREEMPTION), id="week"),
        pytest.param(WEEK_OF_GANGS.part(0.03), Rules(recount=10, queue=PREEMPTION, grace=600.0), id="slow-victims"),
        pytest.param(WEEK_OF_GANGS.part(0.04), Rules(recount=10), id="no-preemption"),
        pytest.param(WEEK_OF_GANGS.part(0.04), Rules(recount=10, strict=True), id="strict"),
        pytest.param(WEEK_OF_GANGS.part(0.03), Rules(recount=10, known=True, grace=30.0), id="known-times"),
        pytest.param(WEEK_OF_GANGS.part(0.05), Rules(recount=10, fair=True, queue=SPARING), id="fair"),
        pytest.param(BASELINE.part(0.02), Rules(recount=20, queue=PREEMPTION), id="baseline"),
        pytest.param(TAS.part(0.01), Rules(recount=20, queue=PREEMPTION), id="racks"),
    ],
)
def test_all_workloads_run_to_their_end_and_nothing_happens_that_must_not(mix, rules):
    found = simulate(mix, rules)
    assert found.violations == []
    assert sum(len(one.waits) for one in found.kinds.values()) == mix.total


def test_tutti_replays_a_week_byte_for_byte(tmp_path):
    """In another process with other hashes, so that nothing goes by the order of a set."""
    path = tmp_path / "week.jsonl"
    with path.open("wb") as journal:
        found = simulate(WEEK_OF_GANGS.part(0.04), Rules(queue=PREEMPTION, grace=30.0), journal)
    command = [sys.executable, "-m", "tutti", "replay", str(path), "-o", "json"]
    done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "7"}, capture_output=True, check=False)
    again = json.loads(done.stdout)
    assert (done.returncode, again["identical"], again["calls"]) == (0, True, found.turns)
    assert again["decisions"] == sum(found.decisions.values()) > 1000


def test_the_mixes_are_the_published_ones():
    """kubernetes-sigs/kueue, test/performance/scheduler/configs."""
    assert [mix.total for mix in (BASELINE, TAS, LARGE_SCALE, WEEK_OF_GANGS)] == [15_000, 15_000, 50_000, 15_000]
    for mix in (BASELINE, TAS, LARGE_SCALE, WEEK_OF_GANGS):
        assert [(kind.size, kind.priority) for kind in mix.kinds] == [(1000, 50), (5000, 100), (20_000, 200)]
    assert max(after for after, *_ in WEEK_OF_GANGS.arrivals()) == 7 * 24 * 3600
