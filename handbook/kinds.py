"""The page of the kinds: what each is, how it looks in `kubectl get`, its fields, and what must hold between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from handbook.fields import fields, resolved, table
from tutti.api.crds import structural_schema
from tutti.api.kinds import KINDS, Object
from tutti.api.model import API_VERSION

INTRODUCTION = f"""# Kinds

What `crds/` defines, `{API_VERSION}`. An unknown field is refused. Sizes and patterns that the API server
checks besides stand in the files themselves; `kubectl explain clusterqueue.spec` shows the same texts.
"""


def page() -> str:
    """The whole page, in Markdown."""
    return INTRODUCTION + "".join(_section(kind) for kind in KINDS.values())


def _section(kind: type[Object]) -> str:
    schema = kind.model_json_schema(by_alias=True)
    names = ", ".join(f"`{name}`" for name in (kind.PLURAL, *kind.SHORT_NAMES))
    scope = "in a namespace" if kind.NAMESPACED else "for the whole cluster"
    columns = ", ".join(column.name + (" (wide)" if column.priority else "") for column in kind.COLUMNS)
    parts = [f"\n## {kind.KIND}\n", f"\n{schema['description']} {names}; {scope}. `kubectl get` shows: {columns}.\n"]
    definitions = schema.get("$defs", {})
    for part in ("spec", "status"):
        if part in schema["properties"]:
            whole = resolved(schema["properties"][part], definitions)
            rows = fields({**whole, "$defs": definitions}, part)
            parts.append(f"\n### {kind.KIND} {part}\n\n{table(rows) if rows else 'Nothing.'}")
    rules = list(dict.fromkeys(_rules(structural_schema(kind))))
    if rules:
        parts.append("\nRefused by the API server:\n\n" + "".join(f"- {rule}\n" for rule in rules))
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


def _rules(node: Mapping[str, Any]) -> Iterator[str]:
    """The messages of all rules in a structural schema, from the outside in."""
    for rule in node.get("x-kubernetes-validations", ()):
        yield rule["message"]
    for child in node.get("properties", {}).values():
        yield from _rules(child)
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from _rules(node[key])
