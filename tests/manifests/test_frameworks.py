"""The rights to read what makes pods: one component for each project, all of them in what is installed."""

from __future__ import annotations

import re
import shutil

import pytest
import yaml

from tests.manifests.check import ROOT, overlays, rendered
from tests.manifests.rbac import documents, framework_rules
from tutti.api.frameworks import KNOWN_KINDS

COMPONENTS = ROOT / "manifests" / "components" / "frameworks"
OF_KUBERNETES = {"apps", "batch"}
"""Groups that every server has; their rules stand in the base."""
INSTALLS = [folder for folder in overlays() if folder.name != "monitoring"]


def plurals() -> dict[str, set[str]]:
    """The kinds that are known, by group."""
    found: dict[str, set[str]] = {}
    for kind in KNOWN_KINDS:
        found.setdefault(kind.group, set()).add(kind.plural)
    return found


def test_each_project_has_a_component_with_its_kinds_and_no_more():
    granted = {}
    for name, added in framework_rules().items():
        [rule] = added
        [group] = rule["apiGroups"]
        assert set(rule["verbs"]) == {"list", "watch"}, name
        assert group not in granted, name
        granted[group] = set(rule["resources"])
    assert granted == {group: kinds for group, kinds in plurals().items() if group not in OF_KUBERNETES}


@pytest.mark.parametrize("group", sorted(OF_KUBERNETES))
def test_the_kinds_of_kubernetes_are_in_the_base(group):
    [role] = [one for one in documents("cluster-role.yaml") if one["kind"] == "ClusterRole"]
    [rule] = [one for one in role["rules"] if group in one["apiGroups"]]
    assert set(rule["resources"]) == plurals()[group]
    assert rule["verbs"] == ["list", "watch"]


def test_all_components_are_listed():
    listed = yaml.safe_load((COMPONENTS / "kustomization.yaml").read_text())["components"]
    assert listed == sorted(path.name for path in COMPONENTS.iterdir() if path.is_dir())


def readable(objects) -> set[tuple[str, str]]:
    """Group and plural of what the operator may list and watch."""
    [role] = [one for one in objects if one["kind"] == "ClusterRole" and one["metadata"]["name"] == "tutti"]
    return {
        (group, resource)
        for rule in role["rules"]
        if {"list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
@pytest.mark.parametrize("folder", INSTALLS, ids=lambda path: path.name)
def test_every_overlay_may_read_all_that_is_known(folder):
    assert {(one.group, one.plural) for one in KNOWN_KINDS} <= readable(rendered(folder))


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_an_installation_may_leave_some_out_as_the_page_says(tmp_path):
    page = (ROOT / "docs" / "rbac.md").read_text()
    (text,) = [one for one in re.findall(r"```yaml\n(.+?)```", page, re.DOTALL) if "kind: Kustomization" in one]
    for part in ("manifests", "crds"):
        shutil.copytree(ROOT / part, tmp_path / part)
    mine = tmp_path / "manifests" / "overlays" / "mine"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(text)

    found = {group for group, _ in readable(rendered(mine))}
    assert {group for group in plurals() if group in found} == {"ray.io", "jobset.x-k8s.io", *OF_KUBERNETES}
