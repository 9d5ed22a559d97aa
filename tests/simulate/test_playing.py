"""A trace that is played: what comes of it by hand, what a journal says of it, and that it is the same every time."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulate.small_traces import NODES, gpu_queue, job, played, times, written
from tutti.api.configuration import TuttiConfiguration
from tutti.engine.journal import replay
from tutti_simulate.comparison import differences, interval
from tutti_simulate.draws import SaidProgress
from tutti_simulate.jobs import GPU, Trace, TraceJob, completed
from tutti_simulate.measures import Power, figures_of, jain, slowdown_of, wait_of
from tutti_simulate.playing import Rules
from tutti_simulate.setting import Setting, SettingError, find_queues, with_queues
from tutti_simulate.speeds import speeds_of
from tutti_simulate.traces.own_journal import read_journal
from tutti_simulate.traces.reading import TraceError


@pytest.fixture
def cluster(tmp_path: Path) -> Setting:
    return written(tmp_path, NODES)


def test_a_small_trace_goes_as_it_goes_by_hand(cluster: Setting):
    """Two nodes of four GPUs. Both hold `a` and `b`; the gang `c` needs both nodes and starts when the later of them ends.

    `d` needs one GPU and fits beside nobody until `c` ends, as `b`'s node is held by `c` from then on.
    """
    found = played(cluster, job("a", 0, 100), job("b", 10, 200), job("c", 20, 50, pods=2), job("d", 205, 10, gpus=1))
    assert times(found) == [(0, 100), (10, 210), (210, 260), (205, 215)] or times(found) == [
        (0, 100), (10, 210), (215, 265), (205, 215)
    ]  # fmt: skip
    one = found.jobs[2]
    assert wait_of(one, found.over) == one.first - 20
    assert slowdown_of(one, found.over) == (one.ended - 20) / 50


def test_waits_use_and_energy_are_those_by_hand(cluster: Setting):
    found = played(cluster, job("a", 0, 100), job("b", 0, 100), job("c", 50, 100), job("d", 150, 10))
    assert times(found) == [(0, 100), (0, 100), (100, 200), (150, 160)]
    figures = figures_of(found, Power(idle=100, core=0, gpu=50))
    assert figures.all.wait.mean == 12.5  # one of four waits for 50 s
    assert figures.all.slowdown.mean == (1 + 1 + 1.5 + 1) / 4
    in_use = (8 * 100 + 4 * 50) / (8 * 150)  # until the last one is submitted
    assert figures.utilisation[GPU] == pytest.approx(in_use, abs=1e-6)
    joules = 2 * 100 * 150 + 50 * (8 * 100 + 4 * 50)
    assert figures.energy_kwh == pytest.approx(joules / 3.6e6, abs=1e-6)
    assert figures.over == 200


def test_a_queue_takes_back_what_it_lent_and_the_work_begins_anew_or_goes_on(cluster: Setting):
    """Each of two queues has four of eight GPUs. `lend` has all of them when `own` asks for its four at 50 s."""
    jobs = (job("lend", 0, 100, pods=2, queue="a"), job("own", 50, 20, queue="b"))
    found = played(cluster, *jobs)
    lend, own = found.jobs
    assert (own.first, own.ended) == (50, 70)
    assert (lend.evictions, lend.lost, lend.last, lend.ended) == (1, 50, 70, 170)
    goes_on = played(cluster, *jobs, rules=Rules(step=0, resumes=True)).jobs[0]
    assert (goes_on.last, goes_on.ended) == (70, 120)
    figures = figures_of(found)
    assert figures.all.preemptions == 1
    assert figures.queues["a"].lost_part == pytest.approx(50 / 150, abs=1e-6)
    assert figures.never == {}


def test_a_gang_takes_nothing_while_it_waits_and_a_limit_lets_shorter_work_by(tmp_path: Path):
    queue = """
---
apiVersion: scheduling.tutti.dev/v1alpha1
kind: ResourceFlavor
metadata: {name: f}
spec: {}
---
apiVersion: scheduling.tutti.dev/v1alpha1
kind: ClusterQueue
metadata: {name: q}
spec:
  namespaceSelector: {}
  queueingStrategy: BestEffortFIFO
  backfill: Reserved
  resourceGroups:
    - coveredResources: [cpu, nvidia.com/gpu]
      flavors: [{name: f, resources: [{name: cpu, nominalQuota: 100}, {name: nvidia.com/gpu, nominalQuota: 8}]}]
