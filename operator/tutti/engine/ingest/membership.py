"""Which pods belong together, and in which queue: members find their workload and group, whatever arrives first.

A member belongs to the group that its annotations and the PodGroup named there give, or else that what owns it makes
(`owned_gangs.py`). When a PodGroup, Workload or owner arrives, changes or goes, the members concerned are filed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tutti.api.conventions import GangMembership
from tutti.api.conventions.membership import within_bounds
from tutti.api.conventions.named_groups import POD_GROUP, VOLCANO
from tutti.api.conventions.order_annotations import order_hints
from tutti.api.core import Pod
from tutti.api.frameworks import InheritedTerms, OwnedGang, OwnerAwaited, UnusableOwner, marked, projected_pod
from tutti.api.kinds import PodGroup as PodGroupObject
from tutti.api.kinds import Workload as WorkloadObject
from tutti.cluster.pods import BOUND, PodKey, PodRecord
from tutti.engine.core_state import Address
from tutti.engine.ingest import IngestState
from tutti.engine.ingest.managed_owners import follow_held, follow_held_below, held_gone
from tutti.engine.ingest.owned_gangs import group_in, owned_by
from tutti.engine.ingest.topology_requests import member_topology
from tutti.engine.lifecycle.losses import note_loss
from tutti.engine.lifecycle.reservation import give_back
from tutti.engine.records import decisions
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.gang_membership import (
    GATE_ANNOTATION,
    SCALE_DOWN_MARK,
    PodTexts,
    says_movable,
    scale_down_annotations,
    task_role,
)
from tutti.engine.records.members import NOT_OWNED, Member, Owned, Reported
from tutti.engine.records.observations import OwnerGone, OwnerKindFollowed, OwnerSeen
from tutti.engine.records.pod_admission import ADMISSION_ANNOTATION, admission_in_status
from tutti.engine.records.workloads import UNDER_WAY, Workload


def put_member(state: IngestState, pod: Pod) -> None:
    """Take over what was seen of a pod of ours."""
    before = state.members.get((pod.metadata.namespace, pod.metadata.name))
    was, let_in_with = None, dict[str, int]()
    if before is not None:
        was = before.pod.assumed, before.pod.generation, before.pod.priority, before.hints
        let_in_with = before.pod.pod_class.requests
        if before.pod.uid != pod.metadata.uid:
            note_loss(state, before)  # another has come in its place
    record = state.cluster.put_pod(pod, keep=True)
    assert record is not None  # keep=True keeps every pod
    member = state.members.get(record.key)
    if member is not None and member.pod is not record:
        drop_member(state, record.key)
        member = None
    if member is None:
        member = state.members[record.key] = Member(record, pod.spec.scheduler_name, GangMembership())
    elif record.assumed and not (member.sent or member.unknown) and _asks_for_more(record, let_in_with):
        give_back(state, member)  # it was let in with less: there may be neither quota nor room for what it asks now
    said = state.memberships.of(pod)
    if (heard := hash((pod.metadata.uid, said, state.memberships.marks_of(pod)))) != member.parsed_from:
        member.parsed_from = heard
        _read(state, member, pod, said)
        assign_member(state, member)
        was = None
    member.hints = order_hints(pod.metadata.annotations)
    home = state.pod_group_of[record.key][0]
    if record.counted is BOUND and was == (record.node, record.generation, record.priority, member.hints):
        state.touch_bound(home)  # it is where it was sent, and all that is read of it is as it was
    else:
        state.touch(home)
    member.kept = admission_in_status(pod) or member.kept
    member.never_preempts = pod.spec.preemption_policy == "Never"
    member.ended = pod.status.reason if pod.terminated else ""
    member.nominated = pod.status.nominated_node_name
    if member.nominated and not pod.spec.node_name:
        state.workloads[home].nominates = True
    member.scale_down = scale_down_annotations(pod.metadata.annotations)
    state.some_speed = state.some_speed or bool(member.hints.speed)
    if SCALE_DOWN_MARK in member.scale_down:
        state.workloads[home].some_protected = True
    if not member.reported[2]:  # this process has told it nothing yet: another one may go on telling it
        member.reported, member.told_generation = _told(pod)


def _asks_for_more(record: PodRecord, before: Mapping[str, int]) -> bool:
    """Whether a pod has come to ask for more of anything."""
    now = record.pod_class.requests
    return now is not before and any(amount > before.get(name, 0) for name, amount in now.items())


def note_foreign_pod(state: IngestState, pod: Pod) -> None:
    """Remember a pod that says it is in a pod group and leaves its placing to another scheduler: a common slip."""
    group = pod.metadata.labels.get(POD_GROUP)
    key = (pod.metadata.namespace, pod.metadata.name)
    drop_foreign_pod(state, key)
    if group and not pod.terminated:
        state.foreign_pods.setdefault((key[0], group), {})[key] = pod.spec.scheduler_name
        state.foreign_pod_group_of[key] = (key[0], group)
        state.touch(("PodGroup", key[0], group))


def drop_foreign_pod(state: IngestState, key: PodKey) -> None:
    """Forget such a pod."""
    where = state.foreign_pod_group_of.pop(key, None)
    if where is not None:
        del state.foreign_pods[where][key]
        if not state.foreign_pods[where]:
            del state.foreign_pods[where]
        state.touch(("PodGroup", *where))


def put_alone(state: IngestState, pod: Pod, problem: str) -> None:
    """Take over a pod on a node by itself, because what it says raises: what it was admitted to stays charged."""
    record = state.cluster.put_pod(pod, keep=True)
    assert record is not None  # keep=True keeps every pod
    member = Member(record, pod.spec.scheduler_name, GangMembership(namespace=record.namespace), problem)
    member.annotation = within_bounds(pod.metadata.annotations.get(ADMISSION_ANNOTATION, ""))
    member.kept = admission_in_status(pod)
    state.members[record.key] = member
    assign_member(state, member)


def _part(state: IngestState, member: Member) -> None:
    """Have a gang not miss a member that runs on, and is to be another's: it has not lost it."""
    home = state.pod_group_of.get(member.pod.key)
    if home is not None and member.pod.node and home[0] in state.workloads:
        group = state.workloads[home[0]].group(home[1])
        group.had = max(0, group.had - 1)


