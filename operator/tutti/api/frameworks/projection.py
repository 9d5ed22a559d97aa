"""What is kept of an object of a known kind: its roles (`roles.py`) and numbers, read by the description of the kind.

A projection never fails: what is wrong stands in it as a problem, and concerns the pods of this object alone. What the
numbers of each kind mean is said with its row (`tutti.api.frameworks.kinds`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import structs

from tutti.api.conventions.after_annotation import AFTER, bounded_after
from tutti.api.conventions.flavor_seconds import FLAVOR_SECONDS
from tutti.api.conventions.membership import (
    MOST_MEMBERS,
    ConventionError,
    PodTopologyRequest,
    annotation_path,
    quoted,
    whole_number,
)
from tutti.api.conventions.order_annotations import order_hints
from tutti.api.conventions.topology_annotations import KUEUE_TOPOLOGY, OUR_TOPOLOGY, read_topology_request
from tutti.api.core import OwnerReference
from tutti.api.framework_kind import FrameworkKind
from tutti.api.frameworks.endings import how_ended
from tutti.api.frameworks.fields import FieldReader, holds, wanted
from tutti.api.frameworks.kinds import GANG_ANNOTATION, MIN_MEMBER_ANNOTATION
from tutti.api.frameworks.marks import MOST_OWNERS, OWNER_QUEUE_LABELS, PRIORITY_LABELS, next_owner
from tutti.api.frameworks.records import ProjectedOwner
from tutti.api.frameworks.roles import annotations_at, replica_size_of, roles_of, with_templates
from tutti.api.frameworks.stages import in_a_ring, start_stages
from tutti.api.frameworks.starting import start_state
from tutti.api.model import GROUP

RUN_TIME_LABELS: Final = (f"{GROUP}/max-exec-time-seconds", "kueue.x-k8s.io/max-exec-time-seconds")
"""Labels of an owner that say for how long its pods may run, ours first."""
OWNER_LABELS: Final = frozenset({*OWNER_QUEUE_LABELS, *PRIORITY_LABELS, *RUN_TIME_LABELS})
"""The labels of owners that are kept."""
LONGEST_TOPOLOGY: Final = 4096
"""Characters of an annotation on topology."""
_MOST_TOLD = 4
"""How many roles that wait for one another are named."""


def projected(
    raw: Mapping[str, Any], kind: FrameworkKind, ignored: frozenset[str] = frozenset(), version: str = ""
) -> ProjectedOwner:
    """Return what is kept of an object.

    Args:
        raw: The object as the API server wrote it.
        kind: The description of its kind.
        ignored: Annotations that say nothing, because the convention they belong to is off.
        version: In which it was read.
    """
    top = FieldReader(raw)
    annotations = annotations_at(top, "metadata.annotations")
    wish = _wish(top)
    minimum, minimum_by = _minimum(top, kind, annotations, ignored)
    placed = list(roles_of(top, kind, annotations))
    in_order = kind.in_order is not None and all(holds(top, one, annotations) for one in kind.in_order)
    at_once = all(holds(top, one, annotations) for one in kind.made_at_once)
    asked = wish == "Together" or minimum_by.startswith("metadata.annotations")
    is_gang = asked or all(holds(top, one, annotations) for one in kind.together_when)
    started = [one.role for one in placed if not one.role.later]
    stages = start_stages(started, in_order=in_order)
    ring = in_a_ring(started, stages, in_order=in_order)
    if ring:
        told = ", ".join(quoted(name) for name in ring[:_MOST_TOLD])
        top.say([], f"roles wait for themselves, so that none can ever start: {told}; take out what closes the ring")
    found = structs.replace(
        _inheritable(top, kind, annotations),
        wish=wish,
        one_by_one="" if at_once else wanted(kind.made_at_once),
        suspended=bool(kind.suspended) and top.flag(kind.suspended or ""),
        start=start_state(raw, kind, version),
    )
    held = found.is_held
    if held and found.start is not None and not is_gang:
        found = structs.replace(found, start=structs.replace(found.start, single=True))
    # What controls it may be what is started here, of the templates that stand in this one.
    is_made = kind.startable and bool(kind.composes) and found.owner is not None
    found = structs.replace(
        found,
        roles=tuple(with_templates(top, placed, staged=len(stages) > 1 or held or is_made)),
        stages=stages,
        minimum=minimum,
        minimum_by=minimum_by,
        current=top.text(kind.current) if kind.current else "",
        replica_size=replica_size_of(top, kind),
    )
    # What is wrong must hold its pods back: without its numbers nobody knows that they may start one by one.
    # What is started as one is one until it has started.
    together = (kind.gang == "Together" and (is_gang or held or bool(top.problems))) or (
        kind.gang == "Requested" and asked
    )
    problems = tuple(dict.fromkeys(str(one) for one in top.problems))
    if together:
        return structs.replace(found, together=True, problems=problems)
    # Nobody asks how many pods it has, which may change with every pod that ends.
    return structs.replace(found, roles=(), stages=(), problems=problems)


def _inheritable(top: FieldReader, kind: FrameworkKind, annotations: Mapping[str, Any]) -> ProjectedOwner:
    """Return an object with all that pods have from it besides their gang."""
    owner, owners = next_owner(list(_references(top)))
    topology, topology_problem = _topology(annotations)
    return ProjectedOwner(
        group=kind.group,
        kind=kind.kind,
        namespace=top.text("metadata.namespace"),
        name=top.text("metadata.name"),
        uid=top.text("metadata.uid"),
        owner=owner,
        owners=owners,
        labels=top.texts("metadata.labels", OWNER_LABELS),
        queue=top.text(kind.queue) if kind.queue else "",
        priority_class=top.text(kind.priority_class) if kind.priority_class else "",
        schedule_timeout_seconds=top.count(kind.schedule_timeout) if kind.schedule_timeout else None,
        topology=topology,
        topology_problem=topology_problem,
        after=bounded_after(annotations.get(AFTER)),
        hints=order_hints(annotations),
        flavor_seconds=bounded_after(annotations.get(FLAVOR_SECONDS)),
        ended=how_ended(top.raw),
    )


def _wish(top: FieldReader) -> str:
    """Return what our annotation says."""
    wish = top.texts("metadata.annotations", frozenset({GANG_ANNOTATION})).get(GANG_ANNOTATION, "")
    if wish in ("", "Together", "Apart"):
        return wish
    top.say(["metadata.annotations", GANG_ANNOTATION], f"must be Together or Apart, not {quoted(wish)}")
    return ""


def _minimum(
    top: FieldReader, kind: FrameworkKind, annotations: Mapping[str, Any], ignored: frozenset[str]
) -> tuple[int | None, str]:
    """Return how many pods are stated to be placed at once, and where that stands."""
    for key in (MIN_MEMBER_ANNOTATION, *kind.minimum_annotations):
        if key in ignored or kind.gang in ("Alone", "Transparent") or not isinstance(annotations.get(key), str):
            continue
        try:
            return whole_number(annotations, key, annotation_path(key), least=1), annotation_path(key)
        except ConventionError as error:
            top.say(["metadata.annotations", key], error.message)
    stated = top.count(kind.minimum) if kind.minimum else None
    if stated is not None and stated > MOST_MEMBERS:
        top.say([kind.minimum or ""], f"asks for {stated} pods at once: at most {MOST_MEMBERS} can be one gang")
    return (stated, kind.minimum or "") if stated else (None, "")


def _topology(annotations: Mapping[str, Any]) -> tuple[PodTopologyRequest | None, str]:
    """Return how near pods want to be by the annotations of an owner, ours first, and what is wrong with these."""
    keys = OUR_TOPOLOGY if any(key in annotations for key in OUR_TOPOLOGY) else KUEUE_TOPOLOGY
    said = {key: text for key in keys if isinstance(text := annotations.get(key), str)}
    long = next((key for key, text in said.items() if len(text) > LONGEST_TOPOLOGY), None)
    if long is not None:
        return None, f"{annotation_path(long)}: write at most {LONGEST_TOPOLOGY} characters"
    try:
        return read_topology_request(said, keys), ""
    except ConventionError as error:
        return None, str(error)


def _references(top: FieldReader) -> Iterator[OwnerReference]:
    for one in top.entries("metadata.ownerReferences", MOST_OWNERS):
        yield OwnerReference(
            api_version=one.text("apiVersion"),
            kind=one.text("kind"),
            name=one.text("name"),
            uid=one.text("uid"),
            controller=one.flag("controller"),
        )
