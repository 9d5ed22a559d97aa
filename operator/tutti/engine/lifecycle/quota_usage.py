"""What admitted workloads use of quota: how much, and what preemption goes by of them.

An admission charges in `admission._take` and `batches`; from then on usage follows pods here. Quota of deleted pods is
given back in `membership.drop_member`, of members that were never bound in `reservation.give_back`.

Usage is a recount at any moment: it follows a pod that is resized in place, up and down, and a process that was
started anew counts what its predecessor did. What that goes by is kept in the pod's status. Until it is there, the pod
tells it itself (by its admission annotation), which a tenant may write over; how far that is believed is said in
`is_believed` and `_flavor_of`, and in docs/security.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from itertools import chain

from tutti.api.kinds import LocalQueue, PodGroup
from tutti.api.kinds import Workload as WorkloadObject
from tutti.api.resources import Amounts
from tutti.cluster.pods import PodRecord
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.decisions import KeepAdmission
from tutti.engine.records.gang_membership import says_movable
from tutti.engine.records.members import Charge, Member
from tutti.engine.records.pod_admission import admission_text, read_admission
from tutti.engine.records.workloads import ADMITTED, UNDER_WAY, Phase, Workload, WorkloadKey
from tutti.quota.flavors import FlavorByResource, FlavorGroup, uncovered
from tutti.quota.holder_use import PART
from tutti.quota.snapshot import AdmittedWorkload
from tutti.quota.tree import Usage, add_to

Labels = Mapping[str, str]


def update_charges(state: LifecycleState, workload: Workload) -> None:
    """Let quota follow the pods: what has ended or is lost uses none, what has a node as much as it holds there."""
    for member in workload.members():
        pod = member.pod
        if member.charge is not None and (pod.lost or not pod.place):
            state.refund(member.charge)
            member.charge = None
        elif member.charge is None and pod.node and not (pod.terminated or pod.lost):
            member.charge, member.loss_noted = found_charge(state, workload, member), False
            workload.out_of_turn = workload.out_of_turn or _was_out_of_turn(member)
            if member.charge is not None:
                state.charge(member.charge)
                workload.cluster_queue = workload.cluster_queue or member.charge.queue
        elif member.charge is not None:
            _update_charge(state, member, member.charge)
        if pod.node and not member.kept and member.charge is not None:
            charge, out_of_turn = member.charge, workload.out_of_turn
            member.kept = admission_text(charge.queue, charge.admitted_flavors, out_of_turn=out_of_turn)
            state.out.append(KeepAdmission(pod.namespace, pod.name, pod.uid, member.kept))


def _was_out_of_turn(member: Member) -> bool:
    """Whether the status of a pod tells that it was admitted out of turn; what an annotation says is not believed."""
    kept = read_admission(member.kept)
    return kept is not None and kept.out_of_turn


def node_relabelled(state: LifecycleState, name: str, before: Labels | None) -> None:
    """Look again at who is on a node that has other labels now: it may be of another flavor."""
    row = state.cluster.nodes.rows[name]
    if before is None or before == state.cluster.nodes.labels[row]:
        return
    for record in state.cluster.on_node(name):
        if record.key in state.pod_group_of:
            state.touch(state.pod_group_of[record.key][0])


def _update_charge(state: LifecycleState, member: Member, charge: Charge) -> None:
    """Bring what a member uses up to date with what it holds, and with the flavors of its queue."""
    pod, held = member.pod, charged_of(state, member.pod)
    basis = held, labels_of(state, pod.node), state.catalog.version
    known = member.settled
    if known is not None and (known[0] is held or known[0] == held) and known[1] is basis[1] and known[2] == basis[2]:
        return
    member.settled = basis
    flavors = flavors_of(state, charge.queue, charge.admitted_flavors, held, pod.node) if pod.node else charge.flavors
    usage = _usage(flavors, held)
    if usage == charge.usage and flavors == charge.flavors:
        return
    change: Usage = dict(usage)
    add_to(change, charge.usage, -1)
    state.ledger.adjust(charge.queue, change, charge.holder)
    member.charge = Charge(charge.queue, flavors, usage, charge.holder, charge.admitted_flavors)


def charged_of(state: LifecycleState, pod: PodRecord) -> Amounts:
    """Return what quota counts of a pod that has a node, or is to have one: what it was granted there, and devices.

    A raise that its kubelet has put off, or has yet to answer, holds room of its node and is not in use: whoever may
    resize his pods would have others of his cohort wait for any amount that he names.
    """
    devices, amounts = state.cluster.nodes.devices, pod.held if pod.granted is None else pod.granted
    if not devices.quota:
        return amounts
    return devices.charged(pod.uid, pod.device_uses, pod.pod_class.spec, amounts)


def found_charge(state: LifecycleState, workload: Workload, member: Member) -> Charge | None:
    """Work out what a pod that was found bound uses: by its status, its admission annotation, or the node it is on.

    Where only its owner names a queue, its binding must tell that it was admitted: labels of owners can be changed
    while pods run (those of pods cannot: manifests/components/policies), and what began outside of queues stays so.
    Where nothing tells it, its node must work, or its kubelet have taken it over: that refuses what it has no room for,
    and whoever writes its node himself may write one that is dead, and any amount.
    """
    if not (member.annotation or member.kept or (workload.queue and not workload.inherits_queue)):
        return None  # nothing names a queue
    pod = member.pod
    since = pod.created if pod.started is None else pod.started
    kept, held = read_admission(member.kept), charged_of(state, pod)
    said = kept or read_admission(member.annotation)
    if said is not None and (said is kept or is_believed(state, workload, said.cluster_queue, since)):
        queue, flavors = said.cluster_queue, said.flavors
    else:
        queue, flavors = state.leads_to(workload.key[1], workload.queue), {}
        known = state.catalog.queues.get(queue)
        if known is None or pod.node not in state.cluster.nodes.rows or uncovered(known, held):
            return None
        if pod.started is None and not state.cluster.is_working(pod.node):
            return None
    found = flavors_of(state, queue, flavors, held, member.pod.node)
    return Charge(queue, found, _usage(found, held), workload.name, flavors or None)


def is_believed(state: LifecycleState, workload: Workload, queue: str, since: float) -> bool:
    """Whether something tells the queue by which a pod was admitted that has run since then; it could be forged.

    An annotation is written by anybody who may edit the pod, and what a status keeps by whoever may write that.

    It does where somebody else says the same: the LocalQueue that the pod names, or the status of its Workload, which
    we write. Else it must be of a ClusterQueue that lets the namespace in, and one that another LocalQueue of the
    namespace leads to, so that whoever edits the pod could have had it there without a lie; or the LocalQueue that the
    pod names must be gone, or have been made only after the pod had started, for then there may have been another in
    its place.
    """
    namespace = workload.key[1]
    if queue and queue in (state.leads_to(namespace, workload.queue), _told_in_status(state, workload)):
        return True
    if not state.catalog.admits_from(queue, namespace):
        return False
    if queue in state.catalog.led_to(namespace):
        return True
    local = state.catalog.get(LocalQueue, namespace, workload.queue)
    if local is None:
        return bool(workload.queue)
    made = local.metadata.creation_timestamp
    return bool(made) and datetime.fromisoformat(made).timestamp() >= since


def _told_in_status(state: LifecycleState, workload: Workload) -> str:
    """Return the ClusterQueue that the status of a Workload said it was admitted by; "" for none."""
    found = state.catalog.find(workload.key)
    admission = found.status.admission if isinstance(found, WorkloadObject) else None
    return admission.cluster_queue if admission is not None else ""


def flavors_of(
    state: LifecycleState, queue: str, said: FlavorByResource, held: Mapping[str, int], node: str
) -> FlavorByResource:
    """Return in which flavors of a queue a pod on a node is counted that was admitted in some; one per resource."""
    known = state.catalog.queues.get(queue)
    if known is None:
        return {name: flavor for name, flavor in said.items() if name in held}
    labels = labels_of(state, node)
    covered = {name for group in known.groups for name in group.covered}
    # What a queue has no quota of any more is in use all the same, and missing in its cohort.
    found: FlavorByResource = {name: flavor for name, flavor in said.items() if name in held and name not in covered}
    for group in known.groups:
        for name in group.covered:
            if held.get(name, 0) > 0 or (name in said and name in held):
                flavor = _flavor_of(state, group, said, name, labels)
                found.update({name: flavor} if flavor else {})
    return found


def _flavor_of(
    state: LifecycleState, group: FlavorGroup, said: FlavorByResource, name: str, labels: Labels | None
) -> str:
    """Return the flavor of a resource; "" where nothing tells it.

    That in which it was admitted, or others of its resource group were, as long as the queue has it and the node is of
    it. Else the node tells: which flavor of the queue it is of. Where it is of none, because somebody has changed its
    labels or those of flavors, what was said stands.
    """
    admitted = [said[one] for one in (name, *group.covered) if one in said]
    listed = [one for one in admitted if one in group.flavors]
    if labels is not None:
        for flavor in (*listed, *group.flavors):
            if _is_of(state, flavor, labels):
                return flavor
    return next(iter((*listed, *admitted)), "")


def _is_of(state: LifecycleState, flavor: str, labels: Labels) -> bool:
    """Whether a node with these labels is of a flavor."""
    found = state.catalog.flavors.get(flavor)
    return found is not None and all(labels.get(key) == value for key, value in found.node_labels)


def labels_of(state: LifecycleState, node: str) -> Labels | None:
    """Return the labels of a node; None where it is not known."""
    row = state.cluster.nodes.rows.get(node)
    return None if row is None else state.cluster.nodes.labels[row]


def _usage(flavors: FlavorByResource, held: Mapping[str, int]) -> Usage:
    """Return what a pod uses that holds so much, in these flavors."""
    return {(flavor, name): held.get(name, 0) for name, flavor in flavors.items()}


def describe_holder(state: LifecycleState, workload: Workload) -> None:
    """Have what a workload holds described as it is now; nothing happens where it holds nothing."""
    if state.ledger.holds(workload.name):
        state.ledger.describe(workload.name, holder_of(state, workload, {}))


def note_exposure(state: LifecycleState, workload: Workload) -> None:
    """Have those who wait for nodes look again, where one that has some may be taken out for them now as it was not.

    Whom it may be taken out for goes by its priority; which of its pods, by how many of them it needs and whether they
    leave together. All of that may change, or go with its object, while it runs.
    """
    found = state.catalog.get(PodGroup, *workload.key[1:]) if workload.key[0] == "PodGroup" else None
    mode = found.spec.disruption_mode if found is not None else ""
    movable = None if found is None else says_movable(found.metadata.annotations)
    needed = [group.min_count for group in workload.groups.values()]
    exposure = workload.priority, workload.queue, mode, movable, needed, _apart(workload)
    before, workload.exposure = workload.exposure, exposure
    if before is not None and before != exposure and workload.phase in ADMITTED:
        kept = (hold.node for group in workload.groups.values() for hold in group.holds)
        state.cluster.freed.on(chain((member.pod.place for member in workload.members()), kept))


def _apart(workload: Workload) -> Hashable:
    """Return what decides which pods of a gang whose priorities differ may be taken out: the highest spares the rest.

    None for a gang of one priority: whoever is above it may take out the whole of it, if not some of it.
    """
    if workload.key[0] == "Pod" or workload.phase not in ADMITTED:
        return None
    placed = [member.pod for member in workload.members() if member.pod.place]
    if not placed or all(pod.priority == placed[0].priority for pod in placed):
        return None
    return workload.phase, frozenset((pod.key, pod.started, pod.deleting) for pod in placed)


def holder_of(state: LifecycleState, workload: Workload, usage: Usage) -> AdmittedWorkload:
    """Return what preemption goes by of a workload that has so much of the quota of its ClusterQueue."""
    queue = state.catalog.queues.get(workload.cluster_queue)
    return AdmittedWorkload(
        workload.name,
        workload.cluster_queue,
        usage,
        priority=workload.priority,
        queued_at=workload.queued_at,
        reserved_at=_reserved_at(workload),
        evicted=workload.phase is Phase.LEAVING,
        uid=workload.uid,
        local_queue=f"{workload.key[1]}/{workload.queue}",
        cross_queue_priority=None if queue is None else queue.cross_queue_priority(workload.priority),
        out_of_turn=workload.out_of_turn,
    )


def without_protected(state: LifecycleState, holders: Iterable[AdmittedWorkload]) -> list[AdmittedWorkload]:
    """Leave out who may not be preempted: it has not run long enough, or is none that could be told to leave."""
    workloads, ours = state.workloads, state.nominations.ours
    known = [(one, key) for one in holders if (key := _key_of(one.name)) in workloads and key not in ours]
    if state.moves.plans:  # who is moved was promised to have the same again
        known = [(one, key) for one, key in known if not state.moves.concerns(key)]
    if state.catalog.protects_anybody:
        known = [(one, key) for one, key in known if protected_until(state, workloads[key]) <= state.now]
    return [one for one, _ in known]


def workload_of(state: LifecycleState, holder: AdmittedWorkload) -> Workload | None:
    """Return the workload of a holder, or of which it is a member that stands by itself."""
    return state.workloads.get(_key_of(holder.name))


@lru_cache(maxsize=2**16)
def _key_of(holder: str) -> WorkloadKey:
    """Return the key of the workload that a holder is, or is a part of, from its name; asked of every candidate."""
    kind, namespace, name = holder.partition(PART)[0].split("/")
    return kind, namespace, name


def _reserved_at(workload: Workload) -> float:
    """Return when a workload was given quota; of one found bound, since when it runs, as its object or pods tell.

    Pods tell when the last of them had started, which may have come in the place of another.
    """
    if workload.reserved_at is not None:
        return workload.reserved_at
    started = [member.pod.started for member in workload.members() if member.pod.place]
    last = max((time for time in started if time is not None), default=math.inf)
    return last if workload.running_since is None else min(last, workload.running_since)


def protected_until(state: LifecycleState, workload: Workload) -> float:
    """Return until when a workload may not be chosen as a victim, Unix seconds; 0 where it may at any time.

    That is `preemption.minimumRuntimeSeconds` of its ClusterQueue, which need not be readable otherwise, after its
    required members have been bound; while they are being bound it is protected, too, and while it only holds a
    reservation it has nothing to lose.
    """
    seconds = state.catalog.minimum_runtime(workload.cluster_queue)
    if not seconds or workload.phase not in UNDER_WAY:
        return 0.0
    since = state.now if workload.running_since is None else workload.running_since
    return since + seconds
