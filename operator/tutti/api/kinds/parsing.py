"""Reads one object of ours, whoever wrote it and whatever is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tutti.api.kinds.cluster_queue import ClusterQueue
from tutti.api.kinds.cohort import Cohort
from tutti.api.kinds.local_queue import LocalQueue
from tutti.api.kinds.pod_group import PodGroup
from tutti.api.kinds.resource_flavor import ResourceFlavor
from tutti.api.kinds.topology import Topology
from tutti.api.kinds.unsupported import unsupported_in
from tutti.api.kinds.workload import Workload
from tutti.api.kinds.workload_priority_class import WorkloadPriorityClass
from tutti.api.lengths import listed
from tutti.api.problems import Problem, nearest, problems_of

if TYPE_CHECKING:
    from tutti.api.kinds.frame import Object

KINDS: Mapping[str, type[Object]] = {
    kind.KIND: kind
    for kind in (
        ResourceFlavor,
        Topology,
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

    def __init__(self, kind: str, namespace: str, name: str, problems: list[Problem]) -> None:
        where = f"{namespace}/{name}" if namespace else name
        super().__init__(f"{kind} {where}: " + listed(problems))
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
        raise ObjectError(kind, namespace, name, [Problem("kind", f"there is no such kind; {nearest(kind, [*KINDS])}")])
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
