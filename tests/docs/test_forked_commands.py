"""A command that is forked ends as one that was started: with its code, and when whoever called it is told to or is killed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.forked_commands import forked_commands


@pytest.fixture
def tutti(tmp_path: Path) -> Iterator[str]:
    with forked_commands(tmp_path) as folder:
        yield str(folder / "tutti")


def test_it_says_and_ends_with_what_the_command_does(tutti: str, tmp_path: Path) -> None:
    (tmp_path / "nonsense.yaml").write_text("a: [", encoding="utf-8")
    done = subprocess.run([tutti, "check", "nonsense.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "nonsense.yaml" in done.stderr
    command = [tutti, "migrate", "kueue", "-"]
    done = subprocess.run(command, input="a: [", capture_output=True, text=True, check=False)
    assert done.stdout == "a: ["
    done = subprocess.run([tutti, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("tutti ")


@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGKILL])
def test_a_cluster_ends_with_whoever_called_it(tutti: str, tmp_path: Path, ended_by: signal.Signals) -> None:
    command = [tutti, "cluster", "--port", "0", "--kubeconfig", "here"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline()
        assert (tmp_path / "here").exists()
        caller.send_signal(ended_by)
        caller.stdout.read()  # to its end: nobody has the other end of the pipe any more
    assert caller.returncode == (0 if ended_by is signal.SIGTERM else -signal.SIGKILL)
