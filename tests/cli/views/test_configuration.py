"""By which configuration the views answer: the operator's, as its Deployment mounts it, or the default, and then told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.views import scene
from tests.cli.views.scene import GPU, Json, ours, pod, queue
from tests.cli.views.staging import called, staged
from tutti.cli.views.configuration import DEPLOYMENT, NAMESPACE
from tutti_sim.faults.rules import Faults, Match, Refusal, Rule

OTHER = "profiles: [{schedulerName: other}]"


def installed(text: str | None) -> list[Json]:
    """The operator as the manifests install it; None: without the ConfigMap that it names."""
    container = {
        "name": "tutti",
        "image": "tutti",
        "args": ["run", "--config=/etc/tutti/tutti.yaml"],
        "volumeMounts": [{"name": "configuration", "mountPath": "/etc/tutti/tutti.yaml", "subPath": "tutti.yaml"}],
    }
    volumes = [{"name": "configuration", "configMap": {"name": "tutti-configuration-abc"}}]
    labels = {"app.kubernetes.io/name": "tutti"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": volumes}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    meta = {"namespace": NAMESPACE}
    made: list[Json] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
    made.append({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta | {"name": DEPLOYMENT}, "spec": spec})
    if text is not None:
        named = meta | {"name": "tutti-configuration-abc"}
        made.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"tutti.yaml": text}})
    return made


@contextmanager
def cluster(path: Path, *more: Json, forbidden: bool = False) -> Iterator[Path]:
    """The scene with a pod that names another scheduler."""
    error = Refusal(code=403, message="configmaps is forbidden")
    rule = Rule(name="rbac", match=Match(verbs=["list"], resources=["configmaps"]), error=error)
    made = [*scene.objects(), pod("vision", "alien", 1, scheduler="other"), *more]
    with staged(path / "kubeconfig", made, faults=Faults(rules=[rule]) if forbidden else None):
        yield path / "kubeconfig"


def test_what_the_deployment_mounts_counts_without_anybody_giving_it(tmp_path):
    with cluster(tmp_path, *installed(OTHER)) as kubeconfig:
        answer = called(kubeconfig, "explain", "workload", "vision/alien")
        ours = called(kubeconfig, "explain", "workload", "vision/train-2-0")
    assert answer.exit_code == 0, answer.output
    assert "Pod vision/alien" in answer.output
    assert "Tutti places those with other" in ours.output
    assert "--config" not in ours.output


@pytest.mark.parametrize(
    ("more", "forbidden", "why"),
    [
        ([], False, "no Deployment tutti-system/tutti is here to tell of it"),
        (installed(OTHER), True, "it may not be read (configmaps is forbidden)"),
        (installed(None), False, "ConfigMap tutti-system/tutti-configuration-abc has no tutti.yaml"),
        (installed("profils: []"), False, "did you mean 'profiles'?"),
    ],
    ids=["not installed", "forbidden", "no ConfigMap", "unreadable"],
)
def test_where_it_is_not_known_an_answer_that_may_be_wrong_for_it_says_so(tmp_path, more, forbidden, why):
    with cluster(tmp_path, *more, forbidden=forbidden) as kubeconfig:
        answer = called(kubeconfig, "explain", "workload", "vision/alien")
        other = called(kubeconfig, "explain", "workload", "vision/train-2")
    assert answer.exit_code == 1
    assert "Tutti places those with tutti" in answer.output
    assert "the default is assumed" in answer.output
    assert why in answer.output
    assert "give it with --config" in answer.output
    assert "--config" not in other.output, "it says what the operator says"


def test_what_is_given_counts_before_what_is_mounted(tmp_path):
    given = tmp_path / "given.yaml"
    given.write_text("profiles: [{schedulerName: third}]")
    with cluster(tmp_path, *installed(OTHER)) as kubeconfig:
        answer = called(kubeconfig, "explain", "workload", "vision/alien", "--config", str(given))
    assert "Tutti places those with third" in answer.output
    assert "--config" not in answer.output


def test_plugins_that_are_not_here_are_left_out_and_the_rest_counts(tmp_path):
    text = "profiles: [{schedulerName: third, userPlugins: [{name: nowhere}]}]"
    with cluster(tmp_path, *installed(text)) as kubeconfig:
        answer = called(kubeconfig, "explain", "workload", "vision/alien")
    assert "Tutti places those with third" in answer.output
    assert "the operator's plugins are left out" in answer.output


def test_who_waits_at_another_gate_than_the_operator_says_is_told_that_its_configuration_is_not_known(tmp_path):
    limited = queue("limited", "", "a100", 16)
    limited["spec"]["userLimits"] = [{"users": ["*"], "resources": {GPU: 1}}]
    waits = pod("vision", "waits", 2, labels={"kueue.x-k8s.io/queue-name": "limited"})
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "user anna may have 1"}
    waits["status"] = {"phase": "Pending", "conditions": [said]}
    leads = ours("LocalQueue", "limited", {"clusterQueue": "limited"}, "vision")
    with cluster(tmp_path, limited, leads, waits) as kubeconfig:
        answer = called(kubeconfig, "explain", "workload", "vision/waits")
    assert "does not say who users are" in answer.output
    assert "The operator said last:  user anna may have 1" in answer.output
    assert "give it with --config" in answer.output


def test_queues_and_gangs_say_so_where_the_operator_found_another_gate(tmp_path):
    there = scene.objects()
    gang = next(one for one in there if (one["kind"], one["metadata"]["name"]) == ("PodGroup", "train-2"))
    for gate, noted in (("Quota", False), ("Throttle", True)):
        why = {"gate": gate, "reason": "Said", "message": "Throttle vision/t allows 1 pod at once"}
        gang["status"] = {"phase": "Pending", "pendingReason": {"reasons": [why]}}
        with staged(tmp_path / "kubeconfig", there):
            for asked in (("queue", "vision"), ("gangs",)):
                answer = called(tmp_path / "kubeconfig", *asked)
                assert answer.exit_code == 0, answer.output
                assert ("the default is assumed" in answer.stderr) is noted, asked
