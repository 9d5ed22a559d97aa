"""Which objects that make pods are started and suspended here, and the workload that waits for each.

It is those of a queue that keeps suspended what waits in it (`manage: Suspend`), of kinds that are `startable`, whose
pods are placed here. What is above an object decides as for its pods: one that a JobSet makes is suspended by that.
What was started here stays so until it is restored, whatever becomes of the queue's setting meanwhile.
"""

from __future__ import annotations

from datetime import datetime

from tutti.api.core import OwnerReference
from tutti.api.frameworks import (
    MissingOwner,
    OwnedGang,
    OwnerChain,
    ProjectedOwner,
    UnusableOwner,
    gang_of,
    inherited_terms,
    owner_chain,
)
from tutti.api.frameworks.records import PodMarks
from tutti.api.pod_scheduler import DEFAULT_SCHEDULER, opted_in
from tutti.engine.ingest import IngestState
from tutti.engine.ingest.owned_gangs import counts_all
from tutti.engine.lifecycle import owner_starts
from tutti.engine.lifecycle.reservation import break_up
from tutti.engine.records.decisions import EmitEvent
from tutti.engine.records.managed_owners import ManagedOwner
from tutti.engine.records.members import Owned
from tutti.engine.records.observations import OwnerWritten
from tutti.engine.records.workloads import Phase, Workload


def is_to_wait(state: IngestState, found: ProjectedOwner) -> bool:
    """Whether an object that is suspended would be started here when its turn comes."""
    owned = _owned(state, found) if found.is_held else None
    return owned is not None and isinstance(owned.gang, OwnedGang) and not _unstartable(found, owned.gang)


def follow_held(state: IngestState, found: ProjectedOwner) -> None:
    """Take in an object as it is now, where it may be started or suspended here, or was."""
    if found.start is None:
        return
    if found.is_held:
        state.held_owners[found.uid] = found
    elif state.held_owners.pop(found.uid, None) is None:
        return
    _file(state, found)


def follow_held_below(state: IngestState, above: ProjectedOwner) -> None:
    """Look again at the objects right below one that has been seen."""
    for uid in state.owner_graph.controlled_by(above.uid) if state.held_owners else ():
        if uid in state.held_owners:
            _file(state, state.held_owners[uid])


def follow_all_held(state: IngestState) -> None:
    """Look again at all of them: queues are written otherwise."""
    for found in list(state.held_owners.values()):
        _file(state, found)


def held_gone(state: IngestState, uid: str) -> None:
    """Forget an object that does not exist any more; what was held for its pods is given back."""
    state.held_owners.pop(uid, None)
    state.told_owners.pop(uid, None)
    _release(state, uid)


def owner_written(state: IngestState, result: OwnerWritten) -> None:
    """Take in what became of a start or suspension."""
    key = state.managed_owners.get(result.uid)
    workload = state.workloads.get(key) if key is not None else None
    if workload is not None:
        owner_starts.settle_write(state, workload, result)


def _file(state: IngestState, found: ProjectedOwner) -> None:
    owned = _owned(state, found) if found.is_held else None
    gang = owned.gang if owned is not None else None
    if owned is None or not isinstance(gang, OwnedGang):
        _release(state, found.uid)
        if isinstance(gang, UnusableOwner):
            _refuse(state, found, "; ".join(gang.problems))
        return
    wrong = _unstartable(found, gang)
    if wrong:
        _release(state, found.uid)
        _refuse(state, found, wrong)
        return
    state.told_owners.pop(found.uid, None)
    key = ("PodGroup", found.namespace, gang.starts_with)
    before = state.managed_owners.get(found.uid)
    managed = _known(state, found.uid)
    if before is not None and before != key:
        _release(state, found.uid)
    workload = state.workloads.get(key)
    if workload is None:
        workload = state.workloads[key] = Workload(key)
    if managed is None:
        managed = ManagedOwner(found, owned, _reference(found))
    workload.managed = managed
    state.managed_owners[found.uid] = key
    managed.found, managed.owned = found, owned
    managed.created = _created(found)
    managed.templates = {role.name: role.template for role in found.roles}
    managed.groups = _groups(gang)
    state.touch(key)


def _known(state: IngestState, uid: str) -> ManagedOwner | None:
    key = state.managed_owners.get(uid)
    workload = state.workloads.get(key) if key is not None else None
    return workload.managed if workload is not None else None


