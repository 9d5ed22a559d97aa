"""A score is learned by playing a trace, judged on what it has not seen, and written only where it gained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tutti.api.configuration import load_configuration
from tutti.cli.main import cli
from tutti.controller.plugins import load_plugins, unread_policies
from tutti.placement.policy_file import read_policy
from tutti_simulate.jobs import GPU, JobPods, Trace, TraceJob
from tutti_simulate.learning import Ground, Lesson, learn, parted
from tutti_simulate.playing import Rules
from tutti_simulate.setting import Setting, setting_of

NODES = "nodes:\n  - {name: gpu, count: 4, resources: {cpu: 64, memory: 256Gi, nvidia.com/gpu: 4}}\n"
PACKED = "---\nkind: TuttiConfiguration\nprofiles: [{acceleratorPacking: {}}]\n"
SHORT = Lesson(rounds=1, draws=4)


def fragmenting(rounds: int) -> list[TraceJob]:
    """Four single cards, then a gang that needs two whole nodes: they are there if the four went on one node."""
    jobs = []
    for turn in range(rounds):
        at = turn * 1000.0
        jobs += [TraceJob(f"s{turn}-{n}", at + n, 600.0, (JobPods(1, {GPU: 1, "cpu": 1000}),), "q") for n in range(4)]
        jobs.append(TraceJob(f"g{turn}", at + 10, 100.0, (JobPods(2, {GPU: 4, "cpu": 4000}),), "q"))
    return jobs


@pytest.fixture
def cluster(tmp_path: Path) -> Setting:
    path = tmp_path / "cluster.yaml"
    path.write_text(NODES)
    return setting_of([path])


def ground(setting: Setting) -> Ground:
    return Ground(setting, {}, Rules())


def test_what_is_learned_gains_on_what_it_has_not_seen_and_equal_seeds_learn_alike(cluster):
    seen, unseen = parted(Trace(fragmenting(6)))
    assert (len(seen), len(unseen), unseen[0].submitted) == (18, 12, 0.0)
    found = learn(ground(cluster), fragmenting(2), {"rest": fragmenting(4)}, SHORT)
    assert found.gained
    assert found.all.low > 0
    assert found.all.before > found.all.learned == 1.0
    assert found.plays == 4
    assert found.rounds[0] <= found.seen.before
    again = [learn(ground(cluster), fragmenting(1), {"rest": fragmenting(1)}, SHORT) for _ in range(2)]
    assert again[0] == again[1]


def test_several_traces_judge_together_in_the_order_in_which_they_are_given(cluster):
    found = learn(ground(cluster), fragmenting(2), {"a": fragmenting(2), "b": fragmenting(3)}, SHORT)
    assert [(one.trace, one.jobs) for one in found.unseen] == [("a", 10), ("b", 15)]
    assert found.all.jobs == 25
    mean = (found.unseen[0].gain * 10 + found.unseen[1].gain * 15) / 25
    assert found.all.gain == pytest.approx(mean, abs=1e-5)


def test_where_nobody_waits_nothing_is_gained(cluster):
    lonely = [TraceJob(f"j{n}", n * 100.0, 10.0, (JobPods(1, {GPU: 1}),), "q") for n in range(6)]
    found = learn(ground(cluster), fragmenting(1), {"lonely": lonely}, Lesson("wait", rounds=1, draws=4))
    assert not found.gained
    assert (found.all.gain, found.all.low, found.all.high) == (0.0, 0.0, 0.0)
    assert found.notes == ("nobody waited in the traces that it had not seen, so there was nothing to gain",)


def test_what_packs_by_rule_already_is_hard_to_better(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(NODES + PACKED)
    found = learn(ground(setting_of([path])), fragmenting(2), {"b": fragmenting(1)}, SHORT)
    assert not found.gained
    assert "it stands in for acceleratorPacking" in found.notes[0]


def test_two_layers_are_learned_as_well(cluster):
    found = learn(ground(cluster), fragmenting(2), {"b": fragmenting(1)}, Lesson(rounds=1, draws=4, hidden=3))
    assert [len(row) for row in found.policy.hidden] == [len(found.policy.features)] * 3
    assert "cpuAsked" in found.policy.features
    assert len(found.policy.output) == len(found.policy.hidden_bias) == 3


def swf(path: Path, jobs: list[TraceJob]) -> Path:
    """The same jobs as SWF: processors in pods of a node's."""
    lines = []
    for number, job in enumerate(jobs, 1):
        size = job.size * job.pods[0].requests[GPU]
        lines.append(
            f"{number} {job.submitted:g} 0 {job.seconds:g} {size} -1 -1 {size} {job.seconds:g} -1 1 1 1 1 1 1 -1 -1"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def simulate(*words: object):
    return CliRunner().invoke(cli, ["simulate", *map(str, words), "--rounds", "1", "--draws", "4"], prog_name="tutti")


def test_the_command_installs_what_gained_and_a_profile_can_go_by_it(tmp_path):
    cluster, file = tmp_path / "cluster.yaml", tmp_path / "policy.json"
    cluster.write_text("nodes:\n  - {name: n, count: 4, resources: {cpu: 4, memory: 64Gi}}\n")
    trace = swf(tmp_path / "t.swf", fragmenting(8))
    words = (trace, "--cluster", cluster, "--no-limits", "--cpus-per-pod", 4, "--learn", file)
    done = simulate(*words)
    assert done.exit_code == 0, done.output
    assert f"installed: {file} (sha256:" in done.stdout
    policy = read_policy(file.read_bytes())
    assert policy.trained["goal"] == "mean slowdown"
    settings = load_configuration(f"profiles: [{{learnedScore: {{file: {file}}}}}]")
    assert unread_policies(load_plugins(settings)) == {}
    against = tmp_path / "against.yaml"
    against.write_text(f"kind: TuttiConfiguration\nprofiles: [{{learnedScore: {{file: {file}}}}}]\n")
    words = ["simulate", *map(str, words[:6]), "--against", str(against), "-o", "json"]
    played = json.loads(CliRunner().invoke(cli, words).stdout)
    wait = next(one for one in played["differences"] if one["what"] == "wait, mean, s")
    assert wait["difference"] < 0
    assert wait["sure"]


def test_the_command_refuses_what_did_not_gain_and_writes_nothing(tmp_path):
    cluster, file = tmp_path / "cluster.yaml", tmp_path / "policy.json"
    cluster.write_text("nodes:\n  - {name: n, count: 40, resources: {cpu: 4, memory: 64Gi}}\n")
    trace = swf(tmp_path / "t.swf", fragmenting(2))
    done = simulate(trace, "--cluster", cluster, "--learn", file, "--unseen", trace)
    assert done.exit_code == 1
    assert "not installed: on what it had not seen, the interval of the gain is not above 0" in done.stdout
    assert not file.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--learn", "nowhere/policy.json"), "there is no folder nowhere"),
        (("--learn", "policy.json", "--against", "cluster.yaml"), "--learn has its own second run"),
        (("--learn", "policy.json", "--most", "1"), "too few jobs to learn from some and judge by others"),
    ],
)
def test_a_mistake_is_said_before_anything_is_played(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    Path("cluster.yaml").write_text(NODES)
    trace = swf(tmp_path / "t.swf", fragmenting(2))
    done = simulate(trace, "--cluster", "cluster.yaml", *words)
    assert done.exit_code == 2
    assert said in done.stderr
