"""The CustomResourceDefinitions, generated from the kinds: `python -m tutti.api.crds crds` writes one file per kind.

pydantic's JSON schema has references, unions with null and titles; a structural schema (apiextensions.k8s.io/v1) may
have none of them. What is left out of an object and what is null mean the same to the API server here: non-nullable
nulls are dropped before validation.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tutti.api.kinds import KINDS
from tutti.api.kinds.parsing import UNSUPPORTED
from tutti.api.model import GROUP, VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tutti.api.model import Object, PrinterColumn


_REFERENCE = "#/$defs/"
_KEPT = (
    "type",
    "description",
    "default",
    "enum",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "not",
)


def structural_schema(kind: type[Object]) -> dict[str, Any]:
    """The `openAPIV3Schema` of a kind, with the rules that refuse what is not supported yet."""
    document = kind.model_json_schema(by_alias=True, mode="validation")
    schema = _structural(document, document.get("$defs", {}))
    properties = schema["properties"]
    properties["metadata"] = {"type": "object"}
    for name in ("apiVersion", "kind"):
        properties[name] = {"type": "string"}
    if "status" in properties:
        properties["status"] = _without_defaults(properties["status"])
    refusals = _refusals(kind.KIND)
    if refusals:
        properties["spec"]["x-kubernetes-validations"] = [
            *properties["spec"].get("x-kubernetes-validations", []),
            *refusals,
        ]
    return schema


def _refusals(kind: str) -> list[dict[str, str]]:
    entries = []
    for unsupported in UNSUPPORTED:
        if unsupported.kind == kind:
            entry = {"rule": unsupported.to_cel(), "message": unsupported.message}
            entries.append(entry if "[]" in unsupported.path else entry | {"fieldPath": f".{unsupported.path}"})
    return entries


def _structural(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    node = _resolved(node, definitions)
    schema = {key: node[key] for key in _KEPT if key in node}
    schema |= {key: value for key, value in node.items() if key.startswith("x-kubernetes-")}
    if "const" in node:
        schema["enum"] = [node["const"]]
    if schema.get("default", "") in ("", None) or isinstance(schema["default"], list | dict):
        schema.pop("default", None)
    if schema.get("x-kubernetes-int-or-string"):
        schema["anyOf"] = node["anyOf"]
    if "properties" in node:
        schema["properties"] = {name: _structural(value, definitions) for name, value in node["properties"].items()}
    elif isinstance(node.get("additionalProperties"), dict):
        schema["additionalProperties"] = _structural(node["additionalProperties"], definitions)
    elif "patternProperties" in node:  # keys with a pattern; a server that found no values declared would drop them
        (values,) = node["patternProperties"].values()
        schema["additionalProperties"] = _structural(values, definitions)
    if "items" in node:
        schema["items"] = _structural(node["items"], definitions)
    if node.get("required"):
        schema["required"] = sorted(node["required"])
    return schema


def _resolved(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The node with references followed and `X or null` taken as X; what stands beside a reference wins."""
    while True:
        if "$ref" in node:
            target = definitions[node["$ref"].removeprefix(_REFERENCE)]
            node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
        elif "anyOf" in node and not node.get("x-kubernetes-int-or-string"):
            options = [option for option in node["anyOf"] if option.get("type") != "null"]
            if len(options) != 1:
                raise ValueError(f"a structural schema cannot hold a union: {options}")
            node = {**options[0], **{key: value for key, value in node.items() if key != "anyOf"}}
        else:
            return node


def _without_defaults(node: Any) -> Any:
    """A schema for what controllers write: the API server adds nothing to it."""
    if isinstance(node, dict):
        return {key: _without_defaults(value) for key, value in node.items() if key != "default"}
    if isinstance(node, list):
        return [_without_defaults(item) for item in node]
    return node


CATEGORY = "tutti"
_HEADER = "# Generated from operator/tutti/api/kinds by `make crds`. Change the kinds instead.\n"


def crd(kind: type[Object]) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    schema = structural_schema(kind)
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [_column(column) for column in kind.COLUMNS],
    }
    if "status" in schema["properties"]:
        version["subresources"] = {"status": {}}
    names = {
        "kind": kind.KIND,
        "listKind": f"{kind.KIND}List",
        "plural": kind.PLURAL,
        "singular": kind.KIND.lower(),
        "categories": [CATEGORY],
    }
    if kind.SHORT_NAMES:
        names["shortNames"] = list(kind.SHORT_NAMES)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Namespaced" if kind.NAMESPACED else "Cluster",
            "versions": [version],
        },
    }


def _column(column: PrinterColumn) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        entry["description"] = column.description
    return entry | {"priority": column.priority} if column.priority else entry


def crd_file_name(kind: type[Object]) -> str:
    """The file that a kind's definition is written to."""
    return f"{GROUP}_{kind.PLURAL}.yaml"


def to_yaml(kind: type[Object]) -> str:
    """The text of that file."""
    return _HEADER + yaml.dump(crd(kind), Dumper=_NoAliases, sort_keys=False, width=120, allow_unicode=True)


class _NoAliases(yaml.SafeDumper):
    """Writes equal parts out in full: anchors are hard to read in a manifest."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  the signature is PyYAML's
        return True


def write_definitions(arguments: list[str]) -> int:
    """Write every definition into the directory given."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m tutti.api.crds DIRECTORY\n")
        return 2
    directory = Path(arguments[0])
    directory.mkdir(parents=True, exist_ok=True)
    for kind in KINDS.values():
        (directory / crd_file_name(kind)).write_text(to_yaml(kind), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(write_definitions(sys.argv[1:]))
