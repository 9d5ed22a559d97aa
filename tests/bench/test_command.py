"""`tutti bench` as its users call it: a file, a cluster of its own, figures; and what is said where it cannot be."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from rich.console import Console

from tutti.api.configuration import TuttiConfiguration
from tutti_bench.command import command
from tutti_bench.outcomes import Bars, Lines, Outcome, progress_on
from tutti_bench.performance import in_turn
from tutti_bench.results import encode, item, read_data_items
from tutti_bench.stage import Contender

SCENARIO = """
- name: Few
  defaultPodTemplatePath: pod.yaml
  workloadTemplate:
  - {opcode: createNodes, count: 2}
  - {opcode: createPods, countParam: $pods, collectMetrics: true}
  workloads:
  - {name: small, labels: [short], params: {pods: 5}}
  - {name: never, threshold: 1000000, params: {pods: 5}}
"""
GANG = """
- name: Gang
  workloadTemplate:
  - {opcode: createNodes, count: 2}
  - {opcode: createPodGroups, namespace: gangs, count: 1, templatePath: group.yaml}
  - {opcode: createPods, namespace: gangs, count: 3, podTemplatePath: member.yaml, collectMetrics: true}
  workloads: [{name: one, labels: [short]}]
"""
POD = "metadata: {generateName: p-}\nspec: {containers: [{name: c, image: i}]}\n"
MEMBER = "metadata: {name: 'm-{{.Index}}', labels: {scheduling.tutti.dev/pod-group: g}}\nspec: {containers: [{name: c, image: i}]}\n"
GROUP = "apiVersion: scheduling.tutti.dev/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: {schedulingPolicy: {gang: {minCount: {{.Count}}}}}\n"
FIRST_NODE = '''#!{python}
"""A scheduler that binds each pod of its own to the first node, as fast as it can."""
import json, sys, time, urllib.request, yaml
config = yaml.safe_load(open(sys.argv[sys.argv.index("--config") + 1]))
kube = yaml.safe_load(open(config["clientConnection"]["kubeconfig"]))
server, token = kube["clusters"][0]["cluster"]["server"], kube["users"][0]["user"]["token"]
name = config["profiles"][0]["schedulerName"]
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
def call(path, body=None):
    request = urllib.request.Request(server + path, json.dumps(body).encode() if body else None,
        {{"Authorization": "Bearer " + token, "Content-Type": "application/json"}})
    return json.load(opener.open(request))
while True:
    nodes = call("/api/v1/nodes")["items"]
    for pod in call("/api/v1/pods")["items"]:
        if nodes and pod["spec"]["schedulerName"] == name and not pod["spec"].get("nodeName"):
            meta = pod["metadata"]
            call(f"/api/v1/namespaces/{{meta['namespace']}}/pods/{{meta['name']}}/binding",
                 {{"metadata": {{"name": meta["name"]}}, "target": {{"kind": "Node", "name": nodes[0]["metadata"]["name"]}}}})
    time.sleep(0.02)
'''


@pytest.fixture
def folder(tmp_path) -> Path:
    files = {"few.yaml": SCENARIO, "gang.yaml": GANG, "pod.yaml": POD, "member.yaml": MEMBER, "group.yaml": GROUP}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    source = "from tutti.cli.main import main; main()"
    environment = {**os.environ, "TMPDIR": str(folder)}
    files = [str(folder / one) if one.endswith(".yaml") else one for one in arguments]
    return subprocess.run(
        [sys.executable, "-c", source, "bench", *files],
        capture_output=True, text=True, check=False, env=environment, timeout=800,
    )  # fmt: skip


def executable(folder: Path, text: str) -> Path:
    path = folder / "scheduler"
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_pods_and_gangs_are_measured_on_a_cluster_of_its_own(folder):
    """One workload has a threshold that nobody meets: that is an error, and its items carry it."""
    done = bench(folder, "few.yaml", "gang.yaml", "--embedded", "-o", "json", "--data-items-dir", str(folder / "out"))
    assert done.returncode == 1, done.stderr
    assert "threshold missed: Few/never/namespace-1: Average should be above 1e+06 pods/s" in done.stderr
    (written,) = (folder / "out").iterdir()
    assert written.name.startswith("BenchmarkPerfScheduling_benchmark_few_")
    assert written.read_text() == done.stdout
    items = {(one.name, one.metric): one for one in read_data_items(written)}
    assert {("Few/small/namespace-1", "OverallThroughput"), ("Gang/one/gangs", "BindLatency")} <= items.keys()
    assert {("Gang/one/gangs", "SchedulerCPU"), ("Gang/one/gangs", "SchedulerMemory")} <= items.keys()
    assert items["Few/never/namespace-1", "SchedulingThroughput"].data["AverageThreshold"] == 1e6
    assert "1/2 createNodes" in done.stderr


def test_a_given_scheduler_runs_the_same_and_the_ratio_is_told(folder):
    binary = executable(folder, FIRST_NODE.format(python=sys.executable))
    more = ("--drain", "--runs", "2", "--against", f"kube-scheduler={binary}", "--data-items-dir", str(folder / "out"))
    done = bench(folder, "few.yaml", "--embedded", "--only", "small", *more)
    assert done.returncode == 0, done.stderr
    last = done.stdout.strip().splitlines()
    assert last[-2].split() == ["workload", "tutti", "kube-scheduler", "ratio"]
    assert last[-1].startswith("Few/small/namespace-1")
    assert float(last[-1].split()[-1]) > 0
    items = read_data_items(next((folder / "out").iterdir()))
    assert len(items) == len({(one.metric, one.labels["Scheduler"]) for one in items})  # medians of both runs
    assert done.stderr.count("1/2 createNodes") == 4
    assert {(one.labels["Drain"], one.labels["Scheduler"]) for one in items} == {
        ("true", "tutti"), ("true", "kube-scheduler"),
    }  # fmt: skip
    assert not list(folder.glob("tutti-bench-*"))


def test_each_scheduler_begins_as_often_as_the_other():
    tutti, other = (Contender(name, name, starts=False) for name in ("tutti", "other"))
    assert list(in_turn([tutti, other], 1)) == [tutti, other]
    assert list(in_turn([tutti, other], 3)) == [tutti, other, other, tutti, tutti, other]


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "other.log").open("ab") as log, subprocess.Popen(arguments, stdout=log, stderr=log) as process:
        try:
            yield process
        finally:
            process.terminate()


def test_a_scheduler_that_runs_already_is_measured_where_it_runs(folder):
    kubeconfig, config = folder / "kubeconfig", folder / "config.yaml"
    document = {"clientConnection": {"kubeconfig": str(kubeconfig)}, "profiles": [{"schedulerName": "mine"}]}
    config.write_text(yaml.safe_dump(document))
    binary = executable(folder, FIRST_NODE.format(python=sys.executable))
    source = "from tutti.cli.main import main; main()"
    made = ("cluster", "--nodes", "0", "--no-tls", "--kubeconfig", str(kubeconfig))
    with running(folder, sys.executable, "-c", source, *made) as cluster:
        while not kubeconfig.exists():
            assert cluster.poll() is None, (folder / "other.log").read_text()
            time.sleep(0.05)
        with running(folder, str(binary), "--config", str(config)) as scheduler:
            where = ("--kubeconfig", str(kubeconfig), "--scheduler-name", "mine", "--pid", str(scheduler.pid))
            done = bench(folder, "few.yaml", "--only", "small", *where, "-o", "json")
    assert done.returncode == 0, done.stderr
    items = {one["labels"]["Metric"]: one for one in json.loads(done.stdout)["dataItems"]}
    assert items["SchedulerMemory"]["data"]["Average"] > 1
    assert items["BindLatency"]["data"]["Perc99"] > 0


def test_a_scheduler_that_ends_is_told_with_the_end_of_its_log(folder):
    binary = executable(folder, "#!/bin/sh\necho it is too cold here >&2\nexit 3\n")
    done = bench(
        folder, "few.yaml", "--embedded", "--only", "small", "--runs", "2", "--against", f"kube-scheduler={binary}"
    )
    assert done.returncode == 2
    assert "the kube-scheduler ended with exit code 3" in done.stderr
    assert "it is too cold here" in done.stderr
    assert "Few/small/namespace-1" in done.stdout  # what the first has done is not lost
    assert "medians of Few/small by tutti are of 1 turn, not 2: no other came to its end" in done.stderr


def test_an_interrupted_run_takes_everything_down(folder):
    (folder / "slow.yaml").write_text(
        "- name: Slow\n  workloadTemplate: [{opcode: createNodes, count: 1}, {opcode: sleep, duration: 90s}]\n"
        "  workloads: [{name: one}]\n"
    )
    source = "from tutti.cli.main import main; main()"
    arguments = [sys.executable, "-u", "-c", source, "bench", str(folder / "slow.yaml"), "--embedded"]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if "2/2 sleep" in line:
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read()
    assert process.returncode == 130
    assert "Interrupted; what was made is taken away" in rest
    assert not list(folder.glob("tutti-bench-*"))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["few.yaml", "--embedded", "--kubeconfig", "x"], "--embedded has a cluster of its own"),
        (["few.yaml", "--kubeconfig", "x", "--drain"], "to stop a scheduler that runs already for --drain, say which"),
        (["few.yaml", "--embedded", "--against", "volcano=x"], "--against is written kube-scheduler=PATH"),
        (["few.yaml", "--embedded", "--against", "kube-scheduler=none"], "there is no file none"),
        (
            ["few.yaml", "--scheduler-name", "kube-scheduler", "--against", "kube-scheduler=pod.yaml"],
            "give --scheduler-name another name",
        ),
        (["few.yaml", "--label-filter", "nobody"], "no workload has these labels and this name"),
        (["few.yaml", "--only", "["], "'[' is no regular expression"),
        (["none.yaml"], "none.yaml: cannot be read"),
        (["pod.yaml"], "pod.yaml: must be a list of scenarios"),
        ([], "Missing argument"),
    ],
)
def test_what_is_asked_wrongly_is_told(folder, monkeypatch, arguments, why):
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(command, ["run", *arguments])
    assert done.exit_code == 2
    assert why in done.output


@pytest.mark.parametrize(("current", "is_asked_for"), [("none", True), ("mine", False), ("mine:yours", True)])
def test_a_scheduler_is_started_on_the_current_cluster(folder, monkeypatch, current, is_asked_for):
    """Where several files are merged there is none that could be handed on; the workload's name ends what goes on."""
    monkeypatch.chdir(folder)
    for name in ("mine", "yours"):
        (folder / name).write_text("{}")
    monkeypatch.setenv("KUBECONFIG", current)
    done = CliRunner().invoke(command, ["run", "few.yaml", "--operator", "--only", "^nobody$"])
    assert done.exit_code == 2
    assert ("to start a scheduler, say where: --kubeconfig or --embedded" in done.output) is is_asked_for
    assert ("no workload has these labels and this name" in done.output) is not is_asked_for


