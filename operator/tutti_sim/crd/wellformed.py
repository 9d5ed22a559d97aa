"""What a schema's keywords must hold, before anything looks at what they say (apiextensions/v1 JSONSchemaProps)."""

from __future__ import annotations

import re
from typing import Any

from tutti_sim.meta.errors import FieldError, invalid, wrong_type

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
    kind = schema.get("type")
    if isinstance(kind, str) and kind not in TYPES:
        errors.append(invalid(f"{at}.type", kind, "must be array, boolean, integer, number, object or string"))
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        try:
            re.compile(pattern)
        except re.error as error:
            errors.append(invalid(f"{at}.pattern", pattern, f"must be a valid regular expression: {error}"))
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
