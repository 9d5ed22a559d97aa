"""Which pods belong together: members find their workload and group, whatever arrives first.

A member is filed under the address that its claim and the PodGroup named there give. When a PodGroup or Workload
arrives, changes or goes, the members concerned are filed again.
"""

from __future__ import annotations

from dataclasses import replace

from tutti.api.conventions import GangMembership
from tutti.api.conventions.membership import within_bounds
from tutti.api.conventions.named_groups import POD_GROUP
from tutti.api.core import Pod
from tutti.api.kinds import PodGroup as PodGroupObject
from tutti.api.kinds import Workload as WorkloadObject
from tutti.api.owners import controller_of
from tutti.cluster.pods import PodKey
from tutti.engine.ingest.nearness import of_claim
from tutti.engine.lifecycle.reservation import give_back, note_loss
from tutti.engine.reading.admissions import kept_of
from tutti.engine.records import faults
from tutti.engine.records.gang_objects import task_of
from tutti.engine.records.members import Member, Told
from tutti.engine.records.sayings import ADMISSION_ANNOTATION, GATE_ANNOTATION, Saying
from tutti.engine.records.workloads import Workload
from tutti.engine.state import Address, State


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
        member = state.members[record.key] = Member(record, pod.spec.scheduler_name, GangMembership())
    said = state.sayings.of(pod)
    if (heard := hash((pod.metadata.uid, said))) != member.said:
        member.said = heard
        _read(state, member, pod, said)
        file(state, member)
    else:
        state.touch(state.home[record.key][0])
    member.kept = kept_of(pod) or member.kept
    member.never_preempts = pod.spec.preemption_policy == "Never"
    member.ended = pod.status.reason if pod.terminated else ""
    member.nominated = pod.status.nominated_node_name
    member.told = member.told if member.told[0] else _told(pod)


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
    state.ancestry.leave(member)
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
        workload.group(group).add(key, member)
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
        return ("PodGroup", claim.namespace, claim.group), claim.role or task_of(
            state.gang_objects, claim
        ) or claim.group
    return ("Pod", *member.pod.key), member.pod.name


def _read(state: State, member: Member, pod: Pod, said: Saying) -> None:
    """Take over what a pod says of itself."""
    try:
        claim, member.problem = state.sayings.read(said, pod)
    except Exception as error:  # noqa: BLE001 - a bulkhead: it is this pod's, and what it has of quota stays charged
        state.out.append(faults.fault_of(("Pod", *member.pod.key), error, "reading"))
        claim = GangMembership(namespace=pod.metadata.namespace)
        member.problem = f"what it says of its gang raises {faults.said(error)}"
    if claim != member.claim:
        _unname(state, member)
        member.near = of_claim(claim.topology)
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


def _names(claim: GangMembership) -> dict[tuple[str, str], None]:
    """Return the namespace and name of each PodGroup or Workload that a claim names."""
    if not (claim.group or claim.workload or claim.object):
        return {}
    said_by = claim.object.partition("/")[0]
    return {(claim.namespace, name): None for name in (claim.group, claim.workload, said_by) if name}


def _told(pod: Pod) -> Told:
    """Return what the pod's condition already says, so that a restart does not write it again."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message, 0.0
    return "", "", 0.0


def _group_in(state: State, claim: GangMembership) -> str:
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
