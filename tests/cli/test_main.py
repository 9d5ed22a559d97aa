"""The command line as a whole: what its help tells, and what shells and kubectl are told to complete."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from click.testing import CliRunner

from tutti.cli.completion import completed
from tutti.cli.main import cli


def help_of(*arguments: str) -> str:
    return CliRunner().invoke(cli, [*arguments, "--help"], prog_name="tutti").output


def test_help_names_every_command_with_its_whole_summary():
    told = " ".join(help_of().split())

    for command in ("bench run", "drain-check", "explain workload", "gangs", "migrate kueue", "queue", "top nodes"):
        assert command in told
    assert "..." not in told.replace("[ARGS]...", "")
    assert "Show every gang: its members, where it is in its life, and what it waits for." in told


@pytest.mark.parametrize("group", ["top", "explain", "migrate", "bench"])
def test_so_does_the_help_of_what_has_more_commands(group: str):
    assert "..." not in help_of(group).replace("[ARGS]...", "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["queues"], "there is no command queues; did you mean `tutti queue`?"),
        (["nodes"], "there is no command nodes; did you mean `tutti top nodes`?"),
        (["explian", "workload"], "there is no command explian; did you mean `tutti explain workload`?"),
        (["top", "node"], "there is no command node; did you mean `tutti top nodes`?"),
        (["xyzzy"], "there is no command xyzzy\n"),
    ],
)
def test_who_misses_a_command_is_told_the_nearest(words: list[str], told: str):
    answer = CliRunner().invoke(cli, words, prog_name="tutti")

    assert answer.exit_code == 2
    assert told in answer.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["team/x"], "`tutti explain workload team/x`: it explains a Workload, a gang and a pod"),
        (["team/x", "-o", "json"], "`tutti explain workload team/x`"),
        (["pod", "team/x-0"], "`tutti explain workload team/x-0`"),
        (["PodGroup", "-n", "team"], "`tutti explain workload"),
        (["podgroup/x"], "`tutti explain workload x`"),
        (["wl"], "`tutti explain workload NAME`"),
        (["queue", "vision"], "`tutti queue vision`"),
        (["clusterqueues.scheduling.tutti.dev/vision"], "`tutti queue vision`"),
        (["node", "n1"], "`tutti drain-check n1`"),
    ],
)
def test_who_names_another_kind_or_none_is_told_how_to_ask(words: list[str], told: str):
    answer = CliRunner().invoke(cli, ["explain", *words], prog_name="tutti")

    assert answer.exit_code == 2
    assert told in " ".join(answer.output.split())


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["drain"], ["drain-check"]),
        (["top", ""], ["nodes", "plugins"]),
        (["gangs", "-o", "j"], ["json"]),
        (["nothing"], []),
    ],
)
def test_kubectl_is_told_how_a_line_goes_on(words: list[str], lines: list[str]):
    """Kubernetes 1.36, kubectl/pkg/cmd/plugin.go: lines, then a directive; 4 is ShellCompDirectiveNoFileComp."""
    assert [line.partition("\t")[0] for line in completed(words).splitlines()] == [*lines, ":4"]


def test_kubectl_is_told_what_a_command_does():
    assert completed(["drain"]).startswith("drain-check\tSay what a drain of NODE would do")


def test_kubectl_completes_files_where_one_is_asked_for():
    assert completed(["gangs", "--kubeconfig", ""]).splitlines() == [":0"]


def test_kubectl_finds_both_by_their_names():
    """A plugin is `kubectl-NAME`, and what completes it `kubectl_complete-NAME`."""
    names = {one.name for one in entry_points(group="console_scripts") if one.value.startswith("tutti.")}
    declared = Path(__file__).parents[2].joinpath("pyproject.toml").read_text()

    assert "kubectl-tutti" in names
    assert 'kubectl_complete-tutti = "tutti.cli.completion:kubectl"' in declared


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_given_a_script_that_it_can_read(shell: str, tmp_path):
    script = CliRunner().invoke(cli, ["completion", shell], prog_name="tutti").stdout

    assert "_TUTTI_COMPLETE" in script
    found = shutil.which(shell)
    if found is not None:
        file = tmp_path / "script"
        file.write_text(script)
        subprocess.run([found, "-n", str(file)], check=True, timeout=100)


def test_bash_completes_by_what_the_script_asks_for():
    """The question is put as the script puts it: words and a place in the environment."""
    asked = {
        "_TUTTI_COMPLETE": "bash_complete",
        "COMP_WORDS": "tutti top n",
        "COMP_CWORD": "2",
        "PATH": "/usr/bin:/bin",
    }
    code = "from tutti.cli.main import cli; cli(prog_name='tutti')"
    path = str(Path(__file__).parents[2] / "operator")
    answer = subprocess.check_output([sys.executable, "-c", code], env={**asked, "PYTHONPATH": path}, text=True)

    assert answer.splitlines() == ["plain,nodes"]


def test_make_help_writes_no_colours_where_there_is_no_terminal():
    root = Path(__file__).parents[2]
    told = subprocess.run(["make", "help"], cwd=root, capture_output=True, text=True, check=True, timeout=100).stdout

    assert "\x1b" not in told
    assert "  demo  " in told
