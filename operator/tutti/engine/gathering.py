"""Which pods belong together: members find their workload and group, whatever arrives first.

A member is filed under the address that its claim and the PodGroup named there give. When a PodGroup or Workload
arrives, changes or goes, the members concerned are filed again.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import msgspec

from tutti.api.conventions import Claim, ConventionError, claim_of
from tutti.api.conventions.tutti import POD_GROUP
from tutti.api.core import ObjectMeta, Pod, PodSpec
from tutti.api.kinds import PodGroup as PodGroupObject
from tutti.api.kinds import Workload as WorkloadObject
from tutti.api.kinds.pod_group import PodGroupSpec
from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PodKey
from tutti.cluster.volumes import has_claims
from tutti.engine import importance, limits, sizes
from tutti.engine.explanation import Explanation, Gate
from tutti.engine.gang_objects import take_sizes
from tutti.engine.history import recall
from tutti.engine.nearness import of_claim, of_pod_group, of_workload
from tutti.engine.reservation import give_back
from tutti.engine.state import Address, State
from tutti.engine.workloads import Group, Member, Style, Told, Workload

ADMISSION_ANNOTATION = "scheduling.tutti.dev/admission"
GATE_ANNOTATION = "scheduling.tutti.dev/admission-gate"
"""While it is on a workload's object or on one of its pods, a complete reservation is not bound."""


def put_member(state: State, pod: Pod) -> None:
    """Take over what was seen of a pod of ours."""
    record = state.cluster.put_pod(pod, keep=True)
    assert record is not None  # keep=True keeps every pod
    member = state.members.get(record.key)
    if member is not None and member.pod is not record:
        drop_member(state, record.key)
        member = None
    if member is None:
        member = state.members[record.key] = Member(record, pod.spec.scheduler_name, Claim())
    said = _said(pod)
    if said != member.said:
        member.said = said
        _read(state, member, pod)
    member.never_preempts = pod.spec.preemption_policy == "Never"
    member.ended = pod.status.reason if pod.terminated else ""
    member.nominated = pod.status.nominated_node_name
    member.told = member.told if member.told[0] else _told(pod)
    file(state, member)


def note_stranger(state: State, pod: Pod) -> None:
    """Remember a pod that says it is in a pod group and leaves its placing to another scheduler: a common slip."""
    group = pod.metadata.labels.get(POD_GROUP)
    key = (pod.metadata.namespace, pod.metadata.name)
    drop_stranger(state, key)
    if group and not pod.terminated:
        state.strangers.setdefault((key[0], group), {})[key] = pod.spec.scheduler_name
        state.stranger_in[key] = (key[0], group)
        state.touch(("PodGroup", key[0], group))


def drop_stranger(state: State, key: PodKey) -> None:
    """Forget such a pod."""
    where = state.stranger_in.pop(key, None)
    if where is not None:
        del state.strangers[where][key]
        if not state.strangers[where]:
            del state.strangers[where]
        state.touch(("PodGroup", *where))


def drop_member(state: State, key: PodKey) -> Member | None:
    """Forget a member that does not exist any more; its quota goes back."""
    member = state.members.pop(key, None)
    if member is None:
        return None
    if member.charge is not None:
        state.refund(member.charge)
        member.charge = None
    _unname(state, member)
    _unfile(state, key)
    return member


def file(state: State, member: Member) -> None:
    """Put a member where it belongs, and note that its workload must be looked at."""
    key, address = member.pod.key, address_of(state, member)
    if state.home.get(key) != address:
        if member.pod.assumed and not member.sent:
            give_back(state, member)  # it was reserved as part of another gang
        _unfile(state, key)
        state.home[key] = address
        workload_key, group = address
        workload = state.workloads.get(workload_key)
        if workload is None:
            workload = state.workloads[workload_key] = Workload(workload_key, created=member.pod.created)
        workload.groups.setdefault(group, Group(group)).add(key, member)
        if member.charge is not None and member.charge.holder != workload.name:
            state.refund(member.charge)
            member.charge = replace(member.charge, holder=workload.name)
            state.charge(member.charge)
    state.touch(address[0])


def refile(state: State, namespace: str, name: str) -> None:
    """File again the members that name a PodGroup or Workload, because it has arrived, changed or gone."""
    for member in list(state.naming.get((namespace, name), {}).values()):
        file(state, member)


def address_of(state: State, member: Member) -> Address:
    """Return the workload and group that a member belongs to by what is known now."""
    claim = member.claim
    if claim.workload:
        return ("Workload", claim.namespace, claim.workload), _group_in(state, claim)
    if claim.group:
        found = state.catalog.get(PodGroupObject, claim.namespace, claim.group)
        if found is not None and found.spec.workload_ref is not None:
            ref = found.spec.workload_ref
            return ("Workload", claim.namespace, ref.name), ref.pod_group or claim.group
        return ("PodGroup", claim.namespace, claim.group), claim.role or _task(state, claim) or claim.group
    return ("Pod", *member.pod.key), member.pod.name


def _task(state: State, claim: Claim) -> str:
    """Return the role of a member in a gang whose object counts by tasks; "" where it does not."""
    found = state.gang_objects.of(claim) if claim.task else None
    return claim.task if found is not None and found.roles else ""


def read_workload(state: State, workload: Workload) -> None:
    """Take over what the objects and members say: groups and counts, queue, priority, and what is wrong with it."""
    workload.problem = None
    kind, namespace, name = workload.key
    if kind == "Workload":
        _read_workload_object(state, workload, state.catalog.get(WorkloadObject, namespace, name))
    elif kind == "PodGroup":
        _read_pod_group(state, workload, state.catalog.get(PodGroupObject, namespace, name))
    else:
        _read_single(workload)
    _drop_empty_groups(workload)
    _read_claims(state, workload)


