"""Reads one object of ours, whoever wrote it and whatever is wrong with it.

Fields that are understood but do nothing yet stand in one table: the CRDs refuse them with CEL generated from it, and
`parse_object` refuses them the same way, so that a manifest never gets less than it asks for without being told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from tutti.api.kinds.checks import AdmissionCheck
from tutti.api.kinds.cohort import Cohort
from tutti.api.kinds.flavors import ResourceFlavor, Topology
from tutti.api.kinds.pod_group import PodGroup
from tutti.api.kinds.queues import ClusterQueue, LocalQueue
from tutti.api.kinds.workload import Workload, WorkloadPriorityClass
from tutti.api.messages import join_listed
from tutti.api.problems import FieldProblem, nearest, problems_of

if TYPE_CHECKING:
    from tutti.api.model import Object


KINDS: Mapping[str, type[Object]] = {
    kind.KIND: kind
    for kind in (
        ResourceFlavor,
        Topology,
        AdmissionCheck,
        ClusterQueue,
        Cohort,
        LocalQueue,
        WorkloadPriorityClass,
        Workload,
        PodGroup,
    )
}
"""All kinds of ours, by name."""


class ObjectError(ValueError):
    """An object that cannot be used; `problems` say where and what would be right."""

    def __init__(self, kind: str, namespace: str, name: str, problems: list[FieldProblem]) -> None:
        where = f"{namespace}/{name}" if namespace else name
        super().__init__(f"{kind} {where}: " + join_listed(problems))
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.problems = problems


def parse_object(kind: str, raw: Mapping[str, Any]) -> Object:
    """The object, checked in full; nulls count as left out, as the API server takes them.

    Raises:
        ObjectError: anything is wrong with it, or it asks for something that is not supported yet.
    """
    metadata = raw.get("metadata")
    named = metadata if isinstance(metadata, Mapping) else {}
    namespace, name = str(named.get("namespace", "")), str(named.get("name", ""))
    if kind not in KINDS:
        raise ObjectError(
            kind, namespace, name, [FieldProblem("kind", f"there is no such kind; {nearest(kind, [*KINDS])}")]
        )
    model = KINDS[kind]
    given = without_nulls(raw)
    try:
        parsed = model.model_validate(given)
    except ValidationError as error:
        raise ObjectError(kind, namespace, name, problems_of(error, model)) from error
    unsupported = unsupported_in(kind, given.get("spec", {}))
    if unsupported:
        raise ObjectError(kind, namespace, name, unsupported)
    return parsed


def without_nulls(value: Any) -> Any:
    """A JSON value without the fields that are null."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


class UnsupportedField(NamedTuple):
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

    def problems(self, spec: Mapping[str, Any]) -> list[FieldProblem]:
        """Where a spec, as JSON, uses the field."""
        return [
            FieldProblem(place, f"{self.message} (it is {value!r})" if self.fine else self.message)
            for place, value in _values(spec, self.path.split("."), "spec")
            if value not in self.fine
        ]


def _absent(what: str, path: str) -> str:
    return f"{what} is not supported yet: leave {path} out"


UNSUPPORTED: tuple[UnsupportedField, ...] = (
    UnsupportedField(
        "ClusterQueue",
        "concurrentAdmissionPolicy",
        (),
        _absent("waiting for several flavors at once", "concurrentAdmissionPolicy"),
    ),
    UnsupportedField("LocalQueue", "wallTimePolicy", (), _absent("a limit on wall time", "wallTimePolicy")),
)


def unsupported_in(kind: str, spec: Mapping[str, Any]) -> list[FieldProblem]:
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