def drop_member(state: IngestState, key: PodKey) -> Member | None:
    """Forget a member that does not exist any more; its quota goes back."""
    member = state.members.pop(key, None)
    if member is None:
        return None
    if member.charge is not None:
        state.refund(member.charge)
        member.charge = None
    _unname(state, member)
    state.owner_graph.leave(member)
    _unfile(state, key)
    return member


def assign_member(state: IngestState, member: Member) -> None:
    """Put a member where it belongs, and note that its workload must be looked at."""
    key, address = member.pod.key, group_of(state, member)
    if state.pod_group_of.get(key) != address:
        if member.pod.assumed and not member.sent:
            give_back(state, member)  # it was reserved as part of another gang
        _part(state, member)
        _unfile(state, key)
        state.pod_group_of[key] = address
        if key in state.followers.told:
            state.touch_followers(*key)  # somebody waits for it by name
        workload_key, group = address
        workload = state.take_in(workload_key, created=member.pod.created)
        workload.group(group).add(key, member)
        if member.charge is not None and member.charge.holder != workload.name:
            state.refund(member.charge)
            member.charge = msgspec.structs.replace(member.charge, holder=workload.name)
            state.charge(member.charge)
    state.touch(address[0])


def reassign_members(state: IngestState, namespace: str, name: str) -> None:
    """File again the members that name a PodGroup or Workload, because it has arrived, changed or gone."""
    members = list(state.members_by_reference.get((namespace, name), {}).values())
    for member in members:
        _agree(state, member)
    for member in members:
        assign_member(state, member)


def _agree(state: IngestState, member: Member) -> bool:
    """Note that a gang of several namespaces is one by what somebody says of the namespace whose queues it goes by.

    Its pods there say so, or its PodGroup, which is made when all have said their part. Whoever names a gang of
    another namespace without that is in one of his own namespace: he is not counted there, nor told what is there.

    Returns:
        Whether that has just become known, so that those who waited for it are to be filed again.
    """
    claim = member.claim
    name = claim.namespace, claim.group
    if not claim.shared or name in state.agreed:
        return False
    if member.pod.namespace != claim.namespace and state.catalog.get(PodGroupObject, *name) is None:
        return False
    state.agreed.add(name)
    return True


