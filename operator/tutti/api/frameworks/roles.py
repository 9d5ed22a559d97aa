"""The roles of an object of a known kind: how many pods each has, from when on, and the templates of these.

Read by the description of the kind; what is wrong is said to the reader, as a problem of the object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import structs

from tutti.api.conventions.membership import quoted
from tutti.api.framework_kind import MOST_ROLES, AmountField, FrameworkKind, RoleDescription
from tutti.api.frameworks.fields import MOST_COUNT, FieldReader, holds
from tutti.api.frameworks.kinds import GANG_ANNOTATION, GROUP_KEYS
from tutti.api.frameworks.records import After, OwnerRole
from tutti.api.model import LABEL_PATTERN
from tutti.api.problems import FieldProblem
from tutti.api.templates import MOST_BYTES, TOO_LARGE, pruned

MOST_EARLIER: Final = 64
"""Entries of one list of roles that must be there before another."""
DEEPEST_TEMPLATE: Final = 64
"""How deep a pod template may be nested; one that asks for all there is to ask for has about 16 levels."""
_LABEL = re.compile(LABEL_PATTERN)


class PlacedRole(NamedTuple):
    """A role, and the steps to its pod template in the object; none where it has no template."""

    role: OwnerRole
    template: tuple[str | int, ...]


def placed_roles(raw: Mapping[str, Any], kind: FrameworkKind) -> tuple[list[PlacedRole], list[FieldProblem]]:
    """Return the roles of an object in the order in which they stand, with their templates, and what is wrong."""
    top = FieldReader(raw)
    return list(roles_of(top, kind, annotations_at(top, "metadata.annotations"))), top.problems


def roles_of(top: FieldReader, kind: FrameworkKind, annotations: Mapping[str, Any]) -> Iterator[PlacedRole]:
    """Yield the first `MOST_ROLES` roles; those of one name are told as a problem, and the first counts."""
    names: set[str] = set()
    for described in kind.roles:
        if not all(holds(top, one, annotations) for one in described.only_when):
            continue
        for name, part in _parts(top, described):
            if name in names or len(names) >= MOST_ROLES:
                part.say([], f"there is a role {quoted(name)} already" if name in names else "is one role too many")
                continue
            names.add(name)
            yield _role(top, part, name, described, kind=kind, annotations=annotations)


def with_templates(top: FieldReader, placed: Sequence[PlacedRole], *, staged: bool) -> Iterator[OwnerRole]:
    """Yield roles with what their pods are placed by, where room is kept for pods that are not made at first.

    All templates of an object are kept within the bytes that one template may have.
    """
    left = MOST_BYTES
    for role, steps in placed:
        if not steps or not (staged or role.leads or (role.later and role.keeps_room)):
            yield role
            continue
        found = top.raw
        for step in steps:
            found = found[step]
        template, size = _pruned(FieldReader(found, steps, top.problems))
        left -= size
        yield structs.replace(role, template=template if left >= 0 else {TOO_LARGE: size})


def _pruned(part: FieldReader) -> tuple[dict[str, Any], int]:
    """Return what pods of a template are placed by, and how many bytes that has."""
    if _depth(part.raw) > DEEPEST_TEMPLATE:
        part.say([], f"is nested deeper than {DEEPEST_TEMPLATE} levels")
        return {}, 0
    try:
        template = pruned(part.raw)
        return template, len(msgspec.json.encode(template))
    except (OverflowError, UnicodeEncodeError) as error:
        part.say([], f"cannot be written as JSON: {error}")
        return {}, 0


def _depth(value: Any) -> int:
    """Return how deep a JSON value is nested, or 1 more than is allowed."""
    at, depth = [value], 0
    while at and depth <= DEEPEST_TEMPLATE:
        at = [
            inner
            for one in at
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        depth += 1
    return depth


def _parts(top: FieldReader, described: RoleDescription) -> Iterator[tuple[str, FieldReader]]:
    """Yield the name of each role that a description speaks of, and the part of the object that holds its fields."""
    if described.form == "One":
        part = top if described.path is None else top.below(described.path)
        if part is not None:
            yield described.name, part
    elif described.form == "List":
        for part in top.entries(described.path or "", MOST_ROLES):
            name = part.text(described.named_by)
            if name:
                yield name.lower(), part
            else:
                part.say([described.named_by], "must be given: pods tell their role by it")
    else:
        for name, part in top.members(described.path or "", MOST_ROLES):
            yield name.lower(), part


def _role(
    top: FieldReader,
    part: FieldReader,
    name: str,
    described: RoleDescription,
    *,
    kind: FrameworkKind,
    annotations: Mapping[str, Any],
) -> PlacedRole:
    """Return one role."""
    path = next((one for one in described.templates if part.value(one) is not None), "")
    template = part.below(path) if path else None
    numbers = _replicas(top, part, name, described, kind=kind)
    own = annotations_at(part, described.annotations) if described.annotations else {}
    later = described.later_when
    role = OwnerRole(
        name=name,
        replicas=numbers.replicas,
        least=numbers.least,
        most=numbers.most,
        total=numbers.total,
        size=_amount(part, described.size) if described.size else 1,
        scheduler=_scheduler(part, template, described) or (top.text(kind.scheduler) if kind.scheduler else ""),
        apart=_apart(template) if template else "",
        after=tuple(_after(part, described.after)) if described.after else (),
        later=later is not None and (not later or any(holds(top, one, annotations) for one in later)),
        keeps_room=described.keeps_room,
        leads=_leads(kind, annotations, own),
        domain=_domain(top, part, described, kind=kind, annotations=annotations),
    )
    return PlacedRole(role, template.at if template else ())


class _Replicas(NamedTuple):
    """How many replicas a role has.

    Attributes:
        replicas: There are now, of those that have not succeeded.
        least: Must be there at once.
        most: It may grow to; None: no more.
        total: There are with those that have succeeded; None where these are not left out.
    """

    replicas: int
    least: int
    most: int | None = None
    total: int | None = None


def _replicas(
    top: FieldReader, part: FieldReader, name: str, described: RoleDescription, *, kind: FrameworkKind
) -> _Replicas:
    """Return how many replicas a role has.

    Bounds that stand beside the replicas are adhered to always, and the lower one is the minimum only while something
    scales the role (KubeRay, utils/util.go); an elastic policy lowers the minimum of its role (Kubeflow).
    """
    if described.suspended and part.flag(described.suspended):
        return _Replicas(0, 0)
    asked = _amount(part, described.replicas) if described.replicas else 1
    least = part.number(described.least) if described.least else 0
    most = part.count(described.most) if described.most else None
    replicas = min(max(asked, least), max(most, least)) if most is not None else max(asked, least)
    total = part.count(described.total) if described.total else None
    whole = None if described.finished is None or kind.elastic is not None else total or asked
    if described.total is None and described.finished is not None:
        total = replicas
    if total is not None:
        replicas = min(replicas, max(0, total - _finished(top, part, name, described)))
    scaled = bool(kind.autoscaled) and top.flag(kind.autoscaled or "")
    if kind.elastic is not None and kind.elastic.role == name:
        low, high = top.count(kind.elastic.least), top.count(kind.elastic.most)
        most = None if high is None else max(high, replicas)
        return _Replicas(replicas, replicas if low is None else min(low, replicas), most, whole)
    if scaled and described.least:
        return _Replicas(replicas, min(least, replicas), MOST_COUNT if most is None else most, whole)
    return _Replicas(replicas, replicas, total=whole)


def _finished(top: FieldReader, part: FieldReader, name: str, described: RoleDescription) -> int:
    """Return how many replicas of a role have succeeded."""
    if described.finished is None:
        return 0
    if described.finished_in is None:
        return part.number(described.finished)
    entries = top.entries(described.finished_in, MOST_ROLES)
    return next((one.number(described.finished) for one in entries if one.text("name").lower() == name), 0)


def _amount(part: FieldReader, described: AmountField) -> int:
    given = part.number(described.path, described.default)
    limit = part.count(described.limit) if described.limit else None
    return max(0, min(given, given if limit is None else limit) - described.minus)


def replica_size_of(top: FieldReader, kind: FrameworkKind) -> int | None:
    """Return how many pods a replica has, where each replica is a gang: by the role that has all but the others'."""
    if kind.replica_groups is None:
        return None
    sized = next((one for one in kind.roles if one.name == kind.replica_groups.sized), None)
    if sized is None or sized.replicas is None:
        return None
    return max(1, _amount(FieldReader(top.raw, problems=[]), sized.replicas) + sized.replicas.minus)


