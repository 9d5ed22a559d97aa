"""Structural schemas: what they require of themselves, and what they do to documents before validation.

Pruning, dropping of nulls, and defaulting happen in one walk (apiextensions pkg/apiserver/schema).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tutti_sim.crd.cel import compile_fault
from tutti_sim.meta.errors import FieldError, invalid, required
from tutti_sim.patch.shape import LEAF, UNTYPED, Form, Shape

Json = dict[str, Any]
Schema = Mapping[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
VALIDATIONS = "x-kubernetes-validations"
LIST_TYPE = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"

Unknown = list[str]


def check_schema(schema: Schema, at: str, *, root: bool = True) -> list[FieldError]:
    """What keeps a schema from being structural, and rules that do not compile."""
    errors: list[FieldError] = []
    kind = schema.get("type", "")
    if root and kind != "object":
        errors.append(invalid(f"{at}.type", kind, "must be object at the root"))
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        errors.append(required(f"{at}.type", "must not be empty for specified object fields"))
    for name, child in (schema.get("properties") or {}).items():
        errors.extend(check_schema(child, f"{at}.properties[{name}]", root=False))
    items, values = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, dict):
        errors.extend(check_schema(items, f"{at}.items", root=False))
    elif kind == "array":
        errors.append(required(f"{at}.items", "must be specified"))
    if isinstance(values, dict):
        errors.extend(check_schema(values, f"{at}.additionalProperties", root=False))
    if schema.get(LIST_TYPE) == "map" and not schema.get(LIST_KEYS):
        errors.append(required(f"{at}.{LIST_KEYS}", "must not be empty if x-kubernetes-list-type is map"))
    for index, rule in enumerate(schema.get(VALIDATIONS) or ()):
        fault = compile_fault(rule.get("rule", ""), schema)
        if fault:
            text = f"compilation failed: {fault}"
            errors.append(invalid(f"{at}.x-kubernetes-validations[{index}].rule", rule.get("rule", ""), text))
    return errors


def shaped(value: Any, schema: Schema, at: str, unknown: Unknown) -> Any:
    """A fresh value without unknown fields and stray nulls, with defaults filled in; what was dropped is noted."""
    if isinstance(value, dict) and (schema.get("type") == "object" or "properties" in schema or schema.get(PRESERVE)):
        return _object(value, schema, at, unknown)
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            return [shaped(item, items, f"{at}[{index}]", unknown) for index, item in enumerate(value)]
    return copy.deepcopy(value)


def _object(value: Json, schema: Schema, at: str, unknown: Unknown) -> Json:
    properties = schema.get("properties") or {}
    values = schema.get("additionalProperties")
    result: Json = {}
    for key, inner in value.items():
        where = f"{at}.{key}" if at else key
        child = properties.get(key)
        if child is None and isinstance(values, dict):
            child = values
        if child is not None:
            if inner is None and not child.get("nullable"):
                continue
            result[key] = shaped(inner, child, where, unknown)
        elif (
            schema.get(PRESERVE)
            or values is True
            or (schema.get(EMBEDDED) and key in ("apiVersion", "kind", "metadata"))
        ):
            result[key] = copy.deepcopy(inner)
        else:
            unknown.append(f'unknown field "{where}"')
    for key, child in properties.items():
        if key not in result and "default" in child:
            result[key] = shaped(child["default"], child, f"{at}.{key}", [])
    return result


def shape_of(schema: Schema) -> Shape:
    """The shape of documents of a schema, for merging and field management."""
    if "items" in schema and isinstance(schema["items"], dict):
        return _list_shape(schema)
    properties = schema.get("properties") or {}
    if properties or schema.get("type") == "object":
        if schema.get(MAP_TYPE) == "atomic":
            return Shape(Form.ATOMIC)
        if properties:
            made: dict[str, Shape] = {}

            def child(name: str) -> Shape | None:
                if name not in made and name in properties:
                    made[name] = shape_of(properties[name])
                return made.get(name)

            return Shape(Form.STRUCT, child=child)
        values = schema.get("additionalProperties")
        return Shape(Form.MAP, item=lambda: shape_of(values)) if isinstance(values, dict) else UNTYPED
    return UNTYPED if schema.get(PRESERVE) else LEAF


def _list_shape(schema: Schema) -> Shape:
    items = schema["items"]
    keys = tuple(schema.get(LIST_KEYS) or ())
    form = {"set": Form.SET, "map": Form.KEYED}.get(schema.get(LIST_TYPE, "atomic"), Form.ATOMIC)
    defaults = {
        key: items["properties"][key]["default"]
        for key in keys
        if "default" in items.get("properties", {}).get(key, {})
    }
    element = shape_of(items)
    return Shape(form, item=lambda: element, keys=keys, defaults=defaults or None)