def group_of(state: IngestState, member: Member) -> Address:
    """Return the workload and group that a member belongs to by what is known now."""
    claim = member.claim
    if claim.shared and (claim.namespace, claim.group) not in state.agreed:
        return ("PodGroup", member.pod.namespace, claim.group), claim.role
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
    gang = member.owned.gang
    if isinstance(gang, OwnedGang):
        return ("PodGroup", claim.namespace, gang.starts_with), group_in(gang)
    return ("Pod", *member.pod.key), member.pod.name


def _read(state: IngestState, member: Member, pod: Pod, said: PodTexts) -> None:
    """Take over what a pod says of itself."""
    try:
        claim, member.problem = state.memberships.read(said, pod)
    except Exception as error:  # noqa: BLE001 - a bulkhead: it is this pod's, and what it has of quota stays charged
        state.out.append(decisions.fault_of(("Pod", *member.pod.key), error, "reading"))
        claim = GangMembership(namespace=pod.metadata.namespace)
        member.problem = f"what it says of its gang raises {decisions.error_text(error)}"
    if claim != member.claim:
        _unname(state, member)
        member.topology = member_topology(claim.topology)
        for name in _names(claim):
            state.members_by_reference.setdefault(name, {})[member.pod.key] = member
    member.claim = claim  # though it says the same: it is remembered while somebody has it
    member.annotation = within_bounds(pod.metadata.annotations.get(ADMISSION_ANNOTATION, ""))
    state.owner_graph.leave(member)
    says = bool(claim.group or claim.workload)
    member.marks = marked(pod.metadata, pod.spec.scheduler_name, state.kinds.pod_keys, says_group=says)
    state.owner_graph.join(member)
    member.owned = _owned(state, member) if member.marks.owner or member.marks.labels else NOT_OWNED
    member.gate = pod.metadata.annotations.get(GATE_ANNOTATION)
    movable = says_movable(pod.metadata.annotations)
    if movable is not member.movable and member.pod.place:
        state.cluster.freed.anywhere()  # it may be moved now for who waits, or may not
    member.movable = movable
    member.plugin_annotations = state.plugin_host.annotations_read(pod.metadata.annotations)
    if _agree(state, member):
        reassign_members(state, claim.namespace, claim.group)


def _owned(state: IngestState, member: Member) -> Owned:
    """Return what a member has from its owners; where working that out raises, they count as such that are wrong."""
    try:
        return owned_by(state, member)
    except Exception as error:  # noqa: BLE001 - a bulkhead: it is this pod's, and others below the same owner go on
        state.out.append(decisions.fault_of(("Pod", *member.pod.key), error, "reading"))
        owner = member.marks.owner
        title = f"{owner.kind} {owner.name}" if owner is not None else f"Pod {member.pod.name}"
        return Owned(UnusableOwner(title, (f"what it says raises {decisions.error_text(error)}",)), InheritedTerms())


def _unname(state: IngestState, member: Member) -> None:
    """Forget which objects a member names."""
    for name in _names(member.claim):
        here = state.members_by_reference[name]
        del here[member.pod.key]
        if not here:
            del state.members_by_reference[name]
            state.agreed.discard(name)


def _names(claim: GangMembership) -> dict[tuple[str, str], None]:
    """Return the namespace and name of each PodGroup or Workload that a claim names."""
    if not (claim.group or claim.workload or claim.object):
        return {}
    said_by = claim.object.partition("/")[0]
    return {(claim.namespace, name): None for name in (claim.group, claim.workload, said_by) if name}


