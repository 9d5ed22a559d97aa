"""Label selectors, as text (`a=b,c in (d)`) and as objects (`matchLabels`, `matchExpressions`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tutti_sim.meta.errors import bad_request
from tutti_sim.meta.names import label_value, qualified

Labels = Mapping[str, str]
Predicate = Callable[[Labels], bool]

TOKEN = re.compile(r"\s*(==|!=|=|\(|\)|,|!|<|>|[^\s=!(),<>]+)")


def parse(text: str) -> Predicate | None:
    """A predicate over labels; None where every object matches. ApiError 400 when the text is malformed."""
    return _parse(text) if text and not text.isspace() else None


@lru_cache(maxsize=1024)
def _parse(text: str) -> Predicate:
    tests = tuple(_requirement(part) for part in _split(text))
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


def _split(text: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    depth = position = 0
    stripped = text.rstrip()
    while position < len(stripped):
        match = TOKEN.match(stripped, position)
        if not match:
            raise _malformed(f"found '{stripped[position:]}', expected: identifier")
        token = match[1]
        position = match.end()
        depth += (token == "(") - (token == ")")  # noqa: S105 - a token of the grammar
        if token == "," and depth == 0:  # noqa: S105 - as above
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _malformed(detail: str) -> Exception:
    return bad_request(f"unable to parse requirement: {detail}")


def _requirement(tokens: list[str]) -> Predicate:
    match tokens:
        case ["!", key] if _key(key):
            return lambda labels: key not in labels
        case [key] if _key(key):
            return lambda labels: key in labels
        case [key, "=" | "==", *rest] if _key(key) and len(rest) <= 1:
            wanted = _value("".join(rest))
            return lambda labels: labels.get(key) == wanted
        case [key, "!=", *rest] if _key(key) and len(rest) <= 1:
            unwanted = _value("".join(rest))
            return lambda labels: labels.get(key) != unwanted
        case [key, "in" | "notin" as operator, "(", *rest, ")"] if _key(key):
            values = frozenset(_values(rest))
            if operator == "in":
                return lambda labels: labels.get(key) in values if key in labels else False
            return lambda labels: labels.get(key) not in values
        case [key, "<" | ">" as operator, bound] if _key(key):
            return _numeric(key, operator, bound)
    raise _malformed(f"found '{' '.join(tokens)}', expected: a label selector such as 'key=value' or 'key in (a,b)'")


def _values(tokens: list[str]) -> list[str]:
    if "(" in tokens or ")" in tokens:
        raise _malformed("found '(', expected: ',', or ')'")
    return [_value(part.strip()) for part in " ".join(tokens).split(",")]


def _key(key: str) -> bool:
    fault = qualified(key)
    if fault:
        raise _malformed(f'<nil>: Invalid value: "{key}": {fault}')
    return True


def _value(value: str) -> str:
    fault = label_value(value)
    if fault:
        raise _malformed(f'values[0][]: Invalid value: "{value}": {fault}')
    return value


def _numeric(key: str, operator: str, bound: str) -> Predicate:
    try:
        limit = int(bound)
    except ValueError:
        raise _malformed(
            f"values[0]: Invalid value: \"{bound}\": for 'Gt', 'Lt' operators, the value must be an integer"
        ) from None

    def holds(labels: Labels) -> bool:
        try:
            number = int(labels.get(key, ""))
        except ValueError:
            return False
        return number > limit if operator == ">" else number < limit

    return holds


def from_object(selector: Mapping[str, Any] | None) -> Predicate:
    """A predicate from a LabelSelector object; nothing selects nothing, an empty one everything."""
    if selector is None:
        return lambda _: False
    tests = [_equal(key, value) for key, value in (selector.get("matchLabels") or {}).items()]
    tests.extend(_expression(expression) for expression in selector.get("matchExpressions") or ())
    return lambda labels: all(test(labels) for test in tests)


def _equal(key: str, value: str) -> Predicate:
    return lambda labels: labels.get(key) == value


def _expression(expression: Mapping[str, Any]) -> Predicate:
    key, values = expression.get("key", ""), frozenset(expression.get("values") or ())
    match expression.get("operator"):
        case "In":
            return lambda labels: labels.get(key) in values
        case "NotIn":
            return lambda labels: labels.get(key) not in values
        case "Exists":
            return lambda labels: key in labels
        case _:
            return lambda labels: key not in labels


def written(selector: Mapping[str, Any] | None) -> str:
    """A LabelSelector object as text."""
    if not selector:
        return ""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression.get("key", ""), ",".join(sorted(expression.get("values") or ()))
        match expression.get("operator"):
            case "In":
                parts.append(f"{key} in ({values})")
            case "NotIn":
                parts.append(f"{key} notin ({values})")
            case "Exists":
                parts.append(key)
            case _:
                parts.append(f"!{key}")
    return ",".join(parts)
