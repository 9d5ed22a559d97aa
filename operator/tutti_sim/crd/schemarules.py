"""What is wrong with the schema of a definition: what keeps it from being structural, defaults that do not fit, rules.

Sources: apiextensions pkg/apis/apiextensions/validation and pkg/apiserver/schema.
"""

from __future__ import annotations

import re
from typing import Any

from tutti_sim.crd.cel import compile_fault
from tutti_sim.crd.structural import (
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE,
    TYPES,
    VALIDATIONS,
    Schema,
)
from tutti_sim.crd.validate import validate
from tutti_sim.meta.errors import FieldError, forbidden_field, invalid, required, unsupported

LIST_TYPES = ("atomic", "set", "map")
MAP_TYPES = ("atomic", "granular")
REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
NOT_SUPPORTED = ("$ref", "definitions", "dependencies", "id", "patternProperties", "additionalItems")
BRANCHES = ("allOf", "anyOf", "oneOf")
BARRED_BELOW = ("type", "default", "title", "description", "nullable", "additionalProperties")
STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\['([^']+)'\]")
SLOW = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
ROOT = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'


def check_schema(schema: Schema, at: str, *, status: bool = False) -> list[FieldError]:
    """What is wrong with the schema of a version; `status` says whether it has the status subresource."""
    errors: list[FieldError] = []
    kind = schema.get("type", "")
    if status and kind not in ("", "object"):
        errors.append(invalid(f"{at}.type", kind, ROOT))
    return [*errors, *_schema(schema, at, root=True)]


def _schema(schema: Schema, at: str, *, root: bool = False) -> list[FieldError]:
    errors = _keywords(schema, at)
    errors.extend(_branches(schema, at))
    errors.extend(_type(schema, at, root=root))
    errors.extend(_lists(schema, at))
    for name, child in (schema.get("properties") or {}).items():
        errors.extend(_schema(child, f"{at}.properties[{name}]"))
    items, values = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, dict):
        errors.extend(_schema(items, f"{at}.items"))
    elif schema.get("type") == "array":
        errors.append(required(f"{at}.items", "must be specified"))
    if isinstance(values, dict):
        errors.extend(_schema(values, f"{at}.additionalProperties"))
    if schema.get("default") is not None and not errors:
        errors.extend(_default(schema, f"{at}.default"))
    for index, rule in enumerate(schema.get(VALIDATIONS) or ()):
        errors.extend(_rule(rule, schema, f"{at}.x-kubernetes-validations[{index}]"))
    return errors


def _keywords(schema: Schema, at: str) -> list[FieldError]:
    errors = [forbidden_field(f"{at}.{name}", f"{name} is not supported") for name in NOT_SUPPORTED if schema.get(name)]
    if schema.get("uniqueItems"):
        errors.append(forbidden_field(f"{at}.uniqueItems", SLOW))
    if schema.get("properties") and schema.get("additionalProperties") not in (None, False):
        text = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden_field(f"{at}.additionalProperties", text))
    if schema.get(PRESERVE) is False:
        errors.append(invalid(f"{at}.{PRESERVE}", False, "must be true or undefined"))
    return errors


def _type(schema: Schema, at: str, *, root: bool) -> list[FieldError]:
    kind = schema.get("type", "")
    if kind not in TYPES:
        return [unsupported(f"{at}.type", kind, TYPES[1:])]
    if root:
        if not kind:
            return [required(f"{at}.type", "must not be empty at the root")]
        return [] if kind == "object" else [invalid(f"{at}.type", kind, "must be object at the root")]
    if not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        return [required(f"{at}.type", "must not be empty for specified object fields")]
    return []


def _lists(schema: Schema, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    kind, keys, items = schema.get(LIST_TYPE), schema.get(LIST_KEYS) or [], schema.get("items")
    if kind is not None and kind not in LIST_TYPES:
        errors.append(unsupported(f"{at}.{LIST_TYPE}", kind, LIST_TYPES))
    if schema.get(MAP_TYPE) is not None and schema[MAP_TYPE] not in MAP_TYPES:
        errors.append(unsupported(f"{at}.{MAP_TYPE}", schema[MAP_TYPE], MAP_TYPES))
    if kind != "map":
        return errors
    if not keys:
        errors.append(required(f"{at}.{LIST_KEYS}", "must not be empty if x-kubernetes-list-type is map"))
    if not isinstance(items, dict):
        return errors
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        errors.append(invalid(f"{at}.items.type", items.get("type", ""), text))
        return errors
    properties = items.get("properties") or {}
    if any(key not in properties for key in keys):
        errors.append(invalid(f"{at}.{LIST_KEYS}", keys, "entries must all be names of item properties"))
    text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
    errors.extend(
        required(f"{at}.items.properties[{key}].default", text)
        for key in keys
        if key in properties and key not in (items.get("required") or ()) and "default" not in properties[key]
    )
    return errors


def _branches(schema: Schema, at: str) -> list[FieldError]:
    """Branches say what values are like, and not what they are."""
    found = [(f"{at}.{name}[{index}]", one) for name in BRANCHES for index, one in enumerate(schema.get(name) or ())]
    if schema.get("not"):
        found.append((f"{at}.not", schema["not"]))
    loose = bool(schema.get(INT_OR_STRING))
    return [
        forbidden_field(f"{place}.{key}", "must be empty to be structural")
        for place, one in found
        for key in BARRED_BELOW
        if one.get(key) and not (loose and key == "type")
    ]


def _default(schema: Schema, at: str) -> list[FieldError]:
    """What is wrong with a default as a value of its own schema."""
    return [
        FieldError(error.reason, at + error.field if error.field != "<nil>" else error.field, error.message)
        for error in validate(schema["default"], schema, "")
    ]


def _rule(rule: Any, schema: Schema, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    text = rule.get("rule", "")
    if not text.strip():
        errors.append(required(f"{at}.rule", "rule is not specified"))
    elif fault := compile_fault(text, schema):
        errors.append(invalid(f"{at}.rule", shown_rule(rule), f"compilation failed: {fault}"))
    if "\n" in rule.get("message", "") or "\r" in rule.get("message", ""):
        errors.append(invalid(f"{at}.message", rule["message"], "must not contain line breaks"))
    reason = rule.get("reason")
    if reason is not None and reason not in REASONS:
        errors.append(unsupported(f"{at}.reason", reason, REASONS))
    path = rule.get("fieldPath")
    if path and not leads(schema, path):
        errors.append(invalid(f"{at}.fieldPath", path, "must be a valid path"))
    return errors


def shown_rule(rule: Any) -> dict[str, Any]:
    """A rule as the server's messages show it."""
    texts = (("Rule", "rule"), ("Message", "message"), ("MessageExpression", "messageExpression"))
    return {
        **{title: rule.get(name, "") for title, name in texts},
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def leads(schema: Schema, path: str) -> Schema | None:
    """The schema of the place that a path leads to; None where it leads nowhere."""
    node: Any = schema
    position = 0
    while position < len(path):
        step = STEP.match(path, position)
        if step is None:
            return None
        name, position = step[1] or step[2], step.end()
        properties, values = node.get("properties") or {}, node.get("additionalProperties")
        node = properties.get(name, values if isinstance(values, dict) else None)
        if node is None:
            return None
    return node if position else None
