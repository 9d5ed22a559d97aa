"""`tutti run` says in one line what the caller has to mend, and ends with 2."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys

import pytest

from e2e.harness.replica import OperatorProcess

KUBECONFIG = (
    "{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],"
    " clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}]}"
)


def tutti_run(*options):
    command = ["run", *map(str, options)]
    reading, writing = multiprocessing.Pipe(duplex=False)
    process = OperatorProcess(command, writing)
    with reading, os.fdopen(os.dup(reading.fileno())) as said:
        text = said.read()
    return subprocess.CompletedProcess(command, process.wait(), stderr=text)


def only_line(result):
    (line,) = result.stderr.splitlines()
    return line


def test_a_kubeconfig_that_does_not_exist(tmp_path):
    result = tutti_run("--kubeconfig", tmp_path / "nowhere")

    assert result.returncode == 2
    assert str(tmp_path / "nowhere") in only_line(result)
    assert "does not exist" in only_line(result)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("profiels: []", ["profiels", "did you mean 'profiles'?"], id="an unknown key"),
        pytest.param(
            "backoff: {baseSeconds: 20}", ["backoff", "maxSeconds cannot be below baseSeconds"], id="a contradiction"
        ),
        pytest.param("a: [", ["not YAML"], id="no YAML"),
        pytest.param("- a", ["must be a mapping"], id="a list"),
        pytest.param(
            "leaderElection: {leaseDurationSeconds: 1}", ["leaderElection"], id="a lease that cannot be renewed"
        ),
    ],
)
def test_a_configuration_that_cannot_be_used(tmp_path, text, said):
    file = tmp_path / "tutti.yaml"
    file.write_text(text)

    result = tutti_run("--config", file, "--kubeconfig", tmp_path / "nowhere")

    assert result.returncode == 2
    assert str(file) in result.stderr
    assert all(part in result.stderr for part in said)
    assert "Traceback" not in result.stderr


def test_a_configuration_file_that_is_not_there(tmp_path):
    result = tutti_run("--config", tmp_path / "nowhere.yaml")

    assert result.returncode == 2
    assert only_line(result).endswith("cannot be read: No such file or directory")


def test_a_context_that_the_kubeconfig_does_not_have(tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text("apiVersion: v1\nkind: Config\ncontexts: []\nclusters: []\nusers: []\n")

    result = tutti_run("--kubeconfig", file, "--context", "other")

    assert result.returncode == 2
    assert "'other'" in only_line(result)


def test_a_port_that_is_taken(tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = tmp_path / "tutti.yaml"
        config.write_text(f"metrics: {{bindAddress: '127.0.0.1:{port}'}}")
        result = tutti_run("--kubeconfig", file, "--config", config)

    assert result.returncode == 2
    assert only_line(result) == (
        f"tutti run: port {port} for metrics and probes cannot be listened on: address already in use; "
        "give another with --metrics-port, or metrics.bindAddress in the configuration"
    )


def test_a_journal_that_cannot_be_written(tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    result = tutti_run("--kubeconfig", file, "--journal", tmp_path / "nowhere" / "journal", "--metrics-port", 0)

    assert result.returncode == 2
    assert only_line(result).startswith("tutti run: cannot start: ")
    assert str(tmp_path / "nowhere") in only_line(result)


def test_asked_to_stop_while_it_still_loads_its_code_it_ends_well(tmp_path):
    """The first process of a container ignores a signal that it has no handler for."""
    command = [sys.executable, "-X", "importtime", "-m", "tutti", "run", "--kubeconfig", str(tmp_path / "nowhere")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "pydantic" in line)
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
    assert process.returncode == 0


def test_a_shard_that_is_not_configured(tmp_path):
    file = tmp_path / "tutti.yaml"
    file.write_text("shards: [{name: gpu, cohorts: [research]}]")

    result = tutti_run("--config", file, "--shard", "cpu", "--kubeconfig", tmp_path / "nowhere")

    assert result.returncode == 2
    assert "--shard cpu: the configuration has no such shard; it has default, gpu" in only_line(result)
