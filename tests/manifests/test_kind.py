"""`make e2e-kind` without Docker: which commands it would run in which order, with stubs in place of the tools."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
import yaml

from e2e.harness.pretended import PRETENDED, node
from tests.manifests.check import ROOT, judge

SCRIPT = ROOT / "e2e" / "kind.sh"
TOOLS = ("docker", "kind", "kubectl", "python")


class Kind:
    """The script with stubs that note how they are called; `fails` has the beginnings of calls that fail."""

    def __init__(self, folder):
        self.bin, self.calls = folder / "bin", folder / "calls"
        self.bin.mkdir()
        for tool in ("bash", "dirname", "mktemp", "sed", "mkdir", "cat", "grep", "env"):
            (self.bin / tool).symlink_to(shutil.which(tool))
        stub = f'#!/bin/bash\ncall="${{0##*/}} $*"\necho "$call" >> {self.calls}\ncat > /dev/null\n'
        stub += f'while read -r begins; do case "$call" in "$begins"*) exit 7;; esac; done < {folder}/fails\n'
        for tool in TOOLS:
            (self.bin / tool).write_text(stub)
            (self.bin / tool).chmod(0o755)
        self.fails = folder / "fails"
        self.fails.touch()

    def run(self, *arguments, **environment):
        base = {"PATH": str(self.bin), "HOME": "/nonexistent", "TMPDIR": str(self.bin.parent)}
        return subprocess.run(
            [self.bin / "bash", SCRIPT, *arguments], env={**base, **environment}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def called(self):
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def kind(tmp_path):
    return Kind(tmp_path)


def beginnings(calls, words=2):
    return [" ".join(call.split()[:words]) for call in calls]


def test_it_builds_loads_installs_and_tells_the_stories_and_deletes_the_cluster(kind):
    done = kind.run("-k", "gang")

    assert done.returncode == 0, done.stderr
    pretended = ["python -m e2e.harness.pretended 100", "kubectl apply --server-side -f -"]  # two ends of one pipe
    assert set(pretended) <= set(kind.called())
    assert beginnings([call for call in kind.called() if call not in pretended]) == [
        "docker info",
        "docker build",
        "kind create",
        "kind load",
        "kubectl apply",
        "kubectl wait",
        "kubectl rollout",
        "kubectl apply",
        "kubectl rollout",
        "python -m",
        "kubectl delete",
        "kubectl scale",
        "kubectl wait",
        "python -m",
        "kind delete",
    ]
    stories = [call for call in kind.called() if call.startswith("python -m pytest")]
    assert stories == [
        "python -m pytest e2e -m kind --cluster kind",
        "python -m pytest e2e -m not kind --cluster kind -k gang",
    ]


def test_the_image_that_is_built_is_the_one_that_the_manifests_name(kind):
    kind.run()
    (base,) = yaml.safe_load_all((ROOT / "manifests" / "base" / "kustomization.yaml").read_text())
    (image,) = [f"{one['name']}:{one['newTag']}" for one in base["images"]]

    assert f"docker build --tag {image} ." in kind.called()
    assert f"kind load docker-image {image} --name tutti-e2e" in kind.called()


def test_what_it_applies_is_there(kind):
    kind.run(KWOK_NODES="0")
    named = [word for call in kind.called() for word in call.split() if word.startswith(("manifests/", "e2e/"))]
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_without_pretended_nodes_nothing_is_fetched(kind):
    assert kind.run(KWOK_NODES="0").returncode == 0
    assert "https://" not in kind.calls.read_text()


@pytest.mark.parametrize("tool", ["docker", "kind", "kubectl"])
def test_without_a_tool_it_ends_with_3_and_says_what_runs_instead(kind, tool):
    (kind.bin / tool).unlink()
    done = kind.run()

    assert done.returncode == 3
    assert f"{tool} is not installed" in done.stderr
    assert "make e2e" in done.stderr
    assert kind.called() == []


def test_without_a_docker_engine_it_ends_with_3(kind):
    kind.fails.write_text("docker info\n")
    done = kind.run()

    assert done.returncode == 3
    assert "no Docker engine answers" in done.stderr
    assert beginnings(kind.called()) == ["docker info"]


@pytest.mark.parametrize(
    "fails",
    [
        "docker build",
        "kind create",
        "kind load",
        "kubectl rollout",
        "python -m pytest e2e -m kind",
        "python -m pytest e2e -m not",
    ],
)
def test_where_something_fails_logs_are_kept_the_cluster_goes_and_the_exit_code_tells(kind, tmp_path, fails):
    kind.fails.write_text(f"{fails}\n")
    done = kind.run(LOGS=str(tmp_path / "logs"))

    assert done.returncode == 7
    calls = kind.called()
    failed = next(number for number, call in enumerate(calls) if call.startswith(fails))
    assert beginnings(calls[failed + 1 :]) == [
        "kind export",
        "kubectl get",
        "kubectl get",
        "kubectl logs",
        "kind delete",
    ]
    assert f"logs: {tmp_path}/logs" in done.stderr


def test_a_cluster_that_is_to_be_kept_is(kind):
    assert kind.run(KEEP="1").returncode == 0
    assert "kind delete" not in beginnings(kind.called())


async def test_a_pretended_node_is_one_that_an_api_server_takes_and_that_nothing_else_is_placed_on():
    made = node(5)
    async with judge() as judging:
        assert await judging.problems(made) == []
    assert made["spec"]["taints"] == [{"key": PRETENDED, "value": "fake", "effect": "NoSchedule"}]
    assert made["metadata"]["labels"]["topology.tutti.dev/rack"] == "rack-001"


def test_the_workflow_runs_the_same_command():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "e2e.yaml").read_text())
    steps = workflow["jobs"]["kind"]["steps"]
    assert any(step.get("run") == "make e2e-kind" for step in steps)
    assert os.access(SCRIPT, os.X_OK)
    assert "e2e/kind.sh" in (ROOT / "Makefile").read_text()
