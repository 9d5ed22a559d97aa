"""Fields that are understood but do nothing yet: the one table of what is refused until its behaviour exists.

The CRDs refuse them with CEL generated from this table, and `parse_object` refuses them the same way, so that a
manifest never gets less than it asks for without being told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tutti.api.problems import Problem


class Unsupported(NamedTuple):
    """A field of a kind's spec; `[]` in its path goes into each item of a list.

    `fine` are the values that ask for nothing beyond what is there (none: the field must be left out).
    """

    kind: str
    path: str
    fine: tuple[str | int | bool, ...]
    message: str

    def to_cel(self) -> str:
        """The CEL rule, on the kind's spec, that refuses every other value."""
        return _cel("self", self.path.split("."), self.fine)

    def problems(self, spec: Mapping[str, Any]) -> list[Problem]:
        """Where a spec, as JSON, uses the field."""
        return [
            Problem(place, f"{self.message} (it is {value!r})" if self.fine else self.message)
            for place, value in _values(spec, self.path.split("."), "spec")
            if value not in self.fine
        ]


def _absent(what: str, path: str) -> str:
    return f"{what} is not supported yet: leave {path} out"


UNSUPPORTED: tuple[Unsupported, ...] = (
    Unsupported(
        "ClusterQueue",
        "admissionChecksStrategy",
        (),
        _absent("waiting for admission checks", "admissionChecksStrategy"),
    ),
    Unsupported(
        "ClusterQueue",
        "concurrentAdmissionPolicy",
        (),
        _absent("waiting for several flavors at once", "concurrentAdmissionPolicy"),
    ),
    Unsupported("LocalQueue", "wallTimePolicy", (), _absent("a limit on wall time", "wallTimePolicy")),
)


def unsupported_in(kind: str, spec: Mapping[str, Any]) -> list[Problem]:
    """Every use of an unsupported field in the spec of a kind."""
    return [problem for entry in UNSUPPORTED if entry.kind == kind for problem in entry.problems(spec)]


def _cel(parent: str, parts: list[str], fine: tuple[str | int | bool, ...]) -> str:
    head, rest = parts[0], parts[1:]
    if head.endswith("[]"):
        field = f"{parent}.{head[:-2]}"
        return f"!has({field}) || {field}.all(item, {_cel('item', rest, fine)})"
    field = f"{parent}.{head}"
    if rest:
        return f"!has({field}) || {_cel(field, rest, fine)}"
    if len({type(value) for value in fine}) > 1:
        # A quantity may be a number or text, and not every implementation of CEL compares the two.
        return " || ".join([f"!has({field})", *sorted({f"string({field}) == '{value}'" for value in fine})])
    return " || ".join([f"!has({field})", *(f"{field} == {_literal(value)}" for value in fine)])


def _literal(value: str | int | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _values(value: Any, parts: list[str], place: str) -> list[tuple[str, Any]]:
    """The values at a path, with where they stand; whatever has not the shape of the path is left to the schema."""
    if not isinstance(value, Mapping):
        return []
    head, rest = parts[0], parts[1:]
    if head.endswith("[]"):
        items = value.get(head[:-2])
        return [
            found
            for index, item in enumerate(items if isinstance(items, list) else [])
            for found in _values(item, rest, f"{place}.{head[:-2]}[{index}]")
        ]
    if value.get(head) is None:
        return []
    place = f"{place}.{head}"
    return _values(value[head], rest, place) if rest else [(place, value[head])]
