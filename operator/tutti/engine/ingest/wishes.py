"""What a workload is to be like: what its objects, those of other projects and its members say of it.

Groups and their sizes, queue, priority, patience and nearness, and what is wrong with any of it.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from tutti.api.core import ObjectMeta, PodSpec
from tutti.api.kinds import PodGroup as PodGroupObject
from tutti.api.kinds import Workload as WorkloadObject
from tutti.api.kinds.pod_group import OnMemberLoss, PodGroupSpec
from tutti.api.templates import MOST_BYTES, TOO_LARGE
from tutti.cluster.classes import PodClass
from tutti.cluster.requests import as_created
from tutti.cluster.volumes import has_claims
from tutti.engine.ingest import promises, sizes
from tutti.engine.ingest.history import recall
from tutti.engine.ingest.inheritance import inherited
from tutti.engine.ingest.nearness import disagreement, of_pod_group, of_workload
from tutti.engine.lifecycle import limits
from tutti.engine.reading import importance
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.gang_objects import take_sizes, task_of
from tutti.engine.records.members import Group
from tutti.engine.records.workloads import Style, Workload
from tutti.engine.state import State


def read_workload(state: State, workload: Workload) -> None:
    """Take over what the objects and members say: groups and counts, queue, priority, and what is wrong with it."""
    workload.problem, workload.ranked = None, False
    kind, namespace, name = workload.key
    if kind == "Workload":
        _read_workload_object(state, workload, state.catalog.get(WorkloadObject, namespace, name))
    elif kind == "PodGroup":
        _read_pod_group(state, workload, state.catalog.get(PodGroupObject, namespace, name))
    else:
        _read_single(workload)
    _drop_empty_groups(workload)
    _read_claims(state, workload)
    promises.settle(state, workload)
    workload.reach = importance.reach_of(state.catalog, workload)
    _compare_nearness(workload)


def _read_workload_object(state: State, workload: Workload, found: WorkloadObject | None) -> None:
    _, namespace, name = workload.key
    if found is None:
        workload.problem = _missing(state, workload)
        return
    _identify(workload, found)
    spec = found.spec
    workload.queue = spec.queue_name
    limits.read_limits(workload, found)
    workload.permit_seconds = spec.schedule_timeout_seconds
    workload.keeps_trying = spec.on_bind_failure == "Retry"
    for one in spec.pod_groups:
        group = workload.group(one.name)
        group.count = group.most = one.count
        group.min_count = one.quorum
        group.promised = _promised(state, workload, group, one.template) if one.template else None
        group.near = of_workload(one.topology, one.name)
        group.on_loss = one.on_member_loss or state.configuration.on_member_loss
    workload.priority = importance.of_object(state.catalog, workload, spec)
    ref = spec.priority_class_ref
    if ref is not None and ref.kind == "PriorityClass" and workload.problem is None:
        workload.problem = importance.refused(ref.name)
    _read_constraints(state, workload)
    known = {one.name: workload.groups[one.name] for one in spec.pod_groups}
    if list(workload.groups) != list(known):
        workload.groups = known | workload.groups  # in the order in which they are written, whoever came first
    for group in workload.groups.values():
        if group.name not in known and group.members:
            workload.problem = Explanation(
                Gate.GATHER,
                "UnknownPodGroup",
                f"pod {next(iter(group.members))[1]} names pod group {group.name!r}, which Workload {namespace}/{name} "
                f"does not have; it has {', '.join(sorted(known))}",
            )


def _read_constraints(state: State, workload: Workload) -> None:
    """Take over what PodGroups that are pod groups of a Workload say of nearness, where the Workload does not."""
    _, namespace, name = workload.key
    for made, part in state.catalog.referring(namespace, name).items():
        found, group = state.catalog.get(PodGroupObject, namespace, made), workload.groups.get(part)
        if found is not None and group is not None and group.near is None:
            group.near = of_pod_group(found.spec.scheduling_constraints.topology, part)


def _promised(state: State, workload: Workload, group: Group, template: dict[str, object]) -> PodClass | None:
    """Return the class that members of a template will be of; None where it cannot be told before they exist.

    What claims ask of a node is known only once they are there.
    """
    if TOO_LARGE in template:
        text = (
            f"a template of members comes to {template[TOO_LARGE]} bytes of what pods are placed by, "
            f"and {MOST_BYTES} is the most that is kept"
        )
        workload.problem = Explanation(Gate.GATHER, "InvalidTemplate", text)
        return None
    try:
        spec = as_created(msgspec.convert(template.get("spec") or {}, PodSpec))
        labels = msgspec.convert((template.get("metadata") or {}), ObjectMeta).labels
    except msgspec.ValidationError as error:
        workload.problem = Explanation(Gate.GATHER, "InvalidTemplate", f"a template of members cannot be read: {error}")
        return None
    importance.promise(state.catalog, group, spec)
    return None if has_claims(spec) else state.cluster.classes.of(spec, workload.key[1], labels)


def _read_pod_group(state: State, workload: Workload, written: PodGroupObject | None) -> None:
    """Take over what a gang is to be like: from its PodGroup, else the object that its pods name, else from themselves.

    A PodGroup that was made for such a gang is there to be read by people.
    """
    name, first = workload.key[2], next(workload.members(), None)
    own = written is not None and not (first is not None and sizes.IMPLICIT_LABEL in written.metadata.labels)
    gang = workload.gang = None if own or first is None else state.gang_objects.of(first.claim)
    declared = first is not None and first.claim.implicit
    if first is None or not (first.claim.role or task_of(state.gang_objects, first.claim)):
        workload.group(name)
    if written is not None:
        _identify(workload, written)
    else:
        workload.uid = ""
    if gang is not None and gang.problem:
        text = f"{gang.api_version} {gang.namespace}/{gang.name}: {gang.problem}"
        workload.problem = Explanation(Gate.GATHER, "InvalidGang", text)
    elif gang is not None:
        take_sizes(workload, gang, name)
    elif own and written is not None:
        workload.group(name).min_count = written.spec.min_count
        workload.problem = importance.refused(written.spec.priority_class_name)
    elif declared and workload.key not in state.catalog.broken:
        workload.problem = sizes.read(workload)
        _read_promises(state, workload)
    else:
        workload.problem = _missing(state, workload)
    _read_wishes(state, workload, gang.spec if gang is not None else written.spec if written is not None else None)
    if gang is None and not own:
        workload.leaves_by_pod = False  # `Pod` in what was made for it is a default that older CRDs had, and no wish


def _read_promises(state: State, workload: Workload) -> None:
    """Take over what members that are yet to come will be like, where others tell it, and how the gang starts."""
    style = next((m.claim.style for m in workload.members() if m.claim.style), "")
    workload.style = Style(style) if style else None
    if workload.given_up and workload.problem is None:
        workload.problem = Explanation(Gate.PLACEMENT, "ResourceReservationTimeout", workload.given_up)
    if workload.scattered:
        return
    for member in workload.members():
        for role, template in member.claim.templates.items():
            group = workload.groups[role]
            group.promised = _promised(state, workload, group, template)


def _read_wishes(state: State, workload: Workload, spec: PodGroupSpec | None) -> None:
    """Take over in which queue, how important, how near and how patient a gang is."""
    first = next(workload.members(), None)
    workload.priority, workload.min_resources = importance.of_members(workload), {}
    workload.permit_jitter = first.claim.timeout_jitter_seconds if first else 0
    workload.keeps_trying = spec is not None and spec.on_bind_failure == "Retry"
    if spec is None:
        workload.queue, near = "", None
        said = (m.claim.timeout_seconds for m in workload.members())
        workload.permit_seconds = next((seconds for seconds in said if seconds is not None), None)
    else:
        workload.queue, workload.permit_seconds = spec.queue_name, spec.schedule_timeout_seconds
        value = state.catalog.pod_class(spec.priority_class_name)
        workload.priority = workload.priority if value is None else value
        near = of_pod_group(spec.scheduling_constraints.topology, workload.key[2])
    if workload.gang is not None:
        workload.min_resources = workload.gang.min_resources
        workload.priority = workload.priority if workload.gang.priority is None else workload.gang.priority
    workload.leaves_by_pod = spec is not None and spec.disruption_mode == "Pod"
    on_loss = _on_loss(state, workload, spec)
    for group in workload.groups.values():
        group.near, group.on_loss = near, on_loss


def _on_loss(state: State, workload: Workload, spec: PodGroupSpec | None) -> OnMemberLoss | None:
    """Return what becomes of a gang that has lost members; None where it is no gang, or was one at its start only.

    What makes an application of YuniKorn a gang are the members that it starts with: it grows and shrinks as it likes.
    """
    if workload.style is not None or (spec is not None and spec.scheduling_policy.gang is None):
        return None
    said = None if spec is None else spec.on_member_loss
    return said or state.configuration.on_member_loss


def _read_single(workload: Workload) -> None:
    for member in workload.members():
        if workload.uid != member.pod.uid:
            workload.attempts, workload.not_before = 0, 0.0  # those were its predecessor's
        workload.uid, workload.generation = member.pod.uid, member.pod.generation
        workload.created, workload.priority, workload.queue = member.pod.created, member.pod.priority, ""


def _read_claims(state: State, workload: Workload) -> None:
    asked: dict[str, str] = {workload.queue: workload.name} if workload.queue else {}
    for member in workload.members():
        if member.problem and workload.problem is None:
            workload.problem = Explanation(Gate.GATHER, "InvalidGang", f"pod {member.pod.name}: {member.problem}")
        if member.claim.queue:
            asked.setdefault(member.claim.queue, member.pod.name)
        if member.claim.priority_class:
            value = state.catalog.workload_class(member.claim.priority_class)
            if value is not None:
                workload.priority, workload.ranked = value, True
    if not asked:
        asked = {one.queue: one.said_by for one in inherited(state, workload)}
    if len(asked) > 1:
        said = ", ".join(f"{queue} ({who})" for queue, who in asked.items())
        workload.problem = Explanation(
            Gate.QUEUE, "DifferentQueues", f"its members ask for different queues: {said}; give all of them the same"
        )
    default = state.configuration.default_local_queue
    workload.queue = next(iter(asked), "") or state.catalog.default_queue(workload.key[1], default, workload.created)


def _compare_nearness(workload: Workload) -> None:
    """Refuse a workload of which parts are to go to one domain together and do not say the same of it."""
    said = [(group.near, f"pod group {group.name}") for group in workload.groups.values() if group.near is not None]
    for group in workload.groups.values():
        if group.near is None:
            members = (m for m in group.members.values() if m.near is not None and not m.pod.deleting)
            said += [(m.near, f"pod {m.pod.name}") for m in members if m.near is not None and not m.pod.terminated]
    wrong = disagreement(said)
    if wrong and workload.problem is None:
        workload.problem = Explanation(Gate.GATHER, "InvalidGang", wrong)


def _missing(state: State, workload: Workload) -> Explanation:
    """Say that the object of a workload cannot be read, or that there is none."""
    kind, namespace, name = workload.key
    broken = state.catalog.broken.get(workload.key)
    if broken is not None:
        return Explanation(Gate.GATHER, f"Invalid{kind}", str(broken[0]))
    return Explanation(
        Gate.GATHER,
        f"{kind}NotFound",
        f"{kind} {namespace}/{name}, named by its pods, does not exist; create it, or correct the pods' label",
    )


def _identify(workload: Workload, found: WorkloadObject | PodGroupObject) -> None:
    """Take over whose object this is; of one that was not known before, also what it says of its life so far."""
    meta = found.metadata
    if workload.uid != meta.uid:
        workload.status = {}
        recall(workload, found)
    workload.uid, workload.generation = meta.uid, meta.generation
    created = meta.creation_timestamp
    workload.created = datetime.fromisoformat(created).timestamp() if created else 0.0


def _drop_empty_groups(workload: Workload) -> None:
    known = dict(workload.groups) if len(workload.groups) > 1 else {}
    for name, group in known.items():
        if not group.members and group.count is None and not group.holds:
            del workload.groups[name]
