"""The generated CRDs: in step with the kinds, structural, and with CEL that says what the parser says."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import celpy
import pytest
import yaml
from celpy.adapter import json_to_cel

from tests.api.manifests import RIGHT, manifest
from tests.api.wrong_manifests import WRONG, Wrong
from tutti.api.crds import crd, crd_file_name, to_yaml, write_definitions
from tutti.api.kinds import KINDS
from tutti.api.model import Lenient
from tutti.api.templates import QUANTITY

DIRECTORY = Path(__file__).parents[2] / "crds"
ENVIRONMENT = celpy.Environment()


@cache
def schema_of(kind: str) -> dict[str, Any]:
    return crd(KINDS[kind])["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def nodes(schema: dict[str, Any], place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield place, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{place}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from nodes(schema[name], f"{place}.{name}")


def defaulted(schema: dict[str, Any], value: Any) -> Any:
    """What the API server stores: defaults filled in where the parent is there."""
    if isinstance(value, dict) and "properties" in schema:
        for name, child in schema["properties"].items():
            if name not in value and "default" in child:
                value[name] = copy.deepcopy(child["default"])
            if name in value:
                defaulted(child, value[name])
    elif isinstance(value, list):
        for item in value:
            defaulted(schema["items"], item)
    return value


def broken_rules(schema: dict[str, Any], value: Any) -> set[str]:
    """The messages of all rules that do not hold, as the API server would evaluate them on creation."""
    broken = set()
    for rule in schema.get("x-kubernetes-validations", []):
        if "oldSelf" not in rule["rule"]:
            program = ENVIRONMENT.program(ENVIRONMENT.compile(rule["rule"]))
            try:
                holds = program.evaluate({"self": json_to_cel(value)})
            except celpy.CELEvalError:  # such as timestamp() of a day that there is not
                holds = False
            if not holds:
                broken.add(rule["message"])
    if isinstance(value, dict):
        for name, child in schema.get("properties", {}).items():
            if name in value:
                broken |= broken_rules(child, value[name])
    elif isinstance(value, list):
        for item in value:
            broken |= broken_rules(schema["items"], item)
    return broken


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_are_in_step_with_the_kinds(kind):
    written = (DIRECTORY / crd_file_name(KINDS[kind])).read_text(encoding="utf-8")
    assert written == to_yaml(KINDS[kind]), "run `make crds`"


def test_every_generated_file_belongs_to_a_kind(tmp_path):
    assert write_definitions([str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        path.name for path in DIRECTORY.glob("scheduling.tutti.dev_*")
    }
    assert write_definitions([]) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_are_structural_and_bounded(kind):
    for place, node in nodes(schema_of(kind)):
        if node == QUANTITY:  # of a pod template, which no type can tell
            continue
        assert not {"$ref", "$defs", "title", "const", "oneOf", "allOf", "not"} & node.keys(), place
        assert "type" in node or node.get("x-kubernetes-int-or-string"), place
        assert "anyOf" not in node or node.get("x-kubernetes-int-or-string"), place
        assert not ("properties" in node and "additionalProperties" in node), place
        assert node.get("type") != "array" or ("maxItems" in node and "x-kubernetes-list-type" in node), place
        assert "additionalProperties" not in node or "maxProperties" in node, place
        for name in node.get("required", []):
            assert name in node["properties"], place
        for key in node.get("x-kubernetes-list-map-keys", []):
            item = node["items"]
            assert key in item["required"] or "default" in item["properties"][key], place


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_keeps_what_users_write(kind):
    """What a structural schema does not declare is dropped without a word."""
    for place, node in nodes(schema_of(kind)):
        declared = {"properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields"}
        assert node.get("type") != "object" or declared & node.keys() or place.endswith("metadata"), place


@pytest.mark.parametrize("kind", KINDS)
def test_spec_fields_that_users_write_are_bounded_texts(kind):
    for place, node in nodes(schema_of(kind)["properties"].get("spec", {"type": "object"}), "spec"):
        assert node.get("type") != "string" or "enum" in node or "maxLength" in node, place
        assert node.get("type") != "integer" or {"maximum", "format"} & node.keys(), place


@pytest.mark.parametrize("kind", KINDS)
def test_kubectl_explain_has_a_sentence_for_every_field_users_write(kind):
    silent = []
    for place, node in nodes(schema_of(kind)["properties"].get("spec", {}), "spec"):
        if ".template" in place:  # of that, `kubectl explain pod` tells
            continue
        silent += [
            f"{place}.{name}" for name, child in node.get("properties", {}).items() if "description" not in child
        ]
    assert silent == []


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_added_to_what_controllers_write(kind):
    status = schema_of(kind)["properties"].get("status")
    assert status is None or all("default" not in node for _, node in nodes(status))


@pytest.mark.parametrize("kind", KINDS)
def test_field_paths_of_rules_exist(kind):
    for place, node in nodes(schema_of(kind)):
        for rule in node.get("x-kubernetes-validations", []):
            child = node
            for part in rule.get("fieldPath", "").split(".")[1:]:
                child = child["properties"][part]
            assert len(rule["message"]) < 256, place


@pytest.mark.parametrize("name", RIGHT)
def test_cel_holds_for_what_the_parser_accepts(name):
    kind, spec = RIGHT[name]
    schema = schema_of(kind)
    assert broken_rules(schema, defaulted(schema, manifest(kind, spec))) == set()


def rules(schema: Mapping[str, Any]) -> list[dict[str, str]]:
    return [rule for _, node in nodes(schema) for rule in node.get("x-kubernetes-validations", [])]


def rules_of(kind: str) -> set[str]:
    return {rule["message"] for rule in rules(schema_of(kind))}


def by_rule(wrong: Wrong) -> set[str]:
    """The rules that say what is wrong; none where the schema itself or only the parser refuses it."""
    return {message for message in rules_of(wrong.kind) if wrong.server and wrong.message in message}


@pytest.mark.parametrize("name", [name for name, wrong in WRONG.items() if by_rule(wrong)])
def test_cel_refuses_what_the_parser_refuses_in_the_same_words(name):
    wrong = WRONG[name]
    schema = schema_of(wrong.kind)
    assert broken_rules(schema, defaulted(schema, manifest(wrong.kind, wrong.spec))) & by_rule(wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_every_rule_on_creation_is_broken_by_some_manifest(kind):
    schema = schema_of(kind)
    broken: set[str] = set()
    for wrong in WRONG.values():
        if wrong.kind == kind:
            broken |= broken_rules(schema, defaulted(schema, manifest(kind, wrong.spec)))
    assert rules_of(kind) - broken == {rule["message"] for rule in rules(schema) if "oldSelf" in rule["rule"]}


@pytest.mark.parametrize("kind", KINDS)
def test_kubectl_apply_can_keep_a_definition_in_an_annotation(kind):
    """262,144 bytes of annotations are the most that an object may have (apimachinery, pkg/api/validation)."""
    assert len(json.dumps(crd(KINDS[kind]))) < 262_144 / 2


def test_defaults_are_written_as_users_would():
    schema = schema_of("ClusterQueue")["properties"]["spec"]["properties"]
    assert schema["fairSharing"]["properties"]["weight"]["default"] == 1
    assert schema["queueingStrategy"]["default"] == "BestEffortFIFO"
    assert "default" not in schema["cohortName"]


def test_names_and_short_names_are_unique():
    definitions = [yaml.safe_load(to_yaml(kind)) for kind in KINDS.values()]
    names = [definition["spec"]["names"] for definition in definitions]
    taken = [word for name in names for word in (name["plural"], name["singular"], *name.get("shortNames", []))]
    assert len(taken) == len(set(taken))
    assert {"cq", "lq", "wl", "pg", "rf"} <= set(taken)
    assert all(name["categories"] == ["tutti"] for name in names)


def test_a_schema_says_of_fields_what_stands_below_them_however_they_are_called_there():
    def said(**how: bool) -> dict[str, str]:
        found = Quotas.model_json_schema(**how)["properties"]
        return {name: one["description"] for name, one in found.items() if "description" in one}

    assert said(by_alias=True) == {"inCohort": "What it may lend.", "name": "Another name."}
    assert said(by_alias=False) == {"in_cohort": "What it may lend.", "name": "Another name."}


def test_a_schema_without_the_source_of_its_class_says_nothing_of_fields():
    defined: dict[str, Any] = {"Lenient": Lenient}
    exec('class Unseen(Lenient):\n    name: str = ""\n    """Its name."""', defined)
    assert "description" not in defined["Unseen"].model_json_schema()["properties"]["name"]


class _Named(Lenient):
    name: str = ""
    """A name."""
    in_cohort: int = 0
    """What it may lend."""


class Quotas(_Named):
    name: str = "x"
    """Another name."""
