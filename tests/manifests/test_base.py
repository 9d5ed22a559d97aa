"""The manifests say what the code does: rights, configuration, image, kinds."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.manifests.rbac import BASE, allows, asked, documents, rules
from tutti.api.configuration import TuttiConfiguration, load_configuration
from tutti.api.conventions.gang_objects import GANG_KINDS
from tutti.api.frameworks import KNOWN_KINDS
from tutti.api.kinds import KINDS
from tutti.api.model import GROUP
from tutti.controller.discovery import OUR_RESOURCES
from tutti.controller.kopf_handlers import GUARDED_KINDS
from tutti.kube.resources import (
    EVENTS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    APIResource,
)

ROOT = BASE.parents[1]


WATCHED = (
    PODS,
    NODES,
    NAMESPACES,
    PRIORITY_CLASSES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    POD_DISRUPTION_BUDGETS,
)


GANGS = [APIResource(one.group, one.versions[0], one.plural) for one in (*GANG_KINDS, *KNOWN_KINDS)]


@pytest.mark.parametrize("resource", [*WATCHED, *OUR_RESOURCES.values(), *GANGS])
@pytest.mark.parametrize("verb", ["list", "watch"])
def test_everything_that_is_watched_may_be(resource, verb):
    assert allows(resource.group, resource.plural, verb)


@pytest.mark.parametrize(
    ("group", "resource", "verb"),
    [
        ("apiextensions.k8s.io", "customresourcedefinitions", "watch"),
        ("scheduling.k8s.io", "podgroups/status", "patch"),
        ("", "pods/binding", "create"),
        ("", "pods/status", "patch"),
        ("", "pods", "delete"),
        ("", "pods", "get"),
        (EVENTS.group, "events", "create"),
        (EVENTS.group, "events", "patch"),
        (GROUP, "podgroups", "create"),
        (GROUP, "podgroups", "delete"),
        *(
            (GROUP, f"{KINDS[kind].PLURAL}/status", "patch") for kind in KINDS if kind != "WorkloadPriorityClass"
        ),  # which has none
        *((GROUP, KINDS[kind].PLURAL, "patch") for kind in GUARDED_KINDS),
    ],
)
def test_every_write_is_allowed(group, resource, verb):
    assert allows(group, resource, verb)


def test_the_lease_of_the_configuration_is_the_one_that_may_be_written():
    election = load_configuration((BASE / "tutti.yaml").read_text()).leader_election
    where = {"namespace": election.lease_namespace, "name": election.lease_name}

    assert allows("coordination.k8s.io", "leases", "get", **where)
    assert allows("coordination.k8s.io", "leases", "update", **where)
    assert allows("coordination.k8s.io", "leases", "create", namespace=election.lease_namespace)
    assert not allows("coordination.k8s.io", "leases", "update", namespace="kube-system", name="kube-scheduler")


def test_nothing_is_allowed_by_a_wildcard_and_nothing_that_no_scheduler_needs():
    for _, rule in rules():
        assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"]
    for resource in ("secrets", "configmaps", "serviceaccounts"):
        assert not any(resource in rule["resources"] for _, rule in rules())
    assert not allows("", "pods", "create")
    assert not allows("", "nodes", "patch")
    assert not allows(GROUP, "workloads", "delete")


def test_the_configuration_can_be_read_and_changes_nothing_but_where_the_lease_is_and_who_reads_metrics():
    shipped, default = load_configuration((BASE / "tutti.yaml").read_text()), TuttiConfiguration()

    here = default.leader_election.model_copy(update={"lease_namespace": "tutti-system"})
    metrics = default.metrics.model_copy(update={"secure_bind_address": ":8443"})
    assert shipped == default.model_copy(update={"leader_election": here, "metrics": metrics})


def test_the_pod_runs_with_no_rights_on_its_node():
    (deployment,) = documents("deployment.yaml")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}


def test_probes_ask_where_the_configuration_serves_them():
    (deployment,) = documents("deployment.yaml")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    configuration = load_configuration((BASE / "tutti.yaml").read_text())

    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "probes"}
    assert configuration.metrics.bind_address == f":{ports['probes']}"
    assert configuration.metrics.secure_bind_address == f":{ports['metrics']}"
    assert configuration.webhook.port == ports["webhooks"]


def test_the_crds_of_all_kinds_are_installed():
    names = {document["metadata"]["name"] for document in _built(ROOT / "crds")}
    assert names == {resource.label for resource in OUR_RESOURCES.values()}


def test_kubectl_apply_takes_the_folder_of_crds_as_it_is():
    """`kubectl apply -f crds/` reads every .yaml there, so the folder's own kustomization must not end in it."""
    kinds = {yaml.safe_load(file.read_text())["kind"] for file in (ROOT / "crds").glob("*.y*ml")}
    assert kinds == {"CustomResourceDefinition"}


def _built(folder: Path):
    named = next(file for name in ("kustomization.yaml", "Kustomization") if (file := folder / name).exists())
    for name in yaml.safe_load(named.read_text())["resources"]:
        if (folder / name).is_dir():
            yield from _built((folder / name).resolve())
        else:
            yield from (one for one in yaml.safe_load_all((folder / name).read_text()) if one)


def test_every_reference_between_the_manifests_is_to_something_in_them():
    objects = {(one["kind"], one["metadata"]["name"]): one for one in _built(BASE)}
    account = ("ServiceAccount", "tutti")

    assert account in objects
    for (kind, _), one in objects.items():
        if kind in ("ClusterRoleBinding", "RoleBinding"):
            assert (one["roleRef"]["kind"], one["roleRef"]["name"]) in objects
            assert [(s["kind"], s["name"], s["namespace"]) for s in one["subjects"]] == [(*account, "tutti-system")]
    assert objects["Deployment", "tutti"]["spec"]["template"]["spec"]["serviceAccountName"] == "tutti"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kubectl_builds_the_base():
    built = subprocess.run(["kubectl", "kustomize", str(BASE)], capture_output=True, text=True, check=True)

    objects = [one for one in yaml.safe_load_all(built.stdout) if one]
    kinds = [one["kind"] for one in objects]
    assert kinds.count("CustomResourceDefinition") == len(KINDS)
    (deployment,) = [one for one in objects if one["kind"] == "Deployment"]
    (configured,) = [one for one in objects if one["kind"] == "ConfigMap"]
    mounted = {
        volume["configMap"]["name"]
        for volume in deployment["spec"]["template"]["spec"]["volumes"]
        if "configMap" in volume
    }
    assert mounted == {configured["metadata"]["name"]}


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", {}, ("", "pods", "list", "", "")),
        ("GET", "/api/v1/pods", {"watch": "1"}, ("", "pods", "watch", "", "")),
        ("POST", "/api/v1/namespaces/n/pods/p/binding", {}, ("", "pods/binding", "create", "n", "p")),
        ("GET", "/api/v1/namespaces", {}, ("", "namespaces", "list", "", "")),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/n/leases/l",
            {},
            ("coordination.k8s.io", "leases", "update", "n", "l"),
        ),
        ("GET", "/apis/scheduling.tutti.dev/v1alpha1", {}, None),
    ],
)
def test_requests_are_read_as_rbac_reads_them(method, path, query, expected):
    assert asked(method, path, query) == expected
