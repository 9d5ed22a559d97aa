"""Field selectors: `spec.nodeName=,status.phase!=Failed` over the few fields a kind lets one select by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tutti_sim.meta.errors import bad_request

Obj = Mapping[str, Any]
Predicate = Callable[[Obj], bool]
Getter = Callable[[Obj], str]


def path(dotted: str) -> Getter:
    """A getter for a dotted path; absent values read as the empty string, booleans as true and false."""
    *parents, last = dotted.split(".")

    def get(obj: Obj) -> str:
        node: Any = obj
        for parent in parents:
            node = node.get(parent)
            if not node:
                return ""
        return text(node.get(last))

    return get


def text(value: Any) -> str:
    """A field's value as selectors compare it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def flag(dotted: str) -> Getter:
    """A getter for a boolean that reads `false` where it is absent."""
    inner = path(dotted)
    return lambda obj: inner(obj) or "false"


METADATA: Mapping[str, Getter] = {
    "metadata.name": path("metadata.name"),
    "metadata.namespace": path("metadata.namespace"),
}


def terms(text: str) -> list[tuple[str, str, str]]:
    """The terms of a selector as (field, operator, value); ApiError 400 when it is malformed."""
    found = []
    for part in _split(text):
        for operator in ("!=", "==", "="):
            name, mark, value = part.partition(operator)
            if mark:
                found.append((name, "!=" if operator == "!=" else "=", _unescape(value)))
                break
        else:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
    return found


def _split(text: str) -> list[str]:
    parts, current, escaped = [], "", False
    for char in text:
        if char == "," and not escaped:
            parts.append(current)
            current = ""
        else:
            current += char
        escaped = char == "\\" and not escaped
    return [part for part in [*parts, current] if part]


def _unescape(value: str) -> str:
    return value.replace("\\,", ",").replace("\\=", "=").replace("\\\\", "\\")


def compile_terms(wanted: list[tuple[str, str, str]], known: Mapping[str, Getter], *, plain: bool) -> Predicate:
    """A predicate for terms.

    `plain` says that the kind only knows name and namespace, which changes the words of the refusal.
    """
    tests: list[tuple[Getter, bool, str]] = []
    for name, operator, value in wanted:
        getter = known.get(name)
        if getter is None:
            if plain:
                raise bad_request(f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"')
            raise bad_request(f"field label not supported: {name}")
        tests.append((getter, operator == "=", value))

    def holds(obj: Obj) -> bool:
        return all((getter(obj) == value) is equal for getter, equal, value in tests)

    return holds
