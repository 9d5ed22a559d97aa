"""What is refused, and what is warned of, when an object of ours is written.

Refused is what can never be right: a spec that cannot be read, a ring of cohorts. A name that nothing bears yet is
only warned of, because objects may be created in any order and heal when the missing one appears; so is quota that is
made less than what is in use, because what runs is not taken out for that.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tutti.api import quantity
from tutti.api.kinds import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    Object,
    ObjectError,
    PodGroup,
    ResourceFlavor,
    Workload,
    parse_object,
)
from tutti.api.problems import FieldProblem
from tutti.api.quantity import Percentage
from tutti.controller.references import KindKey, Raw, References, active_condition, parents_of_cohorts, text_at
from tutti.engine.reading.quota_windows import read_windows
from tutti.quota.flavors import QuotaProblem
from tutti.quota.references import is_own_ancestor, misplaced_cohorts

# Reasons that say what an administrator has chosen, not what he may have overlooked.
_INTENDED = ("Stopped", "Terminating")
_WAITS = "it waits until that is created"
_INACTIVE = "it stays inactive until that is created"
_BY_PODS = "until that is created, its priority is that of its pods"


class Classes(Protocol):
    """Who knows classes of priority, and what each is worth."""

    def workload_class(self, name: str) -> int | None:
        """Return the value of a WorkloadPriorityClass, or None where there is none of that name."""

    def priority_class_value(self, name: str) -> int | None:
        """Return the value of a PriorityClass, or None where there is none of that name."""


@dataclass(frozen=True, slots=True)
class Review:
    """What is to be said about a write: it is refused if there are problems."""

    problems: list[FieldProblem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class NameReference(NamedTuple):
    """A name that an object gives: where, of what, and what becomes of the object while nothing bears it."""

    path: str
    of: KindKey
    meanwhile: str


def review(kind: str, raw: Raw, old: Raw | None, specs: References, *, classes: Classes) -> Review:
    """Review the creation of an object, or its change from `old`, among the others as they are known.

    An object whose spec stays as it is, or that is being deleted, is never refused: it is stored already, and whoever
    removes a finalizer from it must not have to mend it first.
    """
    if text_at(raw, "metadata", "deletionTimestamp") or (old is not None and old.get("spec") == raw.get("spec")):
        return Review()
    try:
        found = parse_object(kind, raw)
    except ObjectError as error:
        return Review(problems=error.problems)
    name = text_at(raw, "metadata", "name")
    written = specs.with_object(kind, raw)
    if kind == "Cohort":
        problem = _misplaced(name, parents_of_cohorts(written))
        if problem is not None:
            return Review(problems=[FieldProblem("spec.parentName", problem.message)])
    warnings = [_missing(one, specs) for one in references_of(found) if not _is_there(one.of, specs, classes)]
    warnings = warnings or list(_unusable((kind, text_at(raw, "metadata", "namespace"), name), written))
    if isinstance(found, ClusterQueue | Cohort):
        warnings += [f"spec.temporaryQuotas: {wrong}" for wrong in read_windows(found)[1]]
    if old is not None and isinstance(found, ClusterQueue):
        warnings += list(shrunk(found, old))
    return Review(warnings=warnings)


def _misplaced(cohort: str, parents: Mapping[str, str]) -> QuotaProblem | None:
    """Return what is wrong with the place of a cohort by its own parentName: who is below a ring cannot mend that."""
    problem = misplaced_cohorts(parents).get(cohort)
    if problem is not None and problem.reason == "CohortRing" and not is_own_ancestor(cohort, parents):
        return None
    return problem


def references_of(found: Object) -> Iterator[NameReference]:
    """Yield every name of another object that an object gives."""
    namespace = found.metadata.namespace
    match found:
        case Workload(spec=spec):
            if spec.queue_name:
                yield NameReference("spec.queueName", ("LocalQueue", namespace, spec.queue_name), _WAITS)
            if spec.priority_class_ref is not None:
                ref = spec.priority_class_ref
                yield NameReference("spec.priorityClassRef.name", (ref.kind, "", ref.name), _BY_PODS)
        case PodGroup(spec=spec):
            if spec.queue_name:
                yield NameReference("spec.queueName", ("LocalQueue", namespace, spec.queue_name), _WAITS)
        case LocalQueue(spec=spec):
            yield NameReference("spec.clusterQueue", ("ClusterQueue", "", spec.cluster_queue), _INACTIVE)
        case ClusterQueue(spec=spec) | Cohort(spec=spec):
            for number, group in enumerate(spec.resource_groups):
                for at, flavor in enumerate(group.flavors):
                    path = f"spec.resourceGroups[{number}].flavors[{at}].name"
                    yield NameReference(path, ("ResourceFlavor", "", flavor.name), _INACTIVE)
        case ResourceFlavor(spec=spec):
            if spec.topology_name:
                yield NameReference("spec.topologyName", ("Topology", "", spec.topology_name), _INACTIVE)
        case _:
            pass  # Topologies and classes name nothing


def _is_there(key: KindKey, specs: References, classes: Classes) -> bool:
    kind, namespace, name = key
    match kind:
        case "WorkloadPriorityClass":
            return classes.workload_class(name) is not None
        case "PriorityClass":
            return classes.priority_class_value(name) is not None
        case _:
            return name in _names(kind, namespace, specs)


def _names(kind: str, namespace: str, specs: References) -> list[str]:
    """Return the names that objects of a kind have."""
    tables: Mapping[str, Iterable[str]] = {
        "Topology": specs.topologies,
        "ResourceFlavor": specs.flavors,
        "ClusterQueue": specs.cluster_queues,
        "LocalQueue": (name for where, name in specs.local_queues if where == namespace),
    }
    return list(tables.get(kind, ()))


def _missing(one: NameReference, specs: References) -> str:
    kind, namespace, name = one.of
    whole = f"{namespace}/{name}" if namespace else name
    near = difflib.get_close_matches(name, _names(kind, namespace, specs), n=1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    return f"{one.path}: {kind} {whole} does not exist{meant}; {one.meanwhile}"


def _unusable(key: KindKey, specs: References) -> Iterator[str]:
    """Yield why an object all of whose names are borne cannot be used nevertheless."""
    verdict = active_condition(key, specs)
    if verdict is not None and not verdict.active and verdict.reason not in _INTENDED:
        yield f"{verdict.message}; it stays inactive until then"


def shrunk(found: ClusterQueue, old: Raw) -> Iterator[str]:
    """Yield what is to be said where a ClusterQueue is given less than is in use by its status."""
    try:
        before = parse_object("ClusterQueue", old)
    except ObjectError:
        return  # what it gave cannot be told
    assert isinstance(before, ClusterQueue)  # by its kind
    had, gives = _nominal(before), _nominal(found)
    for (flavor, resource), used in _used(before).items():
        path, what = _path(found, flavor, resource), f"{quantity.shortest(used)} {resource} of flavor {flavor}"
        left = gives.get((flavor, resource), 0)
        if (flavor, resource) not in gives:
            yield f"{path}: {what} are in use, and are not listed any more; what runs goes on without quota"
        elif left is not None and left < used and left < (had.get((flavor, resource)) or used):
            rest = "the rest counts as borrowed, and others may take it back" if found.spec.cohort_name else _NOBODY
            less = f"{quantity.shortest(left)} is less than the {what} that are in use"
            yield f"{path}: {less}; what runs goes on, {rest}"


_NOBODY = "and nothing is admitted before enough of it has ended"


def _nominal(found: ClusterQueue) -> dict[tuple[str, str], int | None]:
    """Return the nominal quota of each flavor and resource, in milli-units; None for a part of what nodes offer."""
    return {
        (flavor.name, one.name): None if isinstance(one.nominal_quota, Percentage) else one.nominal_quota
        for group in found.spec.resource_groups
        for flavor in group.flavors
        for one in flavor.resources
    }


def _used(found: ClusterQueue) -> dict[tuple[str, str], int]:
    """Return what is in use by the status of a queue, in milli-units."""
    return {
        (flavor.name, one.name): quantity.parse_quantity(one.total)
        for flavor in found.status.flavors_reservation
        for one in flavor.resources
        if quantity.parse_quantity(one.total)
    }


def _path(found: ClusterQueue, flavor: str, resource: str) -> str:
    """Return where the quota of a flavor and resource stands; where it stands nowhere, all of them."""
    for number, group in enumerate(found.spec.resource_groups):
        for at, quotas in enumerate(group.flavors):
            for index, one in enumerate(quotas.resources):
                if (quotas.name, one.name) == (flavor, resource):
                    return f"spec.resourceGroups[{number}].flavors[{at}].resources[{index}].nominalQuota"
    return "spec.resourceGroups"
