"""Selectors: of labels, and of the few fields that a kind lets one select by.

Label selectors are text (`a=b,c in (d)`) or objects (`matchLabels`, `matchExpressions`), field selectors text
(`spec.nodeName=,status.phase!=Failed`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tutti_sim.meta import numbers
from tutti_sim.meta.errors import bad_request
from tutti_sim.meta.names import label_value, qualified_faults

Labels = Mapping[str, str]
Predicate = Callable[[Labels], bool]


def parse_selector(text: str) -> Predicate | None:
    """A predicate over labels; None where every object matches. ApiError 400 when the text is malformed."""
    text = text.strip(_BLANKS)
    return _parse(text) if text else None


@lru_cache(maxsize=1024)
def _parse(text: str) -> Predicate:
    tests = tuple(_Parser(text).requirements())
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


# What is neither blank nor a mark is part of a word, and so every text without blanks at its end is all tokens.
_BLANKS = " \t\r\n"
_TOKEN = re.compile(r"[ \t\r\n]*(!=|==|[=!(),<>]|[^ \t\r\n=!(),<>]+)")
_SPECIAL = frozenset(("", "=", "==", "!=", "!", "(", ")", ",", "<", ">"))
_OPERATORS = frozenset(("in", "notin", "=", "==", "!=", "<", ">"))


class _Parser:
    """Reads requirements one after another, and refuses text in the words of apimachinery's labels.Parser."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = _TOKEN.findall(text)
        self._at = 0

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._next
        self._at += 1
        return token

    def requirements(self) -> list[Predicate]:
        """All of them."""
        found: list[Predicate] = []
        while self._next != "":
            if self._next in _SPECIAL and self._next != "!":
                raise bad_request(f"found '{self._next}', expected: !, identifier, or 'end of string'")
            found.append(self._requirement())
            mark = self._take()
            if mark not in ("", ","):
                raise bad_request(f"found '{mark}', expected: ',' or 'end of string'")
            if mark and self._next in _SPECIAL and self._next != "!":
                raise bad_request(f"found '{self._next}', expected: identifier after ','")
        return found

    def _requirement(self) -> Predicate:
        absent = self._next == "!"
        if absent:
            self._take()
        key = self._take()
        if key in _SPECIAL:
            raise _malformed(f"found '{key}', expected: identifier")
        _check_key(key)
        if absent:
            return lambda labels: key not in labels
        if self._next in ("", ","):
            return lambda labels: key in labels
        operator = self._take()
        if operator not in _OPERATORS:
            raise _malformed(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if operator in ("in", "notin") else [self._exact()]
        return _compared(key, operator, sorted(set(values)))

    def _exact(self) -> str:
        if self._next in ("", ","):
            return ""
        value = self._take()
        if value in _SPECIAL:
            raise _malformed(f"found '{value}', expected: identifier")
        return value

    def _values(self) -> list[str]:
        mark = self._take()
        if mark != "(":
            raise _malformed(f"found '{mark}' expected: '('")
        if self._next == ")":
            self._take()
            return [""]
        if self._next in _SPECIAL and self._next != ",":
            raise _malformed(f"found '{self._next}', expected: ',', ')' or identifier")
        values: list[str] = []
        while True:
            token = self._take()
            if token == ",":  # noqa: S105 - a token of the grammar
                if not values or self._next == ",":
                    values.append("")
                if self._next == ",":
                    self._take()
            elif token in _SPECIAL:
                raise _malformed(f"found '{token}', expected: ',', or identifier")
            else:
                values.append(token)
                if self._next not in (",", ")"):
                    raise _malformed(f"found '{self._next}', expected: ',' or ')'")
            if self._next == ")":
                self._take()
                return [*values, ""] if token == "," else values  # noqa: S105


def _malformed(detail: str) -> Exception:
    return bad_request(f"unable to parse requirement: {detail}")


def _check_key(key: str) -> None:
    if faults := qualified_faults(key):
        raise _malformed(f'<nil>: Invalid value: "{key}": {"; ".join(faults)}')


def _compared(key: str, operator: str, values: list[str]) -> Predicate:
    """A requirement that compares; refuses values that no label can have."""
    errors = []
    numeric = operator in ("<", ">")
    for index, value in enumerate(values):
        if numeric and not _is_integer(value):
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            errors.append(f'values[{index}]: Invalid value: "{value}": {text}')
    for index, value in enumerate(values):
        if fault := label_value(value):
            errors.append(f'values[{index}][{key}]: Invalid value: "{value}": {fault}')
    if errors:
        raise _malformed(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    if numeric:
        return _numeric(key, operator, numbers.integer(values[0]))
    chosen = frozenset(values)
    if operator in ("notin", "!="):
        return lambda labels: labels.get(key) not in chosen
    return lambda labels: labels.get(key) in chosen


def _is_integer(value: str) -> bool:
    try:
        numbers.integer(value)
    except ValueError:
        return False
    return True


def _numeric(key: str, operator: str, limit: int) -> Predicate:
    def holds(labels: Labels) -> bool:
        try:
            number = numbers.integer(labels.get(key, ""))
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


def selector_text(selector: Mapping[str, Any] | None) -> str:
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


Obj = Mapping[str, Any]
FieldPredicate = Callable[[Obj], bool]
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
    for part in _split_terms(text):
        match = _TERM.search(part)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        value = _unescaped(part[match.end() :])
        name = part[: match.start()]
        if name or value:
            found.append((name, "!=" if match[0] == "!=" else "=", value))
    return found


_TERM = re.compile("!=|==|=")


def _split_terms(text: str) -> list[str]:
    parts, current, escaped = [], "", False
    for char in text:
        if char == "," and not escaped:
            parts.append(current)
            current = ""
        else:
            current += char
        escaped = char == "\\" and not escaped
    return [part for part in [*parts, current] if part]


def _unescaped(value: str) -> str:
    """The value that was meant: commas, equal signs and backslashes are written after a backslash."""
    found, escaped = "", False
    for char in value:
        if escaped and char not in "\\,=":
            raise bad_request(f"invalid field selector: invalid escape sequence: \\{char}")
        if not escaped and char in ",=":
            raise bad_request(f"invalid field selector: unescaped character in value: {ord(char)}")
        escaped = char == "\\" and not escaped
        if not escaped:
            found += char
    if escaped:
        raise bad_request("invalid field selector: invalid escape sequence: \\")
    return found


def compile_terms(wanted: list[tuple[str, str, str]], known: Mapping[str, Getter], *, plain: bool) -> FieldPredicate:
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
