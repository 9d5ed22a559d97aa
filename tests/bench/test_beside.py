"""The plot of curves beside others is drawn of the figures that are committed, which are of the scenarios that are run."""

from __future__ import annotations

import json
from pathlib import Path

from bench.beside import DATA, GROWTHS, LABEL, METRICS, MINE, PLOT, SCENARIOS, curves, panels
from bench.drawing import drawn
from tutti_bench.document import load_scenarios
from tutti_bench.results import item

ROOT = Path(__file__).parents[2]


def test_the_committed_plot_shows_the_committed_figures_of_every_scenario_size_and_scheduler():
    data = json.loads((ROOT / DATA).read_text())
    there = {
        f"{scenario.name} {metric}": {
            who: sorted(one.name for one in scenario.workloads if LABEL in one.labels)
            for who in (MINE, *GROWTHS[scenario.name].beside)
        }
        for scenario in load_scenarios(SCENARIOS)
        for metric in METRICS
    }
    assert {name: {who: sorted(sizes) for who, sizes in told.items()} for name, told in data.items()} == there
    assert (ROOT / PLOT).read_text() == drawn(panels(data), across=2)


def test_a_figure_is_the_median_of_all_runs_beside_whomever():
    def found(who, rate):
        return who, item("SinglesByNodes/500/namespace-1", "OverallThroughput", "pods/s", {"Average": rate})

    other = item("SinglesByNodes/500/namespace-1", "BindLatency", "ms", {"Average": 1.0})
    runs = [found("tutti", 900.0), found("floor", 1000.0), found("tutti", 700.0), found("tutti", 800.0)]
    assert curves([*runs, ("tutti", other)]) == {
        "SinglesByNodes OverallThroughput": {"tutti": {"500": 800.0}, "floor": {"500": 1000.0}}
    }
