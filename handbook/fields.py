"""What a JSON schema says of each field, as rows of a table: its path, type, default and meaning."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_REFERENCE = "#/$defs/"
_HIDDEN = ("apiVersion", "kind", "metadata")
_AS_IN_KUBERNETES = ("addedAffinity", "conditions", "namespaceSelector", "nodeTaints", "template", "tolerations")
"""Fields with the shape that Kubernetes has given them; what is below them is not repeated."""


class Field(NamedTuple):
    """A field that users can write, or that a controller has written."""

    path: str
    type: str
    default: str
    meaning: str


def fields(schema: Mapping[str, Any], path: str = "") -> list[Field]:
    """Every field below a schema, in the order of the models; `path` is where the schema itself stands."""
    return list(_walk(schema, schema.get("$defs", {}), path))


def resolved(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The node with references followed, and `X or null` taken as X; what stands beside a reference goes before it."""
    found = dict(node)
    while True:
        options = [one for one in found.get("anyOf", ()) if one.get("type") != "null"]
        if "$ref" in found:
            target = definitions[found.pop("$ref").removeprefix(_REFERENCE)]
            found = {**target, **found}
        elif len(options) == 1:
            del found["anyOf"]
            found = {**options[0], **found}
        else:
            return found


def table(rows: list[Field]) -> str:
    """The rows as a Markdown table."""
    lines = ["| field | type | if left out | meaning |", "|---|---|---|---|"]
    lines += [f"| `{row.path}` | {row.type} | {row.default} | {_cell(row.meaning)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _walk(node: Mapping[str, Any], definitions: Mapping[str, Any], path: str) -> Iterator[Field]:
    required = node.get("required", ())
    for name, child in node.get("properties", {}).items():
        if not path and name in _HIDDEN:
            continue
        place = f"{path}.{name}" if path else name
        whole = resolved(child, definitions)
        default = "must be given" if name in required else _default(whole)
        if name in _AS_IN_KUBERNETES:
            yield Field(place, "as in Kubernetes", default, whole.get("description", ""))
            continue
        yield Field(place, _type(whole, definitions), default, whole.get("description", ""))
        inner = whole
        while "items" in inner:
            place, inner = f"{place}[]", resolved(inner["items"], definitions)
        yield from _walk(inner, definitions, place)


def _type(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    allowed = [node["const"]] if "const" in node else node.get("enum")
    if allowed:
        return " or ".join(f"`{value}`" for value in allowed)
    if node.get("x-kubernetes-int-or-string"):
        return "quantity or percentage" if "%" in node.get("pattern", "") else "quantity"
    if "anyOf" in node:
        return " or ".join(_type(resolved(one, definitions), definitions) for one in node["anyOf"])
    kind = node.get("type", "object")
    if kind == "array":
        return f"list of {_type(resolved(node['items'], definitions), definitions)}"
    if kind == "object" and "properties" not in node:
        values = node.get("additionalProperties") or next(iter(node.get("patternProperties", {}).values()), None)
        return f"map of {_type(resolved(values, definitions), definitions)}" if isinstance(values, dict) else "object"
    if kind == "string" and node.get("format") == "date-time":
        return "time"
    return f"{kind}{_range(node)}"


def _range(node: Mapping[str, Any]) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    if low is None and high is None:
        return ""
    if high is None or high >= 2**31 - 1:
        return "" if low is None or low <= -(2**31) else f", at least {low}"
    return f", at most {high}" if low is None else f", {low} to {high}"


def _default(node: Mapping[str, Any]) -> str:
    default = node.get("default")
    if isinstance(default, list) and all(isinstance(one, dict) for one in default):
        default = [one.get("name") for one in default]
    if default in (None, "", []) or isinstance(default, dict) or default == [None]:
        return ""
    return f"`{json.dumps(default) if not isinstance(default, str) else default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
