"""What a configuration that is applied may hold: only fields that its schema declares, each of its type.

Server-side apply reads a configuration by its schema before anything else is looked at, and says what does not fit in
words of its own (structured-merge-diff, typed/validate.go).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from tutti_sim.meta.errors import ApiError, internal
from tutti_sim.meta.gotext import go_syntax, go_text, go_type_name

_encode_key = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared of a place.

    Attributes:
        kind: `map`, `list`, `string`, `number`, `boolean`, `scalar` (any of these three), or `any`.
        child: what is declared of a field; None where it is not declared.
        item: what is declared of the items of a list.
        keys: the fields by which the items of a list are told apart.
        defaults: values of those where an item does not say.
        unique: whether the items are a set.
    """

    kind: str
    child: Callable[[str], Declared | None] | None = None
    item: Callable[[], Declared] | None = None
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    unique: bool = False


ANY: Final = Declared("any")


def check(config: Any, declared: Declared, what: str) -> None:
    """ApiError 500 where a configuration holds what is not declared; `what` names the object."""
    faults = _faults(config, declared, "")
    if faults:
        raise refused(faults, what)


def refused(faults: list[str], what: str) -> ApiError:
    """The answer to a configuration that does not fit."""
    text = faults[0] if len(faults) == 1 else "\n  ".join(["errors:", *faults])
    return internal(f"failed to create typed patch object ({what}): {text}", reason="")


def _faults(value: Any, declared: Declared, at: str) -> list[str]:
    if value is None or declared.kind == "any":
        return []
    if declared.kind == "map":
        return _map_faults(value, declared, at)
    if declared.kind == "list":
        return _list_faults(value, declared, at)
    fault = _scalar_fault(value, declared.kind)
    return [_said(at, fault)] if fault else []


def _said(at: str, fault: str) -> str:
    return f"{at}: {fault}" if at else fault


def _map_faults(value: Any, declared: Declared, at: str) -> list[str]:
    if not isinstance(value, dict):
        return [_said(at, f"expected map, got &{{{go_text(value)}}}")]
    if declared.child is None:
        return []
    found: list[str] = []
    for key, inner in value.items():
        child = declared.child(key)
        if child is None:
            found.append(f"{at}.{key}: field not declared in schema")
        else:
            found.extend(_faults(inner, child, f"{at}.{key}"))
    return found


def _list_faults(value: Any, declared: Declared, at: str) -> list[str]:
    if not isinstance(value, list):
        return [_said(at, f"expected list, got &{{{go_text(value)}}}")]
    item = declared.item() if declared.item is not None else ANY
    found: list[str] = []
    seen: set[str] = set()
    for index, one in enumerate(value):
        step = f"[{index}]"
        if declared.keys or declared.unique:
            fault, step = _step(one, declared)
            if fault:
                found.append(_said(at, f"element {index}: {fault}"))
                break
            if step in seen:
                found.append(_said(at, f"duplicate entries for key {step}"))
            seen.add(step)
        found.extend(_faults(one, item, at + step))
    return found


def _step(item: Any, declared: Declared) -> tuple[str, str]:
    """What keeps an item from being told apart, and how it is told."""
    if declared.unique:
        if isinstance(item, dict | list):
            return "associative list without keys has an element that's a " + (
                "map type" if isinstance(item, dict) else "list type"
            ), ""
        return "", f"[={_encode_key(item).decode()}]"
    if item is None:
        return "associative list with keys may not have a null element", ""
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements", ""
    parts = []
    for key in sorted(declared.keys):
        value = item.get(key, declared.defaults.get(key))
        if value is None:
            missing = f"has an element that omits key field {_encode_key(key).decode()}"
            return f"associative list with keys {missing} (and doesn't have default value)", ""
        parts.append(f"{key}={_encode_key(value).decode()}")
    return "", f"[{','.join(parts)}]"


def _scalar_fault(value: Any, kind: str) -> str:
    if kind == "number":
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        return "" if numeric else f"expected numeric (int or float), got {go_type_name(value)}"
    if kind == "string":
        got = f"&value.valueUnstructured{{Value:{go_syntax(value)}}}"
        return "" if isinstance(value, str) else f"expected string, got {got}"
    if kind == "boolean":
        return "" if isinstance(value, bool) else f"expected boolean, got &{{{go_text(value)}}}"
    return f"expected any scalar, got &{{{go_text(value)}}}" if isinstance(value, dict | list) else ""
