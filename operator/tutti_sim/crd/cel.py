"""Validation rules in CEL, evaluated by cel-python, with the Kubernetes library functions that rules commonly use."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import celpy
from celpy import celtypes
from celpy.adapter import json_to_cel
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError

from tutti_sim.meta.amounts import amount
from tutti_sim.meta.errors import FieldError, invalid

Text = celtypes.StringType


def _find(text: Any, pattern: Any) -> Any:
    match = re.search(str(pattern), str(text))
    return Text(match[0] if match else "")


def _find_all(text: Any, pattern: Any, limit: Any = -1) -> Any:
    found = [Text(match[0]) for match in re.finditer(str(pattern), str(text))]
    return celtypes.ListType(found if int(limit) < 0 else found[: int(limit)])


def _split(text: Any, mark: Any, limit: Any = -1) -> Any:
    count = int(limit)
    parts = str(text).split(str(mark)) if count < 0 else str(text).split(str(mark), max(count - 1, 0))
    return celtypes.ListType([Text(part) for part in parts])


def _join(items: Any, mark: Any = "") -> Any:
    return Text(str(mark).join(str(item) for item in items))


def _substring(text: Any, start: Any, end: Any = None) -> Any:
    return Text(str(text)[int(start) : None if end is None else int(end)])


def _sorted(items: Any) -> Any:
    values = list(items)
    return celtypes.BoolType(all(left <= right for left, right in itertools.pairwise(values)))


def _sum(items: Any) -> Any:
    total: Any = celtypes.IntType(0)
    for item in items:
        total = total + item
    return total


def _is_url(text: Any) -> Any:
    parts = urlsplit(str(text))
    return celtypes.BoolType(bool(parts.scheme and (parts.netloc or parts.path.startswith("/"))))


def _is_quantity(text: Any) -> Any:
    try:
        amount(str(text))
    except ValueError:
        return celtypes.BoolType(False)
    return celtypes.BoolType(True)


def _compare(left: Any, right: Any) -> Any:
    one, other = amount(str(left)), amount(str(right))
    return celtypes.IntType((one > other) - (one < other))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "find": _find,
    "findAll": _find_all,
    "split": _split,
    "join": _join,
    "substring": _substring,
    "lowerAscii": lambda text: Text(str(text).lower()),
    "upperAscii": lambda text: Text(str(text).upper()),
    "trim": lambda text: Text(str(text).strip()),
    "replace": lambda text, old, new: Text(str(text).replace(str(old), str(new))),
    "indexOf": lambda items, wanted: celtypes.IntType(
        str(items).find(str(wanted))
        if isinstance(items, Text)
        else next((index for index, item in enumerate(items) if item == wanted), -1)
    ),
    "charAt": lambda text, index: Text(str(text)[int(index)]),
    "isSorted": _sorted,
    "sum": _sum,
    "min": min,
    "max": max,
    "url": Text,
    "isURL": _is_url,
    "quantity": Text,
    "isQuantity": _is_quantity,
    "compareTo": _compare,
    "isGreaterThan": lambda left, right: celtypes.BoolType(_compare(left, right) > 0),
    "isLessThan": lambda left, right: celtypes.BoolType(_compare(left, right) < 0),
}

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
        return json_to_cel(_within_64_bits(value))
    return celtypes.StringType(value)


def _within_64_bits(value: Any) -> Any:
    """Read whole numbers that 64 bits do not hold as floating point, as the API server's decoder does (util/json)."""
    if isinstance(value, dict):
        return {key: _within_64_bits(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_within_64_bits(inner) for inner in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(max(-sys.float_info.max, min(sys.float_info.max, value)))
    return value
