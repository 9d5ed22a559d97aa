"""Nothing that users write names something outside for the operator to read, write or call."""

from __future__ import annotations

import re

import yaml

from tests.manifests.check import ROOT

# `workloadRef`, `priorityClassRef` and the like name objects that are watched anyway.
OUTSIDE = re.compile(r"(?i)(url|uri|host(name)?$|address|endpoint|secret|config_?map|file|folder|command|image|token)")
# A pod group's template is a pod as Kubernetes has it; of that, requests and constraints are read.
OPAQUE = "template"


def fields(schema, path=""):
    for name, one in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        if name != OPAQUE:
            yield from fields(one, f"{path}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from fields(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from fields(schema["additionalProperties"], f"{path}{{}}")


def test_no_field_of_a_kind_of_ours_names_an_address_a_file_or_a_secret():
    found = []
    for file in sorted((ROOT / "crds").glob("*.yaml")):
        for version in yaml.safe_load(file.read_text())["spec"]["versions"]:
            spec = version["schema"]["openAPIV3Schema"]["properties"].get("spec", {})
            found += list(fields(spec, "spec"))
    assert len(found) > 100
    assert [field for field in found if OUTSIDE.search(field.rpartition(".")[2])] == []
