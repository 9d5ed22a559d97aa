"""What each observation changes of what is known. Nothing is decided here.

An observation that raises is set aside (`setting_aside.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from tutti.api.kinds import PodGroup
from tutti.api.limits import remaining
from tutti.api.numa import KIND as NODE_TOPOLOGY
from tutti.engine.admission import extenders
from tutti.engine.ingest import IngestState, managed_owners
from tutti.engine.ingest.implicit_gangs import pod_group_written
from tutti.engine.ingest.membership import (
    drop_foreign_pod,
    drop_member,
    note_foreign_owner,
    note_foreign_pod,
    owner_gone,
    owner_kind_followed,
    owner_seen,
    put_member,
    reassign_members,
)
from tutti.engine.ingest.promises import allowances_changed
from tutti.engine.lifecycle import (
    binding,
    checks,
    device_objects,
    eviction,
    interruptions,
    limits,
    network_objects,
    provisioning,
    quota_usage,
    scale_down,
    volumes,
    worse_nodes,
)
from tutti.engine.lifecycle.losses import note_loss
from tutti.engine.lifecycle.reservation import lost_node
from tutti.engine.preemption import nominations
from tutti.engine.reading.objects import LOCAL, SHARED
from tutti.engine.records import observations
from tutti.engine.records.decisions import EmitEvent
from tutti.engine.records.device_observations import DeviceObjectGone, DeviceObjectSeen
from tutti.engine.records.measurements import Measured
from tutti.engine.records.moves import told_moves
from tutti.engine.records.observation import Observation
from tutti.engine.records.provisioning import (
    ProvisioningFollowed,
    ProvisioningGone,
    ProvisioningSeen,
    ProvisioningWritten,
)
from tutti.engine.records.workloads import FENCE
from tutti.placement.preemption.victim_cost import budget_of

_QUEUES: Final = ("ClusterQueue", "LocalQueue")
_OF_ROOM: Final = (observations.PodSeen, observations.PodGone, observations.NodeSeen, observations.NodeGone)


def observe(state: IngestState, observation: Observation) -> None:
    """Take in one observation."""
    kind = type(observation)
    if kind in _OF_ROOM:
        state.free_is_stale = True
    HANDLERS[kind](state, observation)


def _pod_seen(state: IngestState, seen: observations.PodSeen) -> None:
    pod = seen.pod
    if pod.spec.scheduler_name in state.profiles:
        put_member(state, pod)
    else:
        state.cluster.put_pod(pod, keep=False)
        note_foreign_pod(state, pod)
        note_foreign_owner(state, pod)
        nominations.note_foreign_nomination(state, pod)


def _pod_gone(state: IngestState, gone: observations.PodGone) -> None:
    drop_foreign_pod(state, (gone.namespace, gone.name))
    state.owner_graph.drop(gone.uid)
    nominations.drop_foreign_nomination(state, (gone.namespace, gone.name))
    member = state.members.get((gone.namespace, gone.name))
    if member is not None and gone.uid in ("", member.pod.uid):
        note_loss(state, member)
    record = state.cluster.remove_pod((gone.namespace, gone.name), gone.uid)
    if member is not None and member.pod is record:
        drop_member(state, record.key)


def _node_seen(state: IngestState, seen: observations.NodeSeen) -> None:
    name = seen.node.metadata.name
    before, offered = quota_usage.labels_of(state, name), worse_nodes.offer_of(state, name)
    for record in state.cluster.put_node(seen.node):
        if record.key in state.pod_group_of:
            state.touch(state.pod_group_of[record.key][0])
    worse_nodes.node_changed(state, name, offered)
    quota_usage.node_relabelled(state, name, before)


def _node_gone(state: IngestState, gone: observations.NodeGone) -> None:
    lost_node(state, state.cluster.remove_node(gone.name))


def _priority_class_seen(state: IngestState, seen: observations.PriorityClassSeen) -> None:
    state.reranked |= state.catalog.put_priority_class(seen.priority_class)


def _priority_class_gone(state: IngestState, gone: observations.PriorityClassGone) -> None:
    state.catalog.drop_priority_class(gone.name)
    state.reranked = True


def _namespace_seen(state: IngestState, seen: observations.NamespaceSeen) -> None:
    meta = seen.namespace.metadata
    if state.catalog.put_namespace(seen.namespace):
        state.stale_namespaces[meta.name] = None
        state.throttles.namespace_changed()
    state.cluster.put_namespace(meta.name, meta.labels)


def _namespace_gone(state: IngestState, gone: observations.NamespaceGone) -> None:
    state.catalog.drop_namespace(gone.name)
    state.cluster.nodes.namespaces.drop_namespace(gone.name)
    state.throttles.namespace_changed()


def _selecting_seen(state: IngestState, seen: observations.SelectingSeen) -> None:
    state.cluster.put_selecting(seen.found)


def _selecting_gone(state: IngestState, gone: observations.SelectingGone) -> None:
    state.cluster.drop_selecting(gone.kind, gone.namespace, gone.name)


def _budget_seen(state: IngestState, seen: observations.BudgetSeen) -> None:
    meta, now = seen.budget.metadata, budget_of(seen.budget)
    before = state.budgets.get((meta.namespace, meta.name))
    state.budgets[meta.namespace, meta.name] = now
    if before is not None and (now.allowed > before.allowed or now.selector != before.selector):
        state.budgets_eased += 1


def _budget_gone(state: IngestState, gone: observations.BudgetGone) -> None:
    if state.budgets.pop((gone.namespace, gone.name), None) is not None:
        state.budgets_eased += 1


def _allowance_seen(state: IngestState, seen: observations.AllowanceSeen) -> None:
    meta = seen.quota.metadata
    state.allowances.setdefault(meta.namespace, {})[meta.name] = remaining(seen.quota)
    allowances_changed(state, meta.namespace)


def _allowance_gone(state: IngestState, gone: observations.AllowanceGone) -> None:
    state.allowances.get(gone.namespace, {}).pop(gone.name, None)
    allowances_changed(state, gone.namespace)


def _throttle_seen(state: IngestState, seen: observations.ThrottleSeen) -> None:
    state.cluster.watch_labels(state.throttles.put(seen.kind, seen.raw), lasting=False)


def _throttle_gone(state: IngestState, gone: observations.ThrottleGone) -> None:
    state.throttles.drop((gone.kind, gone.namespace, gone.name))


def _storage_seen(state: IngestState, seen: observations.StorageSeen) -> None:
    volumes.storage_seen(state, seen.found)


def _storage_gone(state: IngestState, gone: observations.StorageGone) -> None:
    volumes.storage_gone(state, gone.kind, gone.namespace, gone.name)


def _device_object_seen(state: IngestState, seen: DeviceObjectSeen) -> None:
    device_objects.object_seen(state, seen.found)


def _device_object_gone(state: IngestState, gone: DeviceObjectGone) -> None:
    device_objects.object_gone(state, gone.kind, gone.namespace, gone.name)


def _node_topology_seen(state: IngestState, seen: observations.NodeTopologySeen) -> None:
    found = seen.found
    numa = state.cluster.nodes.numa
    before = numa.problem_of(found.name)
    state.cluster.put_topology(found)
    problem = numa.problem_of(found.name)
    if problem and problem != before:
        about = (found.api_version, NODE_TOPOLOGY, "", found.name, found.uid)
        note = f"{problem}. Until then no pod that has to be aligned to NUMA zones goes to this node"
        state.out.append(EmitEvent(*about, "Warning", "InvalidNodeTopology", "Scheduling", note))


def _node_topology_gone(state: IngestState, gone: observations.NodeTopologyGone) -> None:
    state.cluster.drop_topology(gone.name)


def _gang_object_seen(state: IngestState, seen: observations.GangObjectSeen) -> None:
    gang_object_changed(state, *state.gang_objects.put(seen.api_version, seen.kind, seen.raw))


def _gang_object_gone(state: IngestState, gone: observations.GangObjectGone) -> None:
    state.gang_objects.drop(gone.api_version, gone.kind, gone.namespace, gone.name)
    gang_object_changed(state, gone.namespace, gone.name)


def gang_object_changed(state: IngestState, namespace: str, name: str) -> None:
    """Have whom an object of another project's concerns read anew, once it came, changed or went."""
    listed = state.gang_objects.claims(namespace, name)
    state.touch_pods(state.cluster.device_users.put_group((namespace, name), *listed))
    reassign_members(state, namespace, name)