def test_the_name_alone_runs_files_and_tells_of_both_commands(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert "none.yaml: cannot be read" in CliRunner().invoke(command, ["none.yaml"]).output
    told = CliRunner().invoke(command, ["--help"]).output
    assert "compare" in told
    assert "run" in told


def test_two_results_are_put_side_by_side(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, figure in (("old.json", 200.0), ("new.json", 150.0)):
        Path(name).write_text(encode([item("a/b/c", "SchedulingThroughput", "pods/s", {"Average": figure})]))
    table = CliRunner().invoke(command, ["compare", "old.json", "new.json"])
    assert table.output.splitlines()[1].split() == [
        "a/b/c",
        "SchedulingThroughput",
        "Average,",
        "pods/s",
        "200",
        "150",
        "-25.0%",
    ]
    marked = CliRunner().invoke(command, ["compare", "old.json", "new.json", "-o", "markdown"]).output
    assert "| a/b/c | SchedulingThroughput Average, pods/s | 200 | 150 | -25.0% |" in marked
    (row,) = json.loads(CliRunner().invoke(command, ["compare", "old.json", "new.json", "-o", "json"]).output)
    assert (row["previous"], row["current"], row["difference"]) == (200.0, 150.0, -0.25)
    wrong = CliRunner().invoke(command, ["compare", "old.json", "none.json"])
    assert (wrong.exit_code, "none.json: cannot be read" in wrong.output) == (2, True)


def test_tutti_is_started_under_the_name_that_is_measured(tmp_path):
    arguments = Contender("tutti", "other", starts=True).arguments(tmp_path / "kubeconfig", tmp_path)
    written = yaml.safe_load(Path(arguments[arguments.index("--config") + 1]).read_text())
    configuration = TuttiConfiguration.model_validate(written)
    assert [profile.scheduler_name for profile in configuration.profiles] == ["other"]
    assert not configuration.leader_election.enabled


def test_kube_scheduler_is_started_with_a_name_of_its_own_and_what_was_added(tmp_path):
    contender = Contender("kube-scheduler", "mine", Path("/bin/ks"), starts=True, more=("--v=4",))
    arguments = contender.arguments(tmp_path / "kubeconfig", tmp_path)
    assert (arguments[0], arguments[-1]) == ("/bin/ks", "--v=4")
    written = yaml.safe_load(Path(arguments[arguments.index("--config") + 1]).read_text())
    assert [profile["schedulerName"] for profile in written["profiles"]] == ["mine"]
    assert written["clientConnection"]["kubeconfig"] == str(tmp_path / "kubeconfig")
    assert written["leaderElection"] == {"leaderElect": False}


def test_items_name_their_scheduler_only_where_there_are_two():
    one = item("a", "OverallThroughput", "pods/s", {"Average": 300.0})
    other = item("a", "OverallThroughput", "pods/s", {"Average": 200.0})
    assert Outcome({"tutti": [one]}).all_items() == [one]
    both = Outcome({"tutti": [one], "kube-scheduler": [other]})
    assert [each.labels["Scheduler"] for each in both.all_items()] == ["tutti", "kube-scheduler"]
    (ratio,) = both.ratios()
    assert ratio.ratio == 1.5


@pytest.mark.parametrize(
    ("terminal", "plain", "kind"), [(True, False, Bars), (True, True, Lines), (False, False, Lines)]
)
def test_a_terminal_shows_a_bar_and_a_log_lines(monkeypatch, terminal, plain, kind):
    monkeypatch.setenv("TERM", "xterm")
    out = io.StringIO()
    with progress_on(Console(file=out, force_terminal=terminal, width=100, highlight=False), plain=plain) as show:
        assert isinstance(show, kind)
        show.begin("Few/small", 2)
        for number, opcode in enumerate(("createNodes", "createPods")):
            show.operation(number, opcode)
            show.progress(1, 2)
        show.note("something else")
    text = out.getvalue()
    assert "something else" in text
    assert "2/2 createPods" in text
