"""Structural schemas: what they require of themselves, and what they do to documents before validation.

Pruning, dropping of nulls, and defaulting happen in one walk (apiextensions pkg/apiserver/schema).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from tutti_sim.meta import Json
from tutti_sim.meta.errors import FieldError, invalid, wrong_type
from tutti_sim.patch.strategic import LEAF, UNTYPED, DocumentShape, Form

TEXTS = ("type", "format", "title", "description", "pattern", "x-kubernetes-list-type", "x-kubernetes-map-type")
FLAGS = (
    "nullable",
    "uniqueItems",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource",
)
AMOUNTS = ("minimum", "maximum", "multipleOf")
COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
NAMES = ("required", "x-kubernetes-list-map-keys")
BRANCHES = ("allOf", "anyOf", "oneOf")
TYPES = ("", "array", "boolean", "integer", "number", "object", "string")
RULE_TEXTS = ("rule", "message", "messageExpression", "fieldPath", "reason")


def malformed(schema: Any, at: str) -> list[FieldError]:
    """The places of a schema whose values have the wrong type."""
    if not isinstance(schema, dict):
        return [wrong_type(at, schema, "must be a schema, which is an object")]
    errors: list[FieldError] = []
    for key, value in schema.items():
        if value is not None:
            errors.extend(_keyword(key, value, f"{at}.{key}"))
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        try:
            re.compile(pattern)
        except re.error as error:
            text = f"must be a valid regular expression, but isn't: error parsing regexp: {error}"
            errors.append(invalid(f"{at}.pattern", pattern, text))
    return errors


def _keyword(key: str, value: Any, at: str) -> list[FieldError]:
    if key == "properties":
        return _schemas(value, at)
    if key in ("items", "not"):
        return malformed(value, at)
    if key == "additionalProperties":
        return [] if isinstance(value, bool) else malformed(value, at)
    if key in BRANCHES:
        if not isinstance(value, list):
            return [wrong_type(at, value, "must be a list of schemas")]
        return [error for index, one in enumerate(value) for error in malformed(one, f"{at}[{index}]")]
    if key == "x-kubernetes-validations":
        return _rules(value, at)
    expected = _expectation(key, value)
    return [wrong_type(at, value, f"must be {expected}")] if expected else []


def _expectation(key: str, value: Any) -> str:
    """What a plain keyword should hold; empty where it does."""
    if key in TEXTS and not isinstance(value, str):
        return "a string"
    if key in FLAGS and not isinstance(value, bool):
        return "a boolean"
    if key in AMOUNTS and (isinstance(value, bool) or not isinstance(value, int | float)):
        return "a number"
    if key in COUNTS and type(value) is not int:
        return "an integer"
    if key in NAMES and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        return "a list of strings"
    if key == "enum" and not isinstance(value, list):
        return "a list"
    return ""


def _schemas(value: Any, at: str) -> list[FieldError]:
    if not isinstance(value, dict):
        return [wrong_type(at, value, "must be an object that holds a schema for each field")]
    return [error for name, one in value.items() for error in malformed(one, f"{at}[{name}]")]


def _rules(value: Any, at: str) -> list[FieldError]:
    if not isinstance(value, list):
        return [wrong_type(at, value, "must be a list of rules")]
    errors: list[FieldError] = []
    for index, rule in enumerate(value):
        if not isinstance(rule, dict):
            errors.append(wrong_type(f"{at}[{index}]", rule, "must be an object with a rule"))
        else:
            errors.extend(
                wrong_type(f"{at}[{index}].{name}", rule[name], "must be a string")
                for name in RULE_TEXTS
                if rule.get(name) is not None and not isinstance(rule[name], str)
            )
    return errors


Schema = Mapping[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
VALIDATIONS = "x-kubernetes-validations"
LIST_TYPE = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"

Unknown = list[str]


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


def shape_of(schema: Schema) -> DocumentShape:
    """The shape of documents of a schema, for merging and field management."""
    if "items" in schema and isinstance(schema["items"], dict):
        return _list_shape(schema)
    properties = schema.get("properties") or {}
    if properties or schema.get("type") == "object":
        if schema.get(MAP_TYPE) == "atomic":
            return DocumentShape(Form.ATOMIC)
        if properties:
            made: dict[str, DocumentShape] = {}

            def child(name: str) -> DocumentShape | None:
                if name not in made and name in properties:
                    made[name] = shape_of(properties[name])
                return made.get(name)

            return DocumentShape(Form.STRUCT, child=child)
        values = schema.get("additionalProperties")
        return DocumentShape(Form.MAP, item=lambda: shape_of(values)) if isinstance(values, dict) else UNTYPED
    return UNTYPED if schema.get(PRESERVE) else LEAF


def _list_shape(schema: Schema) -> DocumentShape:
    items = schema["items"]
    keys = tuple(schema.get(LIST_KEYS) or ())
    form = {"set": Form.SET, "map": Form.KEYED}.get(schema.get(LIST_TYPE, "atomic"), Form.ATOMIC)
    defaults = {
        key: items["properties"][key]["default"]
        for key in keys
        if "default" in items.get("properties", {}).get(key, {})
    }
    element = shape_of(items)
    return DocumentShape(form, item=lambda: element, keys=keys, defaults=defaults or None)
