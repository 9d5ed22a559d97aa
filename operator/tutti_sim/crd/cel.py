"""Validation rules in CEL, evaluated by cel-python, with the Kubernetes library functions that rules commonly use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import celpy
from celpy import celtypes
from celpy.adapter import json_to_cel
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError

from tutti_sim.crd.library import FUNCTIONS
from tutti_sim.meta.errors import FieldError, invalid

Schema = Mapping[str, Any]

VALIDATIONS = "x-kubernetes-validations"
_OLD = re.compile(r"(?<![\w.])oldSelf\b")
SELF_FIELD = re.compile(r"(?<![\w.])(?:self|oldSelf)((?:\.[A-Za-z_]\w*(?!\w*\())+)")


@lru_cache(maxsize=2048)
def program(rule: str) -> Any:
    """The compiled rule; CELParseError when it is not CEL."""
    environment = celpy.Environment()
    return environment.program(environment.compile(rule), functions=dict(FUNCTIONS))


def compile_fault(rule: str, schema: Schema) -> str:
    """Why a rule does not compile against its schema; empty when it does."""
    try:
        program(rule)
    except CELParseError as error:
        return f"ERROR: <input>:1:1: Syntax error: {error}"
    for match in SELF_FIELD.finditer(re.sub(r"'[^']*'|\"[^\"]*\"", "''", rule)):
        name = _unknown_field(match[1].split(".")[1:], schema)
        if name:
            return f"ERROR: <input>:1:{match.end()}: undefined field '{name}'"
    return ""


def _unknown_field(names: list[str], schema: Schema) -> str:
    node: Any = schema
    for name in names:
        if not isinstance(node, Mapping) or node.get("x-kubernetes-preserve-unknown-fields"):
            return ""
        properties, values = node.get("properties"), node.get("additionalProperties")
        if isinstance(values, Mapping):
            node = values
        elif properties is None:
            return ""
        elif name in properties:
            node = properties[name]
        elif name in ("metadata", "kind", "apiVersion") or _escaped(name) in properties:
            return ""
        else:
            return name
    return ""


def _escaped(name: str) -> str:
    return (
        name.replace("__dot__", ".")
        .replace("__dash__", "-")
        .replace("__slash__", "/")
        .removeprefix("__")
        .removesuffix("__")
    )


def has_rules(schema: Schema) -> bool:
    """Whether a schema holds rules anywhere."""
    return bool(schema.get(VALIDATIONS)) or any(has_rules(child) for child in _children(schema))


def _compares(schema: Schema) -> bool:
    """Whether a rule anywhere in a schema asks for the value before."""
    rules = schema.get(VALIDATIONS) or ()
    return any(_OLD.search(rule["rule"]) for rule in rules) or any(_compares(child) for child in _children(schema))


def _children(schema: Schema) -> Iterable[Schema]:
    yield from (schema.get("properties") or {}).values()
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), Mapping):
            yield schema[part]


class Absent:
    """The old value of a field that was not there."""


ABSENT = Absent()


def check(value: Any, old: Any, schema: Schema, at: str) -> list[FieldError]:
    """Rules that a value breaks; `old` is ABSENT where there is no earlier value to compare with.

    What has not changed is not held against an update, except by rules that compare (KEP-4008, ratcheting).
    """
    if value is None or not has_rules(schema) or (value == old and not _compares(schema)):
        return []
    errors: list[FieldError] = []
    rules = schema.get(VALIDATIONS) or ()
    if rules:
        known: dict[str, Any] = {"self": converted(value)}
        if old is not ABSENT and old is not None:
            known["oldSelf"] = converted(old)
        for rule in rules:
            errors.extend(_rule(rule, known, value, at))
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        extra = schema.get("additionalProperties")
        for key, inner in value.items():
            child = (schema.get("properties") or {}).get(key) or (extra if isinstance(extra, Mapping) else None)
            if child is not None:
                errors.extend(check(inner, before.get(key, ABSENT), child, f"{at}.{key}" if at else key))
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for index, item in enumerate(value):
            errors.extend(check(item, counterpart(item, old, schema), schema["items"], f"{at}[{index}]"))
    return errors


def counterpart(item: Any, old: Any, schema: Schema) -> Any:
    """The old item that a list item took the place of: only keyed lists can tell."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list) or not isinstance(item, dict):
        return ABSENT
    for other in old:
        if isinstance(other, dict) and all(other.get(key) == item.get(key) for key in keys or ()):
            return other
    return ABSENT


def _rule(rule: Mapping[str, Any], known: dict[str, Any], value: Any, at: str) -> list[FieldError]:
    text = rule["rule"]
    if "oldSelf" not in known and _OLD.search(text) and not rule.get("optionalOldSelf"):
        return []
    shown = "object" if isinstance(value, dict) else "array" if isinstance(value, list) else value
    where = at + rule.get("fieldPath", "")
    try:
        result = program(text).evaluate(known)
    except CELEvalError as error:
        return [invalid(where, shown, f"rule execution failed: {error.args[0] if error.args else error}")]
    if bool(result):
        return []
    message = _message(rule, known) or rule.get("message") or f"failed rule: {text}"
    reason = rule.get("reason", "FieldValueInvalid")
    fault = invalid(where, shown, message)
    return [fault if reason == "FieldValueInvalid" else FieldError(reason, fault.field, fault.message)]


def _message(rule: Mapping[str, Any], known: dict[str, Any]) -> str:
    if not rule.get("messageExpression"):
        return ""
    try:
        return str(program(rule["messageExpression"]).evaluate(known))
    except CELEvalError:
        return ""


def converted(value: Any) -> Any:
    """A JSON value as CEL sees it."""
    if value is None or isinstance(value, bool | int | float | str | list | dict):
        return json_to_cel(value)
    return celtypes.StringType(value)