def _scheduler(part: FieldReader, template: FieldReader | None, described: RoleDescription) -> str:
    named = template.text("spec.schedulerName") if template else ""
    return named or (part.text(described.scheduler) if described.scheduler else "")


def _apart(template: FieldReader) -> str:
    """Return why the pods of a template are in no gang of their owner's; "" where they are."""
    said = annotations_at(template, "metadata.annotations")
    if said.get(GANG_ANNOTATION) == "Apart":
        return f"{GANG_ANNOTATION} is Apart in their template"
    labels = template.value("metadata.labels")
    for key in GROUP_KEYS:
        if said.get(key) or (isinstance(labels, Mapping) and labels.get(key)):
            return f"{key} in their template says which gang they are in"
    return "spec.schedulingGroup in their template says so" if template.value("spec.schedulingGroup") else ""


def _after(part: FieldReader, path: str) -> Iterator[After]:
    for one in part.entries(path, MOST_EARLIER):
        name, status = one.text("name").lower(), one.text("status")
        ready: Literal["Ready", "Complete"] = "Complete" if status == "Complete" else "Ready"
        if status not in ("Ready", "Complete"):
            one.say(["status"], f"must be Ready or Complete, not {quoted(status)}")
        if name:
            yield name, ready


def _leads(kind: FrameworkKind, annotations: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    first = kind.leader_first
    if first is None:
        return False
    said = [*annotations, *own]
    return any(key in said for key in first.annotations) and not any(key in said for key in first.unless)


def _domain(
    top: FieldReader,
    part: FieldReader,
    described: RoleDescription,
    *,
    kind: FrameworkKind,
    annotations: Mapping[str, Any],
) -> str:
    """Return the node label within one value of which each replica of a role has its nodes, its own word first."""
    own = annotations_at(part, described.annotations) if described.annotations else {}
    for reader, path, said in (
        (part, described.annotations or "", own),
        (top, "metadata.annotations", annotations),
    ):
        for key in kind.domain_annotations:
            if key in said:
                label = reader.texts(path, frozenset({key})).get(key, "")
                if _LABEL.fullmatch(label):
                    return label
                reader.say([path, key], f"{quoted(label)} cannot be the key of a node label")
    return ""


def annotations_at(part: FieldReader, path: str) -> Mapping[str, Any]:
    """Return the annotations that stand under a path; none where there is no mapping."""
    found = part.value(path)
    return found if isinstance(found, Mapping) else {}