def _synced(state: IngestState, synced: observations.Synced) -> None:
    """Everything has been listed; the engine decides from now on, and nothing of what is known changes."""


def _unread(state: IngestState, unread: observations.ObjectUnread) -> None:
    """Believe no more what was known of a node; of anything else it is the best that there is."""
    if unread.kind == "Node":
        state.cluster.close_node(unread.name, f"it cannot be read: {unread.problem}")


def _evicted(state: IngestState, result: observations.EvictFinished) -> None:
    member = state.members.get((result.namespace, result.name))
    if result.done:
        return
    if member is not None and member.pod.uid == result.uid:
        eviction.eviction_refused(state, state.workloads[state.pod_group_of[member.pod.key][0]], member)
    elif member is None:
        nominations.victim_refused(state, (result.namespace, result.name), result.uid)


def _object_seen(state: IngestState, seen: observations.ObjectSeen) -> None:
    kind, meta = seen.kind, seen.raw["metadata"]
    if kind == "ClusterQueue":
        state.moves.heard[meta["name"]] = told_moves(seen.raw.get("status"))
    if state.catalog.has_read(kind, seen.raw):
        if kind in SHARED and kind not in _QUEUES:
            return  # their statuses are not the engine's
        told = _told(state, kind, meta.get("namespace", ""), meta["name"], meta.get("uid", ""))
        if told and FENCE not in told:
            return  # most of what is seen of an object is the echo of a status that was written here
        if told:  # a former leader has written it, after it was read here
            told.clear()
            if kind in _QUEUES:
                state.counts.forget_reported(meta.get("uid", ""))
                state.changed_queues["/".join(filter(None, (meta.get("namespace", ""), meta["name"])))] = None
    before = state.catalog.version, state.catalog.local_version
    namespace, name = state.catalog.put(kind, seen.raw)
    changed = (state.catalog.version, state.catalog.local_version) != before
    touch_concerned(state, kind, namespace, name, changed=changed)


