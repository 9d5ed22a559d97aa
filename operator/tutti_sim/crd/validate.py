"""Validation of custom resources against their schema, in the words of kube-openapi's validator.

What an update leaves as it was is not held against it (KEP-4008, ratcheting: from 1.30 on): a field of an object, or
of an item of a keyed list, that is equal to what it was; items of other lists only where the whole list is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tutti_sim.crd.cel import ABSENT, counterpart
from tutti_sim.crd.structural import INT_OR_STRING, LIST_KEYS, LIST_TYPE
from tutti_sim.meta import clock
from tutti_sim.meta.errors import FieldError, duplicate, invalid, required, unsupported, wrong_type

Json = dict[str, Any]
Schema = Mapping[str, Any]

JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
FORMATS = {
    "date-time": clock.RFC3339,
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "duration": re.compile(r"([+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w))+|0"),
    "uuid": re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}"),
    "ipv4": re.compile(r"(\d{1,3}\.){3}\d{1,3}"),
    "email": re.compile(r"[^@\s]+@[^@\s]+"),
    "byte": re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"),
}


@lru_cache(maxsize=1024)
def pattern(text: str) -> re.Pattern[str]:
    """A pattern of a schema; the few places where RE2 and Python differ are bridged."""
    ended = re.sub(r"(?<!\\)\$$", r"\\Z", text)  # that of Python is before a last line feed, too
    return re.compile(ended.replace("\\z", "\\Z"), re.ASCII)


def validate(value: Any, schema: Schema, at: str, old: Any = ABSENT) -> list[FieldError]:
    """What is wrong with a value that was not wrong with `old`, which is ABSENT where there is nothing to compare."""
    if old is not ABSENT and value == old:
        return []
    if value is None:
        return [] if schema.get("nullable") else [_type_error(value, schema.get("type", "object"), at)]
    fault = _type(value, schema, at)
    if fault:
        return [fault, *_fraction(value, schema, at), *_enumerated(value, schema, at), *_combined(value, schema, at)]
    errors: list[FieldError] = []
    if isinstance(value, dict):
        errors.extend(_object(value, schema, at, old))
    elif isinstance(value, list):
        errors.extend(_list(value, schema, at, old))
    elif isinstance(value, str):
        errors.extend(_string(value, schema, at))
    elif not isinstance(value, bool):
        errors.extend(_number(value, schema, at))
    errors.extend(_enumerated(value, schema, at))
    errors.extend(_combined(value, schema, at))
    return errors


def _enumerated(value: Any, schema: Schema, at: str) -> list[FieldError]:
    if "enum" not in schema or value in schema["enum"]:
        return []
    return [unsupported(at, value, schema["enum"])]


def _fraction(value: Any, schema: Schema, at: str) -> list[FieldError]:
    """A fraction in place of an integer is said twice, as the original's number check comes on top."""
    if schema.get("type") != "integer" or isinstance(value, bool) or not isinstance(value, int | float):
        return []
    kind = "with format int64" if schema.get("format") == "int64" else "(default format)"
    return [_unplaced(f"Checked value must be of type integer {kind} in {at}")]


def _unplaced(text: str) -> FieldError:
    """A fault that the original tells without the field it is in."""
    return FieldError("FieldValueInvalid", "<nil>", f'Invalid value: "": {text}')


def _type_error(value: Any, wanted: str, at: str) -> FieldError:
    have = JSON_TYPES.get(type(value), "null")
    return wrong_type(at, have, f'{at} in body must be of type {wanted}: "{have}"')


def _type(value: Any, schema: Schema, at: str) -> FieldError | None:
    if schema.get(INT_OR_STRING):
        return None if type(value) in (int, str) else _type_error(value, "integer,string", at)
    wanted = schema.get("type")
    if not wanted:
        return None
    have = JSON_TYPES.get(type(value), "null")
    if wanted == "integer" and schema.get("format") == "int64" and have in ("integer", "number"):
        exact = float(value).is_integer() and -(2**63) <= value < 2**63
        return None if exact else wrong_type(at, "float64", f'{at} in body must be of type int64: "float64"')
    if have == wanted or (wanted == "number" and have == "integer"):
        return None
    if wanted == "integer" and have == "number" and float(value).is_integer():
        return None
    return _type_error(value, wanted, at)


