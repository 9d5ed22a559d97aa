"""Two clusters, and the question in which of them work would start first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from e2e.harness.clusters import started
from e2e.harness.crds import install_crds
from e2e.harness.story import GROUP, Story
from tutti.cli.main import cli

NAMESPACE = "research"


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Story, Story]]:
    """A story on each of two clusters."""
    kind = request.config.getoption("--cluster")
    if kind not in ("embedded", "envtest", "kubelets"):
        pytest.skip("two clusters are had where they cost little")
    folders = [tmp_path / name for name in ("east", "west")]
    for folder in folders:
        folder.mkdir()
    with started(kind, folders[0]) as east, started(kind, folders[1]) as west:
        for cluster in (east, west):
            with cluster.connect() as api:
                install_crds(api)
        stories = Story(east, NAMESPACE, folders[0]), Story(west, NAMESPACE, folders[1])
        yield stories
        for story in stories:
            story.close()


def merged(stories: tuple[Story, Story], target: Path) -> None:
    """Write a kubeconfig with contexts `east` and `west`, and one that leads nowhere."""
    made: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    for name, story in zip(("east", "west"), stories, strict=True):
        own = yaml.safe_load(story.cluster.kubeconfig.read_text())
        made["clusters"].append({"name": name, "cluster": own["clusters"][0]["cluster"]})
        made["users"].append({"name": name, "user": own["users"][0]["user"]})
        made["contexts"].append({"name": name, "context": {"cluster": name, "user": name, "namespace": NAMESPACE}})
    made["clusters"].append({"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}})
    made["contexts"].append({"name": "gone", "context": {"cluster": "gone", "user": "east"}})
    target.write_text(yaml.safe_dump(made))


def ask(kubeconfig: Path, *arguments: str, given: str = "") -> Any:
    """What `tutti explain workload` answers of all three."""
    words = ["explain", "workload", *arguments, "--context", "gone,east,west", "--kubeconfig", str(kubeconfig)]
    answer = CliRunner().invoke(cli, [*words, "-o", "json"], input=given, catch_exceptions=False, prog_name="tutti")
    assert answer.exit_code == 0, answer.stderr
    return json.loads(answer.stdout)


def outcomes(found: Any) -> dict[str, str]:
    return {one["context"]: one["outcome"] for one in found["clusters"]}


def job() -> str:
    """An Indexed Job of three pods with a GPU each."""
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 1}}
    containers = [{"name": "c", "image": "registry.example/train", "resources": resources}]
    template = {"spec": {"schedulerName": "tutti", "restartPolicy": "Never", "containers": containers}}
    spec = {"completionMode": "Indexed", "parallelism": 3, "completions": 3, "template": template}
    meta = {"name": "train", "labels": {f"{GROUP}/queue-name": NAMESPACE}}
    return yaml.safe_dump({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})


def test_work_is_asked_for_where_it_would_start_and_starts_there(pair: tuple[Story, Story], tmp_path: Path) -> None:
    east, west = pair
    kubeconfig = tmp_path / "both"
    merged(pair, kubeconfig)
    for story in pair:
        story.queue(NAMESPACE, 4)
        story.start_operator()
    east.gang("first", 2, queue=NAMESPACE)
    east.wait(lambda: len(east.where("first")) == 2, "the gang in the east to run")

    found = ask(kubeconfig, "-f", "-", given=job())

    assert (found["first"], outcomes(found)) == ("west", {"west": "Now", "east": "Waits", "gone": "Unknown"})
    for story in pair:
        assert not story.all("Workload"), "nothing is written"
    east.gang("train", 3, queue=NAMESPACE)
    east.wait(lambda: east.why("train").get("gate") == "Quota", "it to wait in the east, as was said")
    found = ask(kubeconfig, "train")
    assert (found["first"], outcomes(found)) == ("west", {"west": "Now", "east": "Waits", "gone": "Unknown"})
    assert found["clusters"][1]["message"] == east.why("train")["message"]
    west.gang("train", 3, queue=NAMESPACE)
    west.wait(lambda: len(west.where("train")) == 3, "it to run in the west, as was said")
    assert outcomes(ask(kubeconfig, "train")) == {"west": "Runs", "east": "Waits", "gone": "Unknown"}