def _told(state: IngestState, kind: str, namespace: str, name: str, uid: str) -> dict[str, Any]:
    """Return what an object was told from here, or said when that was first compared; empty where nothing is known."""
    if kind in _QUEUES:
        return state.counts.reported.get(uid, {})
    workload = state.workloads.get((kind, namespace, name))
    if workload is not None and workload.uid == uid:
        return workload.status
    found = state.catalog.find((kind, namespace, name))
    if not isinstance(found, PodGroup) or found.spec.workload_ref is None:
        return {}
    of = state.workloads.get(("Workload", namespace, found.spec.workload_ref.name))
    return {} if of is None else of.group_status.get(uid, {})


def _measured(state: IngestState, seen: Measured) -> None:
    found = {name: (one.at, one.values) for name, one in seen.nodes.items()}
    state.cluster.nodes.load.measure(seen.metrics, found)


def _object_gone(state: IngestState, gone: observations.ObjectGone) -> None:
    state.counts.forget_reported(state.catalog.uid_of((gone.kind, gone.namespace, gone.name)))
    state.catalog.drop(gone.kind, gone.namespace, gone.name)
    touch_concerned(state, gone.kind, gone.namespace, gone.name, changed=True)


def touch_concerned(state: IngestState, kind: str, namespace: str, name: str, *, changed: bool) -> None:
    """Look again at what an object of ours concerns."""
    if kind == "PodGroup":
        reassign_members(state, namespace, name)
        state.open(("PodGroup", namespace, name))
        found = state.catalog.get(PodGroup, namespace, name)
        if found is not None and found.spec.workload_ref is not None:
            state.touch(("Workload", namespace, found.spec.workload_ref.name))
    elif kind == "Workload":
        reassign_members(state, namespace, name)
        state.open(("Workload", namespace, name))
    elif changed:
        if kind in _QUEUES:
            state.changed_queues[f"{namespace}/{name}" if namespace else name] = None  # what it says may be stale
        _reread(state, kind, namespace)


