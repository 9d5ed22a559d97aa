"""Values as Go writes them into texts for people (package fmt)."""

from __future__ import annotations

from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


def go_text(value: Any) -> str:
    """A value as `%v` writes it."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    return str(value)


def go_kind(value: Any) -> str:
    """What Go calls the kind of a value that was read from JSON."""
    kinds = {str: "string", bool: "bool", dict: "map", list: "slice", float: "float64", type(None): "invalid"}
    return kinds.get(type(value), "int64")


def go_type_name(value: Any) -> str:
    """What Go calls the type of a value that was read from JSON."""
    names = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}"}
    return names.get(type(value), "int64")


def go_syntax(value: Any) -> str:
    """A value as `%#v` writes it, with its type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inner = ", ".join(f'"{key}":{go_syntax(value[key])}' for key in sorted(value))
        return f"{go_type_name(value)}{{{inner}}}"
    if isinstance(value, list):
        return f"{go_type_name(value)}{{{', '.join(map(go_syntax, value))}}}"
    return _encode(value).decode()
