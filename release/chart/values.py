"""values.yaml, its schema and its table, from one description of what people may set."""

from __future__ import annotations

import copy
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from release.chart.sources import Json, Sources, rights_components

SKELETON = Path(__file__).with_name("skeleton")
_WIDTH = 118


def described(sources: Sources) -> Json:
    """The properties of the values, as JSON schema has them, with rights and defaults as `manifests/` has them."""
    found: Json = yaml.safe_load((SKELETON / "values.yaml").read_text(encoding="utf-8"))
    [deployment] = sources.objects("base/deployment.yaml")
    pod = deployment["spec"]["template"]["spec"]
    found["resources"]["default"] = pod["containers"][0]["resources"]
    found["priorityClassName"]["default"] = pod["priorityClassName"]
    for one in rights_components():
        *groups, name = one.value.split(".")[1:]
        within = found["rights"]["properties"]
        for group in groups:
            within = within.setdefault(group, {"description": _group(group), "properties": {}})["properties"]
        within[name] = {"type": "boolean", "default": one.installed, "description": one.about}
    return found


def _group(name: str) -> str:
    return f"Objects of {name}, which say what is one gang and in which queue."


def schema(properties: Json) -> str:
    """values.schema.json: a value that is misspelt is an error."""
    made = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart tutti",
        **_closed({"properties": properties}),
        "allOf": [
            {
                "if": {
                    "properties": {"webhook": {"properties": {"suspend": {"const": True}}, "required": ["suspend"]}}
                },
                "then": {"properties": {"rights": {"properties": {"suspend": {"const": True}}}}},
            },
            {
                "if": {"properties": {"shards": {"minItems": 1}}, "required": ["shards"]},
                "then": {"properties": {"rights": {"properties": {"shards": {"const": True}}}}},
            },
        ],
    }
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _closed(described: Json) -> Json:
    made = copy.deepcopy(described)
    if "properties" in made and "default" not in made:
        made["properties"] = {name: _closed(one) for name, one in made["properties"].items()}
        return {"type": "object", "additionalProperties": False, **made}
    return made


def defaults(properties: Json) -> Json:
    """The values that hold where nobody says otherwise."""
    return {
        name: one["default"] if "default" in one else defaults(one["properties"]) for name, one in properties.items()
    }


def values(properties: Json) -> str:
    """values.yaml, each value with what it means."""
    return "# Every value that can be set, with its default. Made by `make chart` from release/chart.\n" + "".join(
        _commented(properties, 0)
    )


def _commented(properties: Json, by: int) -> Iterator[str]:
    margin = " " * by
    for name, one in properties.items():
        if name == "global":
            continue
        yield "" if by else "\n"
        for line in textwrap.wrap(one["description"], _WIDTH - by, break_on_hyphens=False):
            yield f"{margin}# {line}\n"
        if "default" not in one:
            yield f"{margin}{name}:\n"
            yield from _commented(one["properties"], by + 2)
        else:
            text = yaml.safe_dump({name: one["default"]}, sort_keys=False)
            yield textwrap.indent(text.replace(": null", ":"), margin)


def table(properties: Json) -> str:
    """The table of the README."""
    rows = [f"| `{path}` | {_shown(one)} | {one['description']} |" for path, one in _leaves(properties, "")]
    return "\n".join(["| value | default | meaning |", "|---|---|---|", *rows]) + "\n"


def _leaves(properties: Json, before: str) -> Iterator[tuple[str, Json]]:
    for name, one in properties.items():
        if "default" in one:
            yield before + name, one
        else:
            yield from _leaves(one["properties"], f"{before}{name}.")


def _shown(one: Json) -> str:
    default: Any = one["default"]
    return "" if default in (None, "") else f"`{json.dumps(default)}`"