def _reread(state: IngestState, kind: str, namespace: str) -> None:
    """Have those looked at again that are admitted by an object, which is another one by now.

    Where past use counts, the LocalQueues of one ClusterQueue stand among one another, whatever their namespaces.
    """
    if kind not in LOCAL:
        state.stale = True
        return
    state.stale_namespaces[namespace] = None
    if state.catalog.by_past_use or state.catalog.reserving:
        state.catalog.version += 1  # whoever waits is looked at again


HANDLERS: Final[Mapping[type[Observation], Callable[[IngestState, Any], None]]] = {
    observations.PodSeen: _pod_seen,
    observations.PodGone: _pod_gone,
    observations.NodeSeen: _node_seen,
    observations.NodeGone: _node_gone,
    observations.PriorityClassSeen: _priority_class_seen,
    observations.PriorityClassGone: _priority_class_gone,
    observations.NamespaceSeen: _namespace_seen,
    observations.NamespaceGone: _namespace_gone,
    observations.SelectingSeen: _selecting_seen,
    observations.SelectingGone: _selecting_gone,
    observations.BudgetSeen: _budget_seen,
    observations.BudgetGone: _budget_gone,
    observations.AllowanceSeen: _allowance_seen,
    observations.AllowanceGone: _allowance_gone,
    observations.ThrottleSeen: _throttle_seen,
    observations.ThrottleGone: _throttle_gone,
    observations.NetworkObjectSeen: network_objects.network_object_seen,
    observations.NetworkObjectGone: network_objects.network_object_gone,
    observations.OwnerSeen: owner_seen,
    observations.OwnerGone: owner_gone,
    observations.OwnerKindFollowed: owner_kind_followed,
    observations.OwnerWritten: managed_owners.owner_written,
    **dict.fromkeys(get_args(observations.StorageSeen), _storage_seen),
    observations.StorageGone: _storage_gone,
    **dict.fromkeys(get_args(DeviceObjectSeen), _device_object_seen),
    DeviceObjectGone: _device_object_gone,
    observations.NodeTopologySeen: _node_topology_seen,
    observations.NodeTopologyGone: _node_topology_gone,
    Measured: _measured,
    observations.ObjectSeen: _object_seen,
    observations.ObjectGone: _object_gone,
    observations.GangObjectSeen: _gang_object_seen,
    observations.GangObjectGone: _gang_object_gone,
    observations.ObjectUnread: _unread,
    observations.BindFinished: binding.bind_finished,
    observations.ClaimWritten: volumes.claim_written,
    observations.DeviceClaimWritten: device_objects.device_claim_written,
    observations.EvictFinished: _evicted,
    observations.Deactivated: limits.deactivate_finished,
    observations.PodAnnotated: scale_down.annotation_finished,
    observations.PodGroupWritten: pod_group_written,
    observations.ChecksReset: checks.checks_reset,
    ProvisioningSeen: provisioning.request_seen,
    ProvisioningGone: provisioning.request_gone,
    ProvisioningFollowed: provisioning.requests_followed,
    ProvisioningWritten: provisioning.request_written,
    observations.ExtenderAnswered: extenders.extender_answered,
    observations.Interrupted: interruptions.interrupted,
    observations.Synced: _synced,
}
"""What is done with each kind of observation."""