def _said(pod: Pod) -> int:
    """Return a hash of all that a claim is read from and that can change; reading it costs more than all else does."""
    meta, spec = pod.metadata, pod.spec
    owners = tuple(owner.uid for owner in meta.owner_references if owner.controller)
    texts = (len(meta.labels), *meta.labels.items(), *meta.annotations.items())
    return hash((meta.uid, owners, spec.scheduling_group, spec.workload_ref, texts))


def _read(state: State, member: Member, pod: Pod) -> None:
    """Take over what a pod says of itself."""
    _unname(state, member)
    member.claim, member.problem = _claim(state, pod)
    member.near = of_claim(member.claim.topology)
    member.annotation = pod.metadata.annotations.get(ADMISSION_ANNOTATION, "")
    member.owner = next((one for one in pod.metadata.owner_references if one.controller), None)
    member.gate = pod.metadata.annotations.get(GATE_ANNOTATION)
    member.noted = state.hosting.noted(pod.metadata.annotations)
    for name in _names(member.claim):
        state.naming.setdefault(name, {})[member.pod.key] = member


def _unname(state: State, member: Member) -> None:
    """Forget which objects a member names."""
    for name in _names(member.claim):
        here = state.naming[name]
        del here[member.pod.key]
        if not here:
            del state.naming[name]


def _names(claim: Claim) -> dict[tuple[str, str], None]:
    """Return the namespace and name of each PodGroup or Workload that a claim names."""
    said_by = claim.object.partition("/")[0]
    return {(claim.namespace, name): None for name in (claim.group, claim.workload, said_by) if name}


def _claim(state: State, pod: Pod) -> tuple[Claim, str]:
    try:
        return claim_of(pod, state.configuration.conventions), ""
    except ConventionError as error:
        return Claim(convention="", namespace=pod.metadata.namespace), str(error)


def _told(pod: Pod) -> Told:
    """Return what the pod's condition already says, so that a restart does not write it again."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message, 0.0
    return "", "", 0.0


def _group_in(state: State, claim: Claim) -> str:
    if claim.group:
        return claim.group
    found = state.catalog.get(WorkloadObject, claim.namespace, claim.workload)
    if found is not None and len(found.spec.pod_groups) == 1:
        return found.spec.pod_groups[0].name
    return ""


def _unfile(state: State, key: PodKey) -> None:
    address = state.home.pop(key, None)
    if address is None:
        return
    workload = state.workloads[address[0]]
    workload.groups[address[1]].remove(key)
    state.touch(workload.key)


def _read_workload_object(state: State, workload: Workload, found: WorkloadObject | None) -> None:
    _, namespace, name = workload.key
    if found is None:
        workload.problem = _missing(state, workload)
        return
    _identify(workload, found)
    spec = found.spec
    workload.queue = spec.queue_name
    limits.read(workload, found)
    workload.permit_seconds = spec.schedule_timeout_seconds
    workload.keeps_trying = spec.on_bind_failure == "Retry"
    for one in spec.pod_groups:
        group = workload.groups.setdefault(one.name, Group(one.name))
        group.count = group.most = one.count
        group.min_count = one.quorum
        group.promised = _promised(state, workload, group, one.template) if one.template else None
        group.near = of_workload(one.topology, one.name)
    workload.priority = importance.of_object(state, workload, spec)
    _read_constraints(state, workload)
    known = {one.name for one in spec.pod_groups}
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
    try:
        spec = msgspec.convert(template.get("spec") or {}, PodSpec)
        labels = msgspec.convert((template.get("metadata") or {}), ObjectMeta).labels
    except msgspec.ValidationError as error:
        workload.problem = Explanation(Gate.GATHER, "InvalidTemplate", f"a template of members cannot be read: {error}")
        return None
    importance.promise(state, group, spec)
    return None if has_claims(spec) else state.cluster.classes.of(spec, workload.key[1], labels)


def _read_pod_group(state: State, workload: Workload, written: PodGroupObject | None) -> None:
    """Take over what a gang is to be like: from its PodGroup, else the object that its pods name, else from themselves.

    A PodGroup that was made for such a gang is there to be read by people.
    """
    name, first = workload.key[2], next(workload.members(), None)
    own = written is not None and not (first is not None and sizes.IMPLICIT_LABEL in written.metadata.labels)
    gang = workload.gang = None if own or first is None else state.gang_objects.of(first.claim)
    declared = first is not None and first.claim.implicit
    if first is None or not (first.claim.role or _task(state, first.claim)):
        workload.groups.setdefault(name, Group(name))
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
        workload.groups.setdefault(name, Group(name)).min_count = written.spec.min_count
    elif declared and workload.key not in state.catalog.broken:
        workload.problem = sizes.read(workload)
        _read_promises(state, workload)
    else:
        workload.problem = _missing(state, workload)
    _read_wishes(state, workload, gang.spec if gang is not None else written.spec if written is not None else None)


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
    for group in workload.groups.values():
        group.near = near


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
            workload.priority = workload.priority if value is None else value
    if len(asked) > 1:
        said = ", ".join(f"{queue} ({who})" for queue, who in asked.items())
        workload.problem = Explanation(
            Gate.QUEUE, "DifferentQueues", f"its members ask for different queues: {said}; give all of them the same"
        )
    default = state.configuration.default_local_queue
    workload.queue = next(iter(asked), "") or state.catalog.default_queue(workload.key[1], default, workload.created)


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
    known = dict(workload.groups)
    for name, group in known.items():
        if not group.members and group.count is None and len(known) > 1 and not group.holds:
            del workload.groups[name]
