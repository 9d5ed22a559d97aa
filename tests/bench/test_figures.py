"""Samples, data items, thresholds and comparisons: what is computed and how it is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tutti_bench.document import Selector, Workload
from tutti_bench.results import (
    NoDataItems,
    Sampler,
    compared,
    encode,
    file_name,
    item,
    judged,
    markdown,
    medians,
    of_fewer_turns,
    read_data_items,
    summary,
    threshold_of,
)
from tutti_bench.stage import ELSEWHERE, Process


@pytest.mark.parametrize(
    ("ticks", "samples"),
    [
        pytest.param([(0, 1), (0, 2)], [], id="nothing was scheduled"),
        pytest.param([(0, 1), (10, 2)], [], id="the first pods only set where to begin"),
        pytest.param([(10, 1), (30, 2), (60, 3)], [20.0, 30.0], id="a sample each second"),
        pytest.param([(10, 1), (10, 2), (10, 3), (70, 4)], [20.0] * 3, id="idle seconds share the next sample"),
        pytest.param([(10, 1), (20, 3)], [5.0], id="by the time that has really passed"),
        pytest.param([(10, 1), (30, 2), (30, 3)], [20.0], id="idle at the end counts for nothing"),
    ],
)
def test_throughput_is_sampled_as_scheduler_perf_does(ticks, samples):
    sampler = Sampler()
    for count, at in ticks:
        sampler.tick(count, float(at))
    assert sampler.samples == samples


def test_a_summary_has_the_mean_and_nearest_ranks():
    assert summary([float(n) for n in range(20, 0, -1)]) == {
        "Average": 10.5, "Perc50": 10.0, "Perc90": 18.0, "Perc95": 19.0, "Perc99": 20.0,
    }  # fmt: skip
    assert summary([7.0]) == dict.fromkeys(("Average", "Perc50", "Perc90", "Perc95", "Perc99"), 7.0)
    assert summary([]) == {}


def test_data_items_have_the_shape_that_perf_dash_reads():
    """Kubernetes 1.36, test/integration/scheduler_perf: version v1, all items with the same labels."""
    items = [
        item("Basic/5Nodes/namespace-2", "SchedulingThroughput", "pods/s", {"Average": 1.5, "AverageThreshold": 1.0}),
        item("Basic/5Nodes/namespace-2", "Other", "ms", {}, plugin="X"),
    ]
    assert (
        encode(items)
        == json.dumps(
            {
                "version": "v1",
                "dataItems": [
                    {
                        "data": {"Average": 1.5, "AverageThreshold": 1.0},
                        "labels": {
                            "Metric": "SchedulingThroughput",
                            "Name": "Basic/5Nodes/namespace-2",
                            "plugin": "not applicable",
                        },
                        "unit": "pods/s",
                    },
                    {
                        "data": {},
                        "labels": {"Metric": "Other", "Name": "Basic/5Nodes/namespace-2", "plugin": "X"},
                        "unit": "ms",
                    },
                ],
            },
            indent=2,
        )
        + "\n"
    )
    expected = "BenchmarkPerfScheduling_benchmark_misc_2026-01-02T03:04:05Z.json"
    assert file_name("misc", "2026-01-02T03:04:05Z") == expected


def test_of_several_runs_the_median_of_each_figure_is_told():
    """A run that was over too soon has no samples, and a figure of another scheduler is another item."""
    runs = [
        [item("a", "OverallThroughput", "pods/s", {"Average": 9.0}), item("a", "SchedulingThroughput", "pods/s", {})],
        [
            item("a", "OverallThroughput", "pods/s", {"Average": 1.0}),
            item("a", "SchedulingThroughput", "pods/s", {"Average": 4.0, "Perc99": 6.0}),
        ],
        [
            item("a", "OverallThroughput", "pods/s", {"Average": 2.0}),
            item("a", "OverallThroughput", "pods/s", {"Average": 7.0}, Scheduler="other"),
        ],
    ]
    assert medians(runs) == [
        item("a", "OverallThroughput", "pods/s", {"Average": 2.0}),
        item("a", "SchedulingThroughput", "pods/s", {"Average": 4.0, "Perc99": 6.0}),
        item("a", "OverallThroughput", "pods/s", {"Average": 7.0}, Scheduler="other"),
    ]


def test_two_measurements_of_one_name_stay_two():
    first, second = (item("a", "OverallThroughput", "pods/s", {"Average": figure}) for figure in (100.0, 300.0))
    assert medians([[first, second]]) == [first, second]
    assert (
        medians([[first, second], [second, first]])
        == [
            item("a", "OverallThroughput", "pods/s", {"Average": 200.0}),
        ]
        * 2
    )


def test_medians_that_are_of_fewer_turns_than_were_asked_for_are_told():
    turn = [item("a/x/namespace-1", "OverallThroughput", "pods/s", {"Average": 300.0})]
    found = {"tutti": [[turn, turn], [turn, turn, turn]], "other": [[turn], []]}
    assert of_fewer_turns(found, ["a/x", "a/y"], 3) == [
        "medians of a/x by tutti are of 2 turns, not 3: no other came to its end",
        "medians of a/x by other are of 1 turn, not 3: no other came to its end",
    ]
    assert of_fewer_turns(found, ["a/x", "a/y"], 1) == []


def test_data_items_are_read_again(tmp_path):
    path = tmp_path / "items.json"
    items = [item("a/b/c", "M", "s", {"Duration": 2.0})]
    path.write_text(encode(items))
    assert read_data_items(path) == items


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "is no file of data items"),
        ("[", "is no file of data items"),
        ('{"version": "v2", "dataItems": []}', "has version 'v2'"),
    ],
)
def test_a_file_that_holds_no_data_items_is_told(tmp_path, text, why):
    path = tmp_path / "items.json"
    path.write_text(text)
    with pytest.raises(NoDataItems, match=why):
        read_data_items(path)
    with pytest.raises(NoDataItems, match="cannot be read"):
        read_data_items(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("figure", "threshold", "expect_lower", "met"),
    [(271.0, 270.0, False, True), (270.0, 270.0, False, False), (9.0, 10.0, True, True), (11.0, 10.0, True, False)],
)
def test_a_threshold_is_put_beside_its_figure(figure, threshold, expect_lower, met):
    """scheduler_perf: strictly above, or with expectLower strictly below."""
    selector = Selector(name="M", labels={"kind": "x"}, data_bucket="Average", expect_lower=expect_lower)
    items = [item("n", "M", "pods/s", {"Average": figure}, kind="x"), item("n", "M", "pods/s", {"Average": 1.0})]
    out, verdicts = judged(items, selector, threshold)
    assert out[0].data == {"Average": figure, "AverageThreshold": threshold}
    assert out[1] == items[1]
    assert [verdict.is_met for verdict in verdicts] == [met]


def test_a_threshold_without_a_figure_is_missed():
    _, (verdict,) = judged([item("n", "M", "pods/s", {})], Selector(name="M", data_bucket="Average"), 5.0)
    assert not verdict.is_met
    assert "no samples" in str(verdict)


@pytest.mark.parametrize(("given", "threshold"), [(5, 5.0), ({"dra": 3, "misc": 2}, 2.0), ({"dra": 3}, 0.0)])
def test_thresholds_may_differ_by_topic(given, threshold):
    assert threshold_of(Workload(name="w", threshold=given), "misc") == threshold


def test_two_files_are_put_side_by_side():
    old = [
        item("a", "SchedulingThroughput", "pods/s", {"Average": 200.0, "Perc99": 1.0, "AverageThreshold": 9.0}),
        item("gone", "SchedulingDuration", "s", {"Duration": 3.0}),
        item("z", "SchedulingThroughput", "pods/s", {"Average": 0.0}),
    ]
    new = [
        item("a", "SchedulingThroughput", "pods/s", {"Average": 250.0, "Perc99": 2.0}),
        item("a", "SchedulingThroughput", "pods/s", {"Average": 1250.0}, Scheduler="kube-scheduler"),
        item("z", "SchedulingThroughput", "pods/s", {"Average": 1.0}),
        item("short", "SchedulingThroughput", "pods/s", {}),
    ]
    assert markdown(compared(old, new)) == (
        "| workload | metric | previous | current | difference |\n"
        "|---|---|---:|---:|---:|\n"
        "| a | SchedulingThroughput Average, pods/s | 200 | 250 | +25.0% |\n"
        "| a (Scheduler=kube-scheduler) | SchedulingThroughput Average, pods/s | - | 1,250 | - |\n"
        "| z | SchedulingThroughput Average, pods/s | 0 | 1 | - |\n"
        "| gone | SchedulingDuration Duration, s | 3 | - | - |\n"
    )
    assert [row.bucket for row in compared(old, new, all_buckets=True)][:2] == ["Average", "Perc99"]
    assert [row.name for row in compared(old, new, metrics=["SchedulingDuration"])] == ["gone"]


def test_what_a_process_uses_is_read_from_the_kernel():
    before = Process(os.getpid()).usage()
    sum(i * i for i in range(3_000_000))
    after = Process(os.getpid()).usage()
    assert after.cpu_seconds > before.cpu_seconds
    assert 5e6 < after.memory_bytes < 64e9
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert Process(process.pid).usage() is None
    assert ELSEWHERE.usage() is None


def test_a_process_that_drains_stands_still_meanwhile():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        with Process(child.pid, drains=True).stopped():
            assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
        assert os.WIFCONTINUED(os.waitpid(child.pid, os.WCONTINUED)[1])
        child.communicate(b"\n")
