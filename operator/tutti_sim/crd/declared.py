"""What a structural schema declares, for configurations that are applied."""

from __future__ import annotations

from typing import Any

from tutti_sim.crd.structural import EMBEDDED, INT_OR_STRING, LIST_KEYS, LIST_TYPE, PRESERVE, Schema
from tutti_sim.kinds.declared import declared_type
from tutti_sim.patch.typed import ANY, Declared

_KINDS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


def declared_root(schema: Schema) -> Declared:
    """What the schema of a custom resource declares, metadata included."""
    body = declared_by(schema)
    own = {"apiVersion": Declared("string"), "kind": Declared("string"), "metadata": declared_type("ObjectMeta")}

    def child(name: str) -> Declared | None:
        if name in own:
            return own[name]
        return body.child(name) if body.child is not None else ANY

    return Declared("map", child=child)


def declared_by(schema: Schema) -> Declared:
    """What a schema declares."""
    if schema.get(INT_OR_STRING):
        return Declared("scalar")
    kind = schema.get("type", "")
    if kind in _KINDS:
        return Declared(_KINDS[kind])
    if kind == "array":
        return _list(schema)
    if kind == "object" or "properties" in schema:
        return _map(schema)
    return ANY


def _map(schema: Schema) -> Declared:
    properties: Schema = schema.get("properties") or {}
    values = schema.get("additionalProperties")
    made: dict[str, Declared] = {}
    open_ended = bool(schema.get(PRESERVE) or schema.get(EMBEDDED) or values is True)
    if not properties and not isinstance(values, dict):
        return ANY

    def child(name: str) -> Declared | None:
        if name not in made:
            found: Any = properties.get(name, values if isinstance(values, dict) else None)
            if found is None:
                return ANY if open_ended else None
            made[name] = declared_by(found)
        return made[name]

    return Declared("map", child=child)


def _list(schema: Schema) -> Declared:
    items = schema.get("items")
    item = declared_by(items) if isinstance(items, dict) else ANY
    keys = tuple(schema.get(LIST_KEYS) or ()) if schema.get(LIST_TYPE) == "map" else ()
    properties = items.get("properties", {}) if isinstance(items, dict) else {}
    defaults = {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}
    return Declared("list", item=lambda: item, keys=keys, defaults=defaults, unique=schema.get(LIST_TYPE) == "set")
