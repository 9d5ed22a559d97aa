"""docs/rbac.md lists the rights that the manifests grant, each with code that exists."""

from __future__ import annotations

import ast
import re

import yaml

from tests.manifests.check import ROOT
from tests.manifests.rbac import granted

PAGE = ROOT / "docs" / "rbac.md"
SOURCE = ROOT / "operator" / "tutti"


def rows():
    """The rows of all tables, as lists of cells."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 5 and cells[0] not in ("API group", "---"):
            yield cells


def with_own_certificate():
    """What is granted besides where the operator makes the certificate of its webhooks: all of it by name."""
    file = ROOT / "manifests" / "components" / "self-signed" / "rights.yaml"
    rules = [rule for one in yaml.safe_load_all(file.read_text()) for rule in one.get("rules", ())]
    assert all(rule["resourceNames"] for rule in rules)
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def to_suspend():
    """What is granted besides where queues keep Jobs suspended."""
    file = ROOT / "manifests" / "components" / "suspend" / "rules.yaml"
    rules = [patch["value"] for patch in yaml.safe_load(file.read_text())]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def to_ask_for_nodes():
    """What is granted besides where nodes are asked for by ProvisioningRequests."""
    file = ROOT / "manifests" / "components" / "provisioning-requests" / "rules.yaml"
    rules = [patch["value"] for patch in yaml.safe_load(file.read_text())]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def with_zones():
    """What is granted besides where pods are aligned to NUMA zones."""
    file = ROOT / "manifests" / "components" / "numa" / "rule.yaml"
    rules = [patch["value"] for patch in yaml.safe_load(file.read_text())]
    assert [set(rule["verbs"]) for rule in rules] == [{"list", "watch"}]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def with_cards():
    """What is granted besides where GPUs are shared by HAMi; that pods may be patched, several components grant."""
    file = ROOT / "manifests" / "components" / "hami" / "rule.yaml"
    rules = [patch["value"] for patch in yaml.safe_load(file.read_text())]
    found = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert found == {("", "nodes", "get"), ("", "nodes", "patch"), ("", "pods", "patch")}
    return found - {("", "pods", "patch")}


def with_shards():
    """What is granted besides where there are shards; nodes and ClusterQueues may be patched for other reasons, too."""
    file = ROOT / "manifests" / "components" / "shards" / "rule.yaml"
    found = {
        (group, resource, verb)
        for patch in yaml.safe_load(file.read_text())
        for group in patch["value"]["apiGroups"]
        for resource in patch["value"]["resources"]
        for verb in patch["value"]["verbs"]
    }
    elsewhere = {("", "nodes", "get"), ("", "nodes", "patch"), ("scheduling.tutti.dev", "clusterqueues", "patch")}
    assert found > elsewhere
    return found - elsewhere


def to_measure():
    """What is granted besides where profiles go by what metrics.k8s.io says."""
    file = ROOT / "manifests" / "components" / "measurements" / "rule.yaml"
    (patch,) = yaml.safe_load(file.read_text())
    assert patch["value"]["verbs"] == ["list"]
    return {(group, name, "list") for group in patch["value"]["apiGroups"] for name in patch["value"]["resources"]}


def to_know_the_network():
    """What is granted besides where applications are placed by what the network costs."""
    file = ROOT / "manifests" / "components" / "network" / "rule.yaml"
    return {
        (group, name, verb)
        for patch in yaml.safe_load(file.read_text())
        for group in patch["value"]["apiGroups"]
        for name in patch["value"]["resources"]
        for verb in patch["value"]["verbs"]
    }


def to_show_pages():
    """What is granted besides where pages are served beside the operator."""
    file = ROOT / "manifests" / "components" / "web-view" / "rule.yaml"
    (patch,) = yaml.safe_load(file.read_text())
    return {("", name, verb) for name in patch["value"]["resources"] for verb in patch["value"]["verbs"]}


def words(cell):
    return [word.strip("` ") for word in cell.split(",")]


def test_the_page_lists_what_the_manifests_grant_and_each_right_once():
    listed = [
        ("" if group == "core" else group, resource.split(" ")[0], verb)
        for groups, resources, verbs, _, _ in rows()
        for group in words(groups)
        for resource in words(resources)
        for verb in words(verbs)
    ]
    assert len(listed) == len(set(listed))
    by_component = to_suspend() | with_zones() | to_measure() | to_ask_for_nodes() | with_cards()
    by_component |= to_know_the_network() | to_show_pages() | with_shards()
    assert set(listed) == granted() | with_own_certificate() | by_component


def defined(tree, prefix=""):
    """Qualified names of all classes and functions of a module."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name
            yield from defined(node, f"{prefix}{node.name}.")


def test_the_code_that_needs_each_right_is_there():
    for *_, needed, _ in rows():
        places = re.findall(r"`([\w/]+\.py):([\w.]+)`", needed)
        assert places, needed
        for file, name in places:
            assert name in set(defined(ast.parse((SOURCE / file).read_text()))), f"{file}:{name}"