"""
    setting = written(tmp_path, NODES + queue)
    jobs = [
        job("runs", 0, 100, limit=100.0),
        job("head", 10, 50, pods=2, limit=50.0),
        job("short", 20, 30, limit=30.0),
        job("long", 21, 500, limit=500.0),
    ]
    assert [first for first, _ in times(played(setting, *jobs))] == [0, 100, 20, 150]
    unknown = played(setting, *jobs, rules=Rules(step=0.0, limits=False))
    assert [first for first, _ in times(unknown)][2:] != [20, 150]  # nobody knows who ends before the head could start


def test_who_can_never_start_is_told_with_why(cluster: Setting):
    found = played(cluster, job("fits", 0, 10), job("huge", 0, 10, gpus=64))
    assert times(found)[1] == (None, None)
    ((why, count),) = found.waits.items()
    assert count == 1
    assert "64" in why
    assert figures_of(found).all.started == 1


def test_the_same_trace_gives_the_same_figures_and_a_journal_that_replays(cluster: Setting):
    jobs = [job(str(n), n * 7.0, 30 + n % 5 * 40, gpus=1 + n % 4, pods=1 + n % 3, queue=f"q{n % 2}") for n in range(30)]
    sinks = [io.BytesIO(), io.BytesIO()]
    runs = [played(cluster, *jobs, sink=sink) for sink in sinks]
    assert sinks[0].getvalue() == sinks[1].getvalue()
    assert figures_of(runs[0]) == figures_of(runs[1])
    again = replay(io.BytesIO(sinks[0].getvalue()))
    assert again.differences == []
    assert again.calls > 30


sizes = st.tuples(st.integers(0, 300), st.integers(1, 200), st.integers(1, 4), st.integers(1, 3), st.sampled_from("ab"))


@settings(max_examples=8, deadline=None)
@given(st.lists(sizes, min_size=1, max_size=12))
def test_a_journal_as_a_trace_is_the_trace_that_it_came_of(rows):
    """The engine's own history, read off its journal, has the jobs and run times that were played; so it plays alike."""
    setting = Setting(nodes=_nodes())
    jobs = [
        job(str(n), float(at), float(seconds), gpus=gpus, pods=min(pods, 8 // gpus), queue=queue)
        for n, (at, seconds, gpus, pods, queue) in enumerate(sorted(rows))
    ]  # fmt: skip
    jobs = completed(Trace(jobs)).jobs
    sink = io.BytesIO()
    first = played(setting, *jobs, sink=sink)
    if first.waits or any(one.evictions for one in first.jobs):
        return  # what is taken out may end under another name
    told = completed(read_journal(io.BytesIO(sink.getvalue())))
    assert sorted(map(_shape, told.jobs)) == sorted(map(_shape, jobs))


def _shape(one: TraceJob):
    return one.submitted, one.seconds, [(part.count, sorted(part.requests.items())) for part in one.pods], one.queue


def _nodes():
    from tutti.api.core import Node, NodeStatus, ObjectMeta

    offered = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "4"}
    return {
        f"n{n}": Node(ObjectMeta(f"n{n}", labels={"kubernetes.io/hostname": f"n{n}"}), status=NodeStatus(dict(offered)))
        for n in range(2)
    }


def test_a_step_sees_together_what_happens_within_it(cluster: Setting):
    found = played(cluster, job("a", 0, 100), job("b", 3, 100), rules=Rules(step=60.0))
    first, second = (first for first, _ in times(found))
    assert first == second  # both are seen at the end of one step
    assert 3 <= first <= 60


def test_two_runs_are_compared_job_by_job(tmp_path: Path, cluster: Setting):
    jobs = [job(str(n), n * 10.0, 100.0) for n in range(40)]
    small = played(cluster, *jobs)
    large = played(written(tmp_path, NODES.replace("count: 2", "count: 4"), cluster), *jobs)
    found = {one.what: one for one in differences(small, large, (figures_of(small), figures_of(large)))}
    wait = found["wait, mean, s"]
    assert wait.difference == pytest.approx(wait.second - wait.first)
    assert wait.low is not None
    assert wait.high is not None
    assert wait.low <= wait.difference <= wait.high < 0
    assert wait.sure
    assert found["preemptions"].sure is False
    same = {one.what: one for one in differences(small, small, (figures_of(small), figures_of(small)))}
    assert all(one.difference == 0 and not one.sure for one in same.values())


def test_the_interval_holds_the_mean_in_about_as_many_draws_as_it_says():
    """Of 200 samples of independent differences with mean 5, the interval holds 5 in 95 of 100, give or take."""
    random = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        low, high = interval(random.normal(5.0, 3.0, size=400), random)
        held += low <= 5.0 <= high
    assert 170 <= held <= 199
    assert interval([], random) == (0.0, 0.0)
    assert interval([2.0, 2.0, 2.0], random) == (2.0, 2.0)


deltas = st.lists(st.integers(-1000, 1000).map(float), min_size=1, max_size=120)


@settings(max_examples=60, deadline=None)
@given(deltas, st.integers(-5000, 5000).map(float), st.integers(1, 50).map(float), st.integers(0, 2**32 - 1))
def test_the_interval_goes_with_what_is_compared(values, more, times_, seed):
    """It lies within what there is, moves and grows with it, turns round with it, and equal seeds draw alike."""

    def drawn(pairs: list[float]) -> tuple[float, float]:
        return interval(pairs, np.random.default_rng(seed))

    low, high = drawn(values)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9
    assert drawn(values) == (low, high)
    assert drawn([value + more for value in values]) == pytest.approx((low + more, high + more), abs=1e-6)
    assert drawn([value * times_ for value in values]) == pytest.approx((low * times_, high * times_), abs=1e-6)
    assert drawn([-value for value in values]) == pytest.approx((-high, -low), abs=1e-6)


def test_neighbours_that_wait_for_one_reason_make_the_interval_wider():
    """A hundred jobs of ten long waits in a row say less than a hundred that each wait by themselves."""
    random = np.random.default_rng(3)
    waits = random.normal(0.0, 10.0, size=10)
    together, apart = np.repeat(waits, 10), random.permutation(np.repeat(waits, 10))
    wide, narrow = (interval(one, np.random.default_rng(1)) for one in (together, apart))
    assert wide[1] - wide[0] > 1.5 * (narrow[1] - narrow[0])


@pytest.mark.parametrize(("values", "index"), [([1, 1, 1], 1.0), ([1, 0, 0], 1 / 3), ([], 1.0), ([0, 0], 1.0)])
def test_jains_index(values, index):
    assert jain(values) == pytest.approx(index)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- 1", "must be a mapping"),
        ("a: [", "this is not YAML"),
        ("kind: Service\nmetadata: {name: x}", "Service says nothing of a cluster"),
        ("apiVersion: scheduling.tutti.dev/v1alpha1\nkind: PodGroup\nmetadata: {name: x}", "work comes from the trace"),
        (
            "apiVersion: scheduling.tutti.dev/v1alpha1\nkind: ClusterQueu\nmetadata: {name: x}",
            "there is no kind ClusterQueu",
        ),
        (
            "apiVersion: scheduling.tutti.dev/v1alpha1\nkind: ClusterQueue\nmetadata: {name: x}\nspec: {cohort: 3}",
            "cohort",
        ),
        ("kind: Node\nmetadata: {name: x}\nstatus: {allocatable: {cpu: lots}}", "cpu"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused_with_where_and_why(tmp_path: Path, text, said):
    with pytest.raises(SettingError) as caught:
        written(tmp_path, text)
    assert "document 1" in str(caught.value) or "YAML" in str(caught.value)
    assert said in str(caught.value)


def test_a_queue_that_the_cluster_lacks_is_refused_with_those_it_has(tmp_path: Path, cluster: Setting):
    made = with_queues(cluster, ["team a"], [GPU])
    with pytest.raises(SettingError, match="--queue 'other=NAME'; there are team-a"):
        find_queues(made, ["other"], {})
    _, found = find_queues(made, ["other"], {"*": "team-a"})
    assert found == {"other": ("trace", "team-a")}


def test_a_journal_that_is_none_is_refused():
    with pytest.raises(TraceError, match="header"):
        read_journal(iter([b'{"line":"ended"}\n', b'{"line":"ended"}\n']))
    assert TuttiConfiguration().scheduler_names == ["tutti"]


def test_what_comes_of_a_trace_is_the_same_with_a_journal_and_statuses_that_nobody_reads_are_not_made(cluster: Setting):
    jobs = [job(f"j{n}", 7.0 * n, 40.0 + n, gpus=1 + n % 4, queue=("a", "b", "c")[n % 3]) for n in range(30)]
    sink = io.BytesIO()
    without, recorded = played(cluster, *jobs), played(cluster, *jobs, sink=sink)
    assert times(without) == times(recorded)
    assert without.samples == recorded.samples
    assert without.decisions["PatchStatus"] < recorded.decisions["PatchStatus"]
    assert replay(sink.getvalue().splitlines()).differences == []


def test_jobs_run_as_long_as_their_flavor_makes_them_and_say_so():
    """The trace says 100 s: in a flavor of speed 0.25 they take 400, and all say so."""
    speeds = speeds_of({"fast": "1", "slow": "0.25", "some": "0.2:0.9"})
    one = job("a", 0, 100)
    assert speeds.seconds(one, ["fast", "else"]) == 100
    assert speeds.seconds(one, ["fast", "slow"]) == 400
    drawn = speeds.speed(one, "some")
    assert 0.2 <= drawn <= 0.9
    assert drawn == speeds_of({"some": "0.2:0.9"}).speed(one, "some")
    assert drawn != speeds.speed(job("b", 0, 100), "some")
    assert speeds.told(one) == f"fast=100,slow=400,some={math.ceil(100 / drawn)}"


@pytest.mark.parametrize("text", ["", "fast", "0", "2:1", "nan", "1:2:3", "1e9"])
def test_a_speed_that_is_none_is_refused(text: str):
    with pytest.raises(ValueError, match="speed"):
        speeds_of({"a": text})


KINDS = """
nodes:
  - {name: fast, count: 1, labels: {kind: fast}, resources: {cpu: 16, memory: 64Gi, nvidia.com/gpu: 4}}
  - {name: slow, count: 1, labels: {kind: slow}, resources: {cpu: 16, memory: 64Gi, nvidia.com/gpu: 4}}
---
apiVersion: scheduling.tutti.dev/v1alpha1
kind: ResourceFlavor
metadata: {name: fast}
spec: {nodeLabels: {kind: fast}}
---
apiVersion: scheduling.tutti.dev/v1alpha1
kind: ResourceFlavor
metadata: {name: slow}
spec: {nodeLabels: {kind: slow}}
---
apiVersion: scheduling.tutti.dev/v1alpha1
kind: ClusterQueue
metadata: {name: q}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu, nvidia.com/gpu]
      flavors:
        - {name: fast, resources: [{name: cpu, nominalQuota: 16}, {name: nvidia.com/gpu, nominalQuota: 4}]}
        - {name: slow, resources: [{name: cpu, nominalQuota: 16}, {name: nvidia.com/gpu, nominalQuota: 4}]}
"""


@pytest.mark.parametrize(("preference", "ends"), [("", [100, 410, 200]), ("EarliestFinish", [100, 200, 300])])
def test_jobs_wait_for_the_flavor_in_which_they_end_first(tmp_path: Path, preference: str, ends: list[float]):
    """`b` takes 400 s at hand, or 100 s once `a` has ended; `c` waits for 180 s behind both, and saves 300."""
    text = KINDS.replace(
        "  namespaceSelector", f"  flavorFungibility: {{preference: {preference}}}\n  namespaceSelector"
    )
    setting = written(tmp_path, text if preference else KINDS)
    rules = Rules(step=0.0, speeds=speeds_of({"fast": "1", "slow": "0.25"}))
    found = played(setting, job("a", 0, 100), job("b", 10, 100), job("c", 20, 100), rules=rules)

    assert [one.ended for one in found.jobs] == ends
    told = {one.what: one for one in differences(found, found, (figures_of(found), figures_of(found)), ends=True)}
    mean = sum(end - at for end, at in zip(ends, (0, 10, 20), strict=True)) / 3
    assert told["from submission to end, mean, s"].first == pytest.approx(mean)


def test_jobs_that_say_that_they_make_more_progress_go_first_where_a_queue_goes_by_that(tmp_path: Path):
    said = SaidProgress((0.0, 1.0))
    jobs = [job("busy", 0, 100, pods=2), *(job(f"j{number}", 1, 10, pods=2) for number in range(6))]
    found = played(
        written(tmp_path, NODES + gpu_queue("ordering: {factors: [{factor: Progress}]}")),
        *jobs,
        rules=Rules(step=0.0, progress=said),
    )

    started = sorted(found.jobs[1:], key=lambda one: one.first or 0.0)
    made = [said.of(one.job) for one in started]
    assert made == sorted(made, reverse=True)
    assert len(set(made)) > 1
    in_turn = played(written(tmp_path, NODES), *jobs, rules=Rules(step=0.0, progress=said))
    assert [one.first for one in in_turn.jobs] == sorted(one.first or 0.0 for one in in_turn.jobs)