def _object(value: Json, schema: Schema, at: str, old: Any) -> list[FieldError]:
    errors: list[FieldError] = []
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    before = old if isinstance(old, dict) else {}
    errors.extend(required(f"{at}.{name}" if at else name) for name in schema.get("required", ()) if name not in value)
    for key, inner in value.items():
        child = properties.get(key) or (extra if isinstance(extra, dict) else None)
        if child is not None:
            errors.extend(validate(inner, child, f"{at}.{key}" if at else key, before.get(key, ABSENT)))
    if len(value) > schema.get("maxProperties", len(value)):
        text = f"Too many: {len(value)}: must have at most {schema['maxProperties']} items"
        errors.append(FieldError("FieldValueTooMany", at, text))
    if len(value) < schema.get("minProperties", 0):
        errors.append(
            invalid(at, len(value), f"{at} in body should have at least {schema['minProperties']} properties")
        )
    return errors


def _list(value: list[Any], schema: Schema, at: str, old: Any) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(value) > schema.get("maxItems", len(value)):
        text = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
        errors.append(FieldError("FieldValueTooMany", at, text))
    if len(value) < schema.get("minItems", 0):
        errors.append(invalid(at, len(value), f"{at} in body should have at least {schema['minItems']} items"))
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            errors.extend(validate(item, items, f"{at}[{index}]", counterpart(item, old, schema)))
    errors.extend(_unique(value, schema, at))
    return errors


def _unique(value: list[Any], schema: Schema, at: str) -> list[FieldError]:
    kind, keys = schema.get(LIST_TYPE), schema.get(LIST_KEYS) or ()
    if kind not in ("set", "map"):
        return []
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        known = item
        if kind == "map" and not isinstance(item, dict):
            if item is not None:
                errors.append(invalid(f"{at}[{index}]", item, "must be an object for an array of list-type map"))
        elif kind == "map":
            known = {key: item[key] for key in keys if key in item}
        mark = json.dumps(known, sort_keys=True)
        if mark in seen:
            errors.append(duplicate(f"{at}[{index}]", known))
        seen.add(mark)
    return errors


def _string(value: str, schema: Schema, at: str) -> list[FieldError]:
    """The first of length and pattern that is broken, and the format."""
    errors: list[FieldError] = []
    if len(value) > schema.get("maxLength", len(value)):
        text = f"Too long: may not be more than {schema['maxLength']} bytes"
        errors.append(FieldError("FieldValueTooLong", at, text))
    elif len(value) < schema.get("minLength", 0):
        errors.append(invalid(at, value, f"{at} in body should be at least {schema['minLength']} chars long"))
    elif "pattern" in schema and not pattern(schema["pattern"]).search(value):
        errors.append(invalid(at, value, f"{at} in body should match '{schema['pattern']}'"))
    known = FORMATS.get(schema.get("format", ""))
    if known is not None and not known.fullmatch(value):
        errors.append(invalid(at, value, f'{at} in body must be of type {schema["format"]}: "{value}"'))
    return errors


def _number(value: float, schema: Schema, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    high, low, step = schema.get("maximum"), schema.get("minimum"), schema.get("multipleOf")
    if high is not None and (value >= high if schema.get("exclusiveMaximum") else value > high):
        word = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        errors.append(invalid(at, value, f"{at} in body should be {word} {high}"))
    if low is not None and (value <= low if schema.get("exclusiveMinimum") else value < low):
        word = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        errors.append(invalid(at, value, f"{at} in body should be {word} {low}"))
    if step and value % step:
        errors.append(invalid(at, value, f"{at} in body should be a multiple of {step}"))
    return errors


def _combined(value: Any, schema: Schema, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for part in schema.get("allOf") or ():
        errors.extend(validate(value, part, at))
    if schema.get("anyOf") and not any(not validate(value, part, at) for part in schema["anyOf"]):
        errors.append(_unplaced(f'"{at}" must validate at least one schema (anyOf)'))
        errors.extend(validate(value, schema["anyOf"][0], at))
    if schema.get("oneOf"):
        matching = sum(1 for part in schema["oneOf"] if not validate(value, part, at))
        if matching != 1:
            found = "Found none valid" if matching == 0 else f"Found {matching} valid alternatives"
            errors.append(_unplaced(f'"{at}" must validate one and only one schema (oneOf). {found}'))
            if not matching:
                errors.extend(validate(value, schema["oneOf"][0], at))
    if schema.get("not") and not validate(value, schema["not"], at):
        errors.append(_unplaced(f'"{at}" must not validate the schema (not)'))
    return errors
