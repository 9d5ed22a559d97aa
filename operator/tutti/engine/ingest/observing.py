"""Observations change what is known; nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, assert_never

from tutti.api.kinds import PodGroup
from tutti.api.limits import remaining
from tutti.cluster.pods import PodRecord
from tutti.engine.admission import extenders
from tutti.engine.ingest import implicit, inheritance, promises
from tutti.engine.ingest.gathering import drop_member, drop_stranger, note_stranger, put_member, refile
from tutti.engine.lifecycle import binding, charges, eviction, limits, volumes
from tutti.engine.lifecycle.reservation import lost_node, note_loss
from tutti.engine.preemption import nominations
from tutti.engine.reading.objects import SHARED
from tutti.engine.records.observations import (
    AllowanceGone,
    AllowanceSeen,
    AnyObservation,
    AttachmentSeen,
    BindFinished,
    BudgetGone,
    BudgetSeen,
    CapacitySeen,
    ClaimSeen,
    ClaimWritten,
    CSIDriverSeen,
    CSINodeSeen,
    Deactivated,
    EvictFinished,
    ExtenderAnswered,
    GangObjectGone,
    GangObjectSeen,
    NamespaceGone,
    NamespaceSeen,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    ObjectUnread,
    OwnerGone,
    OwnerKindFollowed,
    OwnerSeen,
    PodGone,
    PodGroupWritten,
    PodSeen,
    PriorityClassGone,
    PriorityClassSeen,
    SelectingGone,
    SelectingSeen,
    StorageClassSeen,
    StorageGone,
    Synced,
    VolumeSeen,
)
from tutti.engine.records.workloads import FENCE
from tutti.engine.state import State
from tutti.placement.preemption.budgets import budget_of

_QUEUES: Final = ("ClusterQueue", "LocalQueue")
_OF_ROOM: Final = (PodSeen, PodGone, NodeSeen, NodeGone)


def observe(state: State, observation: AnyObservation) -> None:  # noqa: C901, PLR0912, PLR0915 - one case per observation
    """Take in one observation."""
    if isinstance(observation, _OF_ROOM):
        state.rooms_stale = True
    match observation:  # what is observed of every pod comes first: the cases are asked one after the other
        case PodSeen(pod=pod):
            if pod.spec.scheduler_name in state.profiles:
                put_member(state, pod)
            else:
                state.cluster.put_pod(pod, keep=False)
                note_stranger(state, pod)
                nominations.note(state, pod)
        case BindFinished():
            binding.finished(state, observation)
        case PodGone():
            _pod_gone(state, observation)
        case NodeSeen(node=node):
            before = charges.labels_of(state, node.metadata.name)
            _touch(state, state.cluster.put_node(node))
            charges.node_relabelled(state, node.metadata.name, before)
        case NodeGone(name=name):
            lost_node(state, state.cluster.remove_node(name))
        case PriorityClassSeen(priority_class=priority_class):
            state.catalog.put_priority_class(priority_class)
            state.stale = True
        case PriorityClassGone(name=name):
            state.catalog.drop_priority_class(name)
            state.stale = True
        case NamespaceSeen(namespace=namespace):
            state.catalog.put_namespace(namespace)
            state.cluster.put_namespace(namespace.metadata.name, namespace.metadata.labels)
        case NamespaceGone(name=name):
            state.catalog.drop_namespace(name)
            state.cluster.drop_namespace(name)
        case SelectingSeen(found=found):
            state.cluster.put_selecting(found)
        case SelectingGone(kind=kind, namespace=space, name=name):
            state.cluster.drop_selecting(kind, space, name)
        case BudgetSeen(budget=budget):
            state.budgets[budget.metadata.namespace, budget.metadata.name] = budget_of(budget)
        case BudgetGone(namespace=space, name=name):
            state.budgets.pop((space, name), None)
        case AllowanceSeen(quota=quota):
            state.allowances.setdefault(quota.metadata.namespace, {})[quota.metadata.name] = remaining(quota)
            promises.look_again(state, quota.metadata.namespace)
        case AllowanceGone(namespace=space, name=name):
            state.allowances.get(space, {}).pop(name, None)
            promises.look_again(state, space)
        case OwnerSeen(found=owner):
            inheritance.seen(state, owner)
        case OwnerGone(uid=uid):
            state.ancestry.drop(uid)
        case OwnerKindFollowed(group=group, kind=kind_seen, followed=followed):
            inheritance.followed(state, (group, kind_seen), is_so=followed)
        case (
            VolumeSeen(found=storage)
            | ClaimSeen(found=storage)
            | StorageClassSeen(found=storage)
            | CSINodeSeen(found=storage)
            | CSIDriverSeen(found=storage)
            | CapacitySeen(found=storage)
            | AttachmentSeen(found=storage)
        ):
            volumes.seen(state, storage)
        case StorageGone(kind=kind_gone, namespace=space, name=name):
            volumes.gone(state, kind_gone, space, name)
        case ClaimWritten():
            volumes.written(state, observation)
        case ObjectSeen():
            _object_seen(state, observation)
        case ObjectGone():
            _object_gone(state, observation)
        case GangObjectSeen(api_version=version, kind=kind_seen, raw=raw):
            refile(state, *state.gang_objects.put(version, kind_seen, raw))
        case GangObjectGone(api_version=version, kind=kind_seen, namespace=space, name=name):
            state.gang_objects.drop(version, kind_seen, space, name)
            refile(state, space, name)
        case ObjectUnread():
            _unread(state, observation)
        case EvictFinished():
            _evicted(state, observation)
        case Deactivated():
            limits.deactivated(state, observation)
        case PodGroupWritten():
            implicit.written(state, observation)
        case ExtenderAnswered():
            extenders.answered(state, observation)
        case Synced():
            pass
        case _:
            assert_never(observation)


def _unread(state: State, unread: ObjectUnread) -> None:
    """Believe no more what was known of a node; of anything else it is the best that there is."""
    if unread.kind == "Node":
        state.cluster.close_node(unread.name, f"it cannot be read: {unread.problem}")


def _pod_gone(state: State, gone: PodGone) -> None:
    drop_stranger(state, (gone.namespace, gone.name))
    nominations.drop(state, (gone.namespace, gone.name))
    member = state.members.get((gone.namespace, gone.name))
    if member is not None and gone.uid in ("", member.pod.uid):
        note_loss(state, member)
    record = state.cluster.remove_pod((gone.namespace, gone.name), gone.uid)
    if member is not None and member.pod is record:
        drop_member(state, record.key)


def _touch(state: State, pods: Iterable[PodRecord]) -> None:
    """Look again at the workloads of some pods, those of them that are ours."""
    for record in pods:
        if record.key in state.home:
            state.touch(state.home[record.key][0])


def _evicted(state: State, result: EvictFinished) -> None:
    member = state.members.get((result.namespace, result.name))
    if result.done:
        return
    if member is not None and member.pod.uid == result.uid:
        eviction.refused(state, state.workloads[state.home[member.pod.key][0]], member)
    elif member is None:
        nominations.refused(state, (result.namespace, result.name), result.uid)


def _object_seen(state: State, seen: ObjectSeen) -> None:
    kind, meta = seen.kind, seen.raw["metadata"]
    if state.catalog.has_read(kind, seen.raw):
        if kind in SHARED and kind not in _QUEUES:
            return  # their statuses are not the engine's
        told = _told(state, kind, meta.get("namespace", ""), meta["name"], meta.get("uid", ""))
        if told and FENCE not in told:
            return  # most of what is seen of an object is the echo of a status that was written here
        if told:  # a former leader has written it, after it was read here
            told.clear()
            if kind in _QUEUES:
                state.counts.told.pop(meta.get("uid", ""))
                state.changed_queues["/".join(filter(None, (meta.get("namespace", ""), meta["name"])))] = None
    before = state.catalog.version
    namespace, name = state.catalog.put(kind, seen.raw)
    concerned(state, kind, namespace, name, changed=state.catalog.version != before)


def _told(state: State, kind: str, namespace: str, name: str, uid: str) -> dict[str, Any]:
    """Return what an object was told from here, or said when that was first compared; empty where nothing is known."""
    if kind in _QUEUES:
        return state.counts.told.get(uid, {})
    workload = state.workloads.get((kind, namespace, name))
    if workload is not None and workload.uid == uid:
        return workload.status
    found = state.catalog.find((kind, namespace, name))
    if not isinstance(found, PodGroup) or found.spec.workload_ref is None:
        return {}
    of = state.workloads.get(("Workload", namespace, found.spec.workload_ref.name))
    return {} if of is None else of.group_status.get(uid, {})


def _object_gone(state: State, gone: ObjectGone) -> None:
    state.counts.told.pop(state.catalog.uid_of((gone.kind, gone.namespace, gone.name)), None)
    state.catalog.drop(gone.kind, gone.namespace, gone.name)
    concerned(state, gone.kind, gone.namespace, gone.name, changed=True)


def concerned(state: State, kind: str, namespace: str, name: str, *, changed: bool) -> None:
    """Look again at what an object of ours concerns."""
    if kind == "PodGroup":
        refile(state, namespace, name)
        state.open(("PodGroup", namespace, name))
        found = state.catalog.get(PodGroup, namespace, name)
        if found is not None and found.spec.workload_ref is not None:
            state.touch(("Workload", namespace, found.spec.workload_ref.name))
    elif kind == "Workload":
        refile(state, namespace, name)
        state.open(("Workload", namespace, name))
    elif changed:
        if kind in _QUEUES:
            state.changed_queues[f"{namespace}/{name}" if namespace else name] = None  # what it says may be stale
        state.stale = True
