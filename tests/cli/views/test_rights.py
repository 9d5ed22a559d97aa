"""The views only list, need no more than manifests/viewer.yaml gives, and say what they can to whoever may less."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.cli.views import scene
from tests.cli.views.staging import called, staged
from tests.controller.recording import recorded
from tests.manifests.rbac import asked
from tutti.api.configuration import TuttiConfiguration
from tutti.api.conventions.gang_objects import GANG_KINDS
from tutti.api.frameworks import KNOWN_KINDS
from tutti.cli.views.listing import list_cluster
from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.faults.rules import Faults, Match, Refusal, Rule

VIEWER = Path(__file__).parents[3] / "manifests" / "viewer.yaml"
ROLE = next(yaml.safe_load_all(VIEWER.read_text()))


def granted() -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in ROLE["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


DEVICES = {
    ("resource.k8s.io", plural, "list")
    for plural in ("deviceclasses", "devicetaintrules", "resourceslices", "resourceclaims", "resourceclaimtemplates")
}
"""What `manifests/components/devices` grants beside the role."""


def test_they_only_list_and_need_exactly_what_the_role_allows(tmp_path):
    """Kinds of gangs that the server does not have are asked for nowhere; the role allows them where there are any."""

    async def requests() -> set[tuple[str, str, str]]:
        async with EmbeddedCluster(nodes=1, controllers=False) as cluster, recorded(cluster.url) as proxy:
            document = yaml.safe_load(cluster.kubeconfig())
            document["clusters"][0]["cluster"]["server"] = proxy.url
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(document))
            await list_cluster(kubeconfig, None, TuttiConfiguration())
            return {found[:3] for one in proxy.requests if (found := asked(*one)) is not None}

    found = asyncio.run(requests())

    assert {verb for _, _, verb in found} == {"list"}
    assert found - granted() == DEVICES
    listed = {one for one in granted() if one[2] == "list"} - {("", "events", "list")}  # which pages tell
    assert listed - found <= {(kind.group, kind.plural, "list") for kind in (*GANG_KINDS, *KNOWN_KINDS)}


@contextmanager
def forbidden(path: Path, made: list[scene.Json], **match: list[str]) -> Iterator[Path]:
    """A cluster with objects on it whose server refuses some lists from then on, as one with RBAC does."""
    error = Refusal(code=403, message="User tenant cannot list it at the cluster scope")
    rule = Rule(name="rbac", match=Match(verbs=["list"], **match), error=error)
    with staged(path, made, faults=Faults(rules=[rule])):
        yield path


def as_written() -> list[scene.Json]:
    """The scene, with what an operator has written of one gang."""
    made = scene.objects()
    reason = {"gate": "Quota", "reason": "WaitingForQuota", "message": "ClusterQueue vision: needs 8 nvidia.com/gpu"}
    waits = next(one for one in made if one["metadata"]["name"] == "train-2")
    waits["status"] = {"phase": "Waiting", "members": 2, "pendingReason": {"position": 1, "reasons": [reason]}}
    return made


@pytest.fixture(scope="module")
def tenant(tmp_path_factory) -> Iterator[Path]:
    """Somebody who may list things in namespaces, but neither nodes nor anything of the whole cluster."""
    with forbidden(tmp_path_factory.mktemp("tenant") / "kubeconfig", as_written(), namespaces=[""]) as path:
        yield path


def test_a_tenant_is_told_what_the_operator_has_written(tenant):
    answer = called(tenant, "explain", "workload", "vision/train-2", "-o", "json")
    found = json.loads(answer.output)

    assert answer.exit_code == 0
    assert found["summary"] == "it waits for quota"
    assert [(step["gate"], step["verdict"]) for step in found["steps"]] == [
        ("Gather", "Passed"),
        ("Queue", "Passed"),
        ("Quota", "Waits"),
    ]
    assert found["limits"].startswith("you may not list pods, nodes, ")
    assert "User tenant cannot list it at the cluster scope" in found["limits"]


def test_the_same_in_words(tenant):
    told = called(tenant, "explain", "workload", "-n", "vision", "train-2").output

    assert "ClusterQueue vision: needs 8 nvidia.com/gpu" in told
    assert "This is what the operator has said: you may not list pods" in told


def test_a_tenant_is_told_that_there_is_no_such_thing_in_sight(tenant):
    answer = called(tenant, "explain", "workload", "vision/nothing")

    assert answer.exit_code == 1
    assert (
        "there is no Workload, PodGroup or pod vision/nothing that you may see, and you may not list" in answer.output
    )


@pytest.mark.parametrize("line", ["queue", "gangs", "top nodes", "drain-check a100-1"])
def test_numbers_that_would_be_wrong_are_not_told(tenant, line: str):
    answer = called(tenant, *line.split())

    assert answer.exit_code == 2
    assert answer.output.startswith(
        f"tutti {' '.join(line.split()[: 2 if line.startswith('top') else 1])}: you may not list"
    )
    assert "manifests/viewer.yaml" in answer.output


def test_what_is_less_important_is_left_out_and_named(tmp_path):
    with forbidden(tmp_path / "kubeconfig", scene.objects(), resources=["volumeattachments"]) as kubeconfig:
        answer = called(kubeconfig, "gangs", "--waiting")

    assert answer.exit_code == 0
    assert answer.stderr == (
        "left out, as it may not be listed: volumeattachments.storage.k8s.io "
        "(User tenant cannot list it at the cluster scope)\n"
    )
    assert "train-2" in answer.stdout


def test_a_server_without_our_kinds_is_told_so(tmp_path):
    with staged(tmp_path / "kubeconfig", [], kinds=False):
        answer = called(tmp_path / "kubeconfig", "queue")

    assert answer.exit_code == 2
    told = "the server does not know any of Tutti's kinds: install Tutti's CRDs (kubectl apply -k crds)"
    assert answer.output == f"tutti queue: {told}\n"


def test_a_server_that_is_not_there_is_told_so(tmp_path):
    with staged(tmp_path / "kubeconfig", []):
        pass
    answer = called(tmp_path / "kubeconfig", "gangs")

    assert answer.exit_code == 2
    assert "cannot connect" in answer.output
    assert len(answer.output.splitlines()) == 1