def _groups(gang: OwnedGang) -> dict[str, str]:
    """Return the role of the pods in each pod group that is started, by the name of the group."""
    if counts_all(gang):
        return {gang.starts_with: gang.parts[0].role}
    return {role: role for role in (*(one.role for one in gang.parts), *(one.role for one in gang.later))}


def _unstartable(found: ProjectedOwner, gang: OwnedGang) -> str:
    """Return why an object cannot be started here; "" where it can."""
    without = "write it for a queue without manage: Suspend"
    if found.start is not None and found.start.unfit:
        return f"it can be started only where {found.start.unfit}"
    if not any(part.count for part in gang.parts):
        return "it asks for no pods"
    if any(role.leads for role in found.roles):
        return f"its leaders are placed before the others are made, so nobody knows where these will be; {without}"
    if counts_all(gang) and len(gang.parts) > 1:
        return f"its minimum counts pods of several roles, so nobody knows how many of each; {without}, or leave it out"
    return ""


def _owned(state: IngestState, found: ProjectedOwner) -> Owned | None:
    """Return what the pods of an object will have from it and from what is above; None where it is not managed."""
    start = found.start
    assert start is not None  # else nobody asks
    ref = _reference(found)

    def look_up(at: OwnerReference, namespace: str) -> ProjectedOwner | MissingOwner:
        return found if at.uid == found.uid else state.owner_graph.look_up(at, namespace)

    kind = state.kinds.get(found.group, found.kind)
    labels = {kind.attempt_label: start.attempt} if kind is not None and kind.attempt_label and start.attempt else {}
    scheduler = next((role.scheduler for role in found.roles), "")
    marks = PodMarks(found.namespace, f"{found.name}-", "", ref, scheduler=scheduler, labels=labels)
    chain = owner_chain(marks, look_up)
    if chain.awaited or _is_composed(state, chain) or not _is_placed_here(state, found):
        return None
    terms = inherited_terms(chain, state.kinds.ignored)
    default = state.configuration.default_local_queue
    queue = terms.queue or state.catalog.default_queue(found.namespace, default, _created(found))
    if not (start.started or state.catalog.keeps_suspended(found.namespace, queue)):
        return None
    return Owned(gang_of(marks, chain, state.kinds, state.profiles.keys()), terms, None, ref)


def _is_composed(state: IngestState, chain: OwnerChain) -> bool:
    """Whether what is above an object makes it as a part of its own, and suspends it itself."""
    lower, *above = chain.owners
    for owner in above[:1]:
        kind = state.kinds.get(owner.group, owner.kind)
        return kind is not None and f"{lower.group}/{lower.kind}" in kind.composes
    return False


def _is_placed_here(state: IngestState, found: ProjectedOwner) -> bool:
    """Whether any pods of an object will be ours: by their template, or by the webhook of their namespace."""
    labels = state.catalog.namespace_labels(found.namespace)
    named = bool(opted_in(found.namespace, labels, state.profiles.keys()))
    return any(
        role.scheduler in state.profiles or (named and role.scheduler in ("", DEFAULT_SCHEDULER))
        for role in found.roles
    )


def _release(state: IngestState, uid: str) -> None:
    """Leave an object to itself: its pods, if it makes any, wait like those of others."""
    key = state.managed_owners.pop(uid, None)
    workload = state.workloads.get(key) if key is not None else None
    if workload is None or workload.managed is None or workload.managed.found.uid != uid:
        return
    workload.managed = None
    if workload.phase is Phase.RESERVED:
        break_up(state, workload)
    for group in workload.groups.values():
        group.promised = None
        if not group.members:
            group.min_count, group.count = 0, None
    state.touch(workload.key)


def _refuse(state: IngestState, found: ProjectedOwner, why: str) -> None:
    """Tell an object once why it is not started."""
    if state.told_owners.get(found.uid) != why:
        state.told_owners[found.uid] = why
        about = (_reference(found).api_version, found.kind, found.namespace, found.name, found.uid)
        state.out.append(EmitEvent(*about, "Warning", "InvalidGang", "Starting", f"it stays suspended: {why}"))


def _reference(found: ProjectedOwner) -> OwnerReference:
    version = found.start.version if found.start is not None else ""
    return OwnerReference(f"{found.group}/{version}", found.kind, found.name, found.uid, controller=True)


def _created(found: ProjectedOwner) -> float:
    text = found.start.created if found.start is not None else ""
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except (ValueError, OverflowError):
        return 0.0
