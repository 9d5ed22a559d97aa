"""What the overlays add up to: names that refer to one another, replicas, pod security, and who may talk to whom."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.manifests.check import ROOT, overlays, rendered
from tests.manifests.pod_security import restricted_violations
from tutti.api.configuration import load_configuration

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")

OVERLAYS = ROOT / "manifests" / "overlays"
INSTALLS = [folder for folder in overlays() if folder.name != "monitoring"]
BUILT = {}


def built(folder):
    """The objects of an overlay, by kind."""
    if folder not in BUILT:
        kinds = BUILT[folder] = {}
        for one in rendered(folder):
            kinds.setdefault(one["kind"], []).append(one)
    return BUILT[folder]


def name(folder):
    return str(folder.relative_to(OVERLAYS))


installs = pytest.mark.parametrize("folder", INSTALLS, ids=name)


def selects(selector, labels):
    return selector["matchLabels"].items() <= labels.items()


@installs
def test_every_selector_and_port_is_of_the_operators_pods(folder):
    objects = built(folder)
    (deployment,), (service,) = objects["Deployment"], objects["Service"]
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"]
    ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}

    assert selects(deployment["spec"]["selector"], labels)
    assert service["spec"]["selector"].items() <= labels.items()
    assert {port["targetPort"] for port in service["spec"]["ports"]} == ports - {"probes"}
    for policy in objects["NetworkPolicy"]:
        assert selects(policy["spec"]["podSelector"], labels)
        entries = [port["port"] for rule in policy["spec"].get("ingress", ()) for port in rule["ports"]]
        assert set(entries) <= ports
    for budget in objects.get("PodDisruptionBudget", ()):
        assert selects(budget["spec"]["selector"], labels)
    for spread in pod["spec"].get("topologySpreadConstraints", ()):
        assert selects(spread["labelSelector"], labels)


@pytest.mark.parametrize("folder", overlays(), ids=name)
def test_everything_bears_the_label_by_which_it_is_found_and_removed_again(folder):
    for kind, found in built(folder).items():
        for one in found:
            labels = one["metadata"].get("labels", {})
            assert labels.get("app.kubernetes.io/part-of") == "tutti", (kind, one["metadata"]["name"])


@installs
def test_everything_is_in_the_one_namespace_and_every_mount_has_its_volume(folder):
    objects = built(folder)
    (namespace,) = objects["Namespace"]
    for kind, found in objects.items():
        for one in found:
            assert one["metadata"].get("namespace", namespace["metadata"]["name"]) == "tutti-system", kind
    pod = objects["Deployment"][0]["spec"]["template"]["spec"]
    mounted = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


@installs
def test_the_operator_keeps_to_restricted_pod_security_and_its_namespace_enforces_it(folder):
    objects = built(folder)
    pod = objects["Deployment"][0]["spec"]["template"]["spec"]

    assert restricted_violations(pod) == []
    assert objects["Namespace"][0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@installs
def test_webhooks_are_called_only_where_the_configuration_serves_them_and_traffic_reaches_them(folder):
    objects = built(folder)
    (configured,) = objects["ConfigMap"]
    called = "ValidatingWebhookConfiguration" in objects

    configuration = load_configuration(configured["data"]["tutti.yaml"])
    assert configuration.webhook.enabled == called
    assert configuration.metrics.secure_bind_address == ":8443"
    opened = [
        port["port"]
        for policy in objects["NetworkPolicy"]
        for rule in policy["spec"].get("ingress", ())
        for port in rule["ports"]
    ]
    assert sorted(opened) == (["metrics", "webhooks"] if called else ["metrics"])


@installs
def test_the_operator_talks_to_the_api_server_and_to_name_servers_only(folder):
    (policy,) = [one for one in built(folder)["NetworkPolicy"] if "Egress" in one["spec"]["policyTypes"]]
    to_servers, to_names = policy["spec"]["egress"]

    assert {port["port"] for port in to_servers["ports"]} == {443, 6443, 8443, 16443}
    assert {port["port"] for port in to_names["ports"]} == {53}
    assert to_names["to"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}]


def test_high_availability_is_two_replicas_on_two_nodes_of_which_one_stays_in_a_drain():
    objects = built(OVERLAYS / "ha")
    (deployment,), (budget,) = objects["Deployment"], objects["PodDisruptionBudget"]
    spec = deployment["spec"]

    assert spec["replicas"] == 2
    assert budget["spec"]["maxUnavailable"] == 1
    hard = [
        one
        for one in spec["template"]["spec"]["topologySpreadConstraints"]
        if one["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    assert [one["topologyKey"] for one in hard] == ["kubernetes.io/hostname"]
    # A rollout makes a pod beside two that are spread already: each revision is spread by itself.
    assert hard[0]["matchLabelKeys"] == ["pod-template-hash"]
    (configured,) = objects["ConfigMap"]
    assert load_configuration(configured["data"]["tutti.yaml"]).leader_election.enabled


def test_monitoring_finds_the_port_that_metrics_are_served_on():
    (monitor,) = built(OVERLAYS / "monitoring")["ServiceMonitor"]
    (service,) = built(OVERLAYS / "default")["Service"]

    assert selects(monitor["spec"]["selector"], service["metadata"]["labels"])
    assert {one["port"] for one in monitor["spec"]["endpoints"]} <= {port["name"] for port in service["spec"]["ports"]}


def test_metrics_are_asked_for_with_a_token():
    (monitor,) = built(OVERLAYS / "monitoring")["ServiceMonitor"]
    (reader,) = built(OVERLAYS / "monitoring")["ClusterRole"]

    for one in monitor["spec"]["endpoints"]:
        assert one["scheme"] == "https"
        assert one["bearerTokenFile"].endswith("/serviceaccount/token")
    assert reader["rules"] == [{"nonResourceURLs": [one["path"]], "verbs": ["get"]}]


def test_the_address_of_the_api_server_can_be_named(tmp_path):
    page = (ROOT / "docs" / "security.md").read_text()
    (text,) = re.findall(r"```yaml\n(.+?)```", page, re.DOTALL)
    shutil.copytree(ROOT / "manifests", tmp_path / "manifests")
    shutil.copytree(ROOT / "crds", tmp_path / "crds")
    mine = tmp_path / "manifests" / "overlays" / "mine"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(text)
    objects = rendered(mine)
    (policy,) = [one for one in objects if one["kind"] == "NetworkPolicy" and "Egress" in one["spec"]["policyTypes"]]
    to_servers, to_names = policy["spec"]["egress"]
    assert to_servers == {"to": [{"ipBlock": {"cidr": "192.0.2.10/32"}}], "ports": [{"port": 6443}]}
    assert to_names["to"]
