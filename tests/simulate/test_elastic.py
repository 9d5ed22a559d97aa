"""Elastic jobs of a trace: what comes of them by hand, and that it is worth giving members to whoever gains most."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.simulate.small_traces import EXACT, NODES, gpu_queue, job, played, written
from tutti_simulate.draws import parts_of
from tutti_simulate.elastic import Elastic
from tutti_simulate.jobs import GPU
from tutti_simulate.measures import figures_of, stay_of
from tutti_simulate.playing import Rules

IDEAL = Rules(step=0.0, elastic=Elastic(0.25, (1.0, 1.0)))


def test_a_job_runs_with_fewer_pods_at_once_and_goes_on_faster_with_more(tmp_path: Path):
    """Six of eight GPUs are in use for 40 s when `b` comes, which would take 80 s with eight pods.

    With two it is done with a quarter of a second in each: with 9.75 s when the others end, and 70.25 are left.
    """
    rigid = Rules(step=0.0, elastic=Elastic(1.0, (1.0, 1.0)))
    jobs = [job("c", 0, 40, gpus=3, pods=2), job("b", 1, 80, gpus=1, pods=8)]
    assert [(one.first, one.ended) for one in played(written(tmp_path, NODES), *jobs, rules=rigid).jobs] == [
        (0, 40),
        (40, 120),
    ]
    found = played(written(tmp_path, NODES), *jobs, rules=IDEAL)
    assert [(one.first, one.ended) for one in found.jobs] == [(0, 40), (1, pytest.approx(1 + 39 + 70.25))]


def test_use_counts_the_pods_that_run(tmp_path: Path):
    """Two of eight for 39 s, then all; looked at until the last job is submitted."""
    found = played(
        written(tmp_path, NODES),
        job("c", 0, 40, gpus=3, pods=2),
        job("b", 1, 80, gpus=1, pods=8),
        job("late", 60, 1, gpus=1),
        rules=IDEAL,
    )
    in_use = (6 * 40 + 2 * 39 + 8 * 20) / (8 * 60)
    assert figures_of(found).utilisation[GPU] == pytest.approx(in_use, abs=1e-6)


def test_whoever_has_all_pods_alone_is_played_as_before(tmp_path: Path):
    jobs = [job(f"j{number}", number * 7.0, 50 + number, gpus=1, pods=3) for number in range(12)]
    rigid = played(written(tmp_path, NODES), *jobs)
    elastic = played(written(tmp_path, NODES), *jobs, rules=Rules(step=0.0, elastic=Elastic(1.0, (0.5, 0.9))))
    assert [(one.first, one.ended) for one in rigid.jobs] == [(one.first, one.ended) for one in elastic.jobs]


def test_members_to_whoever_gains_most_shorten_the_stay(tmp_path: Path):
    jobs = [job(f"j{number}", number, 100, gpus=1, pods=8) for number in range(8)]

    def stay(order: str) -> float:
        rules = Rules(step=0.0, elastic=Elastic(0.125, (0.5, 0.999)))
        found = played(written(tmp_path, NODES + gpu_queue(f"surplusOrder: {order}")), *jobs, rules=rules)
        return sum(stay_of(one, found.over) for one in found.jobs) / len(jobs)

    assert stay("BySpeed") < 0.8 * stay("InTurn")


@pytest.mark.parametrize(
    ("silent", "gain"),
    [(False, "4.2 % faster"), (True, "4.5 % faster (by 6 runs of its kind with 4 to 8 members, ± 0 %)")],
)
def test_whoever_is_silent_goes_by_what_was_learned_of_those_that_have_ended(tmp_path: Path, silent: bool, gain: str):
    """Three run with all eight pods, then four beside one that has half of the GPUs; the last of these waits for more.

    By Amdahl's law with half of the work shared, the fifth member makes it faster by 0.625 / 0.6 - 1; runs that took
    112 s with four and 100 s with eight, as they are counted, have 0.545 of it shared, by which that is 0.591 / 0.564 - 1.
    """
    jobs = [job(f"alone-{number}", number * 1000, 100, gpus=1, pods=8) for number in range(3)]
    for at in range(3000, 7000, 1000):
        jobs += [job(f"other-{at}", at, 200), job(f"half-{at}", at + 1, 100, gpus=1, pods=8)]
    sink = io.BytesIO()
    rules = Rules(step=0.0, elastic=Elastic(0.25, (0.5, 0.5), silent))
    found = played(written(tmp_path, NODES + gpu_queue("surplusOrder: BySpeed")), *jobs, rules=rules, sink=sink)
    (last,) = (one for one in found.jobs if one.job.name == "half-6000")
    assert last.first is not None
    assert last.ended == pytest.approx(last.first + 100 * 0.625 / 0.5625)
    told = sink.getvalue().decode()
    assert f"members go to the gang that gains most from them, and one more makes it {gain}" in told
    assert ("of its kind" in told) == silent


@pytest.mark.parametrize("said", ["x", "0.5:", "0.9:0.1", "1.1", "-0.1", "nan", "0.1:inf"])
def test_a_part_that_cannot_be_read_is_refused(said):
    if said == "0.5:":
        assert parts_of(said) == (0.5, 0.5)
        return
    with pytest.raises(ValueError, match="part"):
        parts_of(said)


def test_it_is_off_unless_asked_for():
    assert (EXACT.elastic, EXACT.progress) == (None, None)
