"""In which of several clusters a workload would start first."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner

from tests.cli.views import scene
from tests.cli.views.scene import AT, GPU, Json, group, node, ours, pod, queue, told
from tutti.cli.main import cli
from tutti.cli.views.command_line import plain
from tutti.cli.views.drawing import WIDE
from tutti.cli.views.explain.elsewhere import (
    ComparedClusters,
    StartOutcome,
    UnfindableError,
    compare_clusters,
    draw_compared,
)
from tutti.cli.views.explain.wanted import WantedError

CPU = {"cpu": "1", "memory": "1Gi", GPU: "4"}


def cluster(gpus: int = 16, nodes: int = 2, *more: Json, namespace: str = "vision", used: int = 0) -> list[Json]:
    made: list[Json] = [node(f"n{n}", "m", "r1") for n in range(nodes)]
    made.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    made += [ours("ResourceFlavor", "a", {}), queue("cq", "", "a", gpus)]
    made.append(ours("LocalQueue", "main", {"clusterQueue": "cq"}, namespace))
    for index in range(used):
        made.append(pod("vision", f"busy-{index}", 8, gang="busy", on=f"n{index}", admitted=("cq", "a")))
    made += [group("vision", "busy", used)] if used else []
    return [*made, *more]


def job(name: str = "train", count: int = 2, **more: object) -> str:
    resources = {"requests": CPU, "limits": CPU}
    template = {"spec": {"schedulerName": "tutti", "containers": [{"name": "c", "resources": resources}]}}
    meta = {"name": name, "namespace": "vision", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    spec = {"completionMode": "Indexed", "parallelism": count, "completions": count, "template": template, **more}
    return yaml.safe_dump({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})


def compared(manifest: str | None = None, name: str = "", **clusters: list[Json] | str) -> ComparedClusters:
    answers = [(context, one if isinstance(one, str) else told(one)) for context, one in clusters.items()]
    return compare_clusters(answers, "vision", name, manifest)


def outcomes(found: ComparedClusters) -> dict[str, str]:
    return {one.context: one.outcome.value for one in found.clusters}


def test_a_job_that_nobody_has_submitted_starts_where_quota_and_nodes_have_room_for_all_of_it():
    found = compared(job(), full=cluster(used=2), small=cluster(4), roomy=cluster())
    assert (found.first, found.summary) == ("roomy", "it would start at once in roomy")
    assert outcomes(found) == {"roomy": "Now", "full": "Waits", "small": "Never"}
    assert list(outcomes(found)) == ["roomy", "full", "small"]
    best, full, small = found.clusters
    assert sum(best.nodes.values()) == 2
    assert (full.reason, full.gate) == ("WaitingForQuota", "Quota")
    assert small.reason == "ExceedsMaxQuota"


def test_one_that_cannot_be_asked_costs_a_line_and_not_the_answer():
    found = compared(job(), gone="cannot reach https://gone: connection refused", here=cluster())
    assert found.first == "here"
    last = found.clusters[-1]
    assert (last.context, last.outcome) == ("gone", StartOutcome.UNKNOWN)
    drawn = plain(draw_compared(found, AT, WIDE))
    assert "gone      unknown           cannot reach https://gone: connection refused" in drawn


def test_where_none_answers_it_says_why_of_each():
    with pytest.raises(UnfindableError, match="a: refused; b: no route"):
        compared(job(), a="refused", b="no route")


def test_a_cluster_without_its_queue_or_its_namespace_says_so():
    found = compared(job(), other=cluster(namespace="speech"), queue=[*cluster()][:-1], here=cluster())
    assert found.first == "here"
    said = {one.context: one.reason for one in found.clusters}
    assert said == {"here": "", "other": "NamespaceNotFound", "queue": "LocalQueueNotFound"}


def test_a_gang_that_waits_in_one_cluster_is_asked_for_in_another():
    waits = [group("vision", "train", 2), *(pod("vision", f"train-{n}", 8, gang="train") for n in range(2))]
    found = compared(None, "train", full=cluster(16, 2, *waits, used=2), roomy=cluster())
    assert (found.first, outcomes(found)) == ("roomy", {"roomy": "Now", "full": "Waits"})
    found = compared(None, "train", roomy=cluster(), full=cluster(16, 2, *waits, used=2))
    assert found.first == "roomy"


def test_a_gang_that_runs_is_told_to_run():
    runs = [group("vision", "train", 1), pod("vision", "train-0", 8, gang="train", on="n0", admitted=("cq", "a"))]
    found = compared(None, "train", there=cluster(16, 2, *runs), here=cluster())
    assert (found.first, found.summary) == ("there", "it runs in there")
    assert outcomes(found) == {"there": "Runs", "here": "Now"}


def test_where_the_end_of_running_work_is_known_the_soonest_is_first():
    def until(seconds: int) -> list[Json]:
        spec = {"podGroups": [{"name": "main", "count": 1}], "queueName": "main"}
        runs = ours("Workload", "runs", {**spec, "maximumExecutionTimeSeconds": seconds}, "vision")
        there = pod("vision", "runs-0", 8, on="n0", admitted=("cq", "a"), labels={f"{scene.TUTTI}/workload": "runs"})
        return cluster(8, 1, runs, there)

    found = compared(job(), late=until(7200), soon=until(1200))
    assert [(one.context, one.outcome.value) for one in found.clusters] == [("soon", "Later"), ("late", "Later")]
    soon, late = (one.starts_at for one in found.clusters)
    assert soon is not None
    assert late is not None
    assert late - soon == 6000
    assert found.summary.startswith("it would start first in soon, in ")


def test_a_workload_a_pod_and_a_job_of_single_pods_can_be_asked_about():
    spec = {"podGroups": [{"name": "main", "count": 2, "template": yaml.safe_load(job())["spec"]["template"]}]}
    workload = yaml.safe_dump(ours("Workload", "w", {**spec, "queueName": "main"}, "vision"))
    single = yaml.safe_dump(pod("vision", "p", 8))
    scattered = job(completionMode="NonIndexed", parallelism=5, completions=50)
    for manifest in (workload, single, scattered):
        found = compared(manifest, full=cluster(8, 1, used=1), roomy=cluster())
        assert found.first == "roomy", manifest
    assert any("one by one" in note for note in found.notes)


def test_of_several_in_a_manifest_one_is_named():
    text = f"{job('a')}---\n{job('b', 40)}"
    with pytest.raises(WantedError, match="Job a, Job b"):
        compared(text, here=cluster())
    assert outcomes(compared(text, "b", here=cluster())) == {"here": "Never"}
    assert outcomes(compared(text, "a", here=cluster())) == {"here": "Now"}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("a: [", "cannot be read"),
        ("kind: Job\napiVersion: batch/v1", "has no metadata.name"),
        ("[]", "document 1: must be an object with apiVersion, kind and metadata, not a list"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: x}", "nothing that makes pods"),
        (job(template=None), "no pod template"),
        (job(parallelism="many"), "whole number"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: 7}", "cannot be read"),
        ("&a [*a]", "document 1: must be an object"),
        ("[" * 5000, "cannot be read"),
    ],
)
def test_a_manifest_that_cannot_be_asked_about_says_what_is_wrong(text, wrong):
    with pytest.raises(WantedError, match=wrong):
        compared(text, here=cluster())


def test_nobody_has_it():
    with pytest.raises(UnfindableError, match="no Workload, pod group or pod vision/train that Tutti places in a, b"):
        compared(None, "train", a=cluster(), b=cluster())


def test_the_command_says_what_it_needs(tmp_path):
    answer = CliRunner().invoke(cli, ["explain", "workload"], prog_name="tutti")
    assert (answer.exit_code, "say which workload" in answer.output) == (2, True)
    missing = ["explain", "workload", "-f", str(tmp_path / "none"), "--kubeconfig", str(tmp_path / "kubeconfig")]
    answer = CliRunner().invoke(cli, missing, prog_name="tutti")
    assert (answer.exit_code, "cannot be read" in answer.output) == (2, True)


def test_json_has_every_cluster(kubeconfig, tmp_path):
    """On the scene's cluster, by two contexts of which one leads nowhere."""
    both = json.loads(kubeconfig.read_text())
    both["clusters"].append({"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}})
    both["contexts"].append({"name": "gone", "context": {"cluster": "gone", "user": "tutti-admin"}})
    (tmp_path / "both").write_text(json.dumps(both))
    (tmp_path / "job.yaml").write_text(job(count=1))
    words = ["explain", "workload", "--context", "gone,tutti", "-f", str(tmp_path / "job.yaml"), "-o", "json"]
    answer = CliRunner().invoke(cli, [*words, "--kubeconfig", str(tmp_path / "both")], prog_name="tutti")
    found = json.loads(answer.stdout)
    assert [one["context"] for one in found["clusters"]] == ["tutti", "gone"]
    assert found["clusters"][1]["outcome"] == "Unknown"
    assert found["clusters"][0]["reason"]