def _told(pod: Pod) -> tuple[Reported, int]:
    """Return what the pod's condition already says, and for which generation: a restart does not write it again."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return (condition.reason, condition.message, 0.0), condition.observed_generation
    return ("", "", 0.0), 0


def _group_in(state: IngestState, claim: GangMembership) -> str:
    if claim.group:
        return claim.group
    found = state.catalog.get(WorkloadObject, claim.namespace, claim.workload)
    if found is not None and len(found.spec.pod_groups) == 1:
        return found.spec.pod_groups[0].name
    return ""


def _unfile(state: IngestState, key: PodKey) -> None:
    address = state.pod_group_of.pop(key, None)
    if address is None:
        return
    workload = state.workloads[address[0]]
    workload.groups[address[1]].remove(key)
    state.touch(workload.key)


PATIENCE_SECONDS = 10.0
"""How long pods whose owner has not been seen wait for it: watches tell of both in any order."""


def owner_seen(state: IngestState, seen: OwnerSeen) -> None:
    """Take in what owns pods; those below it are filed by what it says."""
    found, before = seen.found, state.owner_graph.known(seen.found.uid)
    members = state.owner_graph.put(found)
    follow_held(state, found)
    if before != found:
        follow_held_below(state, found)
    _file_again(state, members)
    if before is None or before.ended != found.ended:
        state.touch_followers(found.namespace, found.name)
    if found.group == VOLCANO:
        state.gang_objects.owner_seen(found.uid)


def owner_gone(state: IngestState, gone: OwnerGone) -> None:
    """Forget what owned pods; who waited for its end is told that it is there no more."""
    found = state.owner_graph.known(gone.uid)
    state.owner_graph.drop(gone.uid)
    held_gone(state, gone.uid, found)
    if found is not None:
        state.touch_followers(found.namespace, found.name)


def note_foreign_owner(state: IngestState, pod: Pod) -> None:
    """Remember a pod of another scheduler that may own pods of ours: a driver of Spark, a leader of LeaderWorkerSet."""
    meta = pod.metadata
    if meta.owner_references and not state.kinds.owning_keys.isdisjoint(meta.labels):
        marks = marked(meta, pod.spec.scheduler_name, state.kinds.pod_keys, says_group=False)
        _file_again(state, state.owner_graph.put(projected_pod(marks)))


def owner_kind_followed(state: IngestState, said: OwnerKindFollowed) -> None:
    """Note whether the objects of a kind are seen; the members that wait for one need not, or must."""
    kind = (said.group, said.kind)
    state.owner_graph.follow(kind, followed=said.followed)
    _file_again(state, state.owner_graph.of_kind(kind))


def await_owners(state: IngestState, workload: Workload) -> Explanation | None:
    """Hold back pods of which nobody knows yet which queue and gang they are in, for a while; what runs goes on.

    Returns:
        What they wait for; None where they wait for no owner.
    """
    owned = next((m.owned for m in workload.members() if isinstance(m.owned.gang, OwnerAwaited)), None)
    if owned is None or workload.phase in UNDER_WAY:
        workload.owner_awaited = None
        return None
    assert isinstance(owned.gang, OwnerAwaited)  # so it was looked for
    if workload.owner_awaited is None:
        workload.owner_awaited = state.now
    until = workload.owner_awaited + PATIENCE_SECONDS
    if owned.awaited is not None and state.now >= until:
        _file_again(state, state.owner_graph.await_no_more(owned.awaited.uid))
        return None
    text = f"{owned.gang.text}; it may name their queue, and which of them are one gang"
    if owned.awaited is not None:
        state.set_alarm(workload, until)
    return Explanation(Gate.QUEUE, "OwnerNotSeen", text)


def _file_again(state: IngestState, members: Sequence[Member]) -> None:
    """File members by what is known of their owners now; one that has a node stays where it is."""
    for member in members:
        address = state.pod_group_of.get(member.pod.key)
        if address is None:
            continue
        try:
            member.owned = _owned(state, member)
            if member.pod.place and state.workloads[address[0]].phase in UNDER_WAY:
                state.touch(address[0])
            else:
                assign_member(state, member)
        except Exception as error:  # noqa: BLE001 - a bulkhead: one member must not keep the others where they are
            state.out.append(decisions.fault_of(("Pod", *member.pod.key), error, "observing"))
            member.parsed_from = None  # whatever it says next is read
