"""Which pods belong together, and in which queue: members find their workload and group, whatever arrives first.

A member belongs to the group that its annotations and the PodGroup named there give. When a PodGroup or Workload
arrives, changes or goes, the members concerned are assigned again.

Pods inherit the queue of what owns them: the nearest owner that names one decides. Kueue's users label the Job that
they submit, and the label never reaches its pods: read from the pods alone, such a job would run beside its queue.
Kueue's own webhooks write the owner's queue into the pods; here it is looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tutti.api.conventions import Claim, TopologyClaim, kueue
from tutti.api.conventions.claim import ConventionError, existing_name, label
from tutti.api.conventions.texts import within_bounds
from tutti.api.conventions.tutti import POD_GROUP
from tutti.api.core import OwnerReference, Pod
from tutti.api.kinds import PodGroup as PodGroupObject
from tutti.api.kinds import Workload as WorkloadObject
from tutti.api.owners import QUEUE_LABELS, OwnerObject, controller_of
from tutti.cluster.pods import PodKey
from tutti.engine.lifecycle.reservation import give_back, note_loss
from tutti.engine.records import decisions
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.gang_membership import (
    ADMISSION_ANNOTATION,
    GATE_ANNOTATION,
    MOST_OWNER_LEVELS,
    PodTexts,
    task_role,
)
from tutti.engine.records.members import NAMED_TOGETHER, Member, PodSetTopology, Reported, admission_in_status
from tutti.engine.records.observations import OwnerKindFollowed, OwnerSeen
from tutti.engine.records.workloads import UNDER_WAY, Workload
from tutti.engine.state import Address, State
from tutti.placement.topology.request import Slice


def put_member(state: State, pod: Pod) -> None:
    """Take over what was seen of a pod of ours."""
    before = state.members.get((pod.metadata.namespace, pod.metadata.name))
    if before is not None and before.pod.uid != pod.metadata.uid:
        note_loss(state, before)  # another has come in its place
    record = state.cluster.put_pod(pod, keep=True)
    assert record is not None  # keep=True keeps every pod
    member = state.members.get(record.key)
    if member is not None and member.pod is not record:
        drop_member(state, record.key)
        member = None
    if member is None:
        member = state.members[record.key] = Member(record, pod.spec.scheduler_name, Claim())
    said = state.sayings.of(pod)
    if (heard := hash((pod.metadata.uid, said))) != member.said:
        member.said = heard
        _read(state, member, pod, said)
        assign_member(state, member)
    else:
        state.touch(state.home[record.key][0])
    member.kept = admission_in_status(pod) or member.kept
    member.never_preempts = pod.spec.preemption_policy == "Never"
    member.ended = pod.status.reason if pod.terminated else ""
    member.nominated = pod.status.nominated_node_name
    member.told = member.told if member.told[0] else _told(pod)


def note_foreign_pod(state: State, pod: Pod) -> None:
    """Remember a pod that says it is in a pod group and leaves its placing to another scheduler: a common slip."""
    group = pod.metadata.labels.get(POD_GROUP)
    key = (pod.metadata.namespace, pod.metadata.name)
    drop_foreign_pod(state, key)
    if group and not pod.terminated:
        state.strangers.setdefault((key[0], group), {})[key] = pod.spec.scheduler_name
        state.stranger_in[key] = (key[0], group)
        state.touch(("PodGroup", key[0], group))


def drop_foreign_pod(state: State, key: PodKey) -> None:
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
    state.ancestry.leave(member)
    _unfile(state, key)
    return member


def assign_member(state: State, member: Member) -> None:
    """Put a member where it belongs, and note that its workload must be looked at."""
    key, address = member.pod.key, group_of(state, member)
    if state.home.get(key) != address:
        if member.pod.assumed and not member.sent:
            give_back(state, member)  # it was reserved as part of another gang
        _unfile(state, key)
        state.home[key] = address
        workload_key, group = address
        workload = state.workloads.get(workload_key)
        if workload is None:
            workload = state.workloads[workload_key] = Workload(workload_key, created=member.pod.created)
        workload.group(group).add(key, member)
        if member.charge is not None and member.charge.holder != workload.name:
            state.refund(member.charge)
            member.charge = replace(member.charge, holder=workload.name)
            state.charge(member.charge)
    state.touch(address[0])


def reassign_members(state: State, namespace: str, name: str) -> None:
    """File again the members that name a PodGroup or Workload, because it has arrived, changed or gone."""
    for member in list(state.naming.get((namespace, name), {}).values()):
        assign_member(state, member)


def group_of(state: State, member: Member) -> Address:
    """Return the workload and group that a member belongs to by what is known now."""
    claim = member.claim
    if claim.workload:
        return ("Workload", claim.namespace, claim.workload), _group_in(state, claim)
    if claim.group:
        found = state.catalog.get(PodGroupObject, claim.namespace, claim.group)
        if found is not None and found.spec.workload_ref is not None:
            ref = found.spec.workload_ref
            return ("Workload", claim.namespace, ref.name), ref.pod_group or claim.group
        return ("PodGroup", claim.namespace, claim.group), claim.role or task_role(
            state.gang_objects, claim
        ) or claim.group
    return ("Pod", *member.pod.key), member.pod.name


def _read(state: State, member: Member, pod: Pod, said: PodTexts) -> None:
    """Take over what a pod says of itself."""
    try:
        claim, member.problem = state.sayings.read(said, pod)
    except Exception as error:  # noqa: BLE001 - a bulkhead: it is this pod's, and what it has of quota stays charged
        state.out.append(decisions.fault_of(("Pod", *member.pod.key), error, "reading"))
        claim = Claim(namespace=pod.metadata.namespace)
        member.problem = f"what it says of its gang raises {decisions.error_text(error)}"
    if claim != member.claim:
        _unname(state, member)
        member.near = member_topology(claim.topology)
        for name in _names(claim):
            state.naming.setdefault(name, {})[member.pod.key] = member
    member.claim = claim  # though it says the same: it is remembered while somebody has it
    member.annotation = within_bounds(pod.metadata.annotations.get(ADMISSION_ANNOTATION, ""))
    state.ancestry.leave(member)
    member.owner = controller_of(pod.metadata.owner_references)
    state.ancestry.join(member)
    member.gate = pod.metadata.annotations.get(GATE_ANNOTATION)
    member.noted = state.hosting.noted(pod.metadata.annotations)


def _unname(state: State, member: Member) -> None:
    """Forget which objects a member names."""
    for name in _names(member.claim):
        here = state.naming[name]
        del here[member.pod.key]
        if not here:
            del state.naming[name]


def _names(claim: Claim) -> dict[tuple[str, str], None]:
    """Return the namespace and name of each PodGroup or Workload that a claim names."""
    if not (claim.group or claim.workload or claim.object):
        return {}
    said_by = claim.object.partition("/")[0]
    return {(claim.namespace, name): None for name in (claim.group, claim.workload, said_by) if name}


def _told(pod: Pod) -> Reported:
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


def member_topology(said: TopologyClaim | None) -> PodSetTopology | None:
    """Read what a pod says itself; pods of one gang that are not alike may each say something else."""
    if said is None:
        return None
    level = (said.level,) if said.level else ()
    return PodSetTopology(
        level if said.mode == "Required" else (),
        level if said.mode == "Preferred" else (),
        tuple(Slice(level, size) for level, size in said.slices),
        together=f"{NAMED_TOGETHER} {said.group}" if said.group else "",
    )


PATIENCE_SECONDS = 10.0
"""How long pods whose owner has not been seen wait for it: watches tell of both in any order."""


class InheritedQueue(NamedTuple):
    """A queue that an owner names, and who that is."""

    queue: str
    said_by: str


def owner_seen(state: State, seen: OwnerSeen) -> None:
    """Take in what owns pods; those below it are looked at again."""
    _look_again(state, state.ancestry.put(seen.found))


def owner_kind_followed(state: State, said: OwnerKindFollowed) -> None:
    """Note whether the objects of a kind are seen; the members that wait for one need not, or must."""
    kind = (said.group, said.kind)
    state.ancestry.follow(kind, followed=said.followed)
    _look_again(state, state.ancestry.of_kind(kind))


def inherited_queues(state: State, workload: Workload) -> list[InheritedQueue]:
    """Return the queues that the owners of a workload's members name; more than one where they differ.

    Where an owner is yet to be seen, or names what cannot be a queue, that is the workload's problem.
    """
    owned = {member.owner.uid: member for member in workload.members() if member.owner is not None}
    found: dict[str, InheritedQueue] = {}
    awaited: OwnerReference | None = None
    for member in owned.values():
        try:
            said = _nearest(state, member)
        except ConventionError as error:
            workload.problem = workload.problem or Explanation(Gate.QUEUE, "InvalidQueue", str(error))
            continue
        if isinstance(said, InheritedQueue):
            found.setdefault(said.queue, said)
        elif said is not None:
            awaited = said
    _wait_for(state, workload, awaited)
    return list(found.values())


def _nearest(state: State, member: Member) -> InheritedQueue | OwnerReference | None:
    """Return the queue that the nearest owner names, or the owner that is yet to be seen; None where none names one.

    Raises:
        ConventionError: What it names cannot be a queue.
    """
    at = member.owner
    for _ in range(MOST_OWNER_LEVELS):
        if at is None:
            return None
        pod = state.members.get((member.pod.namespace, at.name)) if (at.api_version, at.kind) == ("v1", "Pod") else None
        if pod is not None and pod.pod.uid == at.uid:
            if pod.claim.queue:
                return InheritedQueue(pod.claim.queue, f"Pod {at.name}")
            at = pod.owner
            continue
        known = state.ancestry.known(at, member.pod.namespace)
        if known is None:
            return at if state.ancestry.is_followed(at) else None
        queue = _named(state, known)
        if queue:
            return InheritedQueue(queue, f"{known.kind} {known.name}")
        at = known.controller
    return None


def _named(state: State, owner: OwnerObject) -> str:
    """Return the queue that an owner's labels name, or ""."""
    for name in QUEUE_LABELS:
        if name != kueue.QUEUE_NAME or state.configuration.conventions.kueue:
            queue = existing_name(owner.labels.get(name, ""), f"{owner.kind} {owner.name}: {label(name)}")
            if queue:
                return queue
    return ""


def _wait_for(state: State, workload: Workload, awaited: OwnerReference | None) -> None:
    """Hold back what may be in a queue that nobody has seen yet, for a while; what runs goes on."""
    if awaited is None or workload.phase in UNDER_WAY:
        workload.owner_awaited = None
        return
    if workload.owner_awaited is None:
        workload.owner_awaited = state.now
    until = workload.owner_awaited + PATIENCE_SECONDS
    if state.now < until:
        text = f"{awaited.kind} {awaited.name}, which controls its pods, has not been seen yet; it may name their queue"
        workload.problem = workload.problem or Explanation(Gate.QUEUE, "OwnerNotSeen", text)
        state.set_alarm(workload, until)


def _look_again(state: State, members: Sequence[Member]) -> None:
    for member in members:
        home = state.home.get(member.pod.key)
        if home is not None:
            state.touch(home[0])
